"""Commands by which an agent works: tdflow, spec, drive.

The module is long because each command declares its options; what they share is done once.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...context import Cli, cli_of
from ...given_files import read_given
from ...options import (
    DEFAULT_REVISION,
    About,
    AgentEnvironment,
    AgentMode,
    AgentName,
    AgentNetwork,
    AgentTimeout,
    AsJson,
    BaseRevision,
    Component,
    ContextFiles,
    MaxOutput,
    Metadata,
    NoWait,
    OnlyShown,
    Record,
    Repo,
    Role,
    Rules,
    Tags,
    Title,
    Tokens,
    WithUncommitted,
    argument,
    labels_of,
    option,
)
from ...project_context import ContextOptions, list_context, show_plan
from ...running.agent_mode import AgentModeOptions
from ...running.next_component import written_specification
from ...running.run_session import RepositoryBase, named_agent, start_agent

if TYPE_CHECKING:
    from .....workflows.agents.port import AgentChoice
    from .....workflows.job import AgentWork
    from .....workflows.workflow import Input


def add_to(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.command("tdflow", short_help="Have an agent develop a component test first.")(tdflow)
    app.command("spec", short_help="Have an agent write a specification with you.")(spec)
    app.command("drive")(drive)


def tdflow(
    context: typer.Context,
    specification: Annotated[Path, argument("SPEC", "The specification file.")],
    agent: AgentName = None,
    component: Component = None,
    unittest: Annotated[
        bool, option("--unittest", "Use unittest for the tests instead of pytest.")
    ] = False,
    gate: Annotated[
        str | None,
        option(
            "--gate COMMAND",
            "The project's own command that runs its tests, in a jail; the configuration's by "
            "default. sandbox: none.",
        ),
    ] = None,
    report: Annotated[
        str | None,
        option("--report KIND", "What to read of that command: junit, tap or exit-code."),
    ] = None,
    report_path: Annotated[
        str | None,
        option("--report-path PATH", "Where it leaves its JUnit XML; * may stand in it."),
    ] = None,
    packages: Annotated[
        list[str] | None,
        option(
            "--with PACKAGE",
            "A package of pure Python that the sandbox is to have: installed here, or the path of "
            "a wheel; may be repeated.",
        ),
    ] = None,
    budget: Tokens = None,
    agent_mode: AgentMode = None,
    agent_network: AgentNetwork = None,
    agent_env: AgentEnvironment = None,
    agent_timeout: AgentTimeout = None,
    max_output: MaxOutput = None,
    record: Record = None,
    no_wait: NoWait = False,
    context_files: ContextFiles = None,
    rules: Rules = None,
    role: Role = None,
    dry_run: OnlyShown = False,
    repo: Repo = None,
    base: BaseRevision = DEFAULT_REVISION,
    with_uncommitted: WithUncommitted = False,
    title: Title = None,
    tags: Tags = None,
    metadata: Metadata = None,
    as_json: AsJson = False,
) -> None:
    """Have an agent develop a component test first: red, green, refactor, verify."""
    from attrs import evolve

    from .....workflows import InvalidWorkflow
    from .....workflows.builtin import TDFLOW

    cli = cli_of(context, json=as_json).labelled(labels_of(title, tags, metadata))
    workflow = TDFLOW
    if unittest:
        workflow = evolve(
            workflow,
            phases=[
                evolve(phase, gate=evolve(phase.agents_gate, framework="unittest"))
                for phase in workflow.phases
            ],
        )
    said = cli.configuration.gate.asked_for(gate, report=report, report_path=report_path)
    if said.command is not None:
        try:
            workflow = workflow.with_command(
                said.command,
                report=said.report,
                report_path=said.report_path,
                deadline_s=said.timeout_s,
            )
        except InvalidWorkflow as error:
            where = "--gate" if gate is not None else f"[gate] in {cli.configuration.path}"
            raise typer.BadParameter(str(error), param_hint=where) from error
        if gate is None:
            cli.output.remark(f"Gate, as {cli.configuration.path} says: {said.command}")
    elif report is not None or report_path is not None:
        raise typer.BadParameter("it is of a command; add --gate", param_hint="--report")
    if packages:
        try:
            workflow = workflow.with_packages([_absolute_wheel(one) for one in packages])
        except InvalidWorkflow as error:
            raise typer.BadParameter("; ".join(error.faults), param_hint="--with") from error
    begun = RepositoryBase(repo, base, with_uncommitted)
    shown = ContextOptions(files=tuple(context_files or ()), rules=rules, role=role)
    way = _way(agent_mode, agent_network, agent_env)
    workflow = way.of_workflow(cli, shown.with_role(cli, workflow))
    named = _agent(cli, agent, agent_timeout, max_output, dry_run=dry_run)
    chosen = way.of_agent(cli, workflow, named)
    work = _component_work(cli, workflow, specification, component, chosen)
    _begin(
        cli,
        work,
        shown,
        dry_run=dry_run,
        budget=budget,
        record=record,
        wait=not no_wait,
        base=begun,
    )


def spec(
    context: typer.Context,
    name: Annotated[str, argument("NAME", "Name of the specification: 1 to 64 of a-z 0-9 _ -.")],
    agent: AgentName = None,
    about: About = None,
    about_file: Annotated[
        Path | None, option("--about-file FILE", "File with a description of what is wanted.")
    ] = None,
    begin_with: Annotated[
        Path | None, option("--from SPEC", "An existing specification, as the first draft.")
    ] = None,
    then_tdflow: Annotated[
        bool,
        option(
            "--then-tdflow",
            "Once it is approved, have its first component developed as tdflow does.",
        ),
    ] = False,
    budget: Tokens = None,
    agent_mode: AgentMode = None,
    agent_network: AgentNetwork = None,
    agent_env: AgentEnvironment = None,
    agent_timeout: AgentTimeout = None,
    max_output: MaxOutput = None,
    record: Record = None,
    no_wait: NoWait = False,
    context_files: ContextFiles = None,
    rules: Rules = None,
    role: Role = None,
    dry_run: OnlyShown = False,
    repo: Repo = None,
    base: BaseRevision = DEFAULT_REVISION,
    with_uncommitted: WithUncommitted = False,
    title: Title = None,
    tags: Tags = None,
    metadata: Metadata = None,
    as_json: AsJson = False,
) -> None:
    """Have an agent write a component specification, with you: intake to approval."""
    from .....workflows.builtin import SPEC

    cli = cli_of(context, json=as_json).labelled(labels_of(title, tags, metadata))
    if then_tdflow and (cli.output.json or dry_run or cli.submission is not None):
        raise typer.BadParameter(
            "begins a second session, which --json, --dry-run and submit have no place for",
            param_hint="--then-tdflow",
        )
    if about is not None and about_file is not None:
        raise typer.BadParameter("give --about or --about-file, not both")
    subject = about if about_file is None else _text(about_file, "--about-file")
    shown = ContextOptions(files=tuple(context_files or ()), rules=rules, role=role)
    way = _way(agent_mode, agent_network, agent_env)
    workflow = way.of_workflow(cli, shown.with_role(cli, SPEC))
    named = _agent(cli, agent, agent_timeout, max_output, dry_run=dry_run)
    work = _work(
        workflow=workflow,
        name=name,
        subject=subject or name,
        agent=way.of_agent(cli, workflow, named),
        inputs=[] if begin_with is None else [_draft(begin_with, name)],
    )
    begun = RepositoryBase(repo, base, with_uncommitted)
    session_id = _begin(
        cli,
        work,
        shown,
        dry_run=dry_run,
        budget=budget,
        record=record,
        wait=not no_wait,
        base=begun,
    )
    if then_tdflow and session_id is not None:
        _, session = cli.load(session_id)
        written = written_specification(cli, session)
        assert written is not None  # noqa: S101 (the approved one was judged)
        cli.output.line()
        tdflow(
            context,
            written.path,
            agent=agent,
            component=written.components[0],
            agent_mode=agent_mode,
            agent_network=agent_network,
            agent_env=agent_env,
            agent_timeout=agent_timeout,
            max_output=max_output,
            record=record,
            no_wait=no_wait,
            context_files=context_files,
            rules=rules,
            repo=repo,
            base=base,
            with_uncommitted=with_uncommitted,
            title=title,
            tags=tags,
            metadata=metadata,
        )


def drive(
    context: typer.Context,
    workflow: Annotated[Path, argument("WORKFLOW.yaml", "The agent's workflow file.")],
    agent: AgentName = None,
    specification: Annotated[
        Path | None, option("--spec SPEC", "The specification it works from.")
    ] = None,
    component: Component = None,
    about: About = None,
    budget: Tokens = None,
    agent_mode: AgentMode = None,
    agent_network: AgentNetwork = None,
    agent_env: AgentEnvironment = None,
    agent_timeout: AgentTimeout = None,
    max_output: MaxOutput = None,
    record: Record = None,
    no_wait: NoWait = False,
    context_files: ContextFiles = None,
    rules: Rules = None,
    role: Role = None,
    dry_run: OnlyShown = False,
    repo: Repo = None,
    base: BaseRevision = DEFAULT_REVISION,
    with_uncommitted: WithUncommitted = False,
    title: Title = None,
    tags: Tags = None,
    metadata: Metadata = None,
    as_json: AsJson = False,
) -> None:
    """Have an agent work through a workflow of your own."""
    from .....workflows.documents.workflow_document import load_agent_workflow

    cli = cli_of(context, json=as_json).labelled(labels_of(title, tags, metadata))
    if component is not None and specification is None:
        raise typer.BadParameter(
            "it names a component of the specification; add --spec", param_hint="--component"
        )
    shown = ContextOptions(files=tuple(context_files or ()), rules=rules, role=role)
    way = _way(agent_mode, agent_network, agent_env)
    loaded = way.of_workflow(cli, shown.with_role(cli, load_agent_workflow(workflow)))
    named = _agent(cli, agent, agent_timeout, max_output, dry_run=dry_run)
    chosen = way.of_agent(cli, loaded, named)
    if specification is not None:
        work = _component_work(cli, loaded, specification, component, chosen, about)
    else:
        work = _work(
            workflow=loaded,
            name=loaded.name,
            subject=about,
            agent=chosen,
        )
    begun = RepositoryBase(repo, base, with_uncommitted)
    _begin(
        cli,
        work,
        shown,
        dry_run=dry_run,
        budget=budget,
        record=record,
        wait=not no_wait,
        base=begun,
    )


# -------------------------------------------------------------------------------------- the work


def _begin(
    cli: Cli,
    work: AgentWork,
    shown: ContextOptions,
    *,
    dry_run: bool,
    budget: int | None,
    record: Path | None,
    wait: bool,
    base: RepositoryBase,
) -> str | None:
    """Say what of the project is sent, and begin; or, for a dry run, only say it.

    Returns:
        The session's id when it is completed.
    """
    from attrs import evolve

    from .....wiring.bootstrap import begun_files
    from .....workflows.job import Job

    job = Job.of(work)
    named = () if job.component is None else job.component.context
    begun = base.attachments(cli)
    looked_at = begun if dry_run or shown.asked_for(cli, named) else {}
    with begun_files(cli.store(), looked_at) as files:
        context = shown.gather(cli, named, files=files)
        if context is not None and context.what.parts:
            work = evolve(work, context=context.what.text)
        if dry_run:
            show_plan(cli, work, context, budget=budget, files=files)
            return None
    list_context(cli, context)
    return start_agent(cli, work, budget=budget, record=record, wait=wait, attachments=begun)


def _way(mode: str | None, network: bool | None, environment: list[str] | None) -> AgentModeOptions:
    return AgentModeOptions(mode=mode, network=network, environment=tuple(environment or ()))


def _agent(
    cli: Cli, agent: str | None, timeout_s: float | None, max_output: int | None, *, dry_run: bool
) -> AgentChoice | None:
    """Return the agent; a dry run, which asks none, may do without."""
    if dry_run and agent is None and cli.configuration.run.agent is None:
        return None
    return named_agent(cli, agent, timeout_s, max_output)


def _draft(path: Path, name: str) -> Input:
    """Read a specification to begin with, where SPEC has its own; a faulty one may be mended."""
    from .....workflows.documents.specification_document import MAX_SPEC_BYTES
    from .....workflows.workflow import Input

    data = read_given(path, option="--from", most=MAX_SPEC_BYTES)
    return Input(target=f"specs/{name}.yaml", content=data)


def _text(path: Path, option: str) -> str:
    """Read a text, at most one character more than its limit."""
    from .....workflows.job import MAX_SUBJECT_CHARS

    try:
        with path.open(encoding="utf-8") as stream:
            return stream.read(MAX_SUBJECT_CHARS + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path} can't be read: {error}", param_hint=option) from error


def _work(**given: Any) -> AgentWork:
    """Return a job; its faults are those of the command line."""
    from .....workflows.errors import InvalidWorkflow
    from .....workflows.job import AgentWork

    try:
        return AgentWork(**given)
    except InvalidWorkflow as error:
        raise typer.BadParameter("; ".join(error.faults)) from error


def _absolute_wheel(package: str) -> str:
    """Return a package as the session keeps it: the path of a wheel from the root."""
    return str(Path(package).absolute()) if package.endswith(".whl") else package


def _component_work(
    cli: Cli,
    workflow: Any,
    specification: Path,
    component: str | None,
    agent: AgentChoice | None,
    about: str | None = None,
) -> AgentWork:
    """Read the specification first, so that its faults are reported before a session begins."""
    from .....workflows.documents.specification_document import load_specification

    loaded = load_specification(specification)
    chosen = loaded.component(component, path=specification)
    return _work(
        workflow=workflow,
        name=chosen.component_id,
        subject=about,
        specification=loaded.text.encode(),
        component_id=chosen.component_id,
        agent=agent,
        import_root=_import_root(cli),
    )


def _import_root(cli: Cli) -> str | None:
    """Return the folder that imports of the project begin in, where its configuration says one."""
    facts = cli.configuration.project
    return facts.source if facts.language == "python" and facts.source != "." else None
