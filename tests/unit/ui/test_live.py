"""Telling pages that something changed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Callable

import anyio
import anyio.lowlevel
import pytest

from agentforge_sessions.entrypoints.ui.live import MAX_PAGES, Listener
from agentforge_sessions.questions import Asker
from tests.support.promptness import PATIENCE_S
from tests.support.questions import QUESTIONS
from tests.unit.ui.conftest import Site


@pytest.mark.anyio
async def test_a_page_is_told_its_own_topics_together() -> None:
    listener = Listener(frozenset({"sessions", "questions"}))
    told = aiter(listener.stream())
    assert (await anext(told)).startswith(b"retry")
    listener.tell(["fleet"])
    listener.tell(["sessions", "fleet"])
    listener.tell(["questions"])
    assert await anext(told) == b'event: changed\ndata: ["questions", "sessions"]\n\n'
    listener.close()
    with pytest.raises(StopAsyncIteration):
        await anext(told)


@pytest.mark.anyio
async def test_a_save_and_a_question_reach_the_page_that_listens(site: Site) -> None:
    one = site.begin()
    listener = site.live.listen([f"session:{one}"])
    told = aiter(listener.stream())
    await anext(told)
    with anyio.fail_after(PATIENCE_S):
        await hears_of_both(site, one, told)


async def hears_of_both(site: Site, one: str, told: AsyncIterator[bytes]) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(site.live.run)
        await anyio.sleep(0)
        site.services.watch.rows()
        site.lead(one).record_tokens(5)
        while b"changed" not in await anext(told):
            pass
        asker = Asker.current(session=(site.base / one).absolute())
        site.questions.create_session(QUESTIONS, asker=asker)
        while b"changed" not in await anext(told):
            pass
        group.cancel_scope.cancel()


class Teller:
    """An observer that can be told of what other processes saved."""

    def __init__(self) -> None:
        self.looks = 0

    def on_event(self, event: object) -> None:
        """Take an event."""

    def look(self) -> None:
        self.looks += 1


@pytest.mark.anyio
async def test_what_another_process_saved_is_told_while_the_pages_are_served(
    make_site: Callable[..., Site],
) -> None:
    teller = Teller()
    site = make_site(observers=[teller])
    one = site.begin()
    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as group:
            group.start_soon(site.live.run)
            while not teller.looks:
                await anyio.lowlevel.checkpoint()
            site.services.watch.rows()
            site.lead(one).pause()
            while teller.looks < 2:
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()


def test_no_more_pages_listen_than_the_server_can_serve(site: Site) -> None:
    for _ in range(MAX_PAGES):
        site.live.listen(["sessions"])
    assert site.post("/events", topics="sessions").status_code == 503


def test_a_missing_extra_names_what_to_install() -> None:
    code = """
import sys
sys.modules["uvicorn"] = None
from agentforge_sessions.base.errors import ExtraMissing
from agentforge_sessions.entrypoints import ui
try:
    ui.run_ui(ui.UiPlaces(), ready=print)
except ExtraMissing as error:
    print(error)
"""
    ended = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True
    )
    assert "pip install 'agentforge-sessions[ui]'" in ended.stdout, ended.stderr
