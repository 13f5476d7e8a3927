"""The builder of elements: what it writes, and what it refuses to build."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest

from agentforge_sessions.entrypoints.pages.html import anchor, element, rendered, spelled


def test_text_is_escaped_and_attributes_are_named_by_their_dashes() -> None:
    built = element("td", "a<b", element("b", "&"), "c", class_="x", data_state='"', aria_label="é")
    assert rendered(built) == (
        '<td class="x" data-state="&quot;" aria-label="é">a&lt;b<b>&amp;</b>c</td>'
    )


def test_nothing_is_left_out_but_none_and_false() -> None:
    children = [None, False, "", 0, 12_345, ["a", [element("br"), "b"]]]
    assert rendered(children) == "012,345a<br>b"
    built = element("input", disabled=True, checked=False, value=None, max_=2.5, min_=0)
    assert rendered(built) == '<input disabled="" max="2.5" min="0">'


def test_true_is_no_text() -> None:
    with pytest.raises(ValueError, match="no text"):
        element("p", True)


def test_elements_of_a_drawing_keep_the_case_of_their_attributes() -> None:
    assert rendered(element("svg", viewBox="0 0 1 1")) == '<svg viewBox="0 0 1 1"></svg>'


@pytest.mark.parametrize("tag", ["script", "style", "iframe", "object", "base", "meta", "SCRIPT"])
def test_elements_that_run_or_load_something_are_not_built(tag: str) -> None:
    with pytest.raises(ValueError, match="no element of our pages"):
        element(tag)


@pytest.mark.parametrize(
    "attributes",
    [
        {"onclick": "x"},
        {"onLoad": "x"},
        {"hx_on_click": "x"},
        {"hx-on:click": "x"},
        {"style": "color: red"},
        {"srcdoc": "x"},
        {"xlink:href": "#x"},
        {"a b": "x"},
        {"hx_vals": "js:{a: alert(1)}"},
        {"hx_vals": " JavaScript:alert(1)"},
    ],
)
def test_attributes_with_code_are_not_built(attributes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"no attribute|would run code"):
        element("a", **attributes)


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "https://example.org",
        "//example.org",
        "/\\example.org",
        "/\t/example.org",
        "\n//example.org",
        "data:text/html,x",
        "data:image/svg+xml;base64,AAAA",
        "data:image/png;base64,AA<",
        "file:///etc/passwd",
        "",
    ],
)
@pytest.mark.parametrize("name", ["href", "src", "action", "formaction", "hx_get", "hx_post"])
def test_addresses_of_other_places_are_not_built(name: str, address: str) -> None:
    with pytest.raises(ValueError, match="leads away"):
        element("a", **{name: address})


@pytest.mark.parametrize("address", ["#a", "/", "/sessions/x?y=1#z", "?page=2"])
def test_addresses_of_the_page_and_its_server_are_built(address: str) -> None:
    assert f'href="{address}"' in rendered(element("a", href=address))


def test_pictures_in_themselves_are_built() -> None:
    assert "data:image/png" in rendered(element("img", src="data:image/png;base64,AAAA", alt="x"))


def test_first_line_of_preformatted_text_is_kept() -> None:
    texts: list[str] = []
    reader = HTMLParser()
    reader.handle_data = texts.append  # type: ignore[method-assign]
    reader.feed(rendered(element("pre", "\nx")))
    assert "".join(texts) == "\n\nx", "a browser drops the first of the two"


def test_what_is_no_character_of_a_page_is_spelled_out() -> None:
    assert spelled("a\x1b[31m\u202e\ud800\tb\r\nc") == "a\\x1b[31m\\x202e\\xd800\tb\nc"


def test_anchors_say_what_they_are_of() -> None:
    assert anchor("attempt", 3) == "attempt_3"
    assert anchor("file", "src/a b.py") == "file_src.2f.a.20.b.2e.py"
