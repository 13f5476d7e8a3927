"""The one place that finds and reads `.agentforge/config.toml`, whoever acts on its sections."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

from ..data_folder import NAME, data_folder_above
from ..durable import FileSystem, OsFileSystem, ReadError, read_regular_file
from .errors import InvalidConfiguration
from .toml_table import TomlFaults, TomlTable, parse_toml

FILE_NAME: Final = "config.toml"
DEFAULT_PATH: Final = Path(NAME, FILE_NAME)
CONFIG_VARIABLE: Final = "AGENTFORGE_CONFIG"
"""The environment variable that names another configuration file."""
MAX_BYTES: Final = 1024 * 1024

SECTIONS: Final = (
    "project",
    "sessions",
    "run",
    "context",
    "briefing",
    "repository",
    "gate",
    "jail",
    "agents",
    "store",
    "questions",
    "notify",
)
"""All sections of the file, by those that read them."""


@frozen(kw_only=True)
class ConfigurationFile:
    """A configuration file as it was read; its sections are not judged yet.

    Attributes:
        path: The file.
        root: What its relative paths are relative to: the folder that has `.agentforge`. An empty
            path is the working directory.
        exists: Whether it is there.
        above: Whether it is that of a project which the working directory is a folder in.
        values: The document.
        faults: What is wrong with it; who reads a section adds to it.
    """

    path: Path
    root: Path
    exists: bool
    above: bool
    values: Mapping[str, Any] = field(repr=False)
    faults: TomlFaults = field(repr=False)

    def top(self) -> TomlTable:
        """Return the document's own table."""
        return TomlTable(self.values, "", self.faults)

    def refuse_unknown_sections(self) -> None:
        """Make a fault of each section that nothing reads."""
        table = self.top()
        for name in SECTIONS:
            table.take(name)
        table.done()

    def require_no_faults(self) -> None:
        """Raise if anything is wrong with what was read.

        Raises:
            InvalidConfiguration: With all faults that were found so far.
        """
        if self.faults:
            raise InvalidConfiguration(path=self.path, faults=self.faults.sorted())


def read_configuration_file(
    path: Path | str | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    fs: FileSystem | None = None,
) -> ConfigurationFile:
    """Read the configuration file.

    Args:
        path: The file; by default what AGENTFORGE_CONFIG names, else `.agentforge/config.toml` in
            the working directory or, where that is a folder of a project, in the project's. A file
            that was named must exist; another one that is missing is as an empty one.
        environment: The environment variables.
        fs: The file system.

    Raises:
        InvalidConfiguration: It can't be read, or is no TOML.
    """
    named = path if path is not None else environment.get(CONFIG_VARIABLE) or None
    above = None if named is not None else data_folder_above(Path.cwd())
    where = Path(named) if named is not None else DEFAULT_PATH
    if above is not None:
        where = above / FILE_NAME
    try:
        data = read_regular_file(
            fs if fs is not None else OsFileSystem(), str(where), path=where, max_bytes=MAX_BYTES
        )
    except ReadError as error:
        raise InvalidConfiguration(path=where, faults=[str(error)]) from error
    if data is None and named is not None:
        raise InvalidConfiguration(path=where, faults=["there is no such file"])
    values, faults = parse_toml(data or b"")
    file = ConfigurationFile(
        path=where,
        root=Path() if above is None else above.parent,
        exists=data is not None,
        above=above is not None,
        values=values,
        faults=faults,
    )
    if not values:
        file.require_no_faults()
    return file
