"""Run the server: assemble its parts, serve over a transport, and stop."""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

import anyio
from anyio.abc import TaskStatus
from attrs import evolve, field, frozen

from ...base.event_log import get_logger
from ...base.settings.choices import DEFAULT_PARTS
from ...base.settings.configuration import RepositoryConfiguration
from ...fleet.stores import is_database, open_sessions
from ...harness import SessionObserver
from ...harness.lazy import Lazy
from ...harness.session_layout import DEFAULT_BASE_PATH
from ...questions import (
    DEFAULT_BASE_DIR,
    Notifier,
    Notify,
    QuestionSessions,
    load_config,
)
from ...wiring.bootstrap import (
    agents_channel,
    build_executor,
    open_questions,
    open_snapshots,
    session_results,
)
from .calls import CancelScopes
from .offer import EVERYTHING, Offer, ToolSet
from .question_forms import withdraw_abandoned
from .resources import add_resources
from .server import HarnessServer
from .stdio import stdio_streams
from .tool import Tool, tools_of
from .tools.code_tool import CodeTool
from .tools.question_tools import QuestionTools
from .tools.recording_tools import RecordingTools
from .tools.session_access import ProjectFolder, SessionAccess
from .tools.session_tools import SessionTools
from .tools.workspace_tools import WorkspaceTools

if TYPE_CHECKING:
    from .transports.http_guard import HttpSettings

_STOP_S: Final = 10.0
"""How long calls may take to clean up when the server stops, in seconds."""
_LOOK_S: Final = 0.02

_log = get_logger("agentforge.mcp")


@frozen(kw_only=True)
class McpPlaces:
    """Locations of sessions, questions and the project.

    Attributes:
        sessions: The sessions' directory; `.agentforge/sessions` if None.
        store: The address of the sessions' store, if they are not in that directory's files.
        direct: The address of the database server itself, if the store's is a connection pooler.
        objects: The object store of the sessions' workspaces, or None.
        questions: The question sessions' directory; if None, the store if it is a database, else
            the configured directory or `.agentforge/questions`.
        project: The project's folder; the working directory if None.
        repository: How the project's sessions begin from a repository.
        briefing_shows: The parts of the user's data that a session's briefing shows.
        notice: A notice to the person, sent with the first answer, or None.
    """

    sessions: Path | None = None
    store: str | None = field(default=None, repr=False)
    direct: str | None = field(default=None, repr=False)
    objects: str | None = None
    questions: Path | None = None
    project: Path | None = None
    repository: RepositoryConfiguration = field(factory=RepositoryConfiguration)
    briefing_shows: tuple[str, ...] = DEFAULT_PARTS
    notice: str | None = None


@frozen(kw_only=True)
class McpServices:
    """Services that a server's tools use.

    Attributes:
        sessions: The calls' access to sessions.
        questions: The question sessions.
        notify: Notifies a person of new questions.
        project: The project whose folders clients may name.
        objects: The object store of the sessions' workspaces, or None.
        notice: A notice to the person, sent with the first answer, or None.
    """

    sessions: SessionAccess
    questions: QuestionSessions
    notify: Notify
    project: ProjectFolder
    objects: str | None = None
    notice: str | None = None

    @classmethod
    def at(
        cls,
        places: McpPlaces,
        *,
        terminal: TextIO | None = None,
        observers: Sequence[SessionObserver] = (),
    ) -> McpServices:
        """Open the services at `places`, with the settings of the configuration file.

        Clients don't know where this process was started, so paths are absolute. The person is
        notified at `terminal`, if there is one.

        Raises:
            InvalidConfig: The configuration file can't be used.
            ExtraMissing: The packages for the sessions' store are not installed.
        """
        config = load_config()
        base = places.sessions if places.sessions is not None else DEFAULT_BASE_PATH
        store = open_sessions(base.absolute(), store=places.store, direct=places.direct)
        asked = places.questions
        if asked is None and not is_database(places.store):
            asked = config.directory or DEFAULT_BASE_DIR
        directory = None if asked is None else asked.absolute()
        questions = open_questions(directory, store=store, config=config)
        return cls(
            sessions=SessionAccess(
                store=store,
                snapshots=Lazy(partial(open_snapshots, store, places.objects)),
                channel=Lazy(partial(agents_channel, directory, store=store)),
                observers=observers,
                briefing_shows=places.briefing_shows,
            ),
            questions=questions,
            notify=Notifier(config.notify, questions.where, terminal=terminal).notify,
            project=ProjectFolder(
                path=(places.project or Path()).absolute(),
                repository=evolve(places.repository, path=places.repository.path.absolute()),
            ),
            objects=places.objects,
            notice=" ".join(filter(None, (places.notice, questions.came_with_repository())))
            or None,
        )


def all_tools(services: McpServices, offer: Offer = EVERYTHING) -> tuple[Tool, ...]:
    """Build only the offered tools: building schemas takes most of a start."""
    sessions, project, reads = services.sessions, services.project, offer.read_only
    tools_in: dict[ToolSet, Callable[[], tuple[Tool, ...]]] = {
        ToolSet.SESSIONS: lambda: (
            *tools_of(SessionTools(sessions, project), read_only=reads),
            *tools_of(RecordingTools(sessions), read_only=reads),
        ),
        ToolSet.CODE: lambda: tools_of(
            CodeTool(sessions, partial(build_executor, sessions.store)), read_only=reads
        ),
        ToolSet.QUESTIONS: lambda: QuestionTools(
            sessions=services.questions, workers=sessions.workers, notify=services.notify
        ).tools(read_only=reads),
        ToolSet.WORKSPACES: lambda: tools_of(
            WorkspaceTools(sessions, session_results(sessions.store, services.objects), project),
            read_only=reads,
        ),
    }
    return tuple(one for name, tools in tools_in.items() if name in offer.sets for one in tools())


def server_of(
    services: McpServices, offer: Offer = EVERYTHING, *, under_way: CancelScopes | None = None
) -> HarnessServer:
    """Build the server with the offered tools."""
    server = HarnessServer(all_tools(services, offer), under_way=under_way, notice=services.notice)
    if ToolSet.SESSIONS in offer.sets:
        add_resources(server, services.sessions)
    return server


def serve_stdio(
    places: McpPlaces, offer: Offer = EVERYTHING, *, observers: Sequence[SessionObserver] = ()
) -> int | None:
    """Serve the client at standard input and output until it leaves or a signal arrives.

    Returns:
        The signal that ended it, or None.

    Raises:
        InvalidConfig: The configuration file can't be used.
    """

    async def serve(services: McpServices) -> int | None:
        under_way = CancelScopes()
        server = server_of(services, offer, under_way=under_way)
        async with stdio_streams() as streams, _until_signal(under_way, streams.stop) as came:
            await server.run_over(streams)
        return came[0] if came else None

    return _serve(McpServices.at(places, observers=observers), offer, serve)


def serve_http(
    places: McpPlaces,
    settings: HttpSettings,
    *,
    announce: Callable[[str], object],
    offer: Offer = EVERYTHING,
    terminal: TextIO | None = None,
    observers: Sequence[SessionObserver] = (),
) -> int | None:
    """Serve clients over HTTP until a signal arrives.

    Args:
        places: The directories of sessions and questions.
        settings: The address, and the requests to answer.
        announce: Called with the URL once the server listens.
        offer: The tools to offer.
        terminal: The terminal of a person, or None.
        observers: Observers of the sessions.

    Returns:
        The signal that ended it, or None.

    Raises:
        AddressUnavailable: The server can't listen there.
        InvalidConfig: The configuration file can't be used.
    """
    from .transports.http import HttpServer, listening

    async def serve(services: McpServices) -> int | None:
        under_way = CancelScopes()
        with listening(settings) as listener:
            server = HttpServer(server_of(services, offer, under_way=under_way), settings, listener)
            async with _until_signal(under_way, server.stop) as came, server.serving():
                announce(server.url)
        return came[0] if came else None

    services = McpServices.at(places, terminal=terminal, observers=observers)
    return _serve(services, offer, serve)


def _serve(
    services: McpServices, offer: Offer, serve: Callable[[McpServices], Awaitable[int | None]]
) -> int | None:
    """Withdraw abandoned questions, serve, then close the sessions' store."""
    with closing(services.sessions.store):
        if ToolSet.QUESTIONS in offer.sets and not offer.read_only:
            withdraw_abandoned(services.questions)
        return anyio.run(serve, services)


@asynccontextmanager
async def _until_signal(
    under_way: CancelScopes, stop: Callable[[], None]
) -> AsyncIterator[Sequence[int]]:
    """Run the block; at an ending signal, stop the running calls, then call `stop`.

    Yields the received signals; the second one cancels the block at once.
    """
    came: list[int] = []

    async def wait_for_signal(*, task_status: TaskStatus[None]) -> None:
        ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # by `nohup`
        ending = [signal.SIGINT, signal.SIGTERM, *([] if ignored else [signal.SIGHUP])]
        with anyio.open_signal_receiver(*ending) as signals:
            task_status.started()
            async for number in signals:
                came.append(int(number))
                if len(came) > 1:
                    group.cancel_scope.cancel()
                    return
                _log.info("mcp.stopping", signal=signal.Signals(number).name)
                group.start_soon(stop_calls_first)

    async def stop_calls_first() -> None:
        under_way.stop()
        with anyio.move_on_after(_STOP_S):
            while under_way.count:
                await anyio.sleep(_LOOK_S)
        stop()

    async with anyio.create_task_group() as group:
        await group.start(wait_for_signal)
        yield came
        group.cancel_scope.cancel()


class _EventHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """Log a record as an event."""
        cause = record.exc_info[1] if record.exc_info else None
        fields = {"logger": record.name, "message": record.getMessage()}
        if cause is not None:
            fields["error"] = repr(cause)
        log = _log.warning if record.levelno >= logging.WARNING else _log.debug
        log("mcp.library", **fields)


def log_library_events() -> None:
    """Log records of the SDK and the HTTP server as events; their own handlers are removed."""
    root = logging.getLogger()
    root.handlers[:] = [_EventHandler()]
    root.setLevel(logging.INFO)
