"""A class of errors declares its fields and its text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from string import Formatter

import pytest

from agentforge_sessions.base.errors import (
    AgentForgeError,
    ErrorKind,
    declared_fields,
    retyped,
)
from tests.support.errors import public_exceptions
from tests.support.made_errors import made_error


def ours() -> list[type[AgentForgeError]]:
    """Return all of them; loading the whole package takes seconds, so not while collecting."""
    return [kind for kind in public_exceptions() if issubclass(kind, AgentForgeError)]


class Subject(AgentForgeError, kw_only=True):
    session_id: str | None = None


class Failed(Subject, kind=ErrorKind.CONFLICT):
    message = "{path}: {problem}; waited {timeout_s:g} s"
    brief = "It failed in {path}."
    path: Path
    problem: str
    timeout_s: float = 1.5


class Missing(Failed, FileNotFoundError):
    message = "{path} is not there, for {session_id}"
    session_id: str


def said(template: str, value: object) -> str:
    class Made(AgentForgeError):
        message = template
        one: object

    return str(Made(value))


def test_the_constructor_takes_the_fields_in_their_order_and_by_name() -> None:
    first, second = Failed(Path("a"), "it is full"), Failed(problem="it is full", path=Path("a"))
    assert str(first) == str(second) == "a: it is full; waited 1.5 s"
    assert first.args == (str(first),)
    assert first.fields == {
        "session_id": None,
        "path": Path("a"),
        "problem": "it is full",
        "timeout_s": 1.5,
    }
    assert first.user_message == "It failed in a."


def test_a_field_that_is_declared_again_keeps_the_place_of_the_first() -> None:
    error = Missing("one", Path("a"), "it is gone")
    assert str(error) == "a is not there, for one"
    assert list(declared_fields(Missing)) == ["session_id", "path", "problem", "timeout_s"]
    assert isinstance(error, FileNotFoundError)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ((), {}),
        ((Path("a"),), {}),
        ((Path("a"), "x", 1.0, "more"), {}),
        ((Path("a"), "x"), {"path": Path("b")}),
        ((Path("a"), "x"), {"unknown": 1}),
    ],
)
def test_arguments_that_are_missing_unknown_or_given_twice_are_refused(
    given: tuple[object, ...], named: dict[str, object]
) -> None:
    with pytest.raises(TypeError, match=r"^Failed\(session_id, path, problem, timeout_s\): "):
        Failed(*given, **named)  # type: ignore[arg-type]


def test_braces_in_a_value_are_text() -> None:
    assert said("it is {one}", "{two!r} {0} {{") == "it is {two!r} {0} {{"
    assert said("it is {one!r}", "{two}") == "it is '{two}'"


def test_a_quoted_value_is_bounded_and_a_path_is_quoted_whole() -> None:
    assert len(said("{one!r}", "x" * 10_000)) == 80
    assert said("{one!r}", Path("/a/b")) == "'/a/b'"
    assert len(said("{one!r}", Path("/a" * 100))) == 202


def test_a_sequence_is_listed_and_the_rest_of_it_counted() -> None:
    many = [f"f{number}" for number in range(14)]
    assert said("{one:,}", ["a", "b"]) == "a, b"
    assert said("{one:;}", ["a", "b"]) == "a; b"
    assert said("{one:;}", many).endswith("f11; and 2 more")
    assert said("{one:,}", many).endswith("f11, and 2 more")


def test_a_cause_is_what_the_system_said_and_a_member_of_an_enum_its_value() -> None:
    class Colour(Enum):
        RED = "red"

    assert said("{one}", OSError(28, "No space left on device", "a")) == "No space left on device"
    assert said("{one}", ValueError("it is no number")) == "it is no number"
    assert said("{one}", Colour.RED) == "red"


def test_an_error_of_another_class_has_the_fields_that_both_declare_and_a_subject() -> None:
    class Other(Subject):
        message = "{problem} of {session_id}"
        problem: str

    made = retyped(Failed(Path("a"), "it is full"), Other, session_id="one")
    assert str(made) == "it is full of one"


def test_each_template_names_attributes_of_its_class() -> None:
    strange = {}
    for kind in ours():
        parsed = [*Formatter().parse(kind.message), *Formatter().parse(kind.brief)]
        named = {name for _, name, _, _ in parsed if name is not None}
        known = {name for name in dir(made_error(kind)) if re.fullmatch(r"\w+", name)}
        if not named <= known:
            strange[kind.__qualname__] = named - known
    assert strange == {}


def test_each_sequence_says_how_it_is_listed() -> None:
    silent = [
        (kind.__qualname__, name)
        for kind in ours()
        for _, name, spec, _ in Formatter().parse(kind.message)
        if name in (fields := declared_fields(kind))
        and re.match(r"Sequence|tuple", str(fields[name].annotation))
        and not re.fullmatch("[,;]|or .+", spec or "")
    ]
    assert silent == []


def test_a_class_says_its_kind_and_whether_a_retry_may_help_and_others_have_its_parents() -> None:
    class Busy(Failed, retryable=True):
        """Neither its kind nor its text is its own."""

    assert (Failed.kind, Failed.retryable) == (ErrorKind.CONFLICT, False)
    assert (Busy.kind, Busy.retryable, Busy.message) == (ErrorKind.CONFLICT, True, Failed.message)


def test_the_lines_of_a_template_are_one() -> None:
    class Long(AgentForgeError):
        message = """it is
        {one!r}"""
        one: str

    assert str(Long("a\n  b")) == "it is 'a\\n  b'"


def test_a_template_has_words_for_what_is_empty() -> None:
    assert said("{one:or nobody}", None) == said("{one:or nobody}", []) == "nobody"
    assert said("{one:or nobody}", "she") == "she"
    assert said("{one:or nobody}", ["a", "b"]) == "a, b"


def test_a_list_is_kept_as_a_tuple() -> None:
    class Faulty(AgentForgeError):
        message = "{faults:;}"
        faults: Sequence[str]

    faults = ["a"]
    error = Faulty(faults)
    faults.append("b")
    assert error.faults == ("a",)
