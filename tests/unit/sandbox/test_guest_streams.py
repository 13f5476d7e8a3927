"""The mount that a guest hands its output to."""

from __future__ import annotations

import errno

import pytest

from agentforge_sessions.sandbox.guest_streams import StreamProvider


def test_a_stream_serves_nothing_but_its_streams() -> None:
    seen: list[str] = []
    streams = StreamProvider({"stdout": seen.append}, 10)
    assert streams.list("/") == [("stdout", "file")]
    assert (streams.stat("/").kind, streams.stat("/stdout").kind) == ("dir", "file")
    assert streams.read("/stdout") == b""
    for call in (streams.stat, streams.read):
        with pytest.raises(OSError):
            call("/stderr")
    for refused in (streams.mkdir, streams.remove, streams.rmdir):
        with pytest.raises(OSError) as caught:
            refused("/stdout")
        assert caught.value.errno == errno.EPERM
    with pytest.raises(OSError):
        streams.rename("/stdout", "/x")
    with pytest.raises(OSError):
        streams.set_times("/stdout", None, 1)
    with pytest.raises(OSError):
        streams.read("/")
    with pytest.raises(OSError):
        streams.list("/stdout")
    streams.write("/stdout", b"12345\xc3")
    streams.write("/stdout", b"\xbc89 and what is too much")
    streams.finish()
    assert "".join(seen) == "12345ü89 "
