"""The root of all errors that this library raises on purpose, their kinds and message texts."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple, TypeVar, dataclass_transform

_SHOWN_CHARS: Final = 80
_SHOWN_BITS: Final = 128
_LISTED: Final = 12
_SYSTEM_FIELDS: Final = ("errno", "strerror", "filename", "filename2")


def shown(value: object) -> str:
    """Return a refused value in a form safe for messages: short, and printable whatever it is."""
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 3]}..."


def first_of(texts: Sequence[str], *, most: int, what: str = "faults") -> list[str]:
    """Return the first of some texts, followed by a count of the rest."""
    more = len(texts) - most
    return [*texts[:most], f"and {more} more {what}".rstrip()] if more > 0 else list(texts)


def listed(texts: Sequence[str], *, most: int = 8, what: str = "faults") -> str:
    """Return the first of some texts joined into one, with a count of the rest."""
    return "; ".join(first_of(texts, most=most, what=what))


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: "1 file", "2,000 files"."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


class ErrorKind(Enum):
    """What an error means to a program that has to continue after it."""

    NOT_DONE = "not_done"
    """The work was not done: a person declined, or a requirement is not installed."""
    USAGE = "usage"
    """An argument or option is wrong."""
    NOT_FOUND = "not_found"
    """What was named does not exist."""
    AMBIGUOUS = "ambiguous"
    """A shortened id fits several."""
    CONFLICT = "conflict"
    """Somebody else changed, holds or runs it."""
    REFUSED = "refused"
    """The present state does not allow it."""
    INVALID_FILE = "invalid_file"
    """A file is invalid."""
    STORAGE = "storage"
    """The disk, its permissions or a lock failed."""
    SANDBOX = "sandbox"
    """The sandbox can't run code."""
    PERSON_NEEDED = "person_needed"
    """A person has to decide first."""
    BUDGET = "budget"
    """The remaining budget does not cover it."""
    TIMEOUT = "timeout"
    """No answer came in time."""
    INTERRUPTED = "interrupted"
    """A person interrupted it."""
    UNEXPECTED = "unexpected"
    """A fault of the program itself."""


_REQUIRED: Final = object()


Declared = NamedTuple(  # noqa: UP014 - annotations of the class form are compiled, which the hook would pay for
    "Declared", [("annotation", object), ("default", object), ("by_name", bool)]
)
"""A field declared by an error's class."""

_DECLARED: Final[dict[type[BaseException], dict[str, Declared]]] = {}


@dataclass_transform(eq_default=False)
class AgentForgeError(Exception):
    """Base of the library's errors.

    `str(error)` says what happened, what was retained and what to do; programs read the fields. A
    class declares both:

        class PruneBusy(PruneError, kind=ErrorKind.CONFLICT):
            message = "another prune works on {path} (waited {timeout_s:g} s); nothing was removed"
            path: Path
            timeout_s: float

    Its constructor takes the annotated fields like a dataclass: by position or by name (by name
    only with `kw_only=True`), and calls `__post_init__`; a list becomes a tuple. In the text, which
    is one line, `{field!r}` is quoted and bounded, `{field:,}` and `{field:;}` list the first texts
    of a sequence, `{field:or none}` replaces an empty value by the words after "or", and a cause is
    the system's own message. A class whose text has variable parts defines properties for them, or
    overrides `__str__`.
    """

    kind: ErrorKind = ErrorKind.UNEXPECTED
    """Its meaning to a program; a single error may differ from its class."""
    retryable: ClassVar[bool] = False
    """Whether the same call, unchanged, may succeed later."""
    message: ClassVar[str] = ""
    """The template of the text; without one, the text is the constructor's argument."""
    brief: ClassVar[str] = ""
    """The template of `user_message`, where that is shorter than the text."""
    _by_name: ClassVar[bool] = False

    def __init_subclass__(
        cls,
        *,
        kind: ErrorKind | None = None,
        retryable: bool | None = None,
        kw_only: bool = False,
    ) -> None:
        super().__init_subclass__()
        cls.kind = cls.kind if kind is None else kind
        cls.retryable = cls.retryable if retryable is None else retryable
        cls._by_name = kw_only
        for name in {"message", "brief"} & vars(cls).keys():
            setattr(cls, name, " ".join(vars(cls)[name].split()))

    def __init__(self, *given: object, **named: object) -> None:
        fields = declared_fields(type(self))
        if not fields and not self.message:
            self.args = given
            return
        for name, value in _bound(type(self).__name__, fields, given, named).items():
            setattr(self, name, tuple(value) if isinstance(value, list) else value)
        self.__post_init__()
        self.args = (str(self),)

    def __post_init__(self) -> None:
        """Set attributes derived from the fields."""

    def __str__(self) -> str:
        return _filled(self.message, self) if self.message else Exception.__str__(self)

    def __reduce__(self) -> tuple[object, ...]:
        """Give copies and other processes the text and the fields without calling the class."""
        return _as_it_was, (type(self), self.args), {**_of_the_system(self), **vars(self)}

    @property
    def user_message(self) -> str:
        """One sentence for the person who uses the program; the whole text by default."""
        return _filled(self.brief, self) if self.brief else str(self)

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


def declared_fields(kind: type[AgentForgeError]) -> Mapping[str, Declared]:
    """Return the fields that a class and its bases declare, in the order of its constructor."""
    found = _DECLARED.get(kind)
    if found is None:
        found = _DECLARED[kind] = {}
        for base in reversed(kind.__mro__):
            if base is not AgentForgeError and issubclass(base, AgentForgeError):
                found |= _own_fields(base)
    return found


def _own_fields(kind: type[AgentForgeError]) -> dict[str, Declared]:
    return {
        name: Declared(annotation, vars(kind).get(name, _REQUIRED), kind._by_name)
        for name, annotation in vars(kind).get("__annotations__", {}).items()
        if not str(annotation).startswith("ClassVar")
    }


def _bound(
    kind: str, fields: Mapping[str, Declared], given: Sequence[object], named: Mapping[str, object]
) -> Mapping[str, object]:
    """Bind a constructor's arguments to the fields; return each field's value."""
    places = [name for name, field in fields.items() if not field.by_name] if given else []
    values = {**dict(zip(places, given, strict=False)), **named}
    bound = {name: values.get(name, field.default) for name, field in fields.items()}
    wrong = [name for name in places[: len(given)] if name in named]
    wrong += [name for name in named if name not in fields]
    wrong += [name for name, value in bound.items() if value is _REQUIRED]
    wrong += map(str, given[len(places) :])
    if wrong:
        raise TypeError(f"{kind}({', '.join(fields)}): missing, unknown or twice: {wrong}")
    return bound


class ExtraMissing(AgentForgeError, kind=ErrorKind.NOT_DONE):
    """The call needs a package that is not installed; nothing was done."""

    message = """{needed_by} needs {package}, which is not installed here; nothing was done. Install
    it with: pip install 'agentforge-sessions[{extra}]'{instead}"""
    needed_by: str
    package: str
    extra: str
    instead: str = ""
    """An alternative that works until then, as the end of the text."""


class AmbiguousId(AgentForgeError, kind=ErrorKind.AMBIGUOUS):
    """A shortened id fits several; nothing was done."""

    session_id: str
    candidates: Sequence[str]
    what: str = "sessions"

    def __post_init__(self) -> None:
        self.candidates = tuple(sorted(self.candidates))

    def __str__(self) -> str:
        fitting = ", ".join(first_of(self.candidates, most=_LISTED, what=""))
        return (
            f"{self.session_id} fits {len(self.candidates)} {self.what}: {fitting}. Give more of "
            "the id."
        )


_Error = TypeVar("_Error", bound=AgentForgeError)


def retyped(error: AgentForgeError, kind: type[_Error], **subject: object) -> _Error:
    """Return an error of another class with the fields that both share, and with a subject."""
    shared = declared_fields(kind).keys() & declared_fields(type(error)).keys()
    return kind(**{name: getattr(error, name) for name in shared} | subject)


WORKS_ELSEWHERE: Final = (
    "sessions, hooks, questions, the MCP server, `agentforge ui`, `agentforge prune` and "
    "`agentforge do --no-jail` need neither the sandbox nor the jail"
)


def why_not_linux() -> str | None:
    """Return why what needs Linux can't run on this system; None if this is Linux."""
    return None if sys.platform == "linux" else f"it needs Linux, and this is {sys.platform}"


def reason_of(cause: BaseException | None) -> str:
    """Return the system's message, without the number and the file name that an `OSError` adds."""
    if cause is None:
        return "unknown cause"
    return getattr(cause, "strerror", None) or str(cause)


class _Said:
    """A field's value, as a message template formats it."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __repr__(self) -> str:
        value = self._value
        return repr(str(value)) if hasattr(value, "__fspath__") else shown(value)

    def __format__(self, spec: str) -> str:
        value = self._value
        if spec.startswith("or ") and not value:
            return spec.removeprefix("or ")
        if isinstance(value, tuple):
            texts = first_of([*map(str, value)], most=_LISTED, what="")
            return ("; " if spec == ";" else ", ").join(texts)
        if isinstance(value, BaseException):
            return reason_of(value)
        spec = "" if spec.startswith("or ") else spec
        return format(value.value if isinstance(value, Enum) else value, spec)


class _Fields(dict[str, _Said]):
    """An error's attributes, as the mapping that a template formats."""

    def __init__(self, error: AgentForgeError) -> None:
        super().__init__()
        self._error = error

    def __missing__(self, name: str) -> _Said:
        return _Said(getattr(self._error, name))


def _filled(template: str, error: AgentForgeError) -> str:
    return template.format_map(_Fields(error))


def _as_it_was(kind: type[AgentForgeError], args: tuple[object, ...]) -> AgentForgeError:
    """Create an error without calling its class; the caller sets its fields."""
    error = kind.__new__(kind)
    error.args = args
    return error


def _of_the_system(error: AgentForgeError) -> Mapping[str, object]:
    """Return the `OSError` state outside the attributes, if the error is also an `OSError`."""
    if not isinstance(error, OSError):
        return {}
    found = {name: getattr(error, name) for name in _SYSTEM_FIELDS}
    return {name: value for name, value in found.items() if value is not None}
