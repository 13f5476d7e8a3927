"""Codes of addresses: each is exchanged for the key once, within some minutes."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from agentforge_sessions.entrypoints.loopback import CODE_LIFETIME_S, PageKey
from agentforge_sessions.entrypoints.ui.launch import in_browser
from tests.support.page_address import code_of
from tests.unit.ui.conftest import KEY, ORIGIN, PAGE_KEY, Site

OWN = {"Origin": ORIGIN}
SHOWN = {**OWN, "X-Agentforge-Key": KEY}


class Time:
    """A clock that stands still until it is moved."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_an_address_holds_a_code_and_never_the_key() -> None:
    key = PageKey(KEY)
    url = urlsplit(key.address(8766))
    assert (url.netloc, url.path, url.query) == ("127.0.0.1:8766", "/", "")
    assert url.fragment.startswith("code=")
    assert KEY not in url.geturl()
    assert key.address(8766) != key.address(8766)


def test_a_code_is_exchanged_once() -> None:
    key = PageKey(KEY)
    code = code_of(key.address(1))
    assert key.exchanged(code) == KEY
    assert key.exchanged(code) is None
    assert key.exchanged("") is None


def test_a_code_ends_after_its_time() -> None:
    time = Time()
    key = PageKey(KEY, monotonic=time)
    first, second = code_of(key.address(1)), code_of(key.address(1))
    time.now += CODE_LIFETIME_S - 0.001
    assert key.exchanged(first) == KEY
    time.now += 0.001
    assert key.exchanged(second) is None


def test_the_code_that_follows_is_for_the_next_load_and_can_be_renewed() -> None:
    time = Time()
    key = PageKey(KEY, monotonic=time)
    following = "f" * 32
    assert key.exchanged("x" * 32, following=following) is None
    assert key.exchanged(following) is None, "no code registers another one but a right one"
    assert key.exchanged(code_of(key.address(1)), following=following) == KEY
    time.now += CODE_LIFETIME_S / 2
    assert key.add_code(following)
    time.now += CODE_LIFETIME_S / 2
    assert key.exchanged(following) == KEY


@pytest.mark.parametrize("code", ["", "short", "x" * 31, "x" * 33, "x" * 31 + " ", "x" * 31 + "é"])
def test_a_code_that_could_be_guessed_is_not_taken(code: str) -> None:
    key = PageKey(KEY)
    assert not key.add_code(code)
    assert key.exchanged(code) is None


def test_of_very_many_codes_the_oldest_end() -> None:
    key = PageKey(KEY)
    codes = [code_of(key.address(1)) for _ in range(300)]
    assert key.exchanged(codes[0]) is None
    assert key.exchanged(codes[-1]) == KEY


def test_the_exchange_is_a_post_of_the_own_page(site: Site) -> None:
    code = code_of(PAGE_KEY.address(8766))
    for headers in ({}, {"Origin": "http://127.0.0.1:9"}, {**OWN, "Sec-Fetch-Site": "cross-site"}):
        assert site.client.post("/key", data={"code": code}, headers=headers).status_code == 403
    asked = site.client.get(f"/key?code={code}", headers=OWN)
    assert KEY not in asked.text
    found = site.client.post("/key", data={"code": code}, headers=OWN)
    assert (found.status_code, found.text) == (200, KEY)
    again = site.client.post("/key", data={"code": code}, headers=OWN)
    assert again.status_code == 403
    assert "Press Enter" in again.text


def test_only_a_page_with_the_key_makes_codes(site: Site) -> None:
    code = "c" * 32
    assert site.client.post("/code", data={"code": code}, headers=OWN).status_code == 401
    assert site.client.post("/key", data={"code": code}, headers=OWN).status_code == 403
    assert site.client.post("/code", data={"code": "x"}, headers=SHOWN).status_code == 422
    assert site.client.post("/code", data={"code": code}, headers=SHOWN).status_code == 204
    assert site.client.post("/key", data={"code": code}, headers=OWN).text == KEY


def test_what_asks_for_the_key_is_read_within_a_small_bound(site: Site) -> None:
    code = code_of(PAGE_KEY.address(8766))
    long = site.client.post("/key", data={"code": code, "more": "x" * 2_000}, headers=OWN)
    assert long.status_code == 413
    assert KEY not in long.text


def test_the_browser_is_given_a_file_that_holds_the_code_alone() -> None:
    opened: list[str] = []
    with in_browser(PageKey(KEY).address(1), browse=opened.append):
        path = Path(opened[0].removeprefix("file://"))
        text = path.read_text()
        assert path.stat().st_mode & 0o077 == 0
    assert "#code=" in text
    assert KEY not in text
    assert not path.exists()
