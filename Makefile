# Two commands on a fresh machine: `make run` and `make test`. Both set everything up first.
SHELL   := /bin/bash
PYTHON  ?= python3
VENV    ?= .venv
PYTHONS ?= python3.12 python3.13
GOAL    ?= test
BIN     := $(VENV)/bin
PIP     := $(BIN)/python -m pip --disable-pip-version-check --quiet
SPEC    ?= examples/specs/session-manager.yaml
COMPONENT ?= session_domain
AGENT   ?= recorded:examples/recordings/session_domain
WORKFLOW ?= examples/workflows/interval-scheduler/workflow.yaml
# One more than the two cores that the tests are meant for: some of their time is waiting. Each collects all of them.
WORKERS ?= 3
SEED    ?= 20261122
# The real agent programs, at two a time: each has several processes and up to half a gigabyte of its own. Their
# tests share nothing: each has a home, a project, a model and a network of its own.
AGENT_WORKERS ?= 2
AGENTS_PREFIX ?= .benchmarks/agents
# The project that an agent adds a feature to: a source distribution of the index, pinned with its hash.
PROJECTS ?= .benchmarks/projects
PROJECT  := $(PROJECTS)/dependency_groups-1.3.2.tar.gz
# name=package: a program's command, and what npm installs for it. The versions are those that were tried.
AGENTS  := claude=@anthropic-ai/claude-code@2.1.330 codex=@openai/codex@0.169.0 \
	opencode=opencode-ai@1.18.33 opencode-plugin=@opencode-ai/plugin@1.18.33 gemini=@google/gemini-cli@0.61.0
# A registry that doesn't answer is given up within minutes, where npm by itself would wait for half an hour.
PATIENTLY := --fetch-retries 5 --fetch-retry-maxtimeout 20000 --fetch-timeout 60000
PYTEST  := $(BIN)/python -m pytest
RUN_TESTS := $(PYTEST) --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --randomly-seed=$(SEED)

# Many machines: what PostgreSQL, the fleet and object stores promise beyond the contracts that all stores have, a fleet
# of real processes, and what breaks its database: servers of their own, killed and filled up.
FLEET := tests/contract/postgres tests/contract/fleet tests/contract/object_store tests/e2e/fleet tests/crash/fleet \
	tests/faults/postgres tests/scenarios/fleet

# The ways in, and gates: the command line, the terminal, the pages, the MCP server, event loops, people's programs; most
# as real processes.
ENTRY_POINTS := tests/e2e/cli tests/e2e/do tests/e2e/test_take_up.py tests/e2e/gates tests/e2e/mcp_server \
	tests/e2e/questions tests/e2e/terminal tests/unit/aio tests/unit/mcp_server tests/unit/terminal tests/unit/ui tests/crash/test_async_cancellations.py \
	tests/crash/test_step_crash.py tests/crash/test_steps_at_once.py tests/unit/durable_sessions \
	tests/contract/harness/test_durable_session_contract.py tests/contract/harness/test_step_branches_contract.py \
	tests/contract/sandbox/test_durable_contract.py tests/contract/sandbox/test_journal.py tests/property/sandbox/live \
	tests/crash/test_program_crash.py tests/e2e/test_program_example.py tests/e2e/test_durable_example.py

# A real browser, which not every machine has: where there is none, they say so and are left out.
BROWSER := tests/e2e/ui

# Examples and the wheel, tried from outside: other frameworks and projects of an index take part in it.
EXAMPLES := tests/contract/bridges tests/e2e/test_bridges.py tests/e2e/projects \
	tests/e2e/test_repository_example.py tests/e2e/test_example_scripts.py tests/e2e/test_asynchronous_example.py \
	tests/e2e/test_traced_run.py \
	tests/e2e/test_langgraph_example.py tests/e2e/test_openai_agents_example.py \
	tests/e2e/test_document_blocks.py tests/e2e/test_documents_site.py \
	tests/e2e/test_installed_package.py tests/real_work

# Hundreds of processes of ours are started in the tests; each would compile all it imports anew
# where the environment says that Python is to keep no bytecode. Empty means: keep it.
export PYTHONDONTWRITEBYTECODE :=

# What needs neither the sandbox nor the jail, for a system that lacks Linux's calls.
PORTABLE := tests/contract/durable tests/unit/durable tests/unit/test_program_run.py tests/unit/repository \
	tests/unit/agents tests/unit/agent_setup tests/unit/observers tests/e2e/do/test_do_on_other_systems.py \
	tests/e2e/mcp_server/test_agent_server.py tests/e2e/mcp_server/test_mcp_questions.py \
	tests/e2e/mcp_server/test_mcp_hangups.py tests/e2e/mcp_server/test_mcp_http_wire.py \
	tests/unit/harness tests/unit/agent_hooks tests/unit/questions tests/unit/prune tests/unit/mcp_server tests/unit/ui \
	tests/unit/cli/test_looking.py tests/unit/cli/test_checkpoints.py tests/unit/cli/test_question_commands.py \
	tests/unit/cli/test_prune_command.py tests/unit/cli/test_conversations.py
# What they run in the sandbox, and what waits for seconds.
NOT_PORTABLE := tests/unit/mcp_server/test_code_cancel.py tests/unit/mcp_server/test_code_state.py tests/unit/ui/test_connection_room.py

.DEFAULT_GOAL := help
.PHONY: help run agents docs test test-examples test-fleet test-entry-points test-browser test-portable ui-bench test-agents test-all test-quick test-pythons coverage check lint types imports format bench sandbox-bench snapshots-bench jail-bench prune-bench live-bench questions-bench scale-out-bench bridges-bench terminal-bench steps-bench soak conformance prune clean

help:  ## say what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

$(VENV)/.run-ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --constraint constraints.txt --editable '.[tdflow]'
	touch $@

$(VENV)/.dev-ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --constraint constraints.txt --editable '.[dev]'
	touch $@ $(VENV)/.run-ready

# Fetched once. pip reads its metadata meanwhile, with what build-constraints.txt pins; nothing of it is installed.
$(PROJECT): examples/repository/requirements.txt | $(VENV)/.run-ready
	PIP_CONSTRAINT=examples/repository/build-constraints.txt $(PIP) download --no-deps --no-binary dependency-groups \
		--require-hashes --requirement examples/repository/requirements.txt --dest $(PROJECTS) || { \
		echo "make: $(notdir $@) was not fetched, and 'make run' works on it; nothing has run yet. See what pip said above," \
			"then run 'make run' again. Where no index can be reached, put that file into $(PROJECTS)." >&2; exit 1; }
	touch $@

run: $(VENV)/.run-ready $(PROJECT)  ## do the main job: an agent develops a component, and a feature of a real project; a workflow ends with a chart
	$(BIN)/agentforge setup
	$(BIN)/agentforge run tdflow $(SPEC) --component $(COMPONENT) --agent '$(AGENT)'
	$(BIN)/python examples/repository/develop.py $(PROJECT)
	$(BIN)/agentforge run $(WORKFLOW)

test: $(VENV)/.dev-ready  ## run the tests, the long campaigns with small counts
	$(BIN)/agentforge setup
	$(RUN_TESTS) -m 'not real_agents' $(addprefix --ignore=,$(EXAMPLES) $(FLEET) $(BROWSER) $(ENTRY_POINTS))

test-examples: $(VENV)/.dev-ready  ## run the examples, real projects, the wheel in environments of its own
	$(BIN)/agentforge setup
	$(RUN_TESTS) $(EXAMPLES)

test-fleet: $(VENV)/.dev-ready  ## try many machines: PostgreSQL, object stores, workers as real processes; kill and break them
	$(BIN)/agentforge setup
	$(RUN_TESTS) $(FLEET)

test-entry-points: $(VENV)/.dev-ready  ## try the terminal, the pages, the MCP server and event loops, most as real processes
	$(BIN)/agentforge setup
	$(RUN_TESTS) $(ENTRY_POINTS)

test-browser: $(VENV)/.dev-ready  ## drive the pages of `agentforge ui` in a real Chromium, where there is one
	$(RUN_TESTS) $(BROWSER)

test-portable: $(VENV)/.dev-ready  ## try what needs no sandbox and no jail with the calls taken away that macOS lacks
	PYTHONPATH=$(CURDIR)/tests/support/portable $(RUN_TESTS) $(addprefix --ignore=,$(NOT_PORTABLE)) $(PORTABLE)

test-all: test-examples test-fleet test-entry-points test-browser test-portable  ## run the tests that `make test` leaves out, but for the real agents

test-quick: $(VENV)/.dev-ready  ## run the unit and contract tests without those of the sandbox itself
	$(BIN)/agentforge setup
	$(RUN_TESTS) tests/unit tests/contract --ignore tests/unit/sandbox --ignore tests/contract/sandbox

test-pythons:  ## run the tests on each of PYTHONS that is here (GOAL=test-quick: the quick ones)
	@tested=; for python in $(PYTHONS); do \
		if version=$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null); then \
			echo "== Python $$version"; tested="$$tested $$version"; \
			$(MAKE) PYTHON=$$python VENV=.venv-$$version $(GOAL) || exit; \
		else echo "== $$python is not here"; fi; \
	done; echo "== passed on:$${tested:- none of them, since none is here}"

coverage: $(VENV)/.dev-ready  ## run all tests, and tell the lines and branches that none of them reaches
	$(BIN)/agentforge setup
	$(RUN_TESTS) --cov --cov-report=term:skip-covered

agents:  ## install the pinned agent programs from npm into .benchmarks/agents, for test-agents
	@for pinned in $(AGENTS); do \
		folder="$(AGENTS_PREFIX)/$${pinned%%=*}"; \
		[ "$$(cat "$$folder/.installed" 2>/dev/null)" = "$$pinned" ] && continue; \
		rm -rf "$$folder/node_modules"; \
		npm install --no-audit --no-fund --loglevel error $(PATIENTLY) --prefix "$$folder" "$${pinned#*=}" \
			&& echo "$$pinned" > "$$folder/.installed" \
			|| { rm -rf "$$folder/node_modules"; echo "$$pinned could not be installed" >&2; exit 1; }; \
	done

test-agents: $(VENV)/.dev-ready  ## run the real agent programs against a scripted model on this machine
	$(BIN)/agentforge setup
	$(PYTEST) -m real_agents --numprocesses $(AGENT_WORKERS) tests/e2e/real_agents

questions-bench: $(VENV)/.dev-ready  ## measure how soon a waiter is awake after an answer
	$(BIN)/python -m benchmarks.questions

scale-out-bench: $(VENV)/.dev-ready  ## measure sessions in PostgreSQL against its own statements
	$(BIN)/python -m benchmarks.scale_out

bridges-bench: $(VENV)/.dev-ready  ## measure the bridges to other SDKs against their SQLite adapters
	$(BIN)/python -m benchmarks.bridges

terminal-bench: $(VENV)/.dev-ready  ## measure what a thousand waiting questions cost the terminal
	$(BIN)/python -m benchmarks.terminal

steps-bench: $(VENV)/.dev-ready  ## measure what a durable step costs, beside DBOS and LangGraph
	$(BIN)/python -m benchmarks.steps

ui-bench: $(VENV)/.dev-ready  ## measure the pages with ten thousand sessions, against the plain listing
	$(BIN)/python -m benchmarks.ui

soak: $(VENV)/.dev-ready  ## run the crash, attack and property campaigns in full
	$(BIN)/agentforge setup
	AGENTFORGE_SOAK=1 $(PYTEST) --numprocesses $(WORKERS) --timeout 3600 \
		tests/crash tests/property tests/security tests/faults tests/corpus tests/real_work \
		tests/scenarios/repositories tests/scenarios/fleet tests/e2e/projects \
		tests/contract/postgres tests/contract/sandbox tests/e2e/mcp_server tests/e2e/gates tests/e2e/cli \
		tests/e2e/test_example_scripts.py tests/e2e/test_bridges.py tests/e2e/test_hook_process.py tests/e2e/real_agents/test_do.py \
		tests/unit/harness/test_session_format.py tests/unit/harness/test_session_json.py \
		tests/unit/workflows/test_workflow_document.py tests/unit/workflows/test_crash_windows.py tests/unit/workflows/test_program_calls.py \
		tests/unit/workflows/test_editing_in_place.py tests/unit/workflows/test_run_on_many_machines.py \
		tests/unit/adapters/test_travelling_workspaces.py tests/unit/adapters/test_travelling_work_trees.py \
		tests/contract/harness/test_session_observer_contract.py tests/unit/harness/test_session_digest.py

check: lint types imports test test-all  ## everything that must hold before a change lands

docs: $(VENV)/.dev-ready  ## build the documents' site into site/, without a network; a broken link fails
	$(BIN)/zensical build --strict --config-file mkdocs.yml

lint: $(VENV)/.dev-ready  ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev-ready  ## mypy, strict
	$(BIN)/mypy

imports: $(VENV)/.dev-ready  ## import-linter: the directions in which imports may point
	$(BIN)/lint-imports

format: $(VENV)/.dev-ready  ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev-ready  ## measure sessions and phases, against named references
	$(BIN)/python -m benchmarks.sessions
	$(BIN)/python -m benchmarks.finding
	$(BIN)/python -m benchmarks.workflows
	$(BIN)/python -m benchmarks.asynchronous

sandbox-bench: $(VENV)/.dev-ready  ## measure the sandbox against its peers, each in an environment of its own
	$(BIN)/agentforge setup
	$(BIN)/python -m benchmarks.sandbox

snapshots-bench: $(VENV)/.dev-ready  ## measure keeping a workspace of 10,000 files against git itself
	$(BIN)/python -m benchmarks.snapshots

jail-bench: $(VENV)/.dev-ready  ## measure how long a jail takes to start, against bubblewrap itself
	$(BIN)/python -m benchmarks.jail

prune-bench: $(VENV)/.dev-ready  ## measure pruning against du, rm -rf and another sandbox
	$(BIN)/python -m benchmarks.prune

live-bench: $(VENV)/.dev-ready  ## measure programs that go on in another process, beside other ways
	$(BIN)/agentforge setup
	$(BIN)/python -m benchmarks.live

conformance: $(VENV)/.dev-ready  ## run the official MCP conformance suite (from npm)
	$(BIN)/python -m tests.conformance.mcp

prune: $(VENV)/.run-ready  ## remove old sessions of every kind (shows them, and asks first)
	$(BIN)/agentforge prune

clean:  ## remove what was built here; sessions stay
	rm -rf $(VENV) .venv-3.* build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache .coverage .coverage.* htmlcov
