"""What files hold: text, pictures by their own bytes, and what is neither."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest

from agentforge_sessions.entrypoints.pages.values.contents import (
    MAX_IMAGE_BYTES,
    ImageContent,
    NoContent,
    TextContent,
    content_of,
    image_of,
)


def png(width: int = 3, height: int = 2) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + b"\x80" * min(width, 9) for _ in range(min(height, 9))))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


GIF = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
JPEG = (
    b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"
    b"\xff\xc0\x00\x0b\x08\x00\x05\x00\x07\x01\x01\x11\x00\xff\xd9"
)
WEBP_LOSSLESS = b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\x04\x40\x00\x00"
WEBP = b"RIFF\x1a\0\0\0WEBPVP8 \x0d\0\0\0\0\0\0\x9d\x01\x2a\x09\x00\x06\x00"
WEBP_LARGE = b"RIFF\x1a\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x0a\0\0\x0b\0\0"


@pytest.mark.parametrize(
    ("data", "kind", "size"),
    [
        (png(), "png", (3, 2)),
        (GIF, "gif", (1, 1)),
        (JPEG, "jpeg", (7, 5)),
        (WEBP, "webp", (9, 6)),
        (WEBP_LOSSLESS, "webp", (5, 2)),
        (WEBP_LARGE, "webp", (11, 12)),
    ],
)
def test_pictures_are_known_by_their_bytes(data: bytes, kind: str, size: tuple[int, int]) -> None:
    found = content_of(data)
    assert isinstance(found, ImageContent)
    assert (found.kind, found.width, found.height) == (kind, *size)
    assert found.address == f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


@pytest.mark.parametrize(
    "data",
    [
        b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
        b"GIF87",
        b"\x89PNG\r\n\x1a\n<svg/onload=alert(1)>",
        b"\xff\xd8\xff",
        b"RIFF....WEBP",
        png(0, 5),
    ],
)
def test_what_only_begins_like_a_picture_is_none(data: bytes) -> None:
    assert image_of(data) is None


def test_drawings_that_could_run_are_text() -> None:
    assert isinstance(content_of(b"<svg onload='x'/>"), TextContent)


def test_text_is_bounded_and_says_what_is_left_out() -> None:
    found = content_of(b"abc\r\ndef", max_text=5)
    assert found == TextContent("abc\nd", 2, 8)


@pytest.mark.parametrize("data", [b"\xff\xfe", b"a\0b"])
def test_what_is_no_text_says_so(data: bytes) -> None:
    found = content_of(data)
    assert isinstance(found, NoContent)
    assert "no text" in found.reason


def test_large_pictures_are_not_shown() -> None:
    heavy = content_of(png() + b"\0" * MAX_IMAGE_BYTES)
    wide = content_of(png(50_000, 50_000))
    assert isinstance(heavy, NoContent)
    assert isinstance(wide, NoContent)
