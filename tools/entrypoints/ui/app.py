"""The web application: its routes and request handlers.

Each request accesses the sessions in a worker thread, with a manager per request; the event loop
only dispatches. A read-only server has no routes that change anything.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Final, TypeAlias, TypeVar

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from ...base.errors import AgentForgeError
from ...base.event_log import get_logger
from ..connection_room import ConnectionRoom
from ..loopback import CODE_REFUSED, PageKey
from ..pages.html import rendered
from ..pages.parts import section
from .errors import InvalidForm, PageNotFound, UnfitAnswers
from .guard import guarded
from .live import Listener, Live
from .services import UiServices
from .view import ICON, STATUS, View, asset, error_box, page_heading, shell
from .views.actions import ActionDone, act_on_session, answer_question, reject_question
from .views.controls import Form, fields_in, form_of, text_in
from .views.fleet_page import fleet_view
from .views.list_page import list_view, search_view
from .views.one_session import session_view
from .views.prune_page import prune_view
from .views.question_forms import fault_marks, questions_view

MAX_THREADS: Final = 8
"""Maximum number of requests that access the sessions at once."""
_MOST_TOPICS: Final = 8
_CODES_BYTES: Final = 1024

_log = get_logger("agentforge.ui")
_Result = TypeVar("_Result")
Page: TypeAlias = Callable[[UiServices, Form, str], View]
"""Builds a page from the services, the fields of its address and the rest of its path."""
_PAGES: Final[Mapping[str, Page]] = {
    "/view/": list_view,
    "/view/sessions/{rest}": session_view,
    "/view/questions": questions_view,
    "/view/prune": prune_view,
    "/view/search": search_view,
}
_ACTIONS: Final[Mapping[str, Callable[..., ActionDone]]] = {
    "/do/sessions/{session_id}/{name}": act_on_session,
    "/do/questions/{question_id}/answer": answer_question,
    "/do/questions/{question_id}/reject": reject_question,
}
"""Actions that change something, called with the services, the form and the path parameters."""


def application(
    services: UiServices, live: Live, *, key: PageKey, room: ConnectionRoom | None = None
) -> ASGIApp:
    """Return the application behind its guard.

    Args:
        services: The data that the pages show and change.
        live: Notifies open pages of changes; runs as long as the application.
        key: The key that requests must present, and the codes exchanged for it.
        room: Limits connections that have not presented the key; a new one if None.
    """
    threads = cache(partial(anyio.CapacityLimiter, MAX_THREADS))
    pages = {**_PAGES, **({"/view/fleet": fleet_view} if services.in_database else {})}
    actions = {} if services.read_only else _ACTIONS
    empty = shell(read_only=services.read_only, fleet=services.in_database)
    posted = {
        "/key": partial(_exchange, key),
        "/code": partial(_renew, key),
        "/events": partial(_events, live),
        **{path: partial(_do, services, threads, action) for path, action in actions.items()},
    }
    routes = [
        Route("/static/{name}", _static),
        Route("/favicon.ico", _static),
        *(Route(path, endpoint, methods=["POST"]) for path, endpoint in posted.items()),
        *(Route(path, partial(_show, services, threads, page)) for path, page in pages.items()),
        Route("/view/{rest:path}", _missing),
        Route("/do/{rest:path}", _missing, methods=["GET", "POST"]),
        Route("/{rest:path}", HTMLResponse(empty), methods=["GET"]),
    ]

    @asynccontextmanager
    async def living(_: Starlette) -> AsyncIterator[None]:
        async with anyio.create_task_group() as group:
            group.start_soon(live.run)
            yield
            live.close()
            group.cancel_scope.cancel()

    site = Starlette(routes=routes, lifespan=living, exception_handlers={AgentForgeError: _failed})
    return guarded(site, key, room or ConnectionRoom())


_Threads: TypeAlias = Callable[[], anyio.CapacityLimiter]
"""Returns the limiter of worker threads; it must be created inside the running event loop."""


async def _in_thread(threads: _Threads, work: Callable[[], _Result]) -> _Result:
    """Run `work` in a worker thread; turn an unexpected exception into an error that pages show."""
    try:
        return await anyio.to_thread.run_sync(work, limiter=threads())
    except AgentForgeError:
        raise
    except Exception as error:  # the boundary: shown on the page, and logged
        _log.error("ui.fault", where="".join(traceback.format_exception(error)))
        raise _Unexpected(
            f"unexpected {type(error).__name__}: {error}. This is a fault in agentforge; the "
            "server's output says where."
        ) from error


async def _show(services: UiServices, threads: _Threads, page: Page, request: Request) -> Response:
    """Respond with a page's content."""
    form, rest = fields_in(request.url.query), request.path_params.get("rest", "")
    view = await _in_thread(threads, lambda: page(services, form, rest))
    headers = {} if view.address is None else {"X-Address": view.address}
    return HTMLResponse(view.html(), headers=headers)


async def _do(
    services: UiServices, threads: _Threads, act: Callable[..., ActionDone], request: Request
) -> Response:
    """Perform the action that a form requests; respond with its outcome in a header."""
    form = await form_of(request)
    done = await _in_thread(threads, lambda: act(services, form, **request.path_params))
    news = json.dumps({"done": {"say": done.say, "go": done.go}})  # it is ASCII
    return HTMLResponse("", headers={"HX-Trigger": news})


class _Unexpected(AgentForgeError):
    """An unexpected exception, reported as a fault in agentforge."""


async def _failed(request: Request, error: Exception) -> Response:
    """Respond with an error: as a page or, for an action, as a fragment for its outcome."""
    assert isinstance(error, AgentForgeError)  # noqa: S101 (it handles no other)
    if request.url.path.startswith("/do/"):
        marks = fault_marks(error) if isinstance(error, UnfitAnswers) else []
        text = rendered(error_box(error), marks)
    else:
        box = error_box(error, title="This can't be shown")
        content = section("failed", None, box, class_="card")
        text = View(title="Not shown", content=[page_heading("Not shown"), content]).html()
    return HTMLResponse(text, status_code=STATUS.get(error.kind, 500))


async def _missing(request: Request) -> Response:
    raise PageNotFound(f"/{request.path_params['rest']}")


async def _static(request: Request) -> Response:
    found = asset(request.path_params.get("name", ICON))
    if found is None:
        return Response("There is nothing here.\n", 404, media_type="text/plain")
    content, media_type = found
    return Response(content, media_type=media_type)


async def _exchange(key: PageKey, request: Request) -> Response:
    """Respond with the key in exchange for a code, which becomes invalid."""
    try:
        form = await form_of(request, most_bytes=_CODES_BYTES)
    except InvalidForm as error:
        return Response(f"{error}\n", 413, media_type="text/plain")
    following = text_in(form, "following") or ""
    found = key.exchanged(text_in(form, "code") or "", following=following)
    if found is None:
        return Response(f"{CODE_REFUSED}\n", 403, media_type="text/plain")
    return Response(found, media_type="text/plain")


async def _renew(key: PageKey, request: Request) -> Response:
    """Register a code for which a page that holds the key can get the key again."""
    taken = key.add_code(text_in(await form_of(request), "code") or "")
    return Response(status_code=204 if taken else 422)


async def _events(live: Live, request: Request) -> Response:
    """Respond with a stream of change events."""
    if live.is_full:
        return Response("Too many pages are open already.\n", 503, media_type="text/plain")
    form = await form_of(request)
    topics = (text_in(form, "topics") or "").split()[:_MOST_TOPICS]
    listener = live.listen(topics)
    return StreamingResponse(
        _until_left(live, listener), media_type="text/event-stream", headers={"X-Live": "1"}
    )


async def _until_left(live: Live, listener: Listener) -> AsyncIterator[bytes]:
    try:
        async for event in listener.stream():
            yield event
    finally:
        live.leave(listener)
