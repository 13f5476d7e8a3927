"""Differences of files: as git writes them, as two texts have them, and side by side."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agentforge_sessions.entrypoints.pages.values.patches import (
    MAX_LINES,
    DiffLine,
    FileDiff,
    LineKind,
    file_difference,
    read_patch,
    side_by_side,
    word_changes,
)


def _git(folder: Path, *words: str) -> bytes:
    said = subprocess.run(
        ["git", "-C", str(folder), "-c", "core.quotepath=on", *words],
        check=True,
        capture_output=True,
    )
    return said.stdout


def _patch(folder: Path, before: dict[str, bytes], after: dict[str, bytes]) -> bytes:
    """Return what git says of two folders' files."""
    _git(folder, "init", "-q")
    for files in (before, after):
        for path in {*before, *after}:
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            if path in files:
                place.write_bytes(files[path])
        _git(folder, "add", "-A")
        if files is before:
            _git(folder, "-c", "user.name=x", "-c", "user.email=x", "commit", "-qm", "x")
    return _git(folder, "diff", "--cached", "--no-renames", "--full-index")


def _lines(diff: FileDiff) -> list[tuple[str, str]]:
    return [(line.kind.value, line.text) for hunk in diff.hunks for line in hunk]


def test_patch_of_git_is_read_file_by_file(tmp_path: Path) -> None:
    before = {
        "changed.py": b"a\nb\nc\n",
        "gone.py": b"-- a dashed line\n++ another\n",
        "not ended": b"x",
        'b é\t".txt': b"1\n",
    }
    after = {
        "changed.py": b"a\nB\nc\n",
        "new/made.py": b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n",
        "not ended": b"y",
        'b é\t".txt': b"2\n",
    }
    found = {one.path: one for one in read_patch(_patch(tmp_path, before, after))}
    assert {path: (one.kind, one.added, one.removed) for path, one in found.items()} == {
        "changed.py": ("modified", 1, 1),
        "gone.py": ("deleted", 0, 2),
        "new/made.py": ("added", 4, 0),
        "not ended": ("modified", 1, 1),
        'b é\t".txt': ("modified", 1, 1),
    }
    assert _lines(found["changed.py"]) == [
        ("kept", "a"),
        ("removed", "b"),
        ("added", "B"),
        ("kept", "c"),
    ]
    assert _lines(found["gone.py"])[0] == ("removed", "-- a dashed line")
    assert _lines(found["new/made.py"])[0] == ("added", "diff --git a/x b/x")


def test_patch_and_texts_tell_the_same(tmp_path: Path) -> None:
    old = "".join(f"line {number}\n" for number in range(40)).encode()
    new = old.replace(b"line 3\n", b"line three\nmore\n").replace(b"line 30\n", b"")
    (by_git,) = read_patch(_patch(tmp_path, {"a": old}, {"a": new}))
    by_texts = file_difference("a", old, new)
    assert by_texts == by_git
    assert len(by_git.hunks) == 2


def test_what_is_no_text_has_no_lines() -> None:
    assert file_difference("a", b"a\0", b"b") == FileDiff(path="a", kind="modified", is_binary=True)


def test_equal_files_differ_in_nothing() -> None:
    assert file_difference("a", b"x", b"x") is None
    assert file_difference("a", None, None) is None


def test_long_differences_are_cut_and_say_by_how_much() -> None:
    text = b"x\n" * (MAX_LINES + 7)
    made = file_difference("a", None, text)
    assert made is not None
    assert (made.added, made.left_out) == (MAX_LINES + 7, 7)
    patch = b"diff --git a/a b/a\nnew file mode 100644\n--- /dev/null\n+++ b/a\n"
    patch += f"@@ -0,0 +1,{MAX_LINES + 7} @@\n".encode() + b"+x\n" * (MAX_LINES + 7)
    assert read_patch(patch) == (made,)


@pytest.mark.parametrize("patch", [b"", b"nonsense\n@@ x", b"diff --git a/x b/x\nindex 1..2\n"])
def test_what_is_no_patch_has_no_files(patch: bytes) -> None:
    assert read_patch(patch) == ()


def test_removed_lines_stand_beside_those_that_took_their_place() -> None:
    lines = [
        DiffLine(LineKind.KEPT, "a", 1, 1),
        DiffLine(LineKind.REMOVED, "b", 2, None),
        DiffLine(LineKind.REMOVED, "c", 3, None),
        DiffLine(LineKind.ADDED, "B", None, 2),
        DiffLine(LineKind.REMOVED, "d", 4, None),
    ]
    rows = [(left and left.text, right and right.text) for left, right in side_by_side(lines)]
    assert rows == [("a", "a"), ("b", "B"), ("c", None), ("d", None)]


def test_words_that_differ_stand_out_in_lines_that_are_alike() -> None:
    old, new = word_changes("return a > 80", "return a >= 80")
    assert [text for text, differs in new if differs] == ["="]
    assert [text for text, differs in old if differs] == []
    assert word_changes("abc def", "uvw xyz 123") == (
        [("abc def", False)],
        [("uvw xyz 123", False)],
    )
