"""Runs programs that answer a prompt in a jail."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import evolve, field, frozen

from ...base.program_run import Ended, ProgramRun

if TYPE_CHECKING:
    from ...jail import JailPolicy, JailResult

_FOLDER_PREFIX: Final = "agentforge-agent-"
_KILLED: Final = -9


@frozen(eq=False)
class JailedPrograms:
    """Runs programs, each in its own jail. A `base.program_run.ProgramRunner`.

    A program sees the system's folders, its own toolchain, what the policy shows, and its working
    folder; its environment has only the variables that the run gives it.

    Args:
        policy: Limits and visible paths; the jail's default if None. Its network setting is
            ignored.
        network: Whether it has the host's network.
        private: Folders that are never shown, absolute.
    """

    _policy: JailPolicy | None = None
    _network: bool = field(default=False, kw_only=True)
    _private: tuple[Path, ...] = field(default=(), kw_only=True)

    def __call__(self, run: ProgramRun) -> Ended:
        """Run a program until it ends or reaches a limit.

        Raises:
            OSError: No jail can be created for it, or the program does not exist.
        """
        from ...jail import Jail, JailError, JailPolicy

        policy = self._policy if self._policy is not None else JailPolicy()
        words = [os.fsdecode(word) for word in run.words]
        with tempfile.TemporaryDirectory(prefix=_FOLDER_PREFIX) as empty:
            try:
                jail = Jail(
                    evolve(
                        policy,
                        network=self._network,
                        private=(*policy.private, *self._private),
                        limits=evolve(
                            policy.limits,
                            output_bytes=min(policy.limits.output_bytes, run.max_output),
                        ),
                    ),
                    programs=(words[0],),
                )
                result = jail.run(
                    words,
                    workspace=Path(empty if run.directory is None else run.directory),
                    stdin=run.stdin,
                    environment=run.environment,
                    deadline_s=run.timeout_s,
                )
            except JailError as error:
                raise OSError(str(error)) from error
        return _ended(result)


def _ended(result: JailResult) -> Ended:
    from ...jail import StopReason

    if result.stopped is None:
        return Ended(result.exit_code or 0, result.stdout, result.stderr)
    if result.stopped is StopReason.DEADLINE:
        return Ended(_KILLED, result.stdout, result.stderr, "time")
    if result.stopped is StopReason.OUTPUT:
        return Ended(_KILLED, result.stdout, result.stderr, "output")
    words = f"\nended by the jail's limit on {result.stopped.value}".encode()
    return Ended(_KILLED, b"", result.stderr + words)
