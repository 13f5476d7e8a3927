"""A workspace is dated the same whether its metadata is compared or parsed."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentforge_sessions.base.files import OsFileSystem
from agentforge_sessions.sandbox import CorruptedMetadata
from agentforge_sessions.sandbox.session_workspaces.session_metadata import (
    SessionMetadata,
    encode_metadata,
    parse_metadata,
)
from agentforge_sessions.sandbox.session_workspaces.session_metadata_file import (
    METADATA_NAME,
    read_times,
)
from tests.support.soak import examples

SESSION = "7f3b2c1e-0d4a-4b6e-9f8a-112233445566"
TIMES = st.datetimes(
    min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30), timezones=st.just(UTC)
)
BYTES = st.one_of(
    st.sampled_from([b'"', b"\\", b"\n", b" ", b",", b"}", b"Z", b"0", b"\xc3\xbc", b"\x00", b""]),
    st.binary(max_size=3),
)


def dated(directory: Path, content: bytes) -> object:
    """Say when a workspace with this metadata was made and used, or why nobody knows."""
    (directory / METADATA_NAME).write_bytes(content)
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        times = read_times(OsFileSystem(), fd, SESSION)
    except CorruptedMetadata as error:
        return error.reason
    finally:
        os.close(fd)
    return times and times[:2]


def parsed(content: bytes) -> object:
    try:
        metadata = parse_metadata(SESSION, content)
    except CorruptedMetadata as error:
        return error.reason
    return metadata.created_at, metadata.updated_at


@given(
    created=TIMES,
    updated=st.one_of(st.none(), TIMES),
    where=st.integers(0, 200),
    length=st.integers(0, 40),
    instead=BYTES,
)
@settings(max_examples=examples(400), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_metadata_with_any_part_replaced_dates_a_workspace_as_the_parser_does(
    tmp_path: Path,
    created: datetime,
    updated: datetime | None,
    where: int,
    length: int,
    instead: bytes,
) -> None:
    content = encode_metadata(
        SessionMetadata(session_id=SESSION, created_at=created, updated_at=updated or created)
    )
    assert dated(tmp_path, content) == (created, updated or created)

    damaged = content[:where] + instead + content[where + length :]
    assert dated(tmp_path, damaged) == parsed(damaged)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"00Z", b"000"),
        (b"00.000000Z", b"00.00+00:00"),
        (b"00.000000Z", b"00.0000-01Z"),
        (b"T", b" "),
        (SESSION.encode(), SESSION.upper().encode()),
        (b": 1\n", b": 2\n"),
        (b": 1\n", b": 1 "),
        (b"}\n", b"}\n\n"),
        (b"}\n", b"}"),
        (b"{\n", b"{\r\n"),
        (b'"version": 1', b'"version": 1,\n  "more": 1'),
    ],
)
def test_what_is_nearly_as_it_is_written_is_dated_as_the_parser_does(
    tmp_path: Path, old: bytes, new: bytes
) -> None:
    time = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    content = encode_metadata(SessionMetadata(session_id=SESSION, created_at=time, updated_at=time))
    assert old in content
    changed = content.replace(old, new)
    assert dated(tmp_path, changed) == parsed(changed)
