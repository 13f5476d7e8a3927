from __future__ import annotations

import pytest

from agentforge_sessions.repository.snapshots.manifest import WorkspaceManifest


def test_the_most_common_modes_are_kept_once() -> None:
    files = {b"a": 0o100600, b"b": 0o100600, b"c": 0o100444, b"run": 0o100700}
    manifest = WorkspaceManifest.of(
        files, {b"d": 0o40700, b"e": 0o40755, b"f": 0o40700}, [b"d"], [b".git"]
    )
    assert manifest.common == {"file": 0o600, "executable": 0o700, "folder": 0o700}
    assert manifest.modes == {b"c": 0o444, b"e": 0o755}
    assert [manifest.mode_of(name, "file") for name in (b"a", b"c")] == [0o600, 0o444]


def test_a_manifest_is_read_as_it_was_written() -> None:
    files = {b"a\n\xff": 0o100600, b"b": 0o100644, b"\xc3\xa9": 0o100644}
    manifest = WorkspaceManifest.of(files, {b"d": 0o40755}, [b"d"], [b"x/.GIT"])
    line = manifest.encode()
    assert line.isascii()
    assert b"\n" not in line
    assert WorkspaceManifest.decode(line) == manifest


def test_setuid_and_its_like_are_not_kept() -> None:
    manifest = WorkspaceManifest.of({b"a": 0o104755, b"b": 0o100755}, {b"d": 0o41777}, [], [])
    assert manifest.modes == {}
    assert manifest.common["folder"] == 0o777


def test_of_what_was_left_out_a_hundred_are_named_and_all_counted() -> None:
    manifest = WorkspaceManifest.of({}, {}, [], [b"%03d/.git" % number for number in range(300)])
    assert (len(manifest.left_out), manifest.left_out_count) == (100, 300)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"[]",
        b'{"version":2}',
        *(
            WorkspaceManifest().encode().replace(b'"empty":[]', b'"empty":["%s"]' % path)
            for path in (b"../x", b"/etc", b"a/../b", b"", b"a//b", b"a\\u0000b")
        ),
    ],
)
def test_what_is_no_manifest_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):
        WorkspaceManifest.decode(line)
