"""The record of what an installation changed, so that it can be undone: one JSON file each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, NamedTuple

from ...base.files import AtomicFileWriter, OsFileSystem, make_durable_directory, read_regular_file
from ..programs.meter import object_of

_MAX_BYTES: Final = 4 * 1024 * 1024
_VERSION: Final = 1


class Manifest(NamedTuple):
    """The changes of one installation.

    Attributes:
        files: The digest of each of our files, by its path.
        blocks: The text inserted into each file of the person's, by its path.
        created: Those of these files, and the folders, that did not exist before.
        commands: Our commands that the program runs.
        members: The members put into each JSON file of the person's, by its path.
    """

    files: dict[str, str]
    blocks: dict[str, str]
    created: list[str]
    commands: list[str]
    members: dict[str, list[str]] = {}  # noqa: RUF012 (never changed)


def read_manifest(path: Path) -> Manifest | None:
    """Return the manifest, or None if there is none or it is not valid.

    Raises:
        ReadError: The file can't be read.
    """
    data = read_regular_file(OsFileSystem(), str(path), path=path, max_bytes=_MAX_BYTES)
    found = object_of(data) if data else None
    if found is None or found.get("version") != _VERSION:
        return None
    files, blocks, created, commands = (found.get(name) for name in Manifest._fields[:4])
    members = found.get("members", {})
    if not (isinstance(files, dict) and isinstance(blocks, dict)):
        return None
    if not (isinstance(created, list) and isinstance(commands, list) and isinstance(members, dict)):
        return None
    return Manifest(files, blocks, created, commands, members)


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Save a manifest, before or after the installation.

    Raises:
        WriteError: It could not be saved.
    """
    make_durable_directory(OsFileSystem(), path.parent)
    with AtomicFileWriter(path) as file:
        file.write(json.dumps({"version": _VERSION, **manifest._asdict()}, indent=1) + "\n")
