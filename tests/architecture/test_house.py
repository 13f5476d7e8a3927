"""The budgets of the house: what a package may weigh, what stands at the top, what a folder holds.

Raising a number is a line in a commit, with its reason. Names that stand twice only become fewer.
"""

from __future__ import annotations

from typing import Final

import pytest

from tests.architecture.house import (
    ROOT,
    class_names,
    code_lines,
    lines_of_packages,
    modules_of_folders,
)

BUDGETS: Final = {
    "agents": 7_580,
    "base": 6_830,
    "entrypoints": 22_150,
    "fleet": 5_530,
    "harness": 11_040,
    "integrations": 2_870,
    "jail": 2_320,
    "prune": 3_500,
    "questions": 3_390,
    "repository": 5_320,
    "sandbox": 15_560,
    "testing": 630,
    "wiring": 2_540,
    "workflows": 8_170,
}
"""Code lines of each package: lines that bear a token, without comments and docstrings."""

MODULES: Final = 15
"""The most modules of a folder."""

DOUBLES: Final = 7
"""Names that several classes of the package have."""


def test_only_packages_stand_at_the_top() -> None:
    found = {path.name for path in ROOT.iterdir() if path.is_file() or any(path.rglob("*.py"))}
    assert found == {*BUDGETS, "__init__.py", "py.typed"}


def test_each_package_keeps_to_its_budget() -> None:
    lines = lines_of_packages()
    over = {name: lines[name] for name, most in BUDGETS.items() if lines[name] > most}
    assert over == {}


def test_budgets_leave_no_room_that_nobody_asked_for() -> None:
    lines = lines_of_packages()
    loose = {name: lines[name] for name, most in BUDGETS.items() if lines[name] < most - 200}
    assert loose == {}, "lower the budget to what the package weighs now"


def test_folders_hold_no_more_modules_than_a_person_can_look_over() -> None:
    assert {name: number for name, number in modules_of_folders().items() if number > MODULES} == {}


def test_names_that_stand_twice_only_become_fewer() -> None:
    doubled = sorted(name for name, number in class_names().items() if number > 1)
    assert len(doubled) == DOUBLES, doubled


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("", 0),
        ('"""A text.\n\nof lines\n"""\n', 0),
        ("# a comment\nx = 1  # another\n\n\ny = (\n    2,\n)\n", 4),
        ('def f():\n    """A text."""\n    return """a\nb"""\n', 3),
        ("class A:\n    'a text'\n    x = 1\n", 2),
    ],
)
def test_a_line_of_code_bears_a_token_that_is_no_comment_and_no_docstring(
    source: str, lines: int
) -> None:
    assert code_lines(source) == lines
