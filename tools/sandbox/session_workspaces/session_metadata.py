"""A sandbox session's metadata: the file's format, written and parsed as text.

`session_metadata_file` reads and writes the file itself.
"""

from __future__ import annotations

import errno
import json
import math
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, Never

from attrs import field, frozen

from ...base.errors import shown
from ..errors import CorruptedMetadata

METADATA_VERSION: Final = 1
"""The version of the format that is written and understood."""

MAX_METADATA_BYTES: Final = 64 << 10
"""The largest metadata file that is written or read."""

_MOST_ERROR: Final = 500
_FIELDS: Final = ("session_id", "created_at", "updated_at", "version")


@frozen(kw_only=True)
class SessionMetadata:
    """The metadata of a sandbox session.

    Attributes:
        session_id: The session, which is also the name of its workspace.
        created_at: When its workspace was created, in UTC.
        updated_at: When code last succeeded in it, in UTC.
        version: The version of the file's format.
        extra: Fields that are not ours, preserved unchanged.
    """

    session_id: str
    created_at: datetime
    updated_at: datetime
    version: int = METADATA_VERSION
    extra: Mapping[str, object] = field(factory=dict, hash=False)


@frozen(kw_only=True)
class ExecutionRecord:
    """One execution, for the metadata of a session that counts them.

    Attributes:
        success: Whether it succeeded.
        fuel: The WebAssembly instructions it used.
        error: What went wrong, in one line; None if nothing did.
    """

    success: bool
    fuel: int
    error: str | None = None

    def add_to(self, fields: dict[str, object]) -> None:
        """Add it to the counts in a file's fields; an invalid count restarts."""
        fields["execution_count"] = _counted(fields, "execution_count") + 1
        fields["total_fuel_consumed"] = _counted(fields, "total_fuel_consumed") + self.fuel
        if self.error is not None or "last_error" not in fields:
            fields["last_error"] = self.error and self.error[:_MOST_ERROR]


def _counted(fields: Mapping[str, object], name: str) -> int:
    value = fields.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def format_time(moment: datetime) -> str:
    """Format a time for the file: ISO 8601 in UTC, six digits of a second, `Z`."""
    plain = moment.astimezone(UTC).replace(tzinfo=None)
    return plain.isoformat(timespec="microseconds") + "Z"


def encode_metadata(metadata: SessionMetadata) -> bytes:
    """Return the file's content for a session's metadata."""
    return encode_fields(
        {
            "session_id": metadata.session_id,
            "created_at": format_time(metadata.created_at),
            "updated_at": format_time(metadata.updated_at),
            "version": metadata.version,
            **metadata.extra,
        }
    )


def encode_fields(fields: Mapping[str, object]) -> bytes:
    """Return the file's content for its fields.

    Raises:
        OSError: It would be too large (EFBIG).
    """
    content = (json.dumps(fields, indent=2, allow_nan=False) + "\n").encode("ascii")
    if len(content) > MAX_METADATA_BYTES:  # extra fields take less room unescaped
        with suppress(UnicodeEncodeError):
            text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
            content = text.encode("utf-8")
    if len(content) > MAX_METADATA_BYTES:
        raise OSError(errno.EFBIG, f"it would have more than {MAX_METADATA_BYTES:,} bytes")
    return content


def parse_metadata(session_id: str, content: bytes) -> SessionMetadata:
    """Parse the content of a session's metadata file.

    Times without a zone count as UTC.

    Raises:
        CorruptedMetadata: The content is not valid metadata of this session.
    """
    return interpret_fields(session_id, decode_fields(session_id, content))


def decode_fields(session_id: str, content: bytes) -> dict[str, Any]:
    """Parse the fields of a file's content, whatever they are."""
    try:
        fields = json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
    except UnicodeDecodeError:
        raise CorruptedMetadata(session_id, "it is no UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise CorruptedMetadata(session_id, f"it is no JSON ({error})") from None
    if not isinstance(fields, dict):
        raise CorruptedMetadata(session_id, f"it is no object but {type(fields).__name__}")
    return fields


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a name occurs twice")
    return fields


def _no_constant(name: str) -> Never:
    raise ValueError(f"{name} is no number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


def interpret_fields(session_id: str, fields: Mapping[str, object]) -> SessionMetadata:
    """Validate a file's fields as metadata; times without a zone count as UTC.

    Raises:
        CorruptedMetadata: They are not valid metadata of this session.
    """
    missing = [name for name in _FIELDS if name not in fields]
    if missing:
        raise CorruptedMetadata(session_id, f"it lacks {', '.join(missing)}")
    version = fields["version"]
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise CorruptedMetadata(session_id, f"its version is {shown(version)}")
    if version > METADATA_VERSION:
        raise CorruptedMetadata(
            session_id, f"its version is {shown(version)}, not {METADATA_VERSION}", newer=True
        )
    if fields["session_id"] != session_id:
        raise CorruptedMetadata(session_id, f"its session_id is {shown(fields['session_id'])}")
    return SessionMetadata(
        session_id=session_id,
        created_at=_time(session_id, "created_at", fields["created_at"]),
        updated_at=_time(session_id, "updated_at", fields["updated_at"]),
        version=version,
        extra={name: value for name, value in fields.items() if name not in _FIELDS},
    )


def _time(session_id: str, name: str, value: object) -> datetime:
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            return (moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment).astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise CorruptedMetadata(session_id, f"its {name} is {shown(value)}, which is no time")


_TIME_CHARACTERS: Final = len("2026-01-31T23:59:59.000000Z")
_BETWEEN_TIMES: Final = '",\n  "updated_at": "'
_AFTER_TIMES: Final = '",\n  "version": 1\n}\n'
_UPDATED: Final = slice(-len(_AFTER_TIMES) - _TIME_CHARACTERS, -len(_AFTER_TIMES))
_CREATED: Final = slice(
    _UPDATED.start - len(_BETWEEN_TIMES) - _TIME_CHARACTERS, _UPDATED.start - len(_BETWEEN_TIMES)
)
MOST_AS_WRITTEN: Final = 512


def parse_times_as_written(session_id: str, text: str) -> tuple[datetime, datetime] | None:
    """Read both times of a file exactly as `encode_metadata` writes it, without a parser.

    Args:
        session_id: The session, a UUID: nothing in it needs an escape in JSON.
        text: The first `MOST_AS_WRITTEN` characters of the file.

    Returns:
        `created_at` and `updated_at`, or None if the file differs from that form.
    """
    created, updated = text[_CREATED], text[_UPDATED]
    as_written = (
        f'{{\n  "session_id": "{session_id}",\n  "created_at": "{created}'
        f"{_BETWEEN_TIMES}{updated}{_AFTER_TIMES}"
    )
    if text != as_written or not created[-1:] == updated[-1:] == "Z":
        return None
    try:
        at = datetime.fromisoformat(updated)
        return (at if created == updated else datetime.fromisoformat(created)), at
    except ValueError:
        return None
