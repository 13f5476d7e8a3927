"""Executions in this process: a held workspace served to an interpreter, and what changed in it."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import evolve

from .errors import InputFileError
from .forbidden_workspaces import refuse_trusted
from .guest_files import FileService, WorkspaceProvider, place_files
from .guest_streams import StreamProvider
from .guest_temporary_files import TemporaryFiles
from .host_functions import CallRecorder
from .interpreter import class_of
from .interpreter_lease import InterpreterTurns, Served
from .outcome import result_of
from .policy import ExecutionPolicy
from .quota import Quota
from .request import Request
from .result import SandboxResult
from .sandbox_logging import EventLogger
from .workspace import open_workspace
from .workspace_usage import UsageBook, usage_book


class ExecutionsHere:
    """Runs checked requests over one workspace that somebody holds."""

    def __init__(
        self,
        workspace: Path,
        policy: ExecutionPolicy,
        *,
        stateful: bool,
        idle_s: float,
        recorder: CallRecorder | None = None,
    ) -> None:
        """Open nothing yet.

        Args:
            workspace: The host directory the guest sees.
            policy: The limits.
            stateful: Keep one interpreter from one execution to the next.
            idle_s: How long a kept one may rest, in seconds.
            recorder: The host's functions that code may call, or None.
        """
        self._workspace = workspace
        self._policy = policy
        self._turns = InterpreterTurns(
            workspace, policy, stateful=stateful, idle_s=idle_s, recorder=recorder
        )

    def close(self) -> None:
        """End the interpreter that is kept, once an execution that runs in it is over."""
        self._turns.close()

    def execute(
        self,
        root: int,
        request: Request,
        stop: threading.Event,
        cache: Path | None,
        afterwards: contextlib.ExitStack,
        events: EventLogger,
    ) -> SandboxResult:
        """Run a checked request.

        Args:
            root: A descriptor of the workspace, which somebody holds.
            request: What to run.
            stop: Ends it early.
            cache: The directory of compiled modules.
            afterwards: Takes what is to be done once the result is on its way.
            events: Told of what the result cannot say.

        Raises:
            InputFileError: One of the request's files could not be put into the workspace.
            WorkspaceError: The source of a mount is gone or was replaced.
            SandboxClosed: It was closed.
            SandboxUnavailable: No interpreter can be opened now.
        """
        seen = os.fstat(root)
        book = usage_book((seen.st_dev, seen.st_ino))
        book.begin(root)
        try:
            provider = self._provider(root, book)
            _place(provider, request.files)
            streams = StreamProvider(request.callbacks, self._policy.output_bytes)
            with self._read_only_mounts(cache) as mounted:
                kind = class_of(self._policy, cache)
                served = Served(
                    files=provider,
                    temporary=TemporaryFiles(provider.room),
                    streams=streams,
                    mounted=mounted,
                )
                ran = self._turns.run(request, stop, kind, served, afterwards)
            streams.finish()
        finally:
            book.end(root)
        changes = provider.changes.summary()
        if not self._still_there(root):
            events.warning("execution.workspace_lost", workspace=str(self._workspace))
            changes = evolve(changes, complete=False)
        return result_of(
            self._workspace,
            ran,
            changes,
            exceeded=provider.room.exceeded,
            stream_errors=streams.errors,
        )

    def _provider(
        self, root: int, book: UsageBook | None, *, hide: bool = True
    ) -> WorkspaceProvider:
        quota = Quota(
            workspace_bytes=self._policy.workspace_bytes,
            workspace_files=self._policy.workspace_files,
            file_bytes=self._policy.file_bytes,
            temporary_bytes=self._policy.memory_bytes,
        )
        return WorkspaceProvider(root, quota, book, hide=hide)

    @contextlib.contextmanager
    def _read_only_mounts(self, cache: Path | None) -> Iterator[dict[str, FileService]]:
        """The services of the policy's mounts, by guest path, their directories held open."""
        with contextlib.ExitStack() as opened:
            services: dict[str, FileService] = {}
            for mount in self._policy.mounts:
                directory = open_workspace(mount.source)
                opened.callback(os.close, directory)
                refuse_trusted(mount.source, cache, writable=False)
                services[mount.target] = self._provider(directory, None, hide=False)
            yield services

    def _still_there(self, root: int) -> bool:
        try:
            now = os.stat(self._workspace, follow_symlinks=False)
        except OSError:
            return False
        return os.path.samestat(now, os.fstat(root))


def _place(provider: WorkspaceProvider, files: Mapping[str, bytes]) -> None:
    if not files:
        return
    try:
        place_files(provider, files)
    except OSError as error:
        names = list(files)
        failed = str(error.filename)
        raise InputFileError(
            failed, error.strerror or "it cannot be written", names[: names.index(failed)]
        ) from error
