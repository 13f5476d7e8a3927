"""What is never shown, judged where a path leads."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.jail import FolderForbidden
from agentforge_sessions.jail.walls.forbidden_folders import PrivatePlaces, private_places


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "homes" / "me"
    for name in (".ssh", ".aws", ".config/gh", ".pyenv/versions/3.11/bin", "project/.venv"):
        (home / name).mkdir(parents=True)
    (home / ".netrc").write_text("secret")
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def places(home: Path, tmp_path: Path) -> PrivatePlaces:
    return private_places([tmp_path / "sessions"])


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/root",
        "/home",
        "/run",
        "/run/user",
        "/proc",
        "/sys/fs",
        "/dev",
        "/etc",
        "/var",
        "/var/lib",
    ],
)
def test_the_systems_private_places_are_refused(places: PrivatePlaces, path: str) -> None:
    with pytest.raises(FolderForbidden) as caught:
        places.require_allowed(Path(path))
    assert str(caught.value.path) == path


@pytest.mark.parametrize(
    "name", [".", "..", ".ssh", ".ssh/id_rsa", ".aws", ".config", ".config/gh", ".netrc"]
)
def test_a_home_and_its_credentials_are_refused(
    places: PrivatePlaces, home: Path, name: str
) -> None:
    with pytest.raises(FolderForbidden):
        places.require_allowed(home / name)


@pytest.mark.parametrize("name", [".pyenv/versions/3.11", "project/.venv"])
def test_a_toolchain_in_a_home_is_allowed(places: PrivatePlaces, home: Path, name: str) -> None:
    assert places.require_allowed(home / name) == home / name


def test_other_sessions_are_refused_with_what_holds_them(
    places: PrivatePlaces, tmp_path: Path
) -> None:
    for path in (tmp_path, tmp_path / "sessions", tmp_path / "sessions" / "one" / "workspace"):
        with pytest.raises(FolderForbidden):
            places.require_allowed(path)
    with pytest.raises(FolderForbidden, match=r"\.agentforge"):
        places.require_allowed(tmp_path / "elsewhere" / ".agentforge" / "sessions")


def test_a_link_is_judged_by_where_it_leads(
    places: PrivatePlaces, home: Path, tmp_path: Path
) -> None:
    link = tmp_path / "toolchain"
    link.symlink_to(home / ".ssh")
    with pytest.raises(FolderForbidden) as caught:
        places.require_allowed(link)
    assert caught.value.resolved == home / ".ssh"
    link.unlink()
    link.symlink_to(home / ".pyenv")
    assert places.require_allowed(link / "versions") == home / ".pyenv" / "versions"
    (home / ".kube").symlink_to(tmp_path / "secrets")
    with pytest.raises(FolderForbidden):
        private_places().require_allowed(tmp_path / "secrets" / "config")


def test_a_workspace_may_lie_where_sessions_are_and_holds_nothing_private(
    places: PrivatePlaces, home: Path, tmp_path: Path
) -> None:
    inside = tmp_path / "sessions" / "one" / "workspace"
    assert places.require_workspace(inside) == inside
    for path in (home, tmp_path, Path("/"), Path("/etc")):
        with pytest.raises(FolderForbidden):
            places.require_workspace(path)
