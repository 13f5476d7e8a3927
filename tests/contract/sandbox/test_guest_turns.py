"""How a script comes into an interpreter of the own host: as a message, not as source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentforge_sessions.sandbox import Sandbox, create_sandbox
from agentforge_sessions.sandbox.guest.guest_code import GuestScript

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    with create_sandbox(workspace=tmp_path / "w") as made:
        yield made


def test_a_message_carries_all_that_a_script_is_given() -> None:
    script = GuestScript(
        source="\ufeffprint(1)", argv=("a", ""), inject='{"x": 1}', streams=("stdout",)
    )
    assert script.message() == '\0lines\0{"x": 1}\0a\0\0print(1)'
    assert GuestScript(source="").message() == "\0\0\0"


@pytest.mark.parametrize("argv", [(), ("",), ("a", "b c"), ("é\n'\"", "\\0")])
@pytest.mark.parametrize("inject", [None, {}, {"x": ["é", "\0", {"y": None}]}])
def test_a_script_finds_what_it_is_given(
    sandbox: Sandbox, argv: tuple[str, ...], inject: dict[str, object] | None
) -> None:
    result = sandbox.execute(
        "import json, sys\nprint(json.dumps([sys.argv[1:], globals().get('x'), 'é\\0']))",
        argv=argv,
        inject=inject,
    )
    assert result.success, result.stderr
    found = [list(argv), (inject or {}).get("x"), "é\0"]
    assert __import__("json").loads(result.stdout) == found


@pytest.mark.parametrize(
    "code", ["'\\0'", "\n\n1 / 0", "raise SystemExit(3)", "syntax error", "# é\n", "\tpass"]
)
def test_a_script_ends_as_it_would_elsewhere(sandbox: Sandbox, tmp_path: Path, code: str) -> None:
    with create_sandbox(workspace=tmp_path / "kept", stateful=True) as kept:
        other = kept.execute(code)
    result = sandbox.execute(code)
    seen = [(one.exit_code, one.stdout, one.stderr, one.trapped) for one in (result, other)]
    assert seen[0] == seen[1]
    assert sandbox.execute("print('next')").stdout == "next\n"


def test_what_runs_turns_is_not_changed_for_the_next_execution(sandbox: Sandbox) -> None:
    spoilt = sandbox.execute(
        "import sys, _reactor\n"
        "_reactor._run_turn = _reactor.turn = None\n"
        "__import__('linecache').cache.clear(); sys.modules.clear(); sys.argv = 1\n"
    )
    assert spoilt.exit_code is not None
    assert sandbox.execute("import sys; print(sys.argv[0])").stdout == "/app/<script>\n"


def test_nothing_of_the_rehearsal_is_seen(sandbox: Sandbox) -> None:
    result = sandbox.execute(
        "import linecache, sys\n"
        "print(sorted(name for name in globals() if not name.startswith('__')))\n"
        "print(sys.argv, sys.path[0], [name for name in linecache.cache if 'app' in name])\n"
        "print(hasattr(sys, 'last_exc'), sys.exc_info())\n"
    )
    assert result.stdout.splitlines() == [
        "['linecache', 'sys']",
        "['/app/<script>'] /app ['/app/<script>']",
        "False (None, None, None)",
    ]
