"""Every error of the library is of one family."""

from agentforge_sessions.base.errors import AgentForgeError, ErrorKind, first_of, listed, shown
from tests.support.errors import public_exceptions


def test_a_package_that_documents_an_error_bases_it_on_the_one_root() -> None:
    strangers = {
        kind.__qualname__
        for kind in public_exceptions()
        if kind.__module__.endswith("errors") and not issubclass(kind, AgentForgeError)
    }
    assert strangers == set()


def test_the_user_message_is_the_whole_text_unless_a_class_says_otherwise() -> None:
    assert AgentForgeError("it happened; do that").user_message == "it happened; do that"


def test_fields_are_the_public_attributes() -> None:
    error = AgentForgeError("it happened")
    error.path = "a.txt"  # type: ignore[attr-defined]
    error._hidden = 1  # type: ignore[attr-defined]
    error.kind = ErrorKind.CONFLICT
    assert error.fields == {"path": "a.txt"}
    assert error.retryable is False


def test_a_refused_value_stands_short_and_printable_in_a_message() -> None:
    assert shown("größe") == "'größe'"
    assert shown("a\u202e\x1b[2J\ud800") == r"'a\u202e\x1b[2J\ud800'"
    assert len(shown("x" * 10_000)) == 80
    assert shown(10**5000) == "an integer of 16610 bits"


def test_of_many_faults_the_first_are_listed_and_the_others_counted() -> None:
    assert listed([]) == ""
    assert listed(["a", "b"], most=2) == "a; b"
    assert listed(["a", "b", "c", "d"], most=2) == "a; b; and 2 more faults"
    assert first_of("abc", most=2, what="") == ["a", "b", "and 1 more"]
