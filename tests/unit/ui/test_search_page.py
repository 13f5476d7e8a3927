"""The page of a search: what it finds, where it stands, and that none of it runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.questions import DATABASE
from tests.unit.ui.conftest import Site
from tests.unit.ui.test_pages import HOSTILE, Page, assert_nothing_runs


def test_words_are_found_in_histories_and_questions_and_marked(site: Site) -> None:
    one, other = site.begin("Add retries"), site.begin("Write docs")
    site.lead(one).add_history("note", "the parser loses a token")
    asked = site.ask(DATABASE, session_id=other)
    text = site.view("/search?q=PARSER+token")
    page = Page(text)
    assert page.by_id(f"row-{one}") is not None
    assert page.by_id(f"row-{other}") is None
    assert "<mark>parser</mark> loses a <mark>token</mark>" in text
    assert f'href="/sessions/{one}#history"' in text
    text = site.view("/search?q=postgresql")
    page = Page(text)
    assert page.by_id(f"row-{one}") is None
    found = page.by_id(f"to-{asked}")
    assert found is not None
    assert found["href"] == f"/questions#question-{asked}"
    assert "<mark>PostgreSQL</mark>" in text


def test_a_question_that_was_answered_is_found_by_its_answer_in_its_session(site: Site) -> None:
    one = site.begin("It asks")
    asked = site.ask(DATABASE, session_id=one)
    site.post(f"/do/questions/{asked}/answer", **{"text-0": "a heap of ledgers"})
    text = site.view("/search?q=ledgers")
    found = Page(text).by_id(f"to-{asked}")
    assert found is not None
    assert found["href"] == f"/sessions/{one}"
    assert "heap of <mark>ledgers</mark>" in text


def test_a_phrase_a_workflow_and_a_tag_narrow_a_search(site: Site) -> None:
    one = site.begin("Add many retries", workflow_type="tdflow", tags=["net"])
    other = site.begin("Add retries, many", workflow_type="docs")
    for address, fits in (
        ("/search?q=%22many+retries%22", [one]),
        ("/search?q=many+retries&workflow=docs", [other]),
        ("/search?q=many+retries&tag=net", [one]),
        ("/search?q=many+retries&workflow=docs&tag=net", []),
    ):
        page = Page(site.view(address))
        found = [name for name in (one, other) if page.by_id(f"row-{name}") is not None]
        assert found == fits, address
        assert ("Nothing has all of these words." in page.text) is (not fits)


def test_without_words_nothing_is_searched_and_too_many_are_refused(site: Site) -> None:
    site.begin()
    page = Page(site.view("/search"))
    assert page.by_id("q") is not None
    assert page.by_id("summary") is None
    words = "+".join(f"w{number}" for number in range(30))
    refused = site.get(f"/view/search?q={words}")
    assert refused.status_code == 422
    assert "20 words" in refused.text


def test_hostile_text_that_is_found_is_text(site: Site) -> None:
    one = site.begin(HOSTILE)
    site.lead(one).add_history("note<script>", HOSTILE)
    for words in ("script", "%3Cscript%3Ealert(1)", "onerror%3Dalert(2)", "%22%3E"):
        text = site.view(f"/search?q={words}")
        assert_nothing_runs(text)
        assert "img" not in {tag for tag, _ in Page(text).elements}
    assert "<script>alert(1)</script>" in Page(site.view("/search?q=onerror")).text


def test_what_can_not_be_read_is_named_by_a_search(site: Site) -> None:
    good, bad = site.begin("A good one"), site.begin("A bad one")
    (site.base / bad / "session.yaml").write_text("state: [")
    page = Page(site.view("/search?q=one"))
    assert page.by_id(f"row-{good}") is not None
    assert "1 can't be read" in page.text
    assert bad in page.text


@pytest.mark.parametrize("read_only", [False, True])
def test_a_search_changes_nothing(make_site: Callable[..., Site], read_only: bool) -> None:
    site = make_site(read_only=read_only)
    one = site.begin("Add retries")
    before = (site.base / one / "session.yaml").read_bytes()
    site.view("/search?q=retries")
    assert (site.base / one / "session.yaml").read_bytes() == before
