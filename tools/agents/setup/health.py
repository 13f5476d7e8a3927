"""Check whether what was installed in the agent programs is still there and works.

The program itself reports its version; Codex also reports which of our hooks it trusts.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from ...base.program_run import Ended, ProgramRun, ProgramRunner, run_program
from ..programs import codex
from ..programs.meter import object_of
from .installation import manifest_path
from .manifest import InstallationManifest, Places, Scope, read_manifest
from .pieces import PIECES, hook_line

_CLIENT: Final = "agentforge"
_LIST_ID: Final = 2
_RUN: Final = frozenset({"managed", "trusted"})
"""Trust values of hooks that run; `untrusted` and `modified` hooks are skipped silently."""
VERSION_TIMEOUT_S: Final = 10.0
LIST_TIMEOUT_S: Final = 30.0
_MAX_VERSION_BYTES: Final = 1 << 16
_MAX_LIST_BYTES: Final = 4 << 20
_VERSION: Final = re.compile(r"\d+(?:\.\d+)+(?:[-+][\w.+-]+)?")
_KEPT_WORDS: Final = 200


class ListedHook(NamedTuple):
    """A hook that Codex lists.

    Attributes:
        command: Its command line.
        trust: Codex's trust value: `trusted`, `managed`, `untrusted` or `modified`.
        enabled: Whether the person has left it enabled.
    """

    command: str
    trust: str
    enabled: bool

    @property
    def runs(self) -> bool:
        """Whether Codex calls it."""
        return self.enabled and self.trust in _RUN


def list_request(folder: str, version: str) -> bytes:
    """Return the request for the hooks of a conversation in a folder.

    Args:
        folder: The folder's absolute path.
        version: The version of this package, sent in the introduction.
    """
    hello = {"clientInfo": {"name": _CLIENT, "version": version}}
    messages: tuple[dict[str, Any], ...] = (
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "initialized"},
        {"id": _LIST_ID, "method": "hooks/list", "params": {"cwds": [folder]}},
    )
    return b"".join(json.dumps({"jsonrpc": "2.0", **one}).encode() + b"\n" for one in messages)


def is_answered(output: bytes) -> bool:
    """Return whether the answer is here; the server sends none if its input ends before that."""
    return _answer(output) is not None


def listed_hooks(output: bytes) -> list[ListedHook] | None:
    """Return the hooks in an answer; None if it lists none."""
    answer = _answer(output)
    result = None if answer is None else answer.get("result")
    folders = result.get("data") if isinstance(result, Mapping) else None
    if not isinstance(folders, list):
        return None
    return [hook for folder in folders for hook in _hooks_of(folder)]


def _hooks_of(folder: object) -> Iterator[ListedHook]:
    hooks = folder.get("hooks") if isinstance(folder, Mapping) else None
    for one in hooks if isinstance(hooks, list) else []:
        if isinstance(one, Mapping):
            command, trust = one.get("command"), one.get("trustStatus")
            yield ListedHook(str(command), str(trust), one.get("enabled", True) is True)


def _answer(output: bytes) -> Mapping[str, Any] | None:
    """Return the answer to our request, from complete lines."""
    *lines, _ = output.split(b"\n")
    for line in lines:
        found = object_of(line)
        if found is not None and found.get("id") == _LIST_ID and "method" not in found:
            return found
    return None


class Installed(NamedTuple):
    """One installation.

    Attributes:
        program: The agent program.
        scope: Whose conversations it is for.
        problems: Its faults; empty if there are none.
        commands: Our commands that the program runs.
    """

    program: str
    scope: Scope
    problems: tuple[str, ...]
    commands: tuple[str, ...]


def installed_programs(places: Places) -> list[Installed]:
    """Return each installation with its faults.

    Raises:
        ReadError: A manifest can't be read.
    """
    found = []
    for program in PIECES:
        for scope in Scope:
            manifest = read_manifest(manifest_path(places, program, scope))
            if manifest is not None:
                problems, commands = tuple(_problems(manifest)), tuple(manifest.commands)
                found.append(Installed(program, scope, problems, commands))
    return found


def _problems(manifest: InstallationManifest) -> list[str]:
    problems = []
    for name, digest in manifest.files.items():
        content = _content(name)
        if content is None:
            problems.append(f"{name} is missing")
        elif hashlib.sha256(content).hexdigest() != digest:
            problems.append(f"{name} was changed")
    for name, inserted in manifest.blocks.items():
        if inserted.encode() not in (_content(name) or b""):
            problems.append(f"{name} has not our lines as they were put in")
    for name, members in manifest.members.items():
        content = _content(name) or b""
        if any(one.encode() not in content for one in members):
            problems.append(f"{name} has not our lines as they were put in")
    problems += [f"{one} can't be run" for one in manifest.commands if shutil.which(one) is None]
    return problems


def _content(name: str) -> bytes | None:
    try:
        return Path(name).read_bytes()
    except OSError:
        return None


def codex_lacks_review(places: Places) -> bool:
    """Return whether Codex has our hooks, and no review of each of them by the person.

    Reads only what Codex itself saves of a review, and does not ask it whether that still holds;
    `codex_trust` does.
    """
    for scope in Scope:
        manifest = read_manifest(manifest_path(places, codex.NAME, scope))
        for name in () if manifest is None else manifest.blocks:
            saved = _content(str(places.codex(Scope.USER) / "config.toml")) or b""
            if _reviews(saved, name) < len(codex.EVENTS):
                return True
    return False


def _reviews(saved: bytes, file: str) -> int:
    """Return how many hooks of a file the person has reviewed, by Codex's configuration."""
    try:
        reviews = tomllib.loads(saved.decode()).get("hooks", {}).get("state", {}).items()
        ours = (f"{file}:", f"{os.path.realpath(file)}:")
        return sum(key.startswith(ours) and "trusted_hash" in one for key, one in reviews)
    except (ValueError, AttributeError, TypeError):
        return len(codex.EVENTS)  # a form that is not known says nothing


class SaidVersion(NamedTuple):
    """A program's answer to the question for its version.

    Attributes:
        version: The version; None without an answer.
        problem: Why there is no answer, or None.
    """

    version: str | None
    problem: str | None = None


class HookTrust(NamedTuple):
    """Codex's report of whether it runs our hooks.

    Attributes:
        listed: How many of our hooks it lists.
        refused: Its trust values of hooks that it does not run, each once, in order.
        problem: Why it gave no report, or None.
    """

    listed: int = 0
    refused: tuple[str, ...] = ()
    problem: str | None = None

    @property
    def holds(self) -> bool:
        """Whether it runs all of them."""
        return self.problem is None and self.listed > 0 and not self.refused


def find_command(command: str, environment: Mapping[str, str]) -> Path | None:
    """Return a program on PATH; relative folders of PATH are skipped."""
    found = shutil.which(command, path=environment.get("PATH", ""))
    return Path(found) if found is not None and os.path.isabs(found) else None


def said_version(
    program: Path,
    environment: Mapping[str, str],
    *,
    timeout_s: float = VERSION_TIMEOUT_S,
    run: ProgramRunner = run_program,
) -> SaidVersion:
    """Run `PROGRAM --version`, without a shell, and return the version it prints."""
    ended = _ended(
        ProgramRun(
            [str(program), "--version"],
            environment,
            timeout_s=timeout_s,
            max_output=_MAX_VERSION_BYTES,
        ),
        run,
    )
    if isinstance(ended, str):
        return SaidVersion(None, ended)
    if ended.cut_short == "time":
        return SaidVersion(None, f"it did not say its version within {timeout_s:g} s")
    found = _VERSION.search(ended.stdout.decode("utf-8", "replace"))
    if ended.exit_code != 0 or found is None:
        return SaidVersion(None, f"`--version` {_ending(ended)}")
    return SaidVersion(found[0])


def codex_trust(
    program: Path,
    project: Path,
    hooks: Collection[str],
    environment: Mapping[str, str],
    *,
    version: str,
    timeout_s: float = LIST_TIMEOUT_S,
    run: ProgramRunner = run_program,
) -> HookTrust:
    """Ask Codex's app server whether it runs our hooks in a project; no model is called.

    Args:
        program: Codex.
        project: The conversation's folder, absolute.
        hooks: The paths of our hook's command, one of which is installed in Codex.
        environment: The environment, which names Codex's own folder.
        version: The version of this package.
        timeout_s: How long it may take, in seconds.
        run: Runs programs.
    """
    ended = _ended(
        ProgramRun(
            [str(program), "app-server"],
            environment,
            stdin=list_request(str(project), version),
            timeout_s=timeout_s,
            max_output=_MAX_LIST_BYTES,
            until=is_answered,
        ),
        run,
    )
    if isinstance(ended, str):
        return HookTrust(problem=ended)
    listed = listed_hooks(ended.stdout)
    if listed is None:
        late = f"did not list its hooks within {timeout_s:g} s"
        return HookTrust(problem=late if ended.cut_short == "time" else _ending(ended))
    return _trust_of([one for one in listed if _is_ours(one, hooks)])


def _is_ours(hook: ListedHook, hooks: Collection[str]) -> bool:
    return hook.command in {hook_line(Path(one), codex.NAME) for one in hooks}


def _trust_of(ours: list[ListedHook]) -> HookTrust:
    refused = (one.trust if one.enabled else "off" for one in ours if not one.runs)
    return HookTrust(len(ours), tuple(dict.fromkeys(refused)))


def _ended(given: ProgramRun, run: ProgramRunner) -> Ended | str:
    """Return how a run ended, or why it could not start."""
    try:
        return run(given)
    except (OSError, ValueError) as error:
        return f"it can't be run: {error}"


def _ending(ended: Ended) -> str:
    """Return how a program ended that did not answer."""
    output = ended.stderr if ended.exit_code != 0 else ended.stdout
    said = output.decode("utf-8", "replace").split()
    how = f"ended with exit code {ended.exit_code}"
    return f"{how}: {' '.join(said)[-_KEPT_WORDS:]}" if said else f"{how}, without an answer"
