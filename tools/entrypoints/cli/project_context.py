"""Project context that agents see: gathered, listed before the first call, or only previewed."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from .context import Cli
from .options import misuse, option, read_given
from .output.documents import selected

if TYPE_CHECKING:
    from ...base.settings.configuration import Configuration
    from ...workflows.job import AgentWork
    from ...workflows.prompts.context import Context
    from ...workflows.workflow import Workflow


@frozen
class ShownContext:
    """Context of a project, and its origin.

    Attributes:
        what: The context.
        origin: The owner of the files, in words.
    """

    what: Context
    origin: str


@frozen
class ContextOptions:
    """Options that select the project's context and the agent's role.

    Attributes:
        context_files: Show the agent these files of the project too, as 'src/**/*.py'; may be
            repeated.
        rules: A file with rules that hold for the work; the agent is shown it.
        role: Who the agent is asked to be, instead of the workflow's role.
    """

    context_files: list[str] | None = option("--context GLOB")
    rules: Path | None = option("--rules FILE")
    role: str | None = option("--role TEXT")

    def with_role(self, cli: Cli, workflow: Workflow) -> Workflow:
        """Return the workflow with the role that the options name."""
        role = self.role if self.role is not None else cli.configuration.context.role
        if self.role is not None and not self.role.strip():
            raise misuse("--role", "the role is empty")
        return workflow if role is None else evolve(workflow, role=role)

    def asked_for(self, cli: Cli, named: tuple[str, ...] = ()) -> bool:
        """Return whether an option, the specification or the configuration asks for context."""
        enabled = cli.configuration.context.enabled
        return bool(enabled or self.context_files or self.rules is not None or named)

    def gather(
        self, cli: Cli, named: tuple[str, ...] = (), *, files: tuple[Path, str] | None = None
    ) -> ShownContext | None:
        """Gather the project's context; return None if nothing asks for it.

        Args:
            cli: The global options.
            named: The specification's globs.
            files: The files that the session begins with, and their owner; the project's current
                files if None.

        Raises:
            typer.BadParameter: A glob or the rules can't be used.
        """
        from ...workflows.prompts.context import ContextRequest, RulesTooLong, gather_context

        configuration = cli.configuration
        said = configuration.context
        if not self.asked_for(cli, named):
            return None
        for glob in self.context_files or ():
            if glob.startswith(("/", "~")) or ".." in glob.split("/") or not glob.strip():
                raise misuse("--context", f"{glob!r} is no glob inside the project")
        rules = self.rules if self.rules is not None else said.rules if said.enabled else None
        request = ContextRequest(
            files=tuple(dict.fromkeys((*(self.context_files or ()), *named, *said.files))),
            max_tokens=said.max_tokens,
            tree=said.tree if said.enabled else False,
            guides=said.guides if said.enabled else (),
            rules=None if rules is None else _rules(rules, configuration),
            source=configuration.project.source,
            about=_about(cli) if said.enabled else None,
        )
        folder, origin = files if files is not None else (self._folder(cli), None)
        try:
            return ShownContext(gather_context(folder, request), origin or str(folder))
        except RulesTooLong as error:
            raise misuse("--rules", f"{error}; {rules}") from error

    @staticmethod
    def _folder(cli: Cli) -> Path:
        """Return the folder of the context: the project's, else the working directory."""
        from ...base.data_folder import data_folder_above

        above = data_folder_above(Path.cwd())
        if cli.configuration.path is None and above is not None:
            return above.parent
        return Path.cwd() / cli.configuration.root


def _rules(path: Path, configuration: Configuration) -> str:
    from ...workflows.prompts.context_folder import MAX_FILE_BYTES
    from .trusting import require_trusted_rules

    data = read_given(path, option="--rules", most=MAX_FILE_BYTES)
    require_trusted_rules(configuration, path, data)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise misuse("--rules", f"{path} can't be read: {error}") from error


def _about(cli: Cli) -> str | None:
    from ...base.settings.beginnings.scaffold_content import described

    facts = cli.configuration.project
    return None if facts.language is None else f"It is {described(facts)}."


def list_context(cli: Cli, context: ShownContext | None) -> None:
    """List on standard error the context that each prompt shows, before anything is sent."""
    for line in () if context is None else _lines(context):
        cli.output.remark(line)


def show_plan(
    cli: Cli,
    work: AgentWork,
    context: ShownContext | None,
    *,
    budget: int | None,
    files: tuple[Path, str] | None = None,
) -> None:
    """Show what would be sent and what the first call would cost; create nothing.

    Args:
        cli: The global options.
        work: The agent's work.
        context: The project's context.
        budget: Allotted tokens; the workflow's if None.
        files: The files that a session of a repository would begin with.
    """
    from ...harness.views.briefing import most_tokens
    from ...workflows.job import Job
    from ...workflows.run.job_prompt import first_prompt, own_paths

    job = Job.of(work)
    found = first_prompt(job, None if files is None else _texts(files[0], own_paths(job)))
    total = work.workflow.token_budget if budget is None else budget
    phase, prompt = found if found is not None else (None, "")
    answer = 0 if phase is None else phase.answer_tokens
    document = {
        "dry_run": True,
        "workflow": work.workflow.name,
        "agent": None if work.agent is None else work.agent.value,
        "phase": None if phase is None else phase.name,
        "prompt_tokens": most_tokens(prompt),
        "answer_tokens": answer,
        "token_budget": total,
        "context": None if context is None else _document(context),
        "prompt": prompt,
    }
    cli.output.outcome(
        document,
        *(["Nothing of the project is sent."] if context is None else _lines(context)),
        None
        if phase is None
        else f"The first prompt, of phase {phase.name}, takes at most {most_tokens(prompt):,} "
        "tokens with the role, the specification and the form of the answer; an answer is "
        f"expected to take {answer:,}. The budget is {total:,}.",
        "Nothing was sent, and no session was begun.",
    )


def _texts(folder: Path, paths: Iterable[str]) -> dict[str, str]:
    """Return the text of each file that exists and is text."""
    from ...base.files import OsFileSystem
    from ...workflows.prompts.context_folder import NotShown, context_folder

    found = {}
    with context_folder(OsFileSystem(), folder) as opened:
        for path in paths:
            with suppress(NotShown):
                found[path] = opened.text(path, named=True)
    return found


def _lines(shown: ShownContext) -> list[str]:
    from ...workflows.prompts.context import listed

    context = shown.what
    lines = [
        f"Sent to the agent with each prompt, of {shown.origin} "
        f"(at most {context.tokens:,} tokens):",
        *(f"  {kind:<10}  {name}  ({size})" for kind, name, size in listed(context)),
    ]
    if not context.parts:
        lines.append("  nothing")
    if context.left_out:
        lines.append("Left out:")
        lines += [f"  {path}: {reason}" for path, reason in context.left_out]
    return lines


def _document(shown: ShownContext) -> dict[str, Any]:
    context = shown.what
    return {
        "folder": shown.origin,
        "tokens": context.tokens,
        "parts": [selected(one, "kind name tokens cut") for one in context.parts],
        "left_out": [{"path": path, "reason": reason} for path, reason in context.left_out],
    }
