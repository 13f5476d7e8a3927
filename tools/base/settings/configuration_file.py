"""Find and read configurations, and decide which keys of a project's file apply.

The person's own file, `config.toml` in their configuration directory, is trusted, and so is a file
that they name. A project's `.agentforge/config.toml` came with the project: until the person trusts
exactly this content (`trust_records`), keys that need trust (`trust_table`) are ignored. Both
decisions use the bytes that were read once, so a later change does not matter.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from attrs import evolve, field, frozen

from ..data_folder import NAME, configuration_folder, data_folder_above
from ..errors import AgentForgeError, ErrorKind
from ..files import FileSystem, OsFileSystem, ReadError, read_regular_file
from ..reading.fields import Fields, filled
from ..reading.nodes import Faults
from ..reading.toml_values import parse_toml
from .trust_records import TrustRecords, digest_of
from .trust_table import TABLE, merged, sifted


class InvalidConfiguration(AgentForgeError, kind=ErrorKind.INVALID_FILE):
    """A configuration file can't be used; nothing was started with it."""

    message = """{path} can't be used: {faults:;}. Nothing was started; correct the file,
    `agentforge doctor` shows what is left."""
    path: Path
    faults: Sequence[str]
    """All its faults, in the order of the file, most with their line."""


FILE_NAME: Final = "config.toml"
DEFAULT_PATH: Final = Path(NAME, FILE_NAME)
CONFIG_VARIABLE: Final = "AGENTFORGE_CONFIG"
"""The environment variable that names another configuration file."""
MAX_BYTES: Final = 1024 * 1024
RULES_KEY: Final = "context.rules"
WORKFLOW_KEY: Final = "run.workflow"
"""Keys of files that are used without the person naming them: trust covers their content."""

SECTIONS: Final = tuple(dict.fromkeys(name.partition(".")[0] for name in TABLE))
"""All sections of the file."""
PERSONAL: Final = ("worker", "privacy", "budget", "prices")
"""Sections allowed only in the person's own file; their readers read them separately."""


@frozen(kw_only=True)
class ConfigurationFile:
    """The combined configurations; their sections are not validated yet.

    Attributes:
        path: The project's file, or the one that was named; the person's own if there is neither.
        root: The base of relative paths: the folder that has `.agentforge`. An empty path is the
            working directory.
        exists: Whether any of them exists.
        above: Whether it is the file of a project that contains the working directory as a
            subfolder.
        values: The document: the person's own, overridden by the project's as far as that applies.
        faults: Its faults; readers of sections add to them.
        own: The person's own file, where there is one that is not `path`.
        left_out: The keys of an untrusted project file that are ignored.
        trusted: The required digests of the files that the project's trusted file names, by key.
    """

    path: Path
    root: Path
    exists: bool
    above: bool
    values: Mapping[str, Any] = field(repr=False)
    faults: Faults = field(repr=False)
    own: ConfigurationFile | None = None
    left_out: tuple[str, ...] = ()
    trusted: Mapping[str, str] = field(factory=dict)

    def top(self) -> Fields:
        """Return the document's top-level table."""
        return Fields(self.values, "", self.faults, rule=filled)

    def refuse_unknown_sections(self) -> None:
        """Report each section that nothing reads."""
        table = self.top()
        for name in SECTIONS:
            table.take(name)
        table.done()

    def require_no_faults(self) -> None:
        """Raise if there are faults.

        Raises:
            InvalidConfiguration: With all faults that were found so far.
        """
        if self.faults:
            raise InvalidConfiguration(path=self.path, faults=self.faults.sorted())


def read_configuration_file(
    path: Path | str | None = None,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    fs: FileSystem | None = None,
) -> ConfigurationFile:
    """Read the configurations that apply here.

    Args:
        path: A file that the person named, and so trusted; by default the one that
            AGENTFORGE_CONFIG names, else the project's file. A named file must exist; any other
            missing file counts as empty.
        folder: The folder that has the project's `.agentforge`; found from the working directory if
            None. Not together with a named file.
        environment: The environment variables.
        fs: The file system.

    Raises:
        InvalidConfiguration: One can't be read, or is not TOML.
    """
    system: FileSystem = fs if fs is not None else OsFileSystem()
    named = path if path is not None else environment.get(CONFIG_VARIABLE) or None
    above = None if folder is not None or named is not None else data_folder_above(Path.cwd())
    own = _own_file(system, environment)
    if named is not None and folder is None:
        return _named_file(system, Path(named), own)
    where, root = DEFAULT_PATH, Path()
    if folder is not None:
        where, root = folder / NAME / FILE_NAME, folder
    elif above is not None:
        where, root = above / FILE_NAME, above.parent
    return _project_file(system, where, root, own, environment, above=above is not None)


def read_own_file(
    environment: Mapping[str, str] = os.environ, *, fs: FileSystem | None = None
) -> ConfigurationFile | None:
    """Read the person's own file, all of it; None if there is none.

    Raises:
        InvalidConfiguration: It can't be read, or is not TOML.
    """
    where = configuration_folder(environment) / FILE_NAME
    data = _data_of(fs if fs is not None else OsFileSystem(), where)
    return None if data is None else _parsed(where, data, Path())


def _own_file(fs: FileSystem, environment: Mapping[str, str]) -> ConfigurationFile | None:
    """Read the sections of the person's own file that a project's may have, too."""
    file = read_own_file(environment, fs=fs)
    if file is None:
        return None
    shared = {name: one for name, one in file.values.items() if name not in PERSONAL}
    return evolve(file, values=shared)


def _named_file(fs: FileSystem, where: Path, own: ConfigurationFile | None) -> ConfigurationFile:
    data = _data_of(fs, where)
    if data is None:
        raise InvalidConfiguration(path=where, faults=["there is no such file"])
    file = _parsed(where, data, Path())
    return file if own is None else _over(file, own, file.values)


def _project_file(
    fs: FileSystem,
    where: Path,
    root: Path,
    own: ConfigurationFile | None,
    environment: Mapping[str, str],
    *,
    above: bool,
) -> ConfigurationFile:
    data = _data_of(fs, where)
    if data is None:
        if own is not None:
            return evolve(own, root=root, above=above)
        return ConfigurationFile(
            path=where, root=root, exists=False, above=above, values={}, faults=Faults()
        )
    file = evolve(_parsed(where, data, root), above=above)
    record = TrustRecords(environment, fs=fs).find(where, data)
    if record is not None:
        rules = _rules_digest(fs, file)
        is_named = rules_path(file.values, file.root) is not None
        if is_named and (rules is None or rules != record.named.get(RULES_KEY)):
            values = {**file.values, "context": dict(file.values["context"])}
            del values["context"]["rules"]  # their content is not what the person was shown
            file = evolve(file, values=values, left_out=(RULES_KEY,))
        run = file.values.get("run")
        pinned = {RULES_KEY: rules} if is_named and rules is not None else {}
        if isinstance(run, dict) and "workflow" in run:
            pinned[WORKFLOW_KEY] = record.named.get(WORKFLOW_KEY, "")
        file = evolve(file, trusted=pinned)
        return file if own is None else _over(file, own, file.values)
    kept, left_out = sifted(file.values, {} if own is None else own.values)
    file = evolve(file, left_out=tuple(left_out), values=kept)
    return file if own is None else _over(file, own, kept)


def _over(
    file: ConfigurationFile, own: ConfigurationFile, values: Mapping[str, Any]
) -> ConfigurationFile:
    return evolve(file, own=evolve(own, root=file.root), values=merged(own.values, values))


def _data_of(fs: FileSystem, where: Path) -> bytes | None:
    try:
        return read_regular_file(fs, str(where), path=where, max_bytes=MAX_BYTES)
    except ReadError as error:
        raise InvalidConfiguration(path=where, faults=[str(error)]) from error


def _parsed(where: Path, data: bytes, root: Path) -> ConfigurationFile:
    values, faults = document_of(data)
    file = ConfigurationFile(
        path=where, root=root, exists=True, above=False, values=values, faults=faults
    )
    if not values:
        file.require_no_faults()
    return file


def document_of(data: bytes) -> tuple[dict[str, Any], Faults]:
    """Parse a configuration's document, with implied keys made explicit.

    A section `[context]` without `enabled` is enabled.
    """
    values, faults = parse_toml(data)
    context = values.get("context")
    if isinstance(context, dict):
        context.setdefault("enabled", True)
    return values, faults


def own_document(environment: Mapping[str, str] = os.environ) -> Mapping[str, Any]:
    """Return the person's own document; an empty one if there is none.

    Raises:
        InvalidConfiguration: It can't be read, or is not TOML.
    """
    own = _own_file(OsFileSystem(), environment)
    return {} if own is None else own.values


def rules_path(values: Mapping[str, Any], root: Path) -> Path | None:
    """Return the rules file that a document names, or None."""
    context = values.get("context")
    named = context.get("rules") if isinstance(context, dict) else None
    return root / named if isinstance(named, str) and named.strip() else None


def _rules_digest(fs: FileSystem, file: ConfigurationFile) -> str | None:
    path = rules_path(file.values, file.root)
    try:
        data = None if path is None else _data_of(fs, path)
    except InvalidConfiguration:
        return None
    return None if data is None else digest_of(data)
