"""The root of every error that this library raises on purpose, their kinds, their words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import ClassVar, Final

_SHOWN_CHARS: Final = 80
_SHOWN_BITS: Final = 128
_SYSTEM_FIELDS: Final = ("errno", "strerror", "filename", "filename2")


def shown(value: object) -> str:
    """Return a refused value as it may stand in a message: short, and printable whatever it is."""
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 3]}..."


def first_of(texts: Sequence[str], *, most: int, what: str = "faults") -> list[str]:
    """Return the first of some texts, and behind them how many more there are."""
    more = len(texts) - most
    return [*texts[:most], f"and {more} more {what}".rstrip()] if more > 0 else list(texts)


def listed(texts: Sequence[str], *, most: int = 8, what: str = "faults") -> str:
    """Return the first of some texts as one, with how many more there are."""
    return "; ".join(first_of(texts, most=most, what=what))


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number with what is counted: "1 file", "2,000 files"."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


class ErrorKind(Enum):
    """What an error means to a program that has to go on after it."""

    NOT_DONE = "not_done"
    """The work was not done: a person said no, or what it needs is not installed."""
    USAGE = "usage"
    """An argument or option is wrong."""
    NOT_FOUND = "not_found"
    """What was named does not exist."""
    AMBIGUOUS = "ambiguous"
    """A shortened id fits several."""
    CONFLICT = "conflict"
    """Somebody else changed it, holds it or runs it."""
    REFUSED = "refused"
    """The present state does not allow it."""
    INVALID_FILE = "invalid_file"
    """A file is not what it should be."""
    STORAGE = "storage"
    """The disk, its permissions or a lock."""
    SANDBOX = "sandbox"
    """The sandbox can't run code."""
    PERSON_NEEDED = "person_needed"
    """A person has to decide first."""
    BUDGET = "budget"
    """What is left of the budget does not cover it."""
    TIMEOUT = "timeout"
    """Nobody answered in time."""
    INTERRUPTED = "interrupted"
    """A person interrupted it."""
    UNEXPECTED = "unexpected"
    """A fault of the program itself."""


class AgentForgeError(Exception):
    """Base of the library's errors.

    `str(error)` says what happened, what was kept and what to do. Programs read the fields.

    Attributes:
        kind: What it means to a program. A class says it for all of its errors; one error may say
            otherwise.
        retryable: Whether the same call, unchanged, may succeed later.
    """

    kind: ErrorKind = ErrorKind.UNEXPECTED
    retryable: ClassVar[bool] = False

    def __reduce__(self) -> tuple[object, ...]:
        """Have copies, and other processes, get the text and the fields as they are.

        A class builds its text of its arguments, so it can't be called with the text again.
        """
        return _as_it_was, (type(self), self.args), {**_of_the_system(self), **vars(self)}

    @property
    def user_message(self) -> str:
        """One sentence for the person who uses the program; the whole text by default."""
        return str(self)

    @property
    def fields(self) -> Mapping[str, object]:
        """The error's public attributes, by name, without those that every error has."""
        return MappingProxyType(
            {
                name: value
                for name, value in vars(self).items()
                if not (name.startswith("_") or hasattr(AgentForgeError, name))
            }
        )


def _as_it_was(kind: type[AgentForgeError], args: tuple[object, ...]) -> AgentForgeError:
    """Make an error without calling its class; its fields are set next."""
    error = kind.__new__(kind)
    error.args = args
    return error


def _of_the_system(error: AgentForgeError) -> Mapping[str, object]:
    """Return what an `OSError` holds beside its attributes, where an error is one as well."""
    if not isinstance(error, OSError):
        return {}
    found = {name: getattr(error, name) for name in _SYSTEM_FIELDS}
    return {name: value for name, value in found.items() if value is not None}
