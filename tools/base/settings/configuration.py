"""What a project's configuration file says, as values; docs/configuration.md describes each key.

`[questions]` and `[notify]` are read by the questions (`questions.config`), from the same file.

The module is long because the file has one form, section by section.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from attrs import evolve, field, frozen

from ..files import FileSystem
from ..reading.fields import Fields
from .choices import (
    AGENT_MODES,
    BRIEFING_PARTS,
    DEFAULT_PARTS,
    EXECUTOR_NAME,
    LANGUAGES,
    PACKAGE_MANAGERS,
    REPORTS,
)
from .configuration_file import (
    RULES_KEY,
    WORKFLOW_KEY,
    ConfigurationFile,
    read_configuration_file,
)
from .declared_keys import (
    READ,
    flag,
    no_name,
    number,
    one_of,
    path,
    path_or_root,
    paths,
    read_keys,
    section_of,
    text,
    texts,
    whole,
)
from .webhooks import Webhook, webhooks_of

DEFAULT_CONTEXT_TOKENS: Final = 20_000
MAX_CONTEXT_TOKENS: Final = 500_000
NO_REPOSITORY: Final = Path("none")
"""The name that means no repository, whatever the configuration says."""
DEFAULT_AGENT_BUDGET: Final = 1_000_000
_DAY_S: Final = 86_400.0
_MAX_BYTES: Final = 1 << 50


def _outside(value: str) -> str | None:
    """Judge a path or glob that stays in the project."""
    if value.startswith(("/", "~")) or ".." in value.split("/"):
        return f"{value[:60]!r} leads out of the project; write it relative, without .."
    return None


def _no_executor(said: str) -> str | None:
    fits = EXECUTOR_NAME.fullmatch(said)
    return None if fits else f"{said[:60]!r} is no name of an executor, as sandbox or jail"


def _no_revision(base: str) -> str | None:
    return f"{base[:60]!r} is no revision; it begins with -" if base.startswith("-") else None


def _no_part(said: str) -> str | None:
    return None if said in BRIEFING_PARTS else f"expected one of {', '.join(BRIEFING_PARTS)}"


@frozen(kw_only=True)
class ProjectFacts:
    """`[project]`: what kind of project this is; an agent is told.

    Attributes:
        language: Its language, one of `LANGUAGES`, or None where nothing says it.
        package_manager: What installs its dependencies, one of `PACKAGE_MANAGERS`, or None.
        source: The folder that imports begin in, relative; "." is the project itself.
        tests: Its folders of tests, relative.
        test: The command that runs its tests, or None.
    """

    language: str | None = one_of(LANGUAGES)
    package_manager: str | None = one_of(PACKAGE_MANAGERS)
    source: str = text(_outside, ".")
    tests: tuple[str, ...] = texts(_outside)
    test: str | None = text()


@frozen(kw_only=True)
class RunConfiguration:
    """`[run]`: what the commands take that run agents and workflows, where no option says it.

    Attributes:
        workflow: The workflow file that `run` takes, or None.
        agent: The agent, written as for `--agent`, or None.
        agent_timeout_s: Its time limit for one answer, in seconds, or None for the agent's own.
        max_output: Maximum tokens of an endpoint's answer, or None.
        agent_mode: "answer" (it gives files) or "edit" (it changes them in place).
        agent_network: Whether an agent that edits in place has the network; unsealed if so.
        agent_environment: Names of environment variables that such an agent is given.
        isolation: Where phases run: "sandbox", "jail", or an executor of an installed plugin.
    """

    workflow: Path | None = field(default=None, metadata={READ: path})
    agent: str | None = text()
    agent_timeout_s: float | None = number(most=_DAY_S)
    max_output: int | None = whole(None, least=1, most=10**9)
    agent_mode: str = one_of(AGENT_MODES, "answer")
    agent_network: bool = flag()
    agent_environment: tuple[str, ...] = texts(no_name)
    isolation: str = text(_no_executor, "sandbox")


@frozen(kw_only=True)
class ContextConfiguration:
    """`[context]`: what of the project an agent is shown.

    Attributes:
        enabled: Whether anything is; true where the section is there.
        files: Globs of files that are shown whole, relative to the project.
        max_tokens: The most that all of it takes, in tokens.
        tree: Whether names of files are shown.
        guides: Files for agents that are shown where they are there, cut at a limit each.
        role: Who the agent is asked to be, instead of the workflow's role, or None.
        rules: A file of rules that is shown whole, or None.
    """

    enabled: bool = flag()
    files: tuple[str, ...] = texts(_outside)
    max_tokens: int = whole(DEFAULT_CONTEXT_TOKENS, least=100, most=MAX_CONTEXT_TOKENS)
    tree: bool = flag(default=True)
    guides: tuple[str, ...] = texts(_outside, ("AGENTS.md", "CLAUDE.md"))
    role: str | None = text()
    rules: Path | None = field(default=None, metadata={READ: path})


@frozen(kw_only=True)
class BriefingConfiguration:
    """`[briefing]`: what of a session's own data its briefing shows.

    Attributes:
        shows: Some of `BRIEFING_PARTS`.
    """

    shows: tuple[str, ...] = texts(_no_part, DEFAULT_PARTS)


@frozen(kw_only=True)
class RepositoryConfiguration:
    """`[repository]`: how a session begins from a repository.

    Attributes:
        use: Whether sessions work on a copy of the repository.
        path: The repository, relative to the project.
        base: The revision that the copy is of, or None for the one that is checked out.
        with_uncommitted: Whether the copy has what is not committed.
    """

    use: bool = flag()
    path: Path = field(default=Path(), metadata={READ: path_or_root})
    base: str | None = text(_no_revision)
    with_uncommitted: bool = flag()

    @property
    def revision(self) -> str:
        """The revision that the copy is of."""
        return self.base or "HEAD"

    def asked_for(
        self, named: Path | None, base: str | None = None, *, with_uncommitted: bool = False
    ) -> RepositoryConfiguration:
        """Return how a session begins for which this was said; that comes before the configuration.

        Args:
            named: A folder of a checkout, of which the configuration knows nothing; "none" for no
                repository; None: as the configuration says.
            base: The revision, or None.
            with_uncommitted: Whether what is not committed is wanted, too.
        """
        if named == NO_REPOSITORY:
            return RepositoryConfiguration()
        if named is not None:
            return RepositoryConfiguration(
                use=True, path=named, base=base, with_uncommitted=with_uncommitted
            )
        return evolve(
            self,
            base=base if base is not None else self.base,
            with_uncommitted=with_uncommitted or self.with_uncommitted,
        )


@frozen(kw_only=True)
class GateConfiguration:
    """`[gate]`: how the files of a phase are judged.

    Attributes:
        command: The command that runs the tests, or None: they run in the sandbox.
        report: What it says how they ended: "junit", "tap" or "exit-code".
        report_path: Where it writes the report, relative to the workspace, or None.
        timeout_s: Its time limit in seconds, or None.
    """

    command: str | None = text()
    report: str = one_of(REPORTS, "junit")
    report_path: str | None = text(_outside)
    timeout_s: float | None = number(most=_DAY_S)

    def asked_for(
        self, command: str | None, *, report: str | None = None, report_path: str | None = None
    ) -> GateConfiguration:
        """Return how tests are run for which this was said; that comes before the configuration.

        Args:
            command: The command, "sandbox" for none, or None: as the configuration says.
            report: What it says how they ended, or None.
            report_path: Where it writes that, or None.
        """
        if command == "sandbox":
            return GateConfiguration()
        if command is not None:
            return GateConfiguration(
                command=command,
                report=report or "junit",
                report_path=report_path,
                timeout_s=self.timeout_s,
            )
        if report is not None:  # another kind of report is not where this one was
            return evolve(self, report=report, report_path=report_path)
        return evolve(self, report_path=report_path or self.report_path)


@frozen(kw_only=True)
class JailConfiguration:
    """`[jail]`: what commands in a jail see and may use.

    Attributes:
        read: Further folders that they can read, absolute or relative to the project.
        mounts: Folders of the checkout that they see read-only in the workspace.
        network: Whether they reach the network; unsealed if so.
        environment: Names of environment variables that they are given.
        timeout_s: Time limit of a command in seconds, or None.
        memory_bytes: The most memory, or None.
        processes: The most processes, or None.
    """

    read: tuple[Path, ...] = paths()
    mounts: tuple[str, ...] = texts(_outside)
    network: bool = flag()
    environment: tuple[str, ...] = texts(no_name)
    timeout_s: float | None = number(most=_DAY_S)
    memory_bytes: int | None = whole(None, least=16 << 20, most=_MAX_BYTES)
    processes: int | None = whole(None, least=4, most=1 << 20)


@frozen(kw_only=True)
class AgentsConfiguration:
    """`[agents]`: what the hook does in the agent programs that people run.

    Attributes:
        create: Whether a prompt begins a session where the project has no open one.
        token_budget: The budget of such a session, in tokens.
        gate: Whether `[gate] command` judges the end of each turn.
        gate_rounds: How often a prompt's work is sent on by it, at most.
    """

    create: bool = flag()
    token_budget: int = whole(DEFAULT_AGENT_BUDGET, least=1, most=10**15)
    gate: bool = flag()
    gate_rounds: int = whole(3, least=1, most=100)


@frozen(kw_only=True)
class StoreConfiguration:
    """`[store]`: where the sessions are, if not in files here.

    Attributes:
        url: `postgresql://…`, or None for files.
        direct: The database server itself, where `url` is a connection pooler; None where it isn't.
        objects: Where the workspaces of a fleet are kept: `s3://…`, `gs://…`, `az://…`, `file://…`
            or None for nowhere but the workers' own disks.
        cache_bytes: How much a worker keeps on its disk of sessions that went elsewhere, or ended,
            in bytes, or None for the default.
    """

    url: str | None = text(repr=False)
    direct: str | None = text(repr=False)
    objects: str | None = text()
    cache_bytes: int | None = whole(None, least=1 << 20, most=_MAX_BYTES)


_KINDS: Final[Mapping[str, Any]] = {
    "project": ProjectFacts,
    "run": RunConfiguration,
    "context": ContextConfiguration,
    "briefing": BriefingConfiguration,
    "repository": RepositoryConfiguration,
    "gate": GateConfiguration,
    "jail": JailConfiguration,
    "agents": AgentsConfiguration,
    "store": StoreConfiguration,
}
"""The sections that are read by the fields of a class."""


@frozen(kw_only=True)
class Configuration:
    """All that a configuration file says, but for questions.

    Attributes:
        path: The file, or None where there is none.
        root: What relative paths in it are relative to; an empty path is the working directory.
            The paths of these values are joined to it already, globs and names are not.
        sessions: The directory of the sessions, or None for the default one.
        project: `[project]`.
        run: `[run]`.
        context: `[context]`.
        briefing: `[briefing]`.
        repository: `[repository]`.
        gate: `[gate]`.
        jail: `[jail]`.
        agents: `[agents]`.
        store: `[store]`.
        webhooks: `[[webhooks]]`.
        observers: `[[observers]]`: the name of each one's plugin, and its other keys.
        given: The sections that the file has.
        left_out: The keys of a project's file that do not hold, since nobody trusted it.
        trusted_workflow: The digest that the workflow of `[run]` must have, where the person
            trusted a project's file that names it; None where no trust is needed.
        trusted_rules: Likewise of the rules of `[context]`.
    """

    path: Path | None = None
    root: Path = Path()
    sessions: Path | None = None
    project: ProjectFacts = field(factory=ProjectFacts)
    run: RunConfiguration = field(factory=RunConfiguration)
    context: ContextConfiguration = field(factory=ContextConfiguration)
    briefing: BriefingConfiguration = field(factory=BriefingConfiguration)
    repository: RepositoryConfiguration = field(factory=RepositoryConfiguration)
    gate: GateConfiguration = field(factory=GateConfiguration)
    jail: JailConfiguration = field(factory=JailConfiguration)
    agents: AgentsConfiguration = field(factory=AgentsConfiguration)
    store: StoreConfiguration = field(factory=StoreConfiguration)
    webhooks: tuple[Webhook, ...] = ()
    observers: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    given: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    trusted_workflow: str | None = None
    trusted_rules: str | None = None

    @property
    def names_observers(self) -> bool:
        """Whether anybody is told of what happens to sessions."""
        return bool(self.webhooks or self.observers or "notify" in self.given)


def load_configuration(
    path: Path | str | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    fs: FileSystem | None = None,
) -> Configuration:
    """Read the configuration; see `read_configuration_file` for the arguments.

    Raises:
        InvalidConfiguration: With everything that is wrong with it.
    """
    return checked_configuration(read_configuration_file(path, environment=environment, fs=fs))


def checked_configuration(file: ConfigurationFile) -> Configuration:
    """Read all sections but those of questions, the person's own file first.

    Raises:
        InvalidConfiguration: With everything that is wrong with the one or the other.
    """
    for one in (file.own, file):
        if one is None:
            continue
        one.refuse_unknown_sections()
        found = configuration_of(one)
        one.require_no_faults()
    return found


def configuration_of(file: ConfigurationFile) -> Configuration:
    """Read the sections of a file; what is wrong with them is added to its faults."""
    top, root = file.top(), file.root
    found = {name: read_keys(kind, section_of(top, name), root) for name, kind in _KINDS.items()}
    sessions = section_of(top, "sessions")
    directory = sessions.text("directory")
    sessions.done()
    return Configuration(
        path=file.path if file.exists else None,
        root=root,
        sessions=None if directory is None else root / directory,
        **found,
        webhooks=webhooks_of(top),
        observers=tuple(map(_observer, top.each("observers", expected="tables [[observers]]"))),
        given=tuple(file.values),
        left_out=file.left_out,
        trusted_workflow=file.trusted.get(WORKFLOW_KEY),
        trusted_rules=file.trusted.get(RULES_KEY),
    )


def _observer(table: Fields) -> tuple[str, Mapping[str, Any]]:
    if not table.has("plugin"):
        table.fault("plugin", "is missing; it names what an installed package adds")
    return table.text("plugin") or "", table.rest()
