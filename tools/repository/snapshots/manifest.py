"""The parts of a workspace that a git tree lacks: modes, empty folders, and what was left out.

Git stores of a mode whether its owner may execute the file. The modes that most files and folders
have are stored once, each other one by its path. Pure.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

_VERSION: Final = 1
_OWNER_EXECUTES: Final = 0o100
MODE_BITS: Final = 0o777
"""The bits of a mode that are stored: setuid and its like are not restored to anything."""
_NAMED: Final = 100
"""The maximum number of left out paths to list."""
_MODES: Final = ("file", "executable", "folder")
_USUAL: Final = MappingProxyType({"file": 0o644, "executable": 0o755, "folder": 0o755})


def kind_of_file(mode: int) -> str:
    """Return the kind whose common mode a file's is compared with."""
    return "executable" if mode & _OWNER_EXECUTES else "file"


def common_modes(files: Mapping[int, int], folders: Mapping[int, int]) -> dict[str, int]:
    """Return the mode of most files, executables and folders, from the number of each mode."""
    counts: dict[str, Counter[int]] = {kind: Counter() for kind in _MODES}
    for mode, count in files.items():
        counts[kind_of_file(mode)][mode & MODE_BITS] += count
    for mode, count in folders.items():
        counts["folder"][mode & MODE_BITS] += count
    return {
        kind: max(found, key=lambda mode: (found[mode], mode)) if found else _USUAL[kind]
        for kind, found in counts.items()
    }


class WorkspaceManifest(NamedTuple):
    """The modes and the empty folders of a workspace.

    Attributes:
        common: The mode of most files, executables and folders.
        modes: The modes of those that have another, by path.
        empty: The folders without anything to store.
        left_out: Paths that git never stores: `.git` in any spelling, and a link called
            `.gitmodules`; the first hundred.
        left_out_count: The number of these paths.
    """

    common: Mapping[str, int] = _USUAL
    modes: Mapping[bytes, int] = MappingProxyType({})
    empty: tuple[bytes, ...] = ()
    left_out: tuple[bytes, ...] = ()
    left_out_count: int = 0

    @classmethod
    def of(
        cls,
        files: Mapping[bytes, int],
        folders: Mapping[bytes, int],
        empty: Iterable[bytes],
        left_out: Iterable[bytes],
        *,
        common: Mapping[str, int] | None = None,
    ) -> WorkspaceManifest:
        """Make a manifest of regular files and folders with their modes.

        Args:
            files: The modes of the files; if `common` is given, only of those with another mode.
            folders: The modes of the folders.
            empty: The folders without anything to store.
            left_out: The paths that are not stored.
            common: The result of `common_modes` for all of them; computed if None.
        """
        if common is None:
            common = common_modes(Counter(files.values()), Counter(folders.values()))
        modes = {
            path: mode & MODE_BITS
            for path, mode in files.items()
            if mode & MODE_BITS != common[kind_of_file(mode)]
        }
        modes |= {
            path: mode & MODE_BITS
            for path, mode in folders.items()
            if mode & MODE_BITS != common["folder"]
        }
        left = sorted(left_out)
        return cls(common, modes, tuple(sorted(empty)), tuple(left[:_NAMED]), len(left))

    def mode_of(self, path: bytes, kind: str) -> int:
        """Return the mode of a path that is a "file", an "executable" or a "folder"."""
        return self.modes.get(path, self.common[kind])

    def encode(self) -> bytes:
        """Return the manifest as one line of ASCII."""
        value = {
            "version": _VERSION,
            "common": {kind: f"{mode:o}" for kind, mode in self.common.items()},
            "modes": {_text(path): f"{mode:o}" for path, mode in sorted(self.modes.items())},
            "empty": [_text(path) for path in self.empty],
            "left_out": [_text(path) for path in self.left_out],
            "left_out_count": self.left_out_count,
        }
        return json.dumps(value, separators=(",", ":")).encode("ascii")

    @classmethod
    def decode(cls, line: bytes) -> WorkspaceManifest:
        """Decode a manifest.

        Raises:
            ValueError: The line is invalid, or of a newer version.
        """
        try:
            value: Any = json.loads(line)
            if value["version"] != _VERSION:
                raise ValueError(f"version {value['version']!r} is not known here")
            return cls(
                {kind: _mode(value["common"][kind]) for kind in _MODES},
                {_path(path): _mode(mode) for path, mode in value["modes"].items()},
                tuple(map(_path, value["empty"])),
                tuple(map(_path, value["left_out"])),
                int(value["left_out_count"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"it is no manifest: {error!r}") from error


def _mode(text: str) -> int:
    return int(text, 8) & MODE_BITS


def _text(path: bytes) -> str:
    return os.fsdecode(path)


def _path(text: str) -> bytes:
    path = os.fsencode(text)
    parts = path.split(b"/")
    if any(part in {b"", b".", b".."} for part in parts) or b"\0" in path:
        raise ValueError(f"{text!r} is no path in a workspace")
    return path
