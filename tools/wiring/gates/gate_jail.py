"""The port of gates by command, implemented with a jail, or without walls if a person said so."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import define, field

from ...agents.running.scratch_folder import copy_workspace, put_file, scratch_folder
from ...base.files import OsFileSystem
from ...base.files.filesystem import READ_FLAGS
from ...base.files.safe_path import directory_beneath
from ...base.files.trees import Entry, walk_tree
from ...base.text.path_pattern import matches
from ...workflows.converters import as_tuple
from ...workflows.gate_port import CommandExecution, CommandRequest, GateUnavailable
from ..phases.executors import changes_between, jail_phase_result

if TYPE_CHECKING:
    from ...jail import CommandWalls, JailPolicy

_MAX_REPORT_BYTES: Final = 32 << 20
_MAX_REPORTS: Final = 5_000
_MAX_DEPTH: Final = 64
_OWN_REPORT: Final = ".agentforge-report.xml"


@define(eq=False)
class JailGates:
    """Runs gates' commands, each in a jail and on a copy of the files.

    Implements `workflows.gate_port.GateCommands`. It sets `AGENTFORGE_REPORT`, and the variables
    that make pytest, jest-junit and gotestsum write a JUnit report there.

    Args:
        policy: Limits and visible paths of the commands; the jail's default if None.
        programs: Programs that the commands start besides their own.
    """

    _policy: JailPolicy | None = None
    _programs: tuple[str, ...] = field(default=(), converter=as_tuple, kw_only=True)
    _made: CommandWalls | None = field(default=None, init=False)

    def prepare(self, requests: Iterable[CommandRequest]) -> None:
        """Check that jails can be created and that the commands' programs exist.

        Raises:
            GateUnavailable: A jail can't be created, or a program is missing.
        """
        from ...jail import CommandMissing, JailError

        try:
            self._walls().check()
            for request in requests:
                self._walls().require(shlex.split(request.command))
        except (JailError, CommandMissing) as error:
            raise GateUnavailable(str(error)) from error

    def run(
        self,
        request: CommandRequest,
        *,
        files: Mapping[str, bytes],
        folder: Path | None = None,
        left_out: Collection[str] = (),
    ) -> CommandExecution:
        """Run a command in a fresh workspace; see `GateCommands.run`.

        Raises:
            GateUnavailable: No jail can be created, or the program is missing.
        """
        from ...jail import JailError
        from ...sandbox.workspaces.workspace_tree import take_snapshot

        wanted = _pattern(request)
        with scratch_folder() as (workspace, root):
            if folder is not None:
                # An earlier run's report proves nothing about this one.
                copy_workspace(
                    folder,
                    root,
                    left_out=lambda path: (
                        path in left_out
                        or path in files
                        or (wanted is not None and matches(wanted, path))
                    ),
                )
            for path, content in files.items():
                if wanted is None or not matches(wanted, path):
                    put_file(root, path, content)
            before = take_snapshot(root)
            try:
                result = self._walls().run(
                    shlex.split(request.command),
                    workspace=workspace,
                    environment=self._variables(request, workspace),
                    deadline_s=request.deadline_s,
                )
            except JailError as error:
                raise GateUnavailable(str(error)) from error
            changes = changes_between(before, take_snapshot(root))
            reports = {} if wanted is None else _reports(root, wanted)
        phase = jail_phase_result(result, changes, None)
        if request.report == "tap":
            reports = {"standard output": result.stdout}
        missing = self._walls().missing(result, shlex.split(request.command))
        return CommandExecution(
            result=phase,
            reports=reports,
            sealed=result.sealed,
            missing=None if missing is None else missing.hint,
        )

    def _variables(self, request: CommandRequest, workspace: Path) -> dict[str, str]:
        """Return a command's variables: the path of its report, and where its imports begin.

        Common test runners take the report's path from a variable of their own.

        Without the latter, an environment with an editable install of the project (`pip install
        -e`) would import from a folder that no jail shows; one with a copy of the project would
        test that copy.
        """
        seen, variables = self._walls().sees(workspace), dict[str, str]()
        if request.report == "junit" and request.report_path is None:
            path = f"{seen}/{_OWN_REPORT}"
            variables = {
                "AGENTFORGE_REPORT": path,
                "PYTEST_ADDOPTS": f"--junitxml={path}",
                "JEST_JUNIT_OUTPUT_FILE": path,
                "GOTESTSUM_JUNITFILE": path,
            }
        own = self._policy.environment if self._policy is not None else {}
        if request.import_root is not None and "PYTHONPATH" not in own:
            variables["PYTHONPATH"] = f"{seen}/{request.import_root}".rstrip("/")
        return variables

    def _walls(self) -> CommandWalls:
        from ...jail import JailPolicy, command_walls

        if self._made is None:
            policy = self._policy if self._policy is not None else JailPolicy()
            self._made = command_walls(policy, programs=self._programs)
        return self._made


def _pattern(request: CommandRequest) -> str | None:
    """Return the glob that a report's path has to match; None if no file is expected."""
    return (request.report_path or _OWN_REPORT) if request.report == "junit" else None


def _reports(root: int, wanted: str) -> dict[str, bytes]:
    """Read the reports that a run left; links are not followed."""
    fs = OsFileSystem()
    found: dict[str, bytes] = {}
    left = _MAX_REPORT_BYTES

    def enter(entry: Entry) -> bool:
        return len(entry.names) < _MAX_DEPTH

    for entry in walk_tree(fs, root, enter=enter, onerror=lambda _: None):
        path = "/".join(entry.names)
        if entry.is_directory or not matches(wanted, path):
            continue
        try:
            with directory_beneath(fs, root, entry.names[:-1]) as folder:
                fd = os.open(entry.name, READ_FLAGS, dir_fd=folder)
        except OSError:
            continue
        with os.fdopen(fd, "rb") as file:
            found[path] = file.read(left + 1)
        left -= len(found[path])
        if left < 0 or len(found) > _MAX_REPORTS:
            return {path: b""}  # above the limit of every reader: no report at all
    return found
