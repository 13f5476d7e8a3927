"""The application: which address shows or does what.

Each call works on the sessions in a thread of its own, with a manager of its own; the event loop
only passes on. What changes something is not there at all where the server is read-only.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final
from xml.etree.ElementTree import Element

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
from ..pages.html import element, rendered
from .assets import ICON, asset
from .errors import InvalidForm, PageNotFound, UnfitAnswers
from .guard import Guard, guarded
from .live import Listener, Live
from .services import Services
from .view import View, error_box, part, shell, status_of
from .views.actions import Done, act_on_session, answer_question, reject_question
from .views.fleet_page import fleet_view
from .views.forms import Form, fields_in, form_of, text_in
from .views.list_page import list_view
from .views.one_session import session_view
from .views.prune_page import prune_view
from .views.question_forms import fault_marks, questions_view
from .views.search_page import search_view

MAX_THREADS: Final = 8
"""How many calls work on the sessions at once."""
_MOST_TOPICS: Final = 8
_CODES_BYTES: Final = 1024

_log = get_logger("agentforge.ui")
Page = Callable[[Services, Form, str], View]
"""Shows a page: of the services, the fields of its address, and the rest of its path."""


def application(
    services: Services, live: Live, *, key: PageKey, room: ConnectionRoom | None = None
) -> ASGIApp:
    """Return the application, guarded.

    Args:
        services: What is shown and changed.
        live: Tells open pages of changes; it runs as long as the application.
        key: What a request must show, and the codes that it is had by.
        room: The connections of those who have not shown it; nobody's if None.
    """
    calls = _Calls(services)
    pages: dict[str, Page] = {
        "/view/": list_view,
        "/view/sessions/{rest}": session_view,
        "/view/questions": questions_view,
        "/view/prune": prune_view,
        "/view/search": search_view,
        **({"/view/fleet": fleet_view} if services.in_database else {}),
    }
    empty = shell(read_only=services.read_only, fleet=services.in_database)
    routes = [
        Route("/static/{name}", _static),
        Route("/favicon.ico", _icon),
        Route("/key", partial(_exchange, key), methods=["POST"]),
        Route("/code", partial(_renew, key), methods=["POST"]),
        Route("/events", partial(_events, live), methods=["POST"]),
        *(Route(path, partial(calls.show, page)) for path, page in pages.items()),
        *([] if services.read_only else _changing(calls)),
        Route("/view/{rest:path}", calls.missing),
        Route("/do/{rest:path}", calls.missing, methods=["GET", "POST"]),
        Route("/{rest:path}", partial(_shell, empty)),
    ]

    @asynccontextmanager
    async def living(_: Starlette) -> AsyncIterator[None]:
        async with anyio.create_task_group() as group:
            group.start_soon(live.run)
            yield
            live.close()
            group.cancel_scope.cancel()

    site = Starlette(routes=routes, lifespan=living)
    return guarded(site, Guard(key), room or ConnectionRoom())


def _changing(calls: _Calls) -> list[Route]:
    """Return what changes something."""
    return [
        Route("/do/sessions/{id}/{name}", calls.act, methods=["POST"]),
        Route("/do/questions/{id}/answer", calls.answer, methods=["POST"]),
        Route("/do/questions/{id}/reject", calls.reject, methods=["POST"]),
    ]


class _Calls:
    """Calls on the services, each in a thread."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._limiter: anyio.CapacityLimiter | None = None

    async def _run(self, call: Callable[[], Any]) -> Any:
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(MAX_THREADS)
        return await anyio.to_thread.run_sync(call, limiter=self._limiter)

    async def show(self, page: Page, request: Request) -> Response:
        """Answer with a page's content, or with why there is none."""
        try:
            form = fields_in(request.url.query)
            rest = request.path_params.get("rest", "")
            view = await self._run(partial(page, self._services, form, rest))
        except AgentForgeError as error:
            return _failed_view(error)
        except Exception as error:  # noqa: BLE001 (the boundary: a page says it, the log has it)
            return _failed_view(_unexpected(error))
        headers = {} if view.address is None else {"X-Address": view.address}
        return HTMLResponse(view.html(), headers=headers)

    async def act(self, request: Request) -> Response:
        """Do something with a session."""
        session_id, name = request.path_params["id"], request.path_params["name"]
        return await self._do(
            request, lambda form: act_on_session(self._services, session_id, name, form)
        )

    async def answer(self, request: Request) -> Response:
        """Answer a question session; what is wrong stands beside each question."""
        name = request.path_params["id"]

        def marks(error: AgentForgeError) -> list[Element]:
            if not isinstance(error, UnfitAnswers):
                return []
            count = len(self._services.questions.get(name).questions)
            return fault_marks(name, count, error.by_question)

        return await self._do(
            request, lambda form: answer_question(self._services, name, form), marks=marks
        )

    async def reject(self, request: Request) -> Response:
        """Reject a question session."""
        name = request.path_params["id"]
        return await self._do(request, lambda form: reject_question(self._services, name, form))

    async def _do(
        self,
        request: Request,
        call: Callable[[Form], Done],
        *,
        marks: Callable[[AgentForgeError], list[Element]] = lambda _: [],
    ) -> Response:
        """Do what a form asks for; answer with what happened, for the place of it in the page."""
        try:
            form = await form_of(request)
            done = await self._run(partial(call, form))
        except AgentForgeError as error:
            found = await self._run(partial(marks, error))
            body = rendered(error_box(error), found)
            return HTMLResponse(body, status_code=status_of(error))
        except Exception as error:  # noqa: BLE001 (the boundary: the page says it, the log has it)
            fault = _unexpected(error)
            return HTMLResponse(rendered(error_box(fault)), status_code=500)
        news = json.dumps({"done": {"say": done.say, "go": done.go}})  # it is ASCII
        return HTMLResponse("", headers={"HX-Trigger": news})

    async def missing(self, request: Request) -> Response:
        """Answer that there is no such page."""
        return _failed_view(PageNotFound(f"/{request.path_params['rest']}"))


class _Unexpected(AgentForgeError):
    """A fault of our own, as a page says it."""


def _unexpected(error: Exception) -> _Unexpected:
    _log.error("ui.fault", where="".join(traceback.format_exception(error)))
    return _Unexpected(
        f"unexpected {type(error).__name__}: {error}. This is a fault in agentforge; the server's "
        "output says where."
    )


def _failed_view(error: AgentForgeError) -> Response:
    content = part("failed", error_box(error, title="This can't be shown"))
    view = View(title="Not shown", content=[element("h1", "Not shown", id="heading"), content])
    return HTMLResponse(view.html(), status_code=status_of(error))


async def _static(request: Request) -> Response:
    found = asset(request.path_params["name"])
    if found is None:
        return Response("There is nothing here.\n", 404, media_type="text/plain")
    return Response(found.content, media_type=found.media_type)


async def _icon(_: Request) -> Response:
    found = asset(ICON)
    assert found is not None  # noqa: S101 (it comes with the package)
    return Response(found.content, media_type=found.media_type)


async def _shell(page: str, _: Request) -> Response:
    return HTMLResponse(page)


async def _exchange(key: PageKey, request: Request) -> Response:
    """Answer with the key, for a code that ends with this."""
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
    """Take the code that a page, which has the key, will have it by again."""
    taken = key.add_code(text_in(await form_of(request), "code") or "")
    return Response(status_code=204 if taken else 422)


async def _events(live: Live, request: Request) -> Response:
    """Answer with a stream of what changes."""
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
