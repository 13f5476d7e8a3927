"""The values of a project's configuration file; docs/configuration.md describes each key.

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
    DEFAULT_AGENT_BUDGET,
    DEFAULT_PARTS,
    EXECUTOR_NAME,
    LANGUAGES,
    PACKAGE_MANAGERS,
    REPORTS,
    TRANSCRIPTS,
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
"""The name that means no repository, regardless of the configuration."""
_DAY_S: Final = 86_400.0
_MAX_BYTES: Final = 1 << 50


def _outside(value: str) -> str | None:
    """Judge a path or glob that must stay in the project."""
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
    """`[project]`: the kind of project; agents are informed of it.

    Attributes:
        language: Its language, one of `LANGUAGES`, or None if unknown.
        package_manager: The program that installs its dependencies, one of `PACKAGE_MANAGERS`, or
            None.
        source: The folder that imports start in, relative; "." is the project itself.
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
    """`[run]`: defaults of the commands that run agents and workflows; options override them.

    Attributes:
        workflow: The workflow file that `run` takes, or None.
        agent: The agent, written as for `--agent`, or None.
        agent_timeout_s: Its time limit for one answer, in seconds, or None for the agent's own.
        max_output: Maximum tokens of an endpoint's answer, or None.
        agent_mode: "answer" (it returns files) or "edit" (it changes them in place).
        agent_network: Whether an agent that edits in place has the network; unsealed if so.
        agent_environment: Names of environment variables that such an agent gets.
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
    """`[context]`: the parts of the project that an agent sees.

    Attributes:
        enabled: Whether it sees anything; true if the section exists.
        files: Globs of files that are included completely, relative to the project.
        max_tokens: The limit of all of it together, in tokens.
        tree: Whether file names are included.
        guides: Files for agents that are included if they exist, each cut at a limit.
        role: The role that the agent is given, instead of the workflow's role, or None.
        rules: A file of rules that is included completely, or None.
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
    """`[briefing]`: the session's own data that its briefing shows.

    Attributes:
        shows: Some of `BRIEFING_PARTS`.
    """

    shows: tuple[str, ...] = texts(_no_part, DEFAULT_PARTS)


@frozen(kw_only=True)
class RepositoryConfiguration:
    """`[repository]`: how a session starts from a repository.

    Attributes:
        use: Whether sessions work on a copy of the repository.
        path: The repository, relative to the project.
        base: The revision to copy, or None for the one that is checked out.
        with_uncommitted: Whether the copy includes uncommitted changes.
    """

    use: bool = flag()
    path: Path = field(default=Path(), metadata={READ: path_or_root})
    base: str | None = text(_no_revision)
    with_uncommitted: bool = flag()

    @property
    def revision(self) -> str:
        """The revision to copy."""
        return self.base or "HEAD"

    def asked_for(
        self, named: Path | None, base: str | None = None, *, with_uncommitted: bool = False
    ) -> RepositoryConfiguration:
        """Return the configuration with a caller's arguments applied, which take precedence.

        Args:
            named: A folder of a checkout, which replaces the configuration; "none" for no
                repository; None: as configured.
            base: The revision, or None.
            with_uncommitted: Whether to include uncommitted changes.
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
        report: The form of its result: "junit", "tap" or "exit-code".
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
        """Return the configuration with a caller's arguments applied, which take precedence.

        Args:
            command: The command, "sandbox" for none, or None: as configured.
            report: The form of its result, or None.
            report_path: Where it writes the report, or None.
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
        if report is not None:  # another kind of report has another path
            return evolve(self, report=report, report_path=report_path)
        return evolve(self, report_path=report_path or self.report_path)


@frozen(kw_only=True)
class JailConfiguration:
    """`[jail]`: limits and visible paths of a jailed command.

    Attributes:
        read: Further folders that it can read, absolute or relative to the project.
        mounts: Folders of the checkout that are mounted read-only in the workspace.
        network: Whether it reaches the network; unsealed if so.
        environment: Names of environment variables that it gets.
        timeout_s: Its time limit in seconds, or None.
        memory_bytes: Its memory limit, or None.
        processes: Its limit of processes, or None.
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
        create: Whether a prompt starts a session where the branch has no open one.
        token_budget: The budget of such a session, in tokens.
        gate: Whether `[gate] command` judges the end of each turn.
        gate_rounds: How often it may send a prompt's work back.
    """

    create: bool = flag(default=True)
    token_budget: int = whole(DEFAULT_AGENT_BUDGET, least=1, most=10**15)
    gate: bool = flag()
    gate_rounds: int = whole(3, least=1, most=100)


@frozen(kw_only=True)
class PrivacyConfiguration:
    """`[privacy]` of a project; the person's own is read by `privacy`, which applies the stricter.

    Attributes:
        transcripts: What a session has of the transcripts of agents' conversations.
    """

    transcripts: str = one_of(TRANSCRIPTS, TRANSCRIPTS[-1])


@frozen(kw_only=True)
class StoreConfiguration:
    """`[store]`: where the sessions are stored, if not in local files.

    Attributes:
        url: `postgresql://…`, or None for files.
        direct: The database server itself, where `url` is a connection pooler; None otherwise.
        objects: Where the workspaces of a fleet are stored: `s3://…`, `gs://…`, `az://…`,
            `file://…` or None for only the workers' own disks.
        cache_bytes: How much a worker may retain on its disk of sessions that moved elsewhere or
            ended, in bytes, or None for the default.
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
    "privacy": PrivacyConfiguration,
    "store": StoreConfiguration,
}
"""The sections that are read into the fields of a class."""


@frozen(kw_only=True)
class Configuration:
    """A configuration file, except for questions.

    Attributes:
        path: The file, or None if there is none.
        root: The base of relative paths in it; an empty path is the working directory. The paths of
            these values are joined to it already, globs and names are not.
        sessions: The directory of the sessions, or None for the default one.
        project: `[project]`.
        run: `[run]`.
        context: `[context]`.
        briefing: `[briefing]`.
        repository: `[repository]`.
        gate: `[gate]`.
        jail: `[jail]`.
        agents: `[agents]`.
        privacy: `[privacy]` of a project.
        store: `[store]`.
        webhooks: `[[webhooks]]`.
        observers: `[[observers]]`: each one's plugin name, and its other keys.
        given: The sections that the file has.
        left_out: The keys of an untrusted project file that are ignored.
        trusted_workflow: The digest that the workflow of `[run]` must have, where the person
            trusted a project's file that names it; None where no trust is needed.
        trusted_rules: The same for the rules of `[context]`.
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
    privacy: PrivacyConfiguration = field(factory=PrivacyConfiguration)
    store: StoreConfiguration = field(factory=StoreConfiguration)
    webhooks: tuple[Webhook, ...] = ()
    observers: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    given: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    trusted_workflow: str | None = None
    trusted_rules: str | None = None

    @property
    def names_observers(self) -> bool:
        """Whether anyone observes what happens to sessions."""
        return bool(self.webhooks or self.observers or "notify" in self.given)


def load_configuration(
    path: Path | str | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    fs: FileSystem | None = None,
) -> Configuration:
    """Read the configuration; see `read_configuration_file` for the arguments.

    Raises:
        InvalidConfiguration: With all its faults.
    """
    return checked_configuration(read_configuration_file(path, environment=environment, fs=fs))


def checked_configuration(file: ConfigurationFile) -> Configuration:
    """Read all sections but those of questions, the person's own file first.

    Raises:
        InvalidConfiguration: With all faults of the two files.
    """
    for one in (file.own, file):
        if one is None:
            continue
        one.refuse_unknown_sections()
        found = configuration_of(one)
        one.require_no_faults()
    return found


def configuration_of(file: ConfigurationFile) -> Configuration:
    """Read the sections of a file; their faults are added to the file's."""
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
