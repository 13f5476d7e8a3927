"""A call's outcome as a value, for callers that branch on it instead of catching exceptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Literal, ParamSpec, TypeVar

from .errors import AgentForgeError

_T = TypeVar("_T")
_P = ParamSpec("_P")


@dataclass(frozen=True, slots=True)
class Success(Generic[_T]):
    """The call returned.

    Attributes:
        value: What it returned.
    """

    value: _T

    @property
    def ok(self) -> Literal[True]:
        """Always True."""
        return True

    def unwrap(self) -> _T:
        """Return the value."""
        return self.value


@dataclass(frozen=True, slots=True)
class Failure:
    """The call raised one of the library's errors.

    Attributes:
        error: The error, with its cause and traceback.
    """

    error: AgentForgeError

    @property
    def ok(self) -> Literal[False]:
        """Always False."""
        return False

    @property
    def code(self) -> str:
        """The error's code: the name of its class, as in `SessionNotFound`."""
        return type(self.error).__name__

    @property
    def message(self) -> str:
        """One sentence for the person who uses the program."""
        return self.error.user_message

    @property
    def fields(self) -> Mapping[str, object]:
        """The error's fields, by name."""
        return self.error.fields

    def unwrap(self) -> object:
        """Raise the error."""
        raise self.error


Result = Success[_T] | Failure
"""What `attempt` returns."""


def attempt(call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> Success[_T] | Failure:
    """Call `call`; return its value, or the library's error that it raised.

    Any other exception is a fault of the program and propagates.
    """
    try:
        return Success(call(*args, **kwargs))
    except AgentForgeError as error:
        return Failure(error)
