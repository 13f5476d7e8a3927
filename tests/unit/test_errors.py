"""Every error of the library is of one family."""

import importlib
import inspect
import pkgutil

import agentforge_sessions
from agentforge_sessions.errors import AgentForgeError

_NEVER_LEAVES_ITS_MODULE = {"gate_guest"}


def public_exceptions() -> list[type[BaseException]]:
    found: dict[str, type[BaseException]] = {}
    for module in pkgutil.walk_packages(agentforge_sessions.__path__, "agentforge_sessions."):
        if module.name.rsplit(".", 1)[-1] in _NEVER_LEAVES_ITS_MODULE:
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if (
                inspect.isclass(value)
                and issubclass(value, BaseException)
                and value.__module__.startswith("agentforge_sessions.")
                and not name.startswith("_")
            ):
                found[f"{value.__module__}.{value.__qualname__}"] = value
    return list(found.values())


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
    assert error.fields == {"path": "a.txt"}
    assert error.retryable is False
