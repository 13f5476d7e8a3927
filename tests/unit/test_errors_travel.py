"""An error is the same in another process, and as a copy: its class, its text, its fields."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from agentforge_sessions.base.errors import AgentForgeError
from agentforge_sessions.harness import SessionNotFound
from tests.support.errors import public_exceptions
from tests.support.made_errors import made_error

PROMISED_S = 120
NEVER_LEAVE_THEIR_PACKAGE = {
    "entrypoints.cli.options.InvalidDuration",
    "questions.files.documents.Unsettled",
    "questions.files.wire.WireError",
    "sandbox.host.engine.loaded_engine.EngineUnavailable",
    "sandbox.host.files.path_resolution.LeadsOutError",
    "sandbox.isolation.worker_process.WorkerEnded",
    "workflows.programs.program_calls.CallsStopped",
}
"""What is no error of the family, and is caught or translated where it is raised."""


def name_of(kind: type[BaseException]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("agentforge_sessions.")


def kinds() -> list[type[BaseException]]:
    """Return all that travel; loading the whole package takes seconds, so not while collecting."""
    return [kind for kind in public_exceptions() if name_of(kind) not in NEVER_LEAVE_THEIR_PACKAGE]


_OF_THE_SYSTEM = ("errno", "strerror", "filename", "filename2")


def through_pickle(error: BaseException) -> BaseException:
    found: BaseException = pickle.loads(pickle.dumps(error))  # our own bytes
    return found


def state_of(error: object) -> object:
    """Return all that can be seen of a value, where errors are compared by what they hold."""
    if isinstance(error, BaseException):
        fields = {name: state_of(value) for name, value in vars(error).items()}
        own = [getattr(error, name, None) for name in _OF_THE_SYSTEM]
        return type(error), str(error), error.args, own, fields
    return error


@pytest.mark.parametrize("travel", [through_pickle, copy.copy, copy.deepcopy])
def test_each_error_arrives_with_its_text_and_its_fields(
    travel: Callable[[BaseException], BaseException],
) -> None:
    changed: dict[str, object] = {}
    for kind in (known := kinds()):
        error = made_error(kind)
        error.add_note("while it was tried")
        try:
            found: object = state_of(travel(error))
        except Exception as refused:  # which of them, is the answer
            found = repr(refused)
        if found != state_of(error):
            changed[name_of(kind)] = found

    assert changed == {}
    assert len(known) > 200


def test_what_never_leaves_its_package_is_none_of_the_family() -> None:
    named = {name_of(kind): kind for kind in public_exceptions()}
    assert named.keys() >= NEVER_LEAVE_THEIR_PACKAGE
    assert not any(issubclass(named[one], AgentForgeError) for one in NEVER_LEAVE_THEIR_PACKAGE)


def test_an_error_whose_kind_is_its_own_keeps_it() -> None:
    made = [made_error(kind) for kind in kinds()]
    for error in [one for one in made if isinstance(one, AgentForgeError)]:
        found = through_pickle(error)
        assert isinstance(found, AgentForgeError)
        assert (found.kind, found.retryable) == (error.kind, error.retryable)
        assert dict(found.fields).keys() == dict(error.fields).keys()
        assert found.user_message == error.user_message


def refuse(number: int) -> int:
    if number % 2:
        raise SessionNotFound(f"session {number}", path=Path("somewhere"))
    return number


def test_a_process_pool_hands_errors_on_and_goes_on() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        tried = [pool.submit(refuse, number) for number in (1, 2, 3)]
        with pytest.raises(SessionNotFound, match="session 1") as first:
            tried[0].result(timeout=PROMISED_S)
        assert tried[1].result(timeout=PROMISED_S) == 2
        with pytest.raises(SessionNotFound, match="session 3"):
            tried[2].result(timeout=PROMISED_S)

    assert first.value.session_id == "session 1"
    assert first.value.path == Path("somewhere")
