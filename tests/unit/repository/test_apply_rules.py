"""What may be written over, decided from facts alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentforge_sessions.repository.apply.apply_errors import Obstacle
from agentforge_sessions.repository.apply.apply_rules import (
    Action,
    PathFacts,
    case_clashes,
    decide,
    unsafe_name,
)
from agentforge_sessions.repository.apply.checkout_files import ABSENT, EntryKind, PathState
from agentforge_sessions.repository.apply.result_merge import path_filter
from agentforge_sessions.repository.git.git_command import IndexEntry, Leaf

OLD, NEW, MINE, LINKED = (Leaf("100644", digit * 40) for digit in "1234")
FILE = PathState(EntryKind.FILE, 0o644, "x")
LEAVES = st.sampled_from([None, OLD, NEW, MINE, Leaf("100755", "1" * 40)])


def facts(**given: object) -> PathFacts:
    """The facts of a clean file that a result changes."""
    usual: dict[str, object] = {
        "head": OLD,
        "ours": OLD,
        "merged": NEW,
        "index": IndexEntry(OLD),
        "standing": FILE,
        "content": OLD,
    }
    return PathFacts(**{**usual, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "plain", "committing"),
    [
        ({}, Action.WRITE, Action.WRITE),
        ({"content": MINE}, Obstacle.MODIFIED, Obstacle.MODIFIED),
        ({"index": IndexEntry(MINE)}, Obstacle.STAGED, Obstacle.STAGED),
        ({"index": None}, Obstacle.STAGED, Obstacle.STAGED),
        ({"content": None, "standing": ABSENT}, Obstacle.DELETED, Obstacle.DELETED),
        ({"content": NEW}, Action.ALREADY, Action.ALREADY_STAGED),
        ({"content": NEW, "index": IndexEntry(NEW)}, Action.ALREADY, Action.ALREADY_STAGED),
        ({"content": NEW, "index": IndexEntry(MINE)}, Action.ALREADY, Obstacle.STAGED),
        ({"ours": MINE, "content": MINE}, Action.WRITE_UNSTAGED, Obstacle.UNCOMMITTED_BASE),
        ({"head": None, "ours": None, "index": None}, Obstacle.UNTRACKED, Obstacle.UNTRACKED),
        (
            {"head": None, "ours": None, "index": None, "ignored": True},
            Obstacle.IGNORED,
            Obstacle.IGNORED,
        ),
        ({"index": IndexEntry(OLD, skipped=True)}, Obstacle.SPARSE, Obstacle.SPARSE),
        ({"ours": Leaf("160000", "1" * 40)}, Obstacle.SUBMODULE, Obstacle.SUBMODULE),
        ({"standing": PathState(EntryKind.SPECIAL)}, Obstacle.SPECIAL_FILE, Obstacle.SPECIAL_FILE),
        (
            {"standing": PathState(EntryKind.UNREACHABLE)},
            Obstacle.THROUGH_LINK,
            Obstacle.THROUGH_LINK,
        ),
        ({"standing": PathState(EntryKind.TOO_LARGE)}, Obstacle.TOO_LARGE, Obstacle.TOO_LARGE),
    ],
)
def test_each_state_of_a_path_has_one_answer(
    given: dict[str, object], plain: object, committing: object
) -> None:
    assert decide(facts(**given), committing=False) is plain
    assert decide(facts(**given), committing=True) is committing


@given(head=LEAVES, merged=LEAVES, index=LEAVES, content=LEAVES, committing=st.booleans())
def test_what_is_stored_nowhere_else_is_never_written_over(
    head: Leaf | None,
    merged: Leaf | None,
    index: Leaf | None,
    content: Leaf | None,
    committing: bool,
) -> None:
    """A file is replaced only if HEAD has its content, an entry if HEAD or the result has it."""
    entry = None if index is None else IndexEntry(index)
    decision = decide(
        facts(head=head, ours=head, merged=merged, index=entry, content=content),
        committing=committing,
    )
    if decision in {Action.WRITE, Action.WRITE_UNSTAGED}:
        assert content == head
    if decision in {Action.WRITE, Action.ALREADY_STAGED}:
        assert index in {head, merged}


@pytest.mark.parametrize(
    "name",
    [
        *(".git", ".GIT/config", "a/.Git/x", "git~1/x", "a/../b", "./a", "a//b", "", ".git./x"),
        *(".git /x", ".git::$INDEX_ALLOCATION/x", ".g\u200cit/config", "a\\.git\\config"),
    ],
)
def test_names_that_pass_for_the_repositorys_own_are_unsafe(name: str) -> None:
    assert unsafe_name(name.encode())


@pytest.mark.parametrize("name", [".gitignore", ".github/x", "git", "a.git", "~", "x..y", "git~10"])
def test_names_that_are_no_such_names_are_safe(name: str) -> None:
    assert not unsafe_name(name.encode())


@pytest.mark.parametrize(
    ("path", "present", "clashes"),
    [
        (b"README", {b"": [b"readme", b"README"]}, True),
        (b"a/B", {b"": [b"a"], b"a": [b"b", b"B"]}, True),
        (b"A/x", {b"": [b"a", b"A"], b"A": [b"x"]}, True),
        ("\u00e9".encode(), {b"": ["e\u0301".encode()]}, True),
        (b"a/B", {b"": [b"a"], b"a": [b"B", b"c"]}, False),
        (b"a\xff", {b"": [b"a\xfe"]}, False),
    ],
)
def test_names_that_differ_in_case_alone_clash(
    path: bytes, present: dict[bytes, list[bytes]], clashes: bool
) -> None:
    assert bool(case_clashes([path], present)) is clashes


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("*.py", "deep/er/x.py", True),
        ("src", "src/x", True),
        ("src", "other/src/x", True),
        ("/src", "other/src/x", False),
        ("src/*", "src/x/y", True),
        ("src/*.py", "src/x/y.py", False),
        ("**/x", "a/b/x", True),
        ("src/**/x", "src/x", True),
        ("[ab]", "a", True),
        ("x", "y", False),
    ],
)
def test_globs_fit_names_and_what_is_in_folders(glob: str, path: str, fits: bool) -> None:
    assert path_filter([glob])(path.encode()) is fits


def test_without_a_glob_every_path_passes() -> None:
    assert path_filter([])(b"any/\xff")
