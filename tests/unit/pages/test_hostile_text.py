"""Whatever was said in a session stands on its page as text, and nothing of it is markup."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from agentforge_sessions.entrypoints.pages.html import rendered, spelled
from agentforge_sessions.entrypoints.pages.session_page import render_report, session_sections
from agentforge_sessions.harness.domain.history_events import EVENTS
from tests.support.pages import PageReader, all_events, eventful_view

HOSTILE = (
    "</pre></style><script>alert(1)</script><img src=x onerror=alert(1)>",
    "\"'><svg/onload=alert(1)>",
    "<!--<style>*{}</style>-->]]><?php ?><![CDATA[x]]>",
    "javascript:alert(1) &lt;b&gt; &#60;i&#62;",
    "\x1b[31m\u202ehidden\u2066 \x07 \ufeff",
    "```python:../../etc/passwd\n<b>\n```\n`<i>` - <u>\n# <h1>",
    "a" * 3_900 + "<b>",
)
_REPRS = re.compile(
    r"<[\w.]+ object at|PosixPath\(|datetime\.|mappingproxy|\{'|\('|\['|b'|frozenset|<class|"
    r"\w+\([a-z_]+=|\bNone\b|\bTrue\b|\bFalse\b|\bnull\b"
)


def test_the_sessions_of_these_tests_have_an_event_of_every_kind() -> None:
    states = {"session_created", "session_completed", "session_aborted"}
    crossed = {"budget_warning", "budget_exceeded"}
    assert {one.action for one in all_events("x")} == set(EVENTS) - states - crossed


@pytest.mark.parametrize("words", HOSTILE)
def test_hostile_words_are_no_markup(words: str) -> None:
    PageReader.of(render_report(eventful_view(words)))


@pytest.mark.parametrize("words", HOSTILE[:5])
def test_hostile_words_are_there_to_be_read(words: str) -> None:
    said = PageReader.of(render_report(eventful_view(words))).text
    assert said.count(spelled(words)) > 20


def test_nothing_on_the_page_reads_as_python() -> None:
    said = PageReader.of(render_report(eventful_view("words"))).text
    found = [said[max(0, one.start() - 40) : one.end() + 40] for one in _REPRS.finditer(said)]
    assert found == []


def test_ids_are_unique_and_links_lead_somewhere() -> None:
    reader = PageReader.of(render_report(eventful_view("words")))
    assert len(reader.ids) == len(set(reader.ids))
    assert set(reader.links) <= set(reader.ids)
    assert {"attempt-1", "checkpoint-1", "entry-1", "question_q-1", "file_src.2f.a.2e.py"} <= set(
        reader.ids
    )


def test_the_same_session_has_the_same_page() -> None:
    assert render_report(eventful_view("words")) == render_report(eventful_view("words"))


def test_headings_go_down_one_level_at_a_time() -> None:
    levels = PageReader.of(render_report(eventful_view("words"))).headings
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_each_section_can_stand_alone() -> None:
    for one in session_sections(eventful_view("words")):
        reader = PageReader.of(rendered(one))
        assert reader.ids[0] == one.get("id")
        assert one.get("aria-labelledby") in reader.ids
