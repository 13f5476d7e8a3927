"""Commands that have an agent work: tdflow, spec."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from attrs import evolve, frozen

from .....wiring.bootstrap import begun_files
from .....workflows import InvalidWorkflow
from .....workflows.builtin import SPEC, TDFLOW
from .....workflows.documents.specification_document import MAX_SPEC_BYTES, load_specification
from .....workflows.job import MAX_SUBJECT_CHARS, AgentWork, Job
from .....workflows.workflow import Input, Workflow
from ...context import Cli
from ...options import Labels, Tokens, argument, flag, misuse, option, read_given
from ...project_context import ContextOptions, list_context, show_plan
from ...running.agent_options import AgentOptions
from ...running.run_session import RepositoryBase, start_agent
from ...running.running import written_specification

Component = Annotated[
    str | None,
    option("--component, -c NAME", "The component of the specification; the only one by default."),
]
About = Annotated[str | None, option("--about TEXT", "Description of what is wanted.")]


@frozen
class AgentBeginning:
    """Options that define a new session of an agent.

    Attributes:
        dry_run: Only show what would be sent to the agent, and how many tokens it takes; begin
            nothing.
    """

    panel: ClassVar = "Options of an agent's work"

    agent: AgentOptions
    budget: Tokens
    shown: ContextOptions
    dry_run: Annotated[bool, flag("--dry-run")]
    base: RepositoryBase
    labels: Labels

    def work(self, cli: Cli, workflow: Workflow, **about: Any) -> AgentWork:
        """Return the agent's work on a workflow.

        Raises:
            typer.BadParameter: The options do not define valid work.
        """
        chosen = self.agent.of_workflow(cli, self.shown.with_role(cli, workflow))
        agent = self.agent.choice(cli, chosen, optional=self.dry_run or chosen.is_program)
        facts = cli.configuration.project
        if facts.language == "python":
            about.setdefault("import_root", facts.source)
        try:
            return AgentWork(workflow=chosen, agent=agent, **about)
        except InvalidWorkflow as error:
            raise typer.BadParameter("; ".join(error.faults)) from error

    def component_work(
        self,
        cli: Cli,
        workflow: Workflow,
        specification: Path,
        component: str | None,
        subject: str | None = None,
    ) -> AgentWork:
        """Return the agent's work on a component; its specification is validated first.

        Raises:
            InvalidSpecification: The file is not a valid specification.
            typer.BadParameter: The options do not define valid work.
        """
        loaded = load_specification(specification)
        chosen = loaded.component(component, path=specification)
        facts = cli.configuration.project
        in_source = facts.language == "python" and facts.source != "."
        return self.work(
            cli,
            workflow,
            name=chosen.component_id,
            subject=subject,
            specification=loaded.text.encode(),
            component_id=chosen.component_id,
            import_root=facts.source if in_source else None,
        )

    def begin(self, cli: Cli, work: AgentWork) -> str | None:
        """List what the agent receives of the project, and start; a dry run only lists it.

        Returns:
            The session's id if the session completed, else None.
        """
        job = Job.of(work)
        named = () if job.component is None else job.component.context
        begun = self.base.attachments(cli)
        looked_at = begun if self.dry_run or self.shown.asked_for(cli, named) else {}
        with begun_files(cli.store(), looked_at) as files:
            context = self.shown.gather(cli, named, files=files)
            if context is not None and context.what.parts:
                work = evolve(work, context=context.what.text)
            if self.dry_run:
                show_plan(cli, work, context, budget=self.budget, files=files)
                return None
        list_context(cli, context)
        cli = evolve(cli.without_jail(said=self.agent.no_jail), labels=self.labels.of_session())
        return start_agent(cli, work, self.agent, budget=self.budget, attachments=begun)


@frozen
class GateOptions:
    """Options that define the tests that judge an agent's work.

    Attributes:
        unittest: Use unittest for the tests instead of pytest.
        gate: The project's own command that runs its tests, in a jail; the configuration's by
            default. sandbox: none.
        report: What to read of that command: junit, tap or exit-code.
        report_path: Where it leaves its JUnit XML; * may stand in it.
        packages: A package of pure Python that the sandbox is to have: installed here, or the path
            of a wheel; may be repeated.
    """

    unittest: bool = flag("--unittest")
    gate: str | None = option("--gate COMMAND")
    report: str | None = option("--report KIND")
    report_path: str | None = option("--report-path PATH")
    packages: list[str] | None = option("--with PACKAGE")

    def of_workflow(self, cli: Cli, workflow: Workflow) -> Workflow:
        """Return a workflow whose gates use these tests.

        Raises:
            typer.BadParameter: The command or a package can't be used.
        """
        if self.unittest:
            phases = [
                evolve(phase, gate=evolve(phase.agents_gate, framework="unittest"))
                for phase in workflow.phases
            ]
            workflow = evolve(workflow, phases=phases)
        said = cli.configuration.gate.asked_for(
            self.gate, report=self.report, report_path=self.report_path
        )
        if said.command is not None:
            try:
                workflow = workflow.with_command(
                    said.command,
                    report=said.report,
                    report_path=said.report_path,
                    deadline_s=said.timeout_s,
                )
            except InvalidWorkflow as error:
                where = f"[gate] in {cli.configuration.path}" if self.gate is None else "--gate"
                raise misuse(where, str(error)) from error
            if self.gate is None:
                cli.output.remark(f"Gate, as {cli.configuration.path} says: {said.command}")
        elif self.report is not None or self.report_path is not None:
            raise misuse("--report", "needs --gate COMMAND")
        if not self.packages:
            return workflow
        packages = [
            str(Path(one).absolute()) if one.endswith(".whl") else one for one in self.packages
        ]
        try:
            return workflow.with_packages(packages)
        except InvalidWorkflow as error:
            raise misuse("--with", "; ".join(error.faults)) from error


def tdflow(
    cli: Cli,
    specification: Annotated[Path, argument("SPEC")],
    component: Component,
    gate: GateOptions,
    beginning: AgentBeginning,
) -> None:
    """Have an agent develop a component test first: red, green, refactor, verify.

    Args:
        specification: The specification file.
    """
    workflow = gate.of_workflow(cli, TDFLOW)
    beginning.begin(cli, beginning.component_work(cli, workflow, specification, component))


def spec(
    cli: Cli,
    *,
    name: str = argument("NAME"),
    about: About,
    about_file: Path | None = option("--about-file FILE"),
    begin_with: Path | None = option("--from SPEC"),
    then_tdflow: bool = flag("--then-tdflow"),
    beginning: AgentBeginning,
) -> None:
    """Have an agent write a component specification, with you: intake to approval.

    Args:
        name: Name of the specification: 1 to 64 of a-z 0-9 _ -.
        about_file: File with a description of what is wanted.
        begin_with: An existing specification, as the first draft.
        then_tdflow: Once it is approved, have its first component developed as tdflow does.
    """
    if then_tdflow and (cli.output.json or beginning.dry_run or cli.submission is not None):
        raise misuse(
            "--then-tdflow",
            "begins a second session, which --json, --dry-run and submit have no place for",
        )
    if about is not None and about_file is not None:
        raise typer.BadParameter("give --about or --about-file, not both")
    subject = about if about_file is None else _text(about_file)
    inputs = []
    if begin_with is not None:  # unvalidated: the agent may repair a faulty one
        draft = read_given(begin_with, option="--from", most=MAX_SPEC_BYTES)
        inputs = [Input(target=f"specs/{name}.yaml", content=draft)]
    work = beginning.work(cli, SPEC, name=name, subject=subject or name, inputs=inputs)
    session_id = beginning.begin(cli, work)
    if then_tdflow and session_id is not None:
        _, session = cli.load(session_id)
        written = written_specification(cli, session)
        assert written is not None  # noqa: S101 (an approved one was validated)
        cli.output.line()
        gate = GateOptions(unittest=False, gate=None, report=None, report_path=None, packages=None)
        tdflow(cli, written.path, written.components[0], gate, evolve(beginning, budget=None))


def _text(path: Path) -> str:
    """Read a text, up to one character over the limit, so that a longer one is detected."""
    try:
        with path.open(encoding="utf-8") as stream:
            return stream.read(MAX_SUBJECT_CHARS + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise misuse("--about-file", f"{path} can't be read: {error}") from error
