"""What a browser wrote to the files of its profile."""

from __future__ import annotations

import zlib
from pathlib import Path


def files_with(profile: Path, text: str) -> list[str]:
    """List the files of a profile that hold a text, in any of the forms that browsers write."""
    forms = [text.encode(), text.encode("utf-16-le"), text.encode("utf-16-be")]
    return sorted(
        str(path.relative_to(profile))
        for path in profile.rglob("*")
        if path.is_file() and not path.is_symlink() and _holds(path, forms)
    )


def _holds(path: Path, forms: list[bytes]) -> bool:
    content = path.read_bytes()
    return any(form in content or form in _unpacked(content) for form in forms)


def _unpacked(content: bytes) -> bytes:
    """Unpack what is packed as a whole, as parts of a cache are."""
    try:
        return zlib.decompress(content, wbits=47)
    except zlib.error:
        return b""
