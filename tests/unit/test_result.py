"""A call's outcome as a value."""

import pytest

from agentforge_sessions.base.errors import AgentForgeError
from agentforge_sessions.base.result import Failure, Success, attempt


class Refused(AgentForgeError):
    def __init__(self, path: str) -> None:
        super().__init__(f"{path} was refused; nothing was changed")
        self.path = path


def refuse(path: str) -> int:
    raise Refused(path)


def test_what_a_call_returns_is_a_success_with_its_value() -> None:
    outcome = attempt(int, "7")
    assert outcome == Success(7)
    assert outcome.ok
    assert outcome.unwrap() == 7


def test_an_error_of_the_library_is_a_failure_with_its_code_message_and_fields() -> None:
    outcome = attempt(refuse, path="a.txt")
    assert isinstance(outcome, Failure)
    assert not outcome.ok
    assert outcome.code == "Refused"
    assert outcome.message == "a.txt was refused; nothing was changed"
    assert outcome.fields == {"path": "a.txt"}


def test_unwrapping_a_failure_raises_its_error() -> None:
    outcome = attempt(refuse, "a.txt")
    with pytest.raises(Refused) as caught:
        outcome.unwrap()
    assert isinstance(outcome, Failure)
    assert caught.value is outcome.error


def test_an_error_that_is_not_the_librarys_passes_through() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        attempt(int, "seven")
