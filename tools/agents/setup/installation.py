"""Install our pieces in an agent program and remove them: first planned, then done.

A file of the person's only ever gets one block of lines, or members if it is JSON, and uninstalling
removes exactly these. The manifest is written before anything else, so that an installation that
was killed can be removed, too.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import shutil
import stat
import sysconfig
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from ...base.errors import AgentForgeError, ErrorKind
from ...base.files import AtomicFileWriter, OsFileSystem, make_durable_directory
from .json_text import put_in, take_out
from .manifest import InstallationManifest, Places, Scope, read_manifest, write_manifest
from .pieces import BEGIN, END, Commands, Pieces

_DISTRIBUTION = "agentforge-sessions"


class SetupRefused(AgentForgeError, kind=ErrorKind.REFUSED):
    """An agent program's files can't be changed; nothing was changed."""

    message = "{path}: {reason}. Nothing was changed."
    path: Path
    reason: str


class InstallAction(StrEnum):
    """The kind of change to a file."""

    WRITE = "write"
    ADD = "add to"
    REMOVE = "remove"
    TAKE_OUT = "take out of"
    KEEP = "keep a copy of"


class Step(NamedTuple):
    """One change of one file.

    Attributes:
        change: The kind of change.
        path: The file.
        content: Its content after the change, or None if it is removed.
        kept: Where the person's own version of one of our files is saved, or None.
        inserted: The part of it that we put into a file of the person's.
        members: The same for a JSON file.
    """

    change: InstallAction
    path: Path
    content: bytes | None
    kept: Path | None = None
    inserted: bytes = b""
    members: tuple[str, ...] = ()


def manifest_path(places: Places, program: str, scope: Scope) -> Path:
    """Return the path of the manifest of a program's installation."""
    return places.state(scope) / f"{program}.json"


# --------------------------------------------------------------------------------------- installing


def plan_install(pieces: Pieces, former: InstallationManifest | None) -> list[Step]:
    """Return the changes that install our pieces; empty if they are already installed.

    Args:
        pieces: What to install.
        former: The manifest of an earlier installation, or None.

    Raises:
        SetupRefused: A file is in the way, is read-only, or has a form that the program can't read.
    """
    earlier = {} if former is None else former.files
    steps = [
        Step(InstallAction.REMOVE, Path(name), None)
        for name, digest in earlier.items()
        if Path(name) not in pieces.files and _digest(_read(Path(name)) or b"") == digest
    ]
    for path, content in pieces.files.items():
        if _read(path) != content:
            _require_writable(path)
            steps.append(Step(InstallAction.WRITE, path, content))
    for path, block in pieces.blocks.items():
        before = _read(_target(path)) or b""
        inserted = "" if former is None else former.blocks.get(str(path), "")
        plain = _taken_out(before, inserted)
        added = (b"" if not plain or plain.endswith(b"\n") else b"\n") + block.encode()
        if inserted.encode() == added and added in before:
            continue
        _require_toml(path, plain, "it is not TOML")
        _require_toml(path, plain + added, "our lines don't fit in")
        _require_writable(_target(path))
        steps.append(Step(InstallAction.ADD, path, plain + added, inserted=added))
    for path, wanted in pieces.members.items():
        step = _plan_members(path, wanted, pieces, former)
        steps += [] if step is None else [step]
    return steps


def _plan_members(
    path: Path, wanted: Mapping[str, Any], pieces: Pieces, former: InstallationManifest | None
) -> Step | None:
    before = _read(_target(path)) or b""
    try:
        text = before.decode()
        if former is None:  # they may have come with a clone
            plain = take_out(text, None, [str(one) for one in pieces.commands])
        else:
            plain = take_out(text, former.members.get(str(path), []), former.commands)
        after, members = put_in(plain, wanted)
    except ValueError as error:
        raise SetupRefused(path, f"our members don't fit in ({error})") from error
    if after == text and former is not None:
        return None
    _require_writable(_target(path))
    return Step(InstallAction.ADD, path, after.encode(), members=tuple(members))


def install(pieces: Pieces, steps: list[Step], manifest_file: Path) -> None:
    """Make the planned changes.

    Raises:
        WriteError: A file could not be written; `uninstall` removes what was installed.
    """
    former = read_manifest(manifest_file) or InstallationManifest({}, {}, [], [])
    made = [str(one) for one in _missing(pieces, manifest_file)]
    manifest = InstallationManifest(
        {str(path): _digest(content) for path, content in pieces.files.items()},
        {
            **former.blocks,
            **{str(one.path): one.inserted.decode() for one in steps if one.inserted},
        },
        list(dict.fromkeys([*former.created, *made])),
        [str(one) for one in pieces.commands],
        {**former.members, **{str(one.path): list(one.members) for one in steps if one.members}},
    )
    if steps or manifest != former:
        write_manifest(manifest_file, manifest)
    for step in steps:
        if step.content is None:
            step.path.unlink(missing_ok=True)
            continue
        _write(_target(step.path) if step.change is InstallAction.ADD else step.path, step.content)


def _require_toml(path: Path, content: bytes, problem: str) -> None:
    try:
        tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SetupRefused(path, f"{problem} ({error})") from error


def _taken_out(content: bytes, inserted: str) -> bytes:
    """Return a file without our block, even if its lines were edited since."""
    whole = inserted.encode()
    if whole and whole in content:
        return content.replace(whole, b"", 1)
    begin = content.find(BEGIN.encode())
    end = content.find(END.encode(), begin)
    if begin < 0 or end < 0:
        return content
    before = content[:begin]
    if inserted.startswith("\n"):
        before = before.removesuffix(b"\n")
    return before + content[end + len(END) :].removeprefix(b"\n")


# ------------------------------------------------------------------------------------- uninstalling


def plan_uninstall(manifest: InstallationManifest, kept_in: Path) -> list[Step]:
    """Return the changes that undo the installation.

    Raises:
        SetupRefused: A file is read-only.
    """
    steps = []
    for name, digest in manifest.files.items():
        path = Path(name)
        content = _read(path)
        if content is None:
            continue
        if _digest(content) != digest:
            steps.append(Step(InstallAction.KEEP, path, content, kept_in / path.name))
        steps.append(Step(InstallAction.REMOVE, path, None))
    for name, inserted in manifest.blocks.items():
        path = Path(name)
        before = _read(_target(path))
        if before is None:
            continue
        steps += _plan_removal(path, before, _taken_out(before, inserted), manifest)
    for name, members in manifest.members.items():
        path = Path(name)
        before = _read(_target(path))
        if before is None:
            continue
        try:
            after = take_out(before.decode(), members, manifest.commands).encode()
        except ValueError as error:
            raise SetupRefused(path, f"it is no text ({error})") from error
        steps += _plan_removal(path, before, after, manifest)
    return steps


def _plan_removal(
    path: Path, before: bytes, after: bytes, manifest: InstallationManifest
) -> Iterator[Step]:
    if after == before:
        return
    _require_writable(_target(path))
    if not after and str(path) in manifest.created:
        yield Step(InstallAction.REMOVE, path, None)
    else:
        yield Step(InstallAction.TAKE_OUT, path, after)


def uninstall(manifest: InstallationManifest, steps: list[Step], manifest_file: Path) -> None:
    """Make the planned changes; also remove folders that were created and are empty again.

    Raises:
        WriteError: A file could not be written.
        OSError: A file could not be removed.
    """
    for step in steps:
        match step.change:
            case InstallAction.KEEP if step.kept is not None:
                make_durable_directory(OsFileSystem(), step.kept.parent)
                _write(step.kept, step.content or b"")
            case InstallAction.REMOVE:
                step.path.unlink(missing_ok=True)
            case _:
                _write(_target(step.path), step.content or b"")
    manifest_file.unlink(missing_ok=True)
    for name in sorted(manifest.created, key=len, reverse=True):
        with suppress(OSError):
            Path(name).rmdir()
    _hand_on([one for one in manifest.created if os.path.isdir(one)], manifest_file)


def _hand_on(folders: list[str], manifest_file: Path) -> None:
    """Have another installation remove folders that hold its files, too, when it is removed."""
    above = [one for one in manifest_file.parents if str(one) in folders]
    for other in sorted(above[0].rglob("*.json")) if above else ():
        manifest = read_manifest(other)
        if manifest is not None:
            created = list(dict.fromkeys([*manifest.created, *folders]))
            write_manifest(other, manifest._replace(created=created))
            return


# ---------------------------------------------------------------------------------------- the files


def _missing(pieces: Pieces, manifest_file: Path) -> Iterator[Path]:
    """Yield the files and folders that do not exist yet."""
    for path in (*pieces.files, *pieces.blocks, *pieces.members, manifest_file):
        if path not in pieces.files and path != manifest_file and not os.path.lexists(path):
            yield path
        for folder in path.parents:
            if os.path.lexists(folder):
                break
            yield folder


def _target(path: Path) -> Path:
    """Return the file to write: a configuration may be a link to the person's own file."""
    return Path(os.path.realpath(path))


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SetupRefused(path, f"it can't be read ({error.strerror})") from error


def _require_writable(path: Path) -> None:
    for one in (path, *path.parents):
        try:
            mode = one.stat().st_mode
        except FileNotFoundError:
            continue
        except OSError as error:
            raise SetupRefused(one, f"it can't be reached ({error.strerror})") from error
        if one == path and not stat.S_ISREG(mode):
            raise SetupRefused(one, "it is no regular file")
        if one != path and not stat.S_ISDIR(mode):
            raise SetupRefused(one, "it is no folder")
        if not mode & stat.S_IWUSR:
            raise SetupRefused(one, "it is read-only")
        if one != path:
            return


def _write(path: Path, content: bytes) -> None:
    make_durable_directory(OsFileSystem(), path.parent)
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        mode = 0o644
    with AtomicFileWriter(path, mode=mode) as file:
        file.write(content)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def own_commands(program: str) -> Commands:
    """Return the commands in the directory of the running one.

    Args:
        program: The path or name with which this process was started.

    Raises:
        SetupRefused: There is no `agentforge-hook`.
    """
    folders = [os.path.dirname(os.path.abspath(program)) if os.sep in program else ""]
    folders += [sysconfig.get_path("scripts"), os.environ.get("PATH", "")]
    hook = shutil.which("agentforge-hook", path=os.pathsep.join(filter(None, folders)))
    if hook is None:
        raise SetupRefused(
            Path(folders[1]), "there is no agentforge-hook; install this package again"
        )
    found = Path(os.path.abspath(hook))
    version = importlib.metadata.version(_DISTRIBUTION)
    return Commands(found, found.with_name("agentforge"), version)
