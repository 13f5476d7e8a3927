"""Options: declarations, those that many commands share, and reading of values and files."""

from __future__ import annotations

import os
import re
import sys
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, ClassVar, Final

import typer
from attrs import frozen

if TYPE_CHECKING:
    from ...harness.domain.session_data import SessionLabels

QUESTIONS_OPTION: Final = "--questions"
"""Option of every command that works with question sessions."""
CHECKPOINT: Final = (
    "a checkpoint's number, the beginning of its snapshot's id, a phase, or an attempt as green-2"
)
"""Ways to name a checkpoint, for help."""
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_PART: Final = r"(?:\d{1,12}(?:\.\d{1,6})?)[smhdw]"
_SIZE: Final = re.compile(r"(?i)(\d{1,15})\s*(?:(k|m|g|t)(i?)b?|b)?")
_POWERS: Final = {"k": 1, "m": 2, "g": 3, "t": 4}


def option(usage: str, text: str | None = None, default: Any = None, **more: Any) -> Any:
    """Return an option of a command, of a group, or of a type that several of them share.

    Args:
        usage: Its names and its value, as in `-r, --reason TEXT`.
        text: Its help, which does not show the default; by default what the docstring says of the
            parameter, or of the group's attribute.
        default: Its value if it is not given; `...` if it is required.
        more: Further settings of `typer.Option`.
    """
    words = usage.replace(", ", " ").split()
    names = [word for word in words if word.startswith("-")]
    if names != words:
        more["metavar"] = words[-1]
    return typer.Option(default, *names, help=text, **{"show_default": False, **more})


def flag(usage: str, text: str | None = None, *, default: bool = False, **more: Any) -> Any:
    """Return an option without a value."""
    return option(usage, text, default, **more)


def argument(metavar: str, text: str | None = None, default: Any = ..., **more: Any) -> Any:
    """Return an argument.

    Args:
        metavar: Its name in the help.
        text: Its help, as an option's.
        default: Its value if it is not given; it is required by default.
        more: Further settings of `typer.Argument`.
    """
    return typer.Argument(default, metavar=metavar, help=text, **{"show_default": False, **more})


def misuse(name: str, text: str) -> typer.BadParameter:
    """Return the error for an option or argument whose given value is unusable."""
    return typer.BadParameter(text, param_hint=name)


def complete_session_ids(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the sessions whose ids begin with `incomplete`, for shell completion."""
    from ...harness import SessionSummary
    from .default_sessions import sessions_being_typed

    found = []
    try:
        with closing(sessions_being_typed(context)) as store:
            for one in store.summaries():
                if not one.session_id.startswith(incomplete):
                    continue
                if isinstance(one, SessionSummary):
                    about = f"{one.head.state.value} {one.head.workflow_type or ''}".strip()
                else:
                    about = "unreadable"
                found.append((one.session_id, about if about.isascii() else ""))
    except Exception:  # noqa: BLE001 (completion must not print an error into the command line)
        return []
    return found


SessionId = Annotated[
    str,
    argument(
        "ID", "The session's id, or an unambiguous part of it.", autocompletion=complete_session_ids
    ),
]
Reason = Annotated[str | None, option("--reason, -r TEXT", "The reason; recorded in the history.")]
Follow = Annotated[
    bool, flag("--follow, -f", "Show each change until the session ends or you press Ctrl-C.")
]
Yes = Annotated[bool, flag("--yes, -y", "Do not ask.")]
_TOKENS: Final = re.compile(r"(?i)([0-9]{1,15})(k|m)?")


def parse_tokens(text: str) -> int:
    """Read a number of tokens, which may end in k for thousands or M for millions.

    Raises:
        typer.BadParameter: The text is no such number, or 0.
    """
    found = _TOKENS.fullmatch(str(text).strip())
    number = 0 if found is None else int(found[1]) * 1000 ** " km".index((found[2] or " ").lower())
    if number == 0:
        raise typer.BadParameter(
            f"{text[:60]!r} is no number of tokens. Write it as 200000, 200k or 2M, at least 1"
        )
    return number


Tokens = Annotated[
    int | None,
    option(
        "--budget TOKENS",
        "Tokens allotted, as in 200000 or 200k; the workflow's own by default.",
        parser=parse_tokens,
    ),
]


# -------------------------------------------------------------------------------- question sessions


QuestionsDirectory = Annotated[
    str | None,
    option(
        f"{QUESTIONS_OPTION} DIR",
        "Directory of the question sessions; AGENTFORGE_QUESTIONS, the configuration's or "
        "./.agentforge/questions by default.",
    ),
]


@frozen
class QuestionPlace:
    """The directory of a command's question sessions."""

    directory: QuestionsDirectory
    shared: bool = flag(
        "--shared",
        "Use the queue that all your projects and programs share: AUQ_SESSION_DIR, "
        "or auq/sessions in your data directory by default.",
    )

    @property
    def path(self) -> Path | None:
        """The named directory, or None.

        Raises:
            typer.BadParameter: The name is empty, or two directories were named.
        """
        return questions_directory(self.directory, shared=self.shared)


def questions_directory(given: str | None, *, shared: bool = False) -> Path | None:
    """Return the directory that `--questions` or `--shared` names; None if neither was given.

    Raises:
        typer.BadParameter: The name is empty, or both were given.
    """
    if shared:
        from ...questions import shared_directory

        if given is not None:
            raise misuse("--shared", f"{QUESTIONS_OPTION} names another place")
        return shared_directory()
    if given == "":
        raise misuse(QUESTIONS_OPTION, "the path is empty")
    return None if given is None else Path(given)


# --------------------------------------------------------------------------------- durations, sizes


class InvalidDuration(typer.BadParameter):
    """The text is not a duration."""

    def __init__(self, given: str, reason: str) -> None:
        super().__init__(
            f"{given[:60]!r} {reason}. Write a number and a unit, as in 90m, 24h, 7d or 1h30m "
            "(s seconds, m minutes, h hours, d days, w weeks)."
        )
        self.given = given


def parse_duration(text: str) -> timedelta:
    """Read a duration.

    Args:
        text: One or more numbers, each with a unit of s, m, h, d or w, larger units first.

    Raises:
        InvalidDuration: The text is not a duration.
    """
    compact = text.strip().lower()
    if not compact.isascii() or not re.fullmatch(f"(?:{_PART})+", compact):
        raise InvalidDuration(text, "is not a duration")
    parts = [(float(part[:-1]), part[-1]) for part in re.findall(_PART, compact)]
    sizes = [_UNITS[unit] for _, unit in parts]
    if sizes != sorted(set(sizes), reverse=True):
        raise InvalidDuration(text, "names a unit twice or a smaller one before a larger one")
    try:
        return timedelta(seconds=sum(number * _UNITS[unit] for number, unit in parts))
    except OverflowError:
        raise InvalidDuration(text, "is too long") from None


def parse_size(text: str) -> int:
    """Read a number of bytes; a KB is 1,000 bytes, a KiB 1,024.

    Args:
        text: A whole number, with or without a unit.

    Raises:
        typer.BadParameter: The text is not a size.
    """
    found = _SIZE.fullmatch(text.strip()) if text.isascii() else None
    if found is None:
        raise typer.BadParameter(
            f"{text[:60]!r} is no size. Write a whole number and a unit, as in 512MB or 1GiB"
        )
    number, unit, binary = found.groups()
    base = 1024 if binary else 1000
    size: int = int(number) * base ** _POWERS.get((unit or "").lower(), 0)
    return size


# ------------------------------------------------------------------------------------------ labels


TAGS: Final = option("--tag NAME", "A word to find the session by; may be repeated.")
METADATA: Final = option(
    "--metadata KEY=JSON",
    "What to keep with the session under a name; a value that is no JSON is a text. May be "
    "repeated.",
)


def parse_metadata(given: list[str] | None) -> dict[str, Any]:
    """Read the fields that `--metadata` names; the last one of a name counts.

    Raises:
        typer.BadParameter: A field has no name.
    """
    import json

    found: dict[str, Any] = {}
    for one in given or ():
        name, separator, value = one.partition("=")
        if not separator or not name:
            raise misuse(
                "--metadata", f"{one[:60]!r} names no field; write KEY=JSON, as in ticket=4711"
            )
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


@frozen
class Labels:
    """Title, tags and metadata that people give a session."""

    panel: ClassVar = "Options"

    title: str | None = option("--title TEXT", "What people call the session: one line.")
    tags: list[str] | None = TAGS
    metadata: list[str] | None = METADATA

    def of_session(self) -> SessionLabels:
        """Return the labels for a new session.

        Raises:
            typer.BadParameter: A metadata field has no name.
        """
        from ...harness.domain.session_data import SessionLabels

        fields = parse_metadata(self.metadata)
        return SessionLabels(title=self.title, tags=self.tags or (), metadata=fields)


STANDARD_INPUT = Path("-")


def read_given(path: Path, *, option: str, most: int) -> bytes:
    """Return the content of a file, or of standard input if its name is `-`.

    Args:
        path: The file, which may be a pipe.
        option: The option that names it, for the error message.
        most: The largest content, in bytes.

    Raises:
        typer.BadParameter: It can't be read, or its content is larger.
    """
    too_large = typer.BadParameter(
        f"{path} has more than {most:,} bytes, the limit", param_hint=option
    )
    try:
        with ExitStack() as opened:
            stream: BinaryIO = sys.stdin.buffer
            if path != STANDARD_INPUT:
                stream = opened.enter_context(path.open("rb"))
                if os.fstat(stream.fileno()).st_size > most:
                    raise too_large
            data = stream.read(most + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise typer.BadParameter(f"{path} can't be read: {reason}", param_hint=option) from error
    if len(data) > most:
        raise too_large
    return data


def read_given_text(path: Path, *, option: str, most: int) -> str:
    """Return the text of a file, as `read_given` returns its bytes.

    Raises:
        typer.BadParameter: It can't be read, is not UTF-8, or its content is larger.
    """
    data = read_given(path, option=option, most=most)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise typer.BadParameter(
            f"{path} is not UTF-8 at byte {error.start}", param_hint=option
        ) from error
