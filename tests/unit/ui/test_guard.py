"""Whom the pages answer: this machine's own pages, with the key."""

from __future__ import annotations

import pytest

from agentforge_sessions.entrypoints.ui.guard import HEADERS, MAX_BODY_BYTES, refusal_of
from tests.unit.ui.conftest import KEY, ORIGIN, PAGE_KEY, Site

HOST = (b"host", b"127.0.0.1:8766")
OWN = (b"origin", ORIGIN.encode())
SHOWN = (b"x-agentforge-key", KEY.encode())


def refusal(method: str, path: str, *headers: tuple[bytes, bytes]) -> int | None:
    found = refusal_of(PAGE_KEY, method, path, headers)
    return None if found is None else found.status


@pytest.mark.parametrize("host", ["127.0.0.1:8766", "localhost:9", "[::1]:1", "localhost"])
def test_each_name_of_this_machine_is_answered_whatever_the_port(host: str) -> None:
    assert refusal("GET", "/", (b"host", host.encode())) is None


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8766", "127.0.0.2"),
        *("127.0.0.1:8766:1", "user@127.0.0.1", "127.0.0.1:٨٧٦٦", "0.0.0.0:8766", ""),
    ],
)
def test_a_rebound_or_foreign_name_is_refused(host: str) -> None:
    assert refusal("GET", "/", (b"host", host.encode()), SHOWN) == 421


def test_a_request_without_one_name_is_refused() -> None:
    assert refusal("GET", "/") == 421
    assert refusal("GET", "/", HOST, HOST) == 421


@pytest.mark.parametrize(
    "path", ["/view/", "/view/sessions/x", "/do/sessions/x/abort", "/events", "/code"]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_shows_or_changes_sessions_needs_the_key(method: str, path: str) -> None:
    assert refusal(method, path, HOST, OWN) == 401
    assert refusal(method, path, HOST, OWN, (b"x-agentforge-key", b"")) == 401
    assert refusal(method, path, HOST, OWN, (b"x-agentforge-key", KEY[:-1].encode())) == 401
    assert refusal(method, path, HOST, OWN, SHOWN, SHOWN) == 401
    assert refusal(method, path, HOST, OWN, SHOWN) is None


@pytest.mark.parametrize(
    "origin",
    [
        *("http://evil.example", "http://127.0.0.1:9999", "https://127.0.0.1:8766", "null", ""),
        *("http://localhost:8766", "http://127.0.0.1", "http://127.0.0.1:8766.evil.example"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_page_of_another_origin_is_refused_even_with_the_key(origin: str, method: str) -> None:
    assert refusal(method, "/view/", HOST, (b"origin", origin.encode()), SHOWN) == 403


def test_what_changes_something_has_to_say_its_origin() -> None:
    assert refusal("POST", "/do/sessions/x/abort", HOST, SHOWN) == 403
    assert refusal("POST", "/events", HOST, SHOWN) == 403
    assert refusal("DELETE", "/", HOST, SHOWN) == 403


@pytest.mark.parametrize("site", [b"cross-site", b"same-site"])
def test_what_a_browser_says_comes_from_elsewhere_is_refused(site: bytes) -> None:
    fetched = (b"sec-fetch-site", site)
    assert refusal("GET", "/view/", HOST, SHOWN, fetched) == 403
    assert refusal("POST", "/do/x", HOST, SHOWN, OWN, fetched) == 403
    assert refusal("GET", "/", HOST, fetched) is None  # a link to the page that holds nothing


@pytest.mark.parametrize("length", [str(MAX_BODY_BYTES + 1), "-1", "1e9", "9" * 30, "x"])
def test_a_form_that_is_too_large_is_refused_before_it_is_read(length: str) -> None:
    sent = (b"content-length", length.encode())
    assert refusal("POST", "/do/x", HOST, OWN, SHOWN, sent) == 413


def test_the_page_without_a_key_is_the_same_whatever_sessions_there_are(site: Site) -> None:
    before = site.client.get("/").text
    secret = site.begin("a goal that nobody else may read")
    for path in ("/", f"/sessions/{secret}", "/questions", "/prune", "/x/../../etc/passwd"):
        found = site.client.get(path)
        assert found.status_code == 200
        assert found.text == before
        assert secret not in found.text


def test_each_answer_forbids_scripts_of_others_frames_and_to_be_kept(site: Site) -> None:
    answers = [
        site.client.get("/"),
        site.client.get("/static/ui.js"),
        site.client.get("/static/none"),
        site.client.get("/view/"),
        site.get("/view/"),
        site.get("/view/sessions/none"),
        site.post("/do/sessions/none/abort"),
    ]
    assert [one.status_code for one in answers] == [200, 200, 404, 401, 200, 404, 404]
    for one in answers:
        for name, value in HEADERS.items():
            assert one.headers.get_list(name) == [value], (one.url, name)
        assert "set-cookie" not in one.headers
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


def test_a_foreign_page_can_not_ask_leave_to_send_the_key(site: Site) -> None:
    asked = site.client.options(
        "/do/sessions/x/abort",
        headers={
            "Origin": "http://evil.example",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "x-agentforge-key",
        },
    )
    assert asked.status_code == 403
    assert not any(name.startswith("access-control") for name in asked.headers)


def test_a_websocket_is_refused(site: Site) -> None:
    from starlette.websockets import WebSocketDisconnect

    with pytest.raises(WebSocketDisconnect), site.client.websocket_connect("/events"):
        pass
