"""Output that is handed on while a guest runs."""

from __future__ import annotations

from agentforge_sessions.sandbox.guest.guest_streams import GuestStreams


def test_text_is_decoded_across_writes_and_cut_at_the_limit() -> None:
    seen: list[str] = []
    streams = GuestStreams({"stdout": seen.append}, 10)
    streams.write("stdout", b"12345\xc3")
    streams.write("stdout", b"\xbc89 and what is too much")
    streams.finish()
    assert "".join(seen) == "12345ü89 "


def test_a_callback_that_raises_is_not_called_again_and_is_named() -> None:
    calls: list[str] = []

    def fail(text: str) -> None:
        calls.append(text)
        raise KeyError(text)

    streams = GuestStreams({"stderr": fail}, 100)
    streams.write("stderr", b"one")
    streams.write("stderr", b"two")
    streams.finish()
    assert calls == ["one"]
    assert streams.errors == {"stderr": "KeyError"}
