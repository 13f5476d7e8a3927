"""Which programs a command starts, as its own words say it, and which it did not find."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.jail import MissingProgram, started_by_text
from agentforge_sessions.jail.command_programs import missing_name, started_by


@pytest.mark.parametrize(
    ("command", "started"),
    [
        (["pytest", "-q"], ()),
        (["sh", "-c", "python -m pytest -q"], ("python",)),
        (["bash", "-euo", "pipefail", "-c", "cd x && cargo test"], ("cd", "cargo")),
        (["bash", "-ec", "A=1 python x.py | tee log; ruff check"], ("python", "tee", "ruff")),
        (["/bin/sh", "-c", "if uv --version; then exec uv run pytest; fi"], ("uv", "exec", "fi")),
        (["env", "-i", "A=b", "python", "-m", "pytest"], ("python",)),
        (
            ["timeout", "-k", "5s", "60", "sh", "-c", "'/opt/x/bin/go' test"],
            ("sh", "/opt/x/bin/go"),
        ),
        (["sh", "-c", "sh -c 'cargo test'"], ("cargo",)),
        (["sh", "-c", '$TOOL run; `x` y; ./own; ../z; "a b" c'], ()),
        (["sh", "-c", "cargo test; echo 'open"], ("cargo",)),
        (["sh", "run_tests.sh", "-c", "cargo"], ()),
        (["sh", "--version"], ()),
        (["make", "test"], ()),
    ],
)
def test_the_programs_that_a_persons_words_start(
    command: list[str], started: tuple[str, ...]
) -> None:
    assert started_by(command) == started


def test_a_script_names_its_programs_line_by_line() -> None:
    text = "#!/bin/sh\nset -e\ncargo build --offline\n\nif true\nthen\n  go test ./...\nfi\n"
    assert {"cargo", "go"} <= set(started_by_text(text))
    assert len(started_by_text("".join(f"p{number}\n" for number in range(1000)))) == 32


@pytest.mark.parametrize(
    ("code", "said", "name"),
    [
        (127, "sh: 1: cargo: not found\n", "cargo"),
        (127, "/run/agentforge/script: line 2: cargo: command not found\n", "cargo"),
        (127, "zsh:1: command not found: cargo\n", "cargo"),
        (127, "env: \u2018cargo\u2019: No such file or directory\n", "cargo"),
        (127, "timeout: failed to run command 'cargo': No such file or directory\n", "cargo"),
        (
            2,
            "make: cargo: No such file or directory\nmake: *** [Makefile:2: test] Error 127\n",
            "cargo",
        ),
        (2, "sh: 1: go: not found\nmake[1]: *** [test] Error 127\n", "go"),
        (127, "something else\n", ""),
        (127, "", ""),
        # What the workspace is still to have, and what failed for another reason.
        (127, "sh: 1: ./build/app: not found\n", None),
        (2, "make: ./app: No such file or directory\nmake: *** [test] Error 127\n", None),
        (1, "sh: 1: cargo: not found\n", None),
        (0, "", None),
        (None, "", None),
    ],
)
def test_what_was_not_found_is_read_of_what_was_printed(
    code: int | None, said: str, name: str | None
) -> None:
    assert missing_name(code, (said.encode(), b"")) == name
    assert missing_name(code, (b"", said.encode())) == name


def test_the_hint_says_what_to_change() -> None:
    found = Path("/opt/rust/bin/cargo")
    shown = MissingProgram(name="cargo", found=found, read=(Path("/opt/rust"),))
    assert 'Add to [jail] in the configuration: read = ["/opt/rust"]' in shown.hint
    assert "install it elsewhere" in MissingProgram(name="x", found=found, refused=True).hint
    assert "nowhere on this machine's PATH" in MissingProgram(name="cargo").hint
    assert "`read` in [jail]" in MissingProgram(name=None).hint
