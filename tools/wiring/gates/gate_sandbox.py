"""The gates' port, implemented with the sandbox and the mounted test kit."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import define, evolve, field

from ...agents.running.scratch_folder import put_file, scratch_folder
from ...base.data_folder import read_plain
from ...workflows.gate_port import GateExecution, GatePlaces, GateUnavailable
from ...workflows.submitted_work import require_repository
from ..phases.executors import phase_result
from .gate_kit import KIT, SERVE_KIT, prepare_kit
from .gate_packages import PACKAGES, prepare_packages

if TYPE_CHECKING:
    from ...sandbox import ExecutionPolicy

_PLACES: Final = GatePlaces(workspace="/app", kit=KIT, scratch="/tmp")  # noqa: S108 (the guest's)
_MAX_REPORT_BYTES: Final = 32 << 20


@define(eq=False)
class SandboxGates:
    """Runs gates in the sandbox; implements `workflows.gate_port.GateSandbox`.

    Args:
        policy: Limits and environment; the sandbox's default if None.
        kit_directory: The directory of the test kit; `$XDG_CACHE_HOME/agentforge` (by default
            `~/.cache/agentforge`) if None.
        wheels: The folders whose wheels gates may use; any if None.
    """

    _policy: ExecutionPolicy | None = None
    _kit_directory: Path | None = field(default=None, kw_only=True)
    _wheels: Collection[Path] | None = field(default=None, kw_only=True)
    _kit: Path | None = field(default=None, init=False)
    _packages: Path | None = field(default=None, init=False)
    _packaged: dict[tuple[str, ...], SandboxGates] = field(factory=dict, init=False)

    @property
    def places(self) -> GatePlaces:
        """The guest's paths of the workspace, the kit, the packages and the scratch directory."""
        return _PLACES if self._packages is None else evolve(_PLACES, packages=PACKAGES)

    def with_packages(self, packages: Sequence[str]) -> SandboxGates:
        """Return a copy with packages; see `PackagedSandbox.with_packages`.

        Raises:
            PackageUnusable: A package is missing, or is not pure Python.
            RepositoryNotAllowed: A wheel is in a folder that this runner may not read.
        """
        wanted = tuple(packages)
        if self._wheels is not None:
            for name in wanted:
                if name.endswith(".whl"):
                    require_repository(name, self._wheels)
        found = self._packaged.get(wanted)
        if found is None or found._packages is None or not found._packages.is_dir():
            found = SandboxGates(self._policy, kit_directory=self._kit_directory)
            found._packages = prepare_packages(wanted, self._kit_directory or _cache())
            self._packaged[wanted] = found
        return found

    def prepare(self, *, kit: bool) -> None:
        """Prepare the test kit, if it is requested; see `GateSandbox.prepare`.

        Raises:
            GateUnavailable: pytest is not installed, or the kit can't be written.
        """
        if kit:
            self.kit()

    def run(
        self,
        code: str,
        *,
        files: Mapping[str, bytes],
        report: str,
        deadline_s: float | None = None,
        kit: bool = False,
    ) -> GateExecution:
        """Run code in a fresh workspace; see `GateSandbox.run`.

        Raises:
            GateUnavailable: pytest is requested and not installed, or the kit can't be written.
            SandboxUnavailable: This machine or process can't run guests.
        """
        from ...sandbox import ExecutionPolicy, ReadOnlyMount, create_sandbox

        policy = self._policy if self._policy is not None else ExecutionPolicy()
        if kit:
            mount = ReadOnlyMount(self.kit(), KIT)
            code = SERVE_KIT + code
            policy = evolve(policy, mounts=(*policy.mounts, mount))
        if self._packages is not None:
            mount = ReadOnlyMount(self._packages, PACKAGES)
            policy = evolve(policy, mounts=(*policy.mounts, mount))
        with scratch_folder() as (workspace, root):
            for path, content in files.items():
                put_file(root, path, content)
            with create_sandbox(workspace=workspace, policy=policy) as sandbox:
                result = sandbox.execute(code, timeout=deadline_s)
            left = _read(workspace / report)
        # The workspace is removed at this point.
        return GateExecution(result=evolve(phase_result(result), workspace=None), report=left)

    def kit(self) -> Path:
        """Return the directory of the test kit; the first call on a machine creates it.

        Raises:
            GateUnavailable: pytest or one of its packages is not installed, or the kit can't be
                written.
        """
        if self._kit is None or not self._kit.is_dir():
            self._kit = prepare_kit(self._kit_directory or _cache())
        return self._kit


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        root = Path(base) if base and os.path.isabs(base) else Path.home() / ".cache"
    except RuntimeError as error:
        raise GateUnavailable(
            "there is no home directory to keep the test kit in; name a place with XDG_CACHE_HOME"
        ) from error
    return root / "agentforge"


def _read(path: Path) -> bytes | None:
    """Return the content of the report, or None; links are not followed."""
    try:
        data = read_plain(os.fspath(path), most=_MAX_REPORT_BYTES + 1, flags=os.O_NOFOLLOW)
    except OSError:
        return None
    return data if len(data) <= _MAX_REPORT_BYTES else None
