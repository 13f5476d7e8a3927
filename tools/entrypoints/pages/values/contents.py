"""Classifies a file's content for a page: text, a picture, or the reason for neither; pure."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from typing import Final, TypeAlias

from attrs import field, frozen

from .texts import size

MAX_FILE_TEXT: Final = 200_000
"""Maximum number of characters shown of one file."""
MAX_IMAGE_BYTES: Final = 512 << 10
"""Size limit of a shown picture, in bytes."""
_MAX_PIXELS: Final = 40_000_000
_START_OF_FRAME: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})


@frozen
class TextContent:
    """A text file's content.

    Attributes:
        text: The part that is shown, with LF line ends.
        left_out: The number of characters after that part.
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
        data: The complete file.
        width: Its width in pixels.
        height: Its height in pixels.
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
        """The picture as a `data:` URL."""
        return f"data:image/{self.kind};base64,{base64.b64encode(self.data).decode()}"


@frozen
class NoContent:
    """Content that can't be shown.

    Attributes:
        reason: The reason.
    """

    reason: str


Content: TypeAlias = TextContent | ImageContent | NoContent


def content_of(data: bytes, *, max_text: int = MAX_FILE_TEXT) -> Content:
    """Return a file's content as far as a page can show it, with at most `max_text` characters.

    Pictures are recognized by their first bytes, never by name, and only in formats that can't run
    code: SVG counts as text.
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
    """Return the bytes as a picture, or None if they are not in a format that a page can show.

    Only the header is checked; a damaged picture may pass.
    """
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
