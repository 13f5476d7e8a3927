from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentforge_sessions.fleet.postgres.address import (
    UNREADABLE,
    for_command_line,
    require_address,
    without_password,
)
from agentforge_sessions.fleet.postgres.errors import InvalidStoreAddress


@pytest.mark.parametrize(
    ("url", "shown", "reused"),
    [
        ("postgresql://db", "postgresql://db", None),
        ("postgresql://me:pw@db:5433/agents", "postgresql://me@db:5433/agents", None),
        ("postgresql://me@a:1,b:2/x", "postgresql://me@a:1,b:2/x", None),
        ("postgresql://[::1]:5432/x", "postgresql://[::1]:5432/x", None),
        (
            "postgres://me:pw@db/x?password=pw&sslmode=require",
            "postgres://me@db/x",
            "postgres://me@db/x?sslmode=require",
        ),
        (
            "postgresql:///x?host=/run/pg&user=me&sslpassword=pw",
            "postgresql://me@%2Frun%2Fpg/x",
            "postgresql:///x?host=%2Frun%2Fpg&user=me",
        ),
    ],
)
def test_an_address_is_shown_without_its_secrets(url: str, shown: str, reused: str | None) -> None:
    require_address(url)
    assert without_password(url) == shown
    assert for_command_line(url) == (reused or shown)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:12@34@db/x",
        "postgresql://me:12/34@db/x",
        "postgresql://me:12?34@db/x",
        "postgresql://me:12#34@db/x",
        "postgresql://me:12:34@db/x",
        "postgresql:/me:1234@db/x",
    ],
)
def test_what_would_be_read_in_another_way_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(InvalidStoreAddress) as refused:
        require_address(url)
    for shown in (str(refused.value), refused.value.store, without_password(url)):
        assert not {"12", "34", "1234"} & set(shown.replace("/", " ").replace(":", " ").split())
    assert without_password(url) == for_command_line(url) == UNREADABLE


@given(st.text(max_size=20), st.sampled_from(["", "/x", "/x?password=", "?sslpassword=", "@"]))
@example("12?34", "/x")
def test_no_secret_is_ever_shown(secret: str, rest: str) -> None:
    for url in (f"postgresql://me:{secret}!@db{rest}", f"postgresql://me@db{rest}{secret}!"):
        if "=" not in rest and url.endswith(f"{secret}!"):
            continue  # no password
        assert "!" not in without_password(url)
        assert "!" not in for_command_line(url)
