"""What pages promise of any text: it stays text; differences and time add up."""

from __future__ import annotations

from datetime import timedelta
from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st

from agentforge_sessions.entrypoints.pages.html import anchor, element, rendered, spelled
from agentforge_sessions.entrypoints.pages.session_page import render_report
from agentforge_sessions.entrypoints.pages.timeline import time_scale
from agentforge_sessions.entrypoints.pages.values.patches import (
    LineKind,
    file_difference,
    side_by_side,
    word_changes,
)
from agentforge_sessions.entrypoints.pages.values.spans import seconds_by_kind, time_spans
from agentforge_sessions.harness.domain.history_events import (
    AgentAnswered,
    AgentPrompted,
    AgentTurnEnded,
    HistoryEvent,
    PhaseFailed,
    QuestionAnswered,
    QuestionAsked,
)
from agentforge_sessions.harness.domain.session_entries import SessionHistory
from tests.support.pages import BEGAN, PageReader, eventful_view
from tests.support.soak import examples

ANY_TEXT = st.text(st.characters(), max_size=60)
LINES = st.lists(st.sampled_from(["a", "b", "c", "", "  d", "<e>"]), max_size=12)


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [(f"{tag} {name}", value or "") for name, value in attrs] or [(tag, "")]

    def handle_data(self, data: str) -> None:
        self.found.append(("", data))


@given(text=ANY_TEXT, value=ANY_TEXT)
@settings(max_examples=examples(1_000))
def test_text_and_attributes_are_read_as_they_were_given(text: str, value: str) -> None:
    reader = _Words()
    reader.feed(rendered(element("td", text, title=value, class_="x")))
    reader.close()
    data = "".join(found for where, found in reader.found if where == "")
    assert data == spelled(text)
    assert reader.found[:2] == [("td title", spelled(value)), ("td class", "x")]
    assert {where for where, _ in reader.found} <= {"", "td title", "td class"}


@given(names=st.lists(ANY_TEXT, max_size=8, unique=True))
@settings(max_examples=examples(500))
def test_different_names_have_different_anchors(names: list[str]) -> None:
    anchors = [anchor("file", one) for one in names]
    assert len(set(anchors)) == len(names)
    assert not [one for one in anchors if set(one) & set(" \t\n\"'<>&#%")]


@given(words=st.text(min_size=1, max_size=60).filter(lambda text: text.strip() != ""))
@settings(max_examples=examples(150))
def test_no_words_are_markup(words: str) -> None:
    reader = PageReader.of(render_report(eventful_view(words)))
    assert {"attempt-1", "question_q-6", "overview", "history"} <= set(reader.ids)


@given(before=LINES, after=LINES)
@settings(max_examples=examples(1_000))
def test_sides_of_a_difference_are_the_two_texts(before: list[str], after: list[str]) -> None:
    old, new = ("".join(f"{line}\n" for line in lines).encode() for lines in (before, after))
    found = file_difference("a", old, new)
    if old == new:
        assert found is None
        return
    assert found is not None
    changed = {LineKind.ADDED: found.added, LineKind.REMOVED: found.removed}
    assert found.added - found.removed == len(after) - len(before)
    for hunk in found.hunks:
        rows = list(side_by_side(hunk))
        olds = [row[0] for row in rows if row[0] is not None]
        news = [row[1] for row in rows if row[1] is not None]
        assert [before[(line.old or 0) - 1] for line in olds] == [line.text for line in olds]
        assert [after[(line.new or 0) - 1] for line in news] == [line.text for line in news]
        assert [line.old for line in olds] == sorted(line.old or 0 for line in olds)
        for kind in changed:
            changed[kind] -= sum(1 for line in hunk if line.kind is kind)
    assert set(changed.values()) == {0}


@given(before=st.text(max_size=40), after=st.text(max_size=40))
@settings(max_examples=examples(500))
def test_pieces_of_lines_are_the_lines(before: str, after: str) -> None:
    old, new = word_changes(before, after)
    assert "".join(text for text, _ in old) == before
    assert "".join(text for text, _ in new) == after


EVENTS = st.sampled_from(
    [
        AgentAnswered(seconds=3.0),
        AgentAnswered(seconds=40.0),
        PhaseFailed(seconds=2.0),
        QuestionAsked(question_id="q"),
        QuestionAnswered(question_id="q"),
        AgentPrompted(text="x"),
        AgentTurnEnded(text="x"),
    ]
)


@given(events=st.lists(st.tuples(EVENTS, st.floats(0, 30)), min_size=1, max_size=20))
@settings(max_examples=examples(500))
def test_spans_cover_the_time_without_gaps_or_overlaps(
    events: list[tuple[HistoryEvent, float]],
) -> None:
    now = BEGAN
    history = []
    for event, pause in events:
        now += timedelta(seconds=pause)
        history.append(SessionHistory.of(event, now, "red"))
    until = now + timedelta(seconds=5)
    spans = time_spans(history, until=until)
    edges = [(one.began, one.ended) for one in spans]
    assert [began for began, _ in edges] == [history[0].timestamp, *(end for _, end in edges[:-1])]
    assert edges[-1][1] == until
    assert all(began < ended for began, ended in edges)
    total = (until - history[0].timestamp).total_seconds()
    assert abs(sum(seconds_by_kind(spans).values()) - total) < 1e-6
    scale = time_scale(spans)
    places = [scale(one.began) for one in spans] + [scale(until)]
    assert places == sorted(places)
    assert (places[0], round(places[-1], 6)) == (0.0, 1000.0)
