"""What an agent program reports about itself: its version, and which of our hooks it runs."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from ...base.program_run import Ended, ProgramRunner, Run, run_program
from ..programs import codex
from ..programs.codex_hook_list import ListedHook, is_answered, list_request, listed_hooks

VERSION_TIMEOUT_S: Final = 10.0
LIST_TIMEOUT_S: Final = 30.0
_MAX_VERSION_BYTES: Final = 1 << 16
_MAX_LIST_BYTES: Final = 4 << 20
_VERSION: Final = re.compile(r"\d+(?:\.\d+)+(?:[-+][\w.+-]+)?")
_KEPT_WORDS: Final = 200


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
        Run(
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
        Run(
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
    return hook.command in {f"{shlex.quote(one)} {codex.NAME}" for one in hooks}


def _trust_of(ours: list[ListedHook]) -> HookTrust:
    refused = (one.trust if one.enabled else "off" for one in ours if not one.runs)
    return HookTrust(len(ours), tuple(dict.fromkeys(refused)))


def _ended(given: Run, run: ProgramRunner) -> Ended | str:
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
