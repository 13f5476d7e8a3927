"""Sessions as resources, and a prompt to take one up: what a person puts into a context."""

from __future__ import annotations

import functools
import json
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Annotated, Any, Final

import anyio.to_thread
from attrs import evolve
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

from ...base.errors import AgentForgeError, ErrorKind
from ...base.files import OsFileSystem, read_beneath
from ...harness import SessionManager, SessionNotFound, SessionSummary
from .lines import MAX_MESSAGE_BYTES
from .tool import ERROR_META_KEY, advised, described
from .tools.session_access import SessionAccess

ROOT: Final = "agentforge://sessions/{session_id}"
MAX_ARTIFACT_BYTES: Final = MAX_MESSAGE_BYTES
"""The largest file that is read."""
EVENTS: Final = "agentforge://events/{after}"
MAX_EVENTS: Final = 200
"""The most events in one answer; its cursor leads to the next ones."""
_BEGIN: Final = "begin"
_NOW: Final = "now"
_COMPLETED: Final = 100
"""The most ids in a completion, by the protocol."""


class ArtifactNotFound(AgentForgeError, kind=ErrorKind.NOT_FOUND):
    """The session has recorded no such file, or its workspace no longer has it."""

    message = """session {session_id} has no file {path!r}: it is not recorded, or not in the
    workspace; nothing was changed. session_show lists the files."""
    session_id: str
    path: str


def add_resources(server: MCPServer[Any], sessions: SessionAccess) -> None:
    """Add the resources, the prompt, and the completion of their ids to a server.

    They only read, and call no observer.
    """
    unobserved = evolve(sessions, observers=())
    load, store = unobserved.lead, unobserved.store

    @server.resource(f"{ROOT}/session.yaml", mime_type="application/yaml")
    @_as_protocol_errors()
    def session_file(session_id: str) -> str:
        """The session's file as it is on disk: state, budget, history, artifacts."""
        load(session_id)
        data = store.read_document(session_id)
        if data is None:
            raise SessionNotFound(session_id, path=store.where)
        return data.decode()

    @server.resource(f"{ROOT}/briefing", mime_type="text/markdown")
    @_as_protocol_errors()
    def session_briefing(session_id: str) -> str:
        """The text to read first when taking up the session."""
        return unobserved.briefing(session_id)[1]

    @server.resource(f"{ROOT}/report", mime_type="text/html")
    @_as_protocol_errors()
    def session_report(session_id: str) -> str:
        """The session's story as one page: attempts, budget, gates, questions."""
        from ..pages.session_page import session_report as page_of
        from ..pages.values.material import PageSource

        session = load(session_id)[1]
        workspace = store.workspace_path(session_id)
        return page_of(PageSource(session, store, workspace=workspace))

    @server.resource(EVENTS, mime_type="application/json")
    @_as_protocol_errors()
    def all_events(after: str) -> str:
        """What happened to all sessions behind a cursor, "begin" or "now", and the next cursor."""
        return _events(unobserved.manager(), after, None)

    @server.resource(f"{ROOT}/events/{{after}}", mime_type="application/json")
    @_as_protocol_errors()
    def session_events(session_id: str, after: str) -> str:
        """The same of one session."""
        return _events(load(session_id)[0], after, session_id)

    @server.resource(f"{ROOT}/artifacts/{{+path}}", mime_type="application/octet-stream")
    @_as_protocol_errors()
    def session_artifact(session_id: str, path: str) -> str | bytes:
        """A file of the session's workspace that is recorded as made by its work."""
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
    @_as_protocol_errors()
    def take_up_session(
        session_id: Annotated[str, Field(description="The whole id of the session.")],
    ) -> str:
        """Go on with a session where it stands."""
        briefing = unobserved.briefing(session_id)[1]
        return (
            f"Take up the AgentForge session {session_id} and go on where it stands. Its record "
            f"follows; record what you do with the session's tools.\n\n{briefing}"
        )

    def listed() -> list[SessionSummary]:
        return unobserved.manager().list(on_unreadable=lambda _: None)

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


def _events(manager: SessionManager, after: str, session_id: str | None) -> str:
    """Return the events after a cursor as JSON, with the cursor of the next ones."""
    if after == _NOW:
        after = manager.end_of_events() if session_id is None else _passed(manager, session_id)
    feed = manager.events(None if after == _BEGIN else after, session_id=session_id, timeout_s=0)
    is_own = functools.cache(manager.store.is_own)
    found = [
        {"id": one.id, **one.event.to_dict()}
        for one in islice(feed, MAX_EVENTS)  # the cursor also passes those of strangers
        if one.event.session_id is None or is_own(one.event.session_id)
    ]
    return json.dumps({"events": found, "cursor": feed.cursor}, ensure_ascii=False)


def _passed(manager: SessionManager, session_id: str) -> str:
    """Return the cursor after all of a session's events."""
    feed = manager.events(session_id=session_id, timeout_s=0)
    deque(feed, maxlen=0)
    return feed.cursor


@contextmanager
def _as_protocol_errors() -> Iterator[None]:
    """Raise the block's errors as protocol errors, with the fields that tools return."""
    try:
        yield
    except (AgentForgeError, OSError) as error:
        missing = isinstance(error, SessionNotFound | ArtifactNotFound)
        code = INVALID_PARAMS if missing else INTERNAL_ERROR
        raise MCPError(code, advised(error), {ERROR_META_KEY: described(error)}) from error
