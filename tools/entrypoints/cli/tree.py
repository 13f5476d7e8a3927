"""The tree of commands: those at the top, those in groups, and what to type for another word."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from .on_demand import ListedCommand, new_group

_COMMANDS: Final = f"{__package__}.commands"

_TREE: Final = """
top
 Begin
  init          setup.project              Begin a project: its configuration and first files.
  do            work.do                    Have an agent do a task, a check judge it; you apply it.
  install       setup.machine              Put sessions into an agent program, or take them out.
  doctor        setup.machine              Check this machine and the sessions.
  trust         setup.project              Show what a configuration would allow; allow it.
  setup         setup.machine              Compile the sandbox's interpreter; safe to repeat.
 Work
  run           work.run:group             Run a workflow: a file, or a built-in one by its name.
  resume        work.run                   Resume a session after a pause, a failure or a crash.
  answer        questions.answering        Answer a question session.
  ui            serve                      Show all sessions in a browser on this machine.
 Look
  list          session.find:list_sessions List the sessions, the last changed first by default.
  show          session.look               Show one session.
  search        session.find               Find sessions and questions by words.
 Bring home
  diff          session.bring_home         Show what changed in a session's workspace.
  apply         session.bring_home         Bring a session's result into your checkout, whole.
 Keep tidy
  prune         prune.group:group          Remove old sessions of every kind; asks first.
 Groups
  session       .tree:session              One session: its history, its state, its checkpoints.
  questions     questions.answering:group  Show waiting questions and answer them; ask.
  fleet         .tree:fleet                Have workers run sessions; the store that they share.
  sandbox       .tree:sandbox              Run code in the sandbox; list and change its files.
  webhooks      .tree:webhooks             Who is told of events, and what waits for them.
 Programs
  mcp           serve                      Serve sessions, code and questions to AI clients.
  hook          setup.machine              Handle one event of an agent program.
session
 Commands
  log           session.look               Show a session's history, the oldest entry first.
  brief         session.look               Write the briefing of a session for its next worker.
  artifacts     session.look               List the files that a session's phases produced.
  checkpoints   session.change             List a session's checkpoints.
  rewind        session.change             Take a session and its files back to a checkpoint.
  fork          session.change             Begin a new session at a checkpoint of another.
  adopt         session.adopt              Make a session yours that came with a clone; asks first.
  pause         session.change             Stop an active session until it is resumed.
  abort         session.change             Abort a session for good; asks first.
  complete      session.change             Mark an active session as completed, for good.
  budget        session.change             Show or extend a token budget, or record tokens.
  set           session.change:set_labels  Change a session's title, tags and metadata.
  export        session.bring_home         Write a session's files to a new folder.
  report        session.bring_home         Write the story of a session as one HTML page.
  retry         work.run                   Begin another attempt at a session's failed phase.
  schema        setup.project              Show the JSON Schema of a session.
run
 Workflows
  WORKFLOW.yaml work.run:run               Run a workflow file, of scripts or of an agent.
  tdflow        work.agent_work            Have an agent develop a component test first.
  spec          work.agent_work            Have an agent write a specification with you.
questions
 Commands
  waiting       questions.answering        Show waiting questions and answer them; the default.
  ask           questions.ask              Ask a person and wait for the answer.
  reject        questions.answering        Reject a question session: you will not answer it.
  history       questions.answering        List the question sessions, or show one.
fleet
 Commands
  submit        fleet.submit:group         Have the workers run what `run` would run here.
  worker        fleet.workers              Run the sessions that were submitted.
  workers       fleet.workers              List the workers of the fleet.
  jobs          fleet.workers              List what the fleet runs, and what waits or failed.
  cancel        fleet.workers              Have the fleet work on a session no more.
  store         .tree:store                Where the sessions are: its tables, and copies of it.
fleet store
 Commands
  status        fleet.store                Show the store, its tables and how many sessions.
  migrate       fleet.store                Bring the tables of a PostgreSQL store; repeatable.
  copy          fleet.store                Copy sessions between files and PostgreSQL.
prune
 Commands
  trash         prune.upkeep               List the sessions in the trash.
  restore       prune.upkeep               Bring a session back from the trash, or from its archive.
  pin           prune.upkeep               Keep a session from every prune until it is unpinned.
  unpin         prune.upkeep               Let prunes remove a pinned session again.
  repair        prune.upkeep               Write metadata for sandbox sessions that have none.
sandbox
 Commands
  exec          sandbox.execution:execute  Run code in a session's workspace.
  shell         sandbox.execution          Type Python at a prompt in a session's workspace.
  list          sandbox.files:list_        List the sandbox sessions, the last used first.
  delete        sandbox.files              Delete a sandbox session with its workspace; asks first.
  ls            sandbox.files              List the files in a session's workspace.
  cat           sandbox.files              Write a file of a session's workspace to standard output.
  put           sandbox.files              Copy a file into a session's workspace.
  rm            sandbox.files              Delete a file or a directory; asks first.
webhooks
 Commands
  list          webhooks:list_all          List the webhooks, and what waits for each.
  test          webhooks:try_receivers     Send a test event, once.
  deliver       webhooks                   Send what waits, due or not.
  forget        webhooks                   Drop what is kept for a webhook that is no more.
"""
"""Each group with the panels of its help, and each command's name, its place and its help.

The place is a module in `entrypoints.cli.commands`; the function has the command's name unless it
follows the module after a colon.
"""

_FORMER: Final = MappingProxyType(
    {
        "cleanup": "prune --kind agent",
        "drive": "run WORKFLOW.yaml",
        "uninstall": "install --remove PROGRAM",
    }
)
"""What replaces the former commands whose words no command has any more."""


def _read() -> dict[str, dict[str, ListedCommand]]:
    groups: dict[str, dict[str, ListedCommand]] = {}
    group = panel = ""
    for line in _TREE.strip().splitlines():
        indent = len(line) - len(line.lstrip())
        if not indent:
            group = line.removeprefix("top")
        elif indent == 1:
            panel = line.strip()
        else:
            name, at, text = line.split(maxsplit=2)
            target = f"{__package__}{at}" if at.startswith(".") else f"{_COMMANDS}.{at}"
            target = target if ":" in target else f"{target}:{name}"
            groups.setdefault(group, {})[name] = ListedCommand(target, text, panel)
    return groups


TREE: Final[Mapping[str, Mapping[str, ListedCommand]]] = _read()
"""The commands of each group, by its words; those at the top have none."""


def instead(group: str, word: str) -> str:
    """Return what to type instead of a word that names no command of a group.

    Returns:
        The end of a sentence: the command of that word elsewhere, else the one of the nearest word;
        "" if no word is near.
    """
    found = dict(_FORMER)
    for name in (group, "", *TREE):
        for one in TREE.get(name, ()):
            found.setdefault(one, f"{name} {one}".strip())
    if word in found:
        return f"; it is `agentforge {found[word]}`"
    near = get_close_matches(word, TREE.get(group, ()), 1) or get_close_matches(word, found, 1)
    return f"; the nearest is `agentforge {found[near[0]]}`" if near else ""


session = new_group("session", TREE["session"], help="Look at one session, and change it.")
fleet = new_group("fleet", TREE["fleet"], help="Have workers run sessions, here and elsewhere.")
store = new_group(
    "store",
    TREE["fleet store"],
    help="Look at where the sessions are, bring its tables, and copy sessions between stores.",
)
sandbox = new_group(
    "sandbox",
    TREE["sandbox"],
    help="Run code in the sandbox, and manage the files of its sessions.",
)
webhooks = new_group(
    "webhooks",
    TREE["webhooks"],
    help="List the webhooks of the configuration and what waits for them; try them; deliver.",
)
