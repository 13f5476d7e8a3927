"""The folder that stands for `/etc` in jails: what is copied, where it is kept, and for whom."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from attrs import evolve

from agentforge_sessions.base.files.tree_removal import DISCARDED_PREFIX
from agentforge_sessions.jail.walls.kept_etc import Content, etc_content, kept_etc, kept_folder
from agentforge_sessions.jail.walls.system_folders import system_view

CONTENT: Content = {"ssl": None, "ssl/link": "../passwd", "passwd": b"jail"}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_what_every_user_may_read_is_copied(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner/one.pem").write_bytes(b"certificate")
    (folder / "inner/one.pem").chmod(0o644)
    (folder / "key.pem").write_bytes(b"secret")
    (folder / "key.pem").chmod(0o640)
    (folder / "link").symlink_to("inner/one.pem")
    os.mkfifo(folder / "pipe")
    found = etc_content((str(folder),), {"/etc/ssl/openssl.cnf": b"x"})
    assert found is not None
    copied = {name.rpartition("certs/")[2]: said for name, said in found.items()}
    assert copied["inner/one.pem"] == b"certificate"
    assert copied["link"] == "inner/one.pem"
    assert not {"key.pem", "pipe"} & set(copied)
    assert (found["ssl"], found["ssl/openssl.cnf"]) == (None, b"x")


def test_too_much_is_not_copied(tmp_path: Path) -> None:
    with open(tmp_path / "large", "wb") as file:
        file.truncate(17 << 20)
    (tmp_path / "large").chmod(0o644)
    assert etc_content((str(tmp_path),), {}) is None


def test_a_folder_is_made_once_and_again_when_it_is_not_what_it_was(tmp_path: Path) -> None:
    kept = kept_folder(CONTENT, tmp_path)
    assert (kept / "ssl/link").read_bytes() == b"jail"
    identity = kept.stat().st_ino
    assert kept_folder(CONTENT, tmp_path) == kept
    assert kept.stat().st_ino == identity
    assert kept_folder({**CONTENT, "group": b""}, tmp_path) != kept
    for damage in (kept / "passwd").unlink, (kept / "new").mkdir:
        damage()
        assert kept_folder(CONTENT, tmp_path) == kept
        assert sorted(os.listdir(kept)) == ["passwd", "ssl"]
    assert not [name for name in os.listdir(tmp_path) if not name.startswith("etc-")]


def test_what_was_not_used_for_a_month_is_removed_when_another_is_made(tmp_path: Path) -> None:
    old = kept_folder(CONTENT, tmp_path)
    left = tmp_path / f"{DISCARDED_PREFIX}new-{'0' * 16}"
    left.mkdir()
    os.utime(old, (0, 0))
    new = kept_folder({"group": b""}, tmp_path)
    assert os.listdir(tmp_path) == [new.name]


def test_a_cache_that_was_emptied_is_filled_again(cache: Path) -> None:
    view = evolve(system_view(), folders=())
    kept = kept_etc(view, {"/etc/passwd": b"jail"})
    assert kept is not None
    (kept / "passwd").unlink()
    kept.rmdir()
    assert kept_etc(view, {"/etc/passwd": b"jail"}) == kept
    assert (kept / "passwd").read_bytes() == b"jail"


def test_a_cache_that_others_can_write_is_not_used(cache: Path) -> None:
    view = evolve(system_view(), folders=())
    (cache / "agentforge/jail").mkdir(parents=True)
    (cache / "agentforge").chmod(0o777)
    assert kept_etc(view, {"/etc/passwd": b"jail"}) is None
    (cache / "agentforge").chmod(0o755)
    assert kept_etc(view, {"/etc/passwd": b"jail"}) is not None
    (cache / "agentforge/jail").rename(cache / "elsewhere")
    (cache / "agentforge/jail").symlink_to(cache / "elsewhere")
    assert kept_etc(view, {"/etc/passwd": b"jail"}) is None
