"""Whole pages: what one that stands alone may do, and what a served one refers to."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from agentforge_sessions.entrypoints.pages.html import (
    element,
    self_contained_page,
    served_page,
    style_sheet,
)


def test_page_that_stands_alone_may_have_its_own_style_sheet_and_nothing_else() -> None:
    page = self_contained_page("A <title>", element("p", "words"), top=element("p", "above"))
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    assert "<title>A &lt;title&gt;</title>" in page
    assert "<script" not in page
    assert "<link" not in page


def test_page_has_landmarks_and_a_way_past_its_head() -> None:
    page = self_contained_page("x", element("p", "words"), top=element("p", "above"))
    assert '<html lang="en">' in page
    assert '<a href="#content" class="skip">' in page
    assert '<main id="content" tabindex="-1"><p>words</p></main>' in page
    assert '<header class="top"><p>above</p></header>' in page


def test_served_page_refers_to_what_its_server_has() -> None:
    page = served_page(
        "x",
        element("p", "words"),
        styles=("/static/style.css",),
        scripts=("/static/a.js",),
        settings={"a": '{"b":1}'},
    )
    assert '<link rel="stylesheet" href="/static/style.css">' in page
    assert '<script src="/static/a.js" defer=""></script>' in page
    assert '<meta name="a" content="{&quot;b&quot;:1}">' in page
    assert "<style>" not in page
    assert "Content-Security-Policy" not in page, "the server says it"


@pytest.mark.parametrize("path", ["https://example.org/a.js", "//example.org/a.js", "a.js"])
def test_served_page_refers_to_no_other_server(path: str) -> None:
    with pytest.raises(ValueError, match="no path of the server"):
        served_page("x", styles=(), scripts=(path,))


def test_style_sheet_loads_nothing_and_ends_nothing() -> None:
    sheet = style_sheet()
    assert "</" not in sheet
    assert "@import" not in sheet
    assert "url(" not in sheet
