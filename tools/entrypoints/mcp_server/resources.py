"""Sessions as resources, and a prompt that takes one up: what a person puts into a context."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Annotated, Any, Final

import anyio.to_thread
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
)
from pydantic import Field

from ...durable import OsFileSystem, read_beneath
from ...errors import AgentForgeError, ErrorKind
from ...harness import (
    Clock,
    SessionManager,
    SessionNotFound,
    SessionSummary,
)
from ...harness.session_ports import LocalSessions
from ...project.choices import DEFAULT_PARTS
from .errors import McpServerError
from .session_tools import lead
from .stdio import MAX_MESSAGE_BYTES
from .tool import ERROR_META_KEY, advised, described

ROOT: Final = "agentforge://sessions/{session_id}"
MAX_ARTIFACT_BYTES: Final = MAX_MESSAGE_BYTES
"""The largest file that is read."""
_COMPLETED: Final = 100
"""How many ids a completion may have, by the protocol."""


class ArtifactNotFound(McpServerError):
    """A session has recorded no such file, or it is no longer in its workspace.

    Attributes:
        session_id: The session.
        path: The file.
    """

    kind = ErrorKind.NOT_FOUND

    def __init__(self, session_id: str, path: str) -> None:
        super().__init__(
            f"session {session_id} has no file {path!r}: it is not recorded, or not in the "
            "workspace; nothing was changed. session_show lists the files."
        )
        self.session_id = session_id
        self.path = path


def add_resources(
    server: MCPServer[Any],
    store: LocalSessions,
    clock: Clock,
    *,
    briefing_shows: Collection[str] = DEFAULT_PARTS,
) -> None:
    """Add the resources, the prompt, and the completion of their ids to a server.

    All of them read and change nothing. `briefing_shows` is as of `SessionManager`.
    """
    load = partial(lead, store, clock=clock, briefing_shows=briefing_shows)

    @server.resource(f"{ROOT}/session.yaml", mime_type="application/yaml")
    def session_file(session_id: str) -> str:
        """The session's file as it is on disk: state, budget, history, artifacts."""
        with _as_protocol_errors():
            load(session_id)
            data = store.read_document(session_id)
            if data is None:
                raise SessionNotFound(session_id, path=store.where)
            return data.decode()

    @server.resource(f"{ROOT}/briefing", mime_type="text/markdown")
    def session_briefing(session_id: str) -> str:
        """The text to read first when taking up the session."""
        with _as_protocol_errors():
            return load(session_id)[0].briefing()

    @server.resource(f"{ROOT}/report", mime_type="text/html")
    def session_report(session_id: str) -> str:
        """The session's story as one page: attempts, budget, gates, questions."""
        from ...pages.session_page import session_report as page_of

        with _as_protocol_errors():
            session = load(session_id)[1]
            return page_of(session, store, workspace=store.workspace_path(session_id))

    @server.resource(f"{ROOT}/artifacts/{{+path}}", mime_type="application/octet-stream")
    def session_artifact(session_id: str, path: str) -> str | bytes:
        """A file of the session's workspace that is recorded as made by its work."""
        with _as_protocol_errors():
            _, session = load(session_id)
            is_recorded = path in {one.path for one in session.artifacts}
            workspace = store.workspace_path(session_id)
            data = None
            if is_recorded:
                limit = MAX_ARTIFACT_BYTES
                data = read_beneath(OsFileSystem(), workspace, path, max_bytes=limit)
            if data is None:
                raise ArtifactNotFound(session_id, path)
        with suppress(UnicodeDecodeError):
            return data.decode()
        return data

    @server.prompt(title="Take up a session")
    def take_up_session(
        session_id: Annotated[str, Field(description="The whole id of the session.")],
    ) -> str:
        """Go on with a session where it stands."""
        with _as_protocol_errors():
            briefing = load(session_id)[0].briefing()
        return (
            f"Take up the AgentForge session {session_id} and go on where it stands. Its briefing "
            f"follows; record what you do with the session's tools.\n\n{briefing}"
        )

    def listed() -> list[SessionSummary]:
        return SessionManager(store, clock=clock).list(on_unreadable=lambda _: None)

    async def complete(
        _: PromptReference | ResourceTemplateReference,
        argument: CompletionArgument,
        __: CompletionContext | None,
    ) -> Completion | None:
        if argument.name != "session_id":
            return None
        found = [
            one.session_id
            for one in await anyio.to_thread.run_sync(listed)
            if one.session_id.startswith(argument.value)
        ]
        return Completion(
            values=found[:_COMPLETED], total=len(found), has_more=len(found) > _COMPLETED
        )

    register: Callable[[], Callable[[object], object]] = server.completion
    register()(complete)


@contextmanager
def _as_protocol_errors() -> Iterator[None]:
    """Raise what goes wrong as an error of the protocol, with the fields that tools give too."""
    try:
        yield
    except (AgentForgeError, OSError) as error:
        missing = isinstance(error, SessionNotFound | ArtifactNotFound)
        code = INVALID_PARAMS if missing else INTERNAL_ERROR
        raise MCPError(code, advised(error), {ERROR_META_KEY: described(error)}) from error
