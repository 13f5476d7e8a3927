"""Moments are aware and in UTC."""

from datetime import UTC, datetime, timedelta, timezone

from agentforge_sessions.base.clock import as_utc, utc_now


def test_a_moment_without_a_zone_is_read_as_utc() -> None:
    assert as_utc(datetime(2026, 3, 1, 9)) == datetime(2026, 3, 1, 9, tzinfo=UTC)


def test_a_moment_of_another_zone_is_converted() -> None:
    moment = datetime(2026, 3, 1, 9, tzinfo=timezone(timedelta(hours=2)))
    assert as_utc(moment) == datetime(2026, 3, 1, 7, tzinfo=UTC)
    assert as_utc(moment).tzinfo is UTC


def test_the_present_moment_is_in_utc() -> None:
    assert utc_now().tzinfo is UTC
