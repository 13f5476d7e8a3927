"""Sessions as YAML: the one form that is written, and every form that is read.

What is written is plain block YAML 1.1 that any YAML library reads to the same values. Its form is
so regular that a reader of ours needs no YAML parser for it: a file that is exactly as we write it
is taken apart by regular expressions, and every other one (edited by hand, say) goes through
libyaml's events, with no tags, no aliases, no depth and no surprises allowed. Both ways end in the
same constructors, so nothing is believed because of how it was read.

docs/session-format.md is the description of the format for people.
"""

from __future__ import annotations

from pathlib import Path

from .errors import SessionCorrupted
from .session_document import decode_any
from .session_domain import SessionContext
from .session_head import (
    HEAD_BYTES,
    SessionHead,
    SessionStamp,
    decode_head,
    decode_stamp,
)
from .session_nodes import Faults
from .session_reader import decode_ours
from .session_scalars import (
    END_MARK,
    HEADER,
    SCHEMA_VERSION,
    NotOurs,
    encode_text,
    encode_time,
)
from .session_writer import SessionEncoder, encode_head, encode_session

__all__ = [
    "END_MARK",
    "HEAD_BYTES",
    "SCHEMA_VERSION",
    "SessionEncoder",
    "SessionHead",
    "SessionStamp",
    "decode_head",
    "decode_session",
    "decode_stamp",
    "encode_head",
    "encode_session",
    "encode_text",
    "encode_time",
]


def decode_session(
    data: bytes, *, path: Path, encoder: SessionEncoder | None = None
) -> SessionContext:
    """Read a session's file.

    Args:
        data: The file, whole.
        path: Its path, for messages.
        encoder: If given, it takes over the text of the entries, so that the next save need not
            write them anew.

    Raises:
        SessionCorrupted: It is no session; the error names the file and every fault.
        UnsupportedSchema: A newer version wrote it.
    """
    try:
        text = _decode_bytes(data)
        try:
            session, artifacts, history = decode_ours(data, text)
        except (NotOurs, ValueError):
            # Whatever the quick reader stumbles over, the careful one gives the words for.
            return decode_any(text, path)
    except Faults as error:
        raise SessionCorrupted(path=path, faults=error.faults) from error
    if encoder is not None:
        encoder.seed(session, artifacts, history)
    return session


def _decode_bytes(data: bytes) -> str:
    if not data:
        raise Faults("it is empty")
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise Faults("line 1: it begins with a byte order mark; save it as UTF-8 without one")
    if b"\0" in data:
        raise Faults(f"it holds binary data: a NUL byte at {data.index(0)}")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Faults(f"line {line}: byte {error.start} is not UTF-8") from error
    if "\r" in text:
        line = text.count("\n", 0, text.index("\r")) + 1
        raise Faults(
            f"line {line}: it has Windows line endings (CR); save it with Unix ones (dos2unix)"
        )
    ours = text.startswith(HEADER)  # any other program may end its files as it likes
    if ours and not data.endswith(END_MARK) and not text.rstrip().endswith("\n..."):
        raise Faults("it is cut off: the last line is not the end mark '...'")
    return text
