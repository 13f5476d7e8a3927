"""Input files of an execution: written into its workspace before its guest runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from agentforge_sessions.sandbox.errors import InputFileError
from agentforge_sessions.sandbox.interpreters.input_files import place_files
from agentforge_sessions.sandbox.workspaces.quota import Quota, UsageCounter
from agentforge_sessions.sandbox.workspaces.workspace import ServedDirectory

QUOTA = Quota(workspace_bytes=1000, workspace_files=6, file_bytes=600)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedDirectory]:
    workspace = tmp_path / "w"
    workspace.mkdir()
    root = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)
    usage = UsageCounter()
    usage.begin(root)
    yield ServedDirectory(root, QUOTA, usage)
    os.close(root)


def refused(served: ServedDirectory, files: Mapping[str, bytes]) -> tuple[str, str, list[str]]:
    with pytest.raises(InputFileError) as caught:
        place_files(served, files)
    return str(caught.value.path), caught.value.reason, list(caught.value.placed)


def test_files_and_their_parents_are_there_and_count_as_no_change(
    served: ServedDirectory, tmp_path: Path
) -> None:
    place_files(served, {"in/deep/a": b"one", "in/b": b"", "c": b"x" * 500})
    assert (tmp_path / "w" / "in" / "deep" / "a").read_bytes() == b"one"
    assert (tmp_path / "w" / "in" / "b").read_bytes() == b""
    assert (tmp_path / "w" / "c").stat().st_size == 500
    assert served.changes.lists() == ((), (), ())


def test_a_longer_file_that_is_there_is_replaced_whole(
    served: ServedDirectory, tmp_path: Path
) -> None:
    (tmp_path / "w" / "a").write_bytes(b"a long content")
    place_files(served, {"a": b"new"})
    assert (tmp_path / "w" / "a").read_bytes() == b"new"


def test_a_file_with_a_name_outside_keeps_its_content_there(
    served: ServedDirectory, tmp_path: Path
) -> None:
    (tmp_path / "outside").write_bytes(b"theirs")
    os.link(tmp_path / "outside", tmp_path / "w" / "a")
    place_files(served, {"a": b"ours"})
    assert (tmp_path / "outside").read_bytes() == b"theirs"
    assert (tmp_path / "w" / "a").read_bytes() == b"ours"


@pytest.mark.parametrize("target", ["inside", "../outside"])
def test_no_link_is_followed(served: ServedDirectory, tmp_path: Path, target: str) -> None:
    for folder in (tmp_path / "w" / "inside", tmp_path / "outside"):
        folder.mkdir()
    (tmp_path / "w" / "link").symlink_to(target)
    path, _, placed = refused(served, {"fine": b"1", "link/a": b"2", "more": b"3"})
    assert (path, placed) == ("link/a", ["fine"])
    assert not list((tmp_path / "w" / "inside").iterdir())
    assert not list((tmp_path / "outside").iterdir())
    assert not (tmp_path / "w" / "more").exists()


def test_a_link_in_the_place_of_a_file_is_refused(served: ServedDirectory, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"theirs")
    (tmp_path / "w" / "a").symlink_to("../outside")
    assert refused(served, {"a": b"ours"})[0] == "a"
    assert (tmp_path / "outside").read_bytes() == b"theirs"


def test_the_hosts_own_file_is_refused_in_any_spelling(served: ServedDirectory) -> None:
    for name in (".metadata.json", ".METADATA.json"):
        assert refused(served, {name: b"{}"})[0] == name


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"a": bytes(601)}, "File too large"),
        ({"a": bytes(600), "b": bytes(500)}, "No space left on device"),
        ({f"{number}": b"" for number in range(7)}, "No space left on device"),
    ],
)
def test_they_fill_the_quota(
    served: ServedDirectory, files: Mapping[str, bytes], reason: str
) -> None:
    path, said, placed = refused(served, files)
    assert said == reason
    assert placed == list(files)[: list(files).index(path)]


def test_a_file_in_the_way_of_a_folder_is_named(served: ServedDirectory) -> None:
    place_files(served, {"a": b""})
    assert refused(served, {"a/b": b""})[1] == "Not a directory"
