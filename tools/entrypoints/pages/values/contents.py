"""What a file holds, as far as a page can show it: text, a picture, or why neither; pure."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from typing import Final, TypeAlias

from attrs import field, frozen

from .texts import size

MAX_FILE_TEXT: Final = 200_000
"""The most characters that are shown of one file."""
MAX_IMAGE_BYTES: Final = 512 << 10
"""The largest picture that is shown, in bytes."""
_MAX_PIXELS: Final = 40_000_000
_START_OF_FRAME: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})


@frozen
class TextContent:
    """Text.

    Attributes:
        text: What is shown.
        left_out: How many characters follow it.
        size: The file's size in bytes.
    """

    text: str = field(repr=False)
    left_out: int
    size: int


@frozen
class ImageContent:
    """A picture.

    Attributes:
        kind: "png", "jpeg", "gif" or "webp".
        data: All of it.
        width: How wide it is, in pixels.
        height: How high.
    """

    kind: str
    data: bytes = field(repr=False)
    width: int
    height: int

    @property
    def size(self) -> int:
        """The file's size in bytes."""
        return len(self.data)

    @property
    def address(self) -> str:
        """The picture as an address that holds it."""
        return f"data:image/{self.kind};base64,{base64.b64encode(self.data).decode()}"


@frozen
class NoContent:
    """Nothing that can be shown.

    Attributes:
        reason: Why.
    """

    reason: str


Content: TypeAlias = TextContent | ImageContent | NoContent


def content_of(data: bytes, *, max_text: int = MAX_FILE_TEXT) -> Content:
    """Return what a file holds.

    A picture counts as one by its own first bytes, whatever its name says, and only in a form that
    can't run anything: SVG is text.

    Args:
        data: The file.
        max_text: The most characters of a text.
    """
    image = image_of(data)
    if image is not None:
        if len(data) > MAX_IMAGE_BYTES:
            return NoContent(f"a picture of {size(len(data))}; the page shows up to 512 KiB")
        if image.width * image.height > _MAX_PIXELS:
            return NoContent(f"a picture of {image.width:,} by {image.height:,} pixels")
        return image
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return NoContent(f"no text ({size(len(data))})")
    if "\0" in text:
        return NoContent(f"no text ({size(len(data))})")
    text = text.replace("\r\n", "\n")
    return TextContent(text[:max_text], max(0, len(text) - max_text), len(data))


def image_of(data: bytes) -> ImageContent | None:
    """Return the picture that some bytes are; None where they are none that a page can show."""
    for kind, measure in _MEASURES.items():
        try:
            found = measure(data)
        except (struct.error, IndexError):
            continue
        if found is not None and min(found) > 0:
            return ImageContent(kind, data, *found)
    return None


Size: TypeAlias = tuple[int, int]


def _png(data: bytes) -> Size | None:
    if not data.startswith(b"\x89PNG\r\n\x1a\n") or data[12:16] != b"IHDR":
        return None
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def _gif(data: bytes) -> Size | None:
    if not data.startswith((b"GIF87a", b"GIF89a")):
        return None
    width, height = struct.unpack_from("<HH", data, 6)
    return width, height


def _jpeg(data: bytes) -> Size | None:
    if not data.startswith(b"\xff\xd8\xff"):
        return None
    at = 2
    while data[at] == 0xFF:
        mark = data[at + 1]
        if mark in _START_OF_FRAME:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        at += 2 + struct.unpack_from(">H", data, at + 2)[0]
    return None


def _webp(data: bytes) -> Size | None:
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP":
        return None
    form = data[12:16]
    if form == b"VP8X":
        return 1 + _three(data, 24), 1 + _three(data, 27)
    if form == b"VP8L" and data[20] == 0x2F:
        bits = struct.unpack_from("<I", data, 21)[0]
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if form == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None


def _three(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 3], "little")


_MEASURES: Final[dict[str, Callable[[bytes], Size | None]]] = {
    "png": _png,
    "jpeg": _jpeg,
    "gif": _gif,
    "webp": _webp,
}
