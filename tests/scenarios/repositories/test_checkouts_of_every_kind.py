"""A session begins in a checkout of any kind and brings its result home, or is refused.

Either it is right, or there is an error that says why; what the person has is there to the byte:
files, modes, index, stash, refs, what is ignored and what another work tree holds.
"""

from __future__ import annotations

import stat
from collections.abc import Collection
from pathlib import Path

import pytest

from agentforge_sessions.base.errors import AgentForgeError
from agentforge_sessions.harness import SessionManager, SessionStore
from agentforge_sessions.repository.apply.apply_plan import ApplyOptions
from agentforge_sessions.wiring.workspaces.session_results import SessionResults
from agentforge_sessions.wiring.workspaces.session_snapshots import SessionSnapshots
from tests.scenarios.repositories.checkouts import BEGIN, CHANGE, CHECKOUTS, Checkout, Made, plain
from tests.support.applying import lay, seen, services_in
from tests.support.repositories import common_dir_of, git_dir_of
from tests.support.soak import SOAKING

BEGUN = [name for name, one in CHECKOUTS.items() if one.begins is None]
OPERATIONS = {"rebase", "merge", "cherry-pick", "revert", "bisect"}
QUICK = {
    **dict.fromkeys(["all elsewhere", "partial", "split index", "submodule", "pointers"], False),
    **dict.fromkeys(["ignored in the way", "shallow", "detached", "sha256", "no commit"], True),
    **dict.fromkeys(OPERATIONS, False),
}
"""The kinds that no test of an apply alone tries, and whether with a commit."""
HOME = [  # in a soak each kind in both ways
    (kind, commit)
    for kind in CHECKOUTS
    for commit in (False, True)
    if SOAKING or QUICK.get(kind) is commit
]
CHANGED = {*CHANGE, "run.sh"}
ABOVE = {str(above) for name in CHANGED for above in Path(name).parents}
MOVING = {"(index)", "(refs)", "first/(refs)", "first/(head)", "first/(reflog)"}
"""What moves with a commit; of a plain apply, refs and heads are looked at by themselves."""
State = dict[str, tuple[object, ...]]


class Work:
    """A session of a checkout, with a result that is not home yet."""

    def __init__(self, folder: Path, kind: Checkout, *, uncommitted: bool = False) -> None:
        made = plain(folder)
        place = kind.make(made)
        self.kind = kind
        self.place = place if place is not None else made.top
        self.top = self.place.resolve()
        if self.top.name == "pkg":
            self.top = self.top.parent
        self.made = Made(self.top, made.home)
        self.first = made.top
        self.store = SessionStore(folder / "sessions")
        self.keeper = SessionSnapshots(self.store)
        self.manager = SessionManager(self.store, snapshots=self.keeper)
        self.results = SessionResults(self.keeper, services_in(folder))
        self.before = self.state()
        attachments = self.keeper.attachments(self.place, "HEAD", with_uncommitted=uncommitted)
        self.session = self.manager.create("work", "one", attachments=attachments)
        self.workspace = self.store.workspace_path(self.session.session_id)

    def state(self) -> State:
        """All that the person has, but for the ref that keeps the session's base."""
        return state_of(self.top) | {
            f"first/{name}": one
            for name, one in (state_of(self.first) if self.first != self.top else {}).items()
        }

    def index(self) -> dict[str, str]:
        """What the index says of each path that the result does not change."""
        lines = self.made.git("ls-files", "-s", "-v", "-z", check=False).split("\0")[:-1]
        found = dict(reversed(line.split("\t", 1)) for line in lines)
        return {name: one for name, one in found.items() if name not in CHANGED}

    def change(self) -> None:
        for name, content in CHANGE.items():
            path = self.workspace / name
            if path.is_dir() and not path.is_symlink():  # of the person's uncommitted work
                (path / "inner").unlink()
                path.rmdir()
            if content is None:
                path.unlink(missing_ok=True)
            else:
                lay(self.workspace, {name: content})
        if not (self.workspace / "run.sh").exists():
            lay(self.workspace, {"run.sh": BEGIN["run.sh"]})
        (self.workspace / "run.sh").chmod(0o755)

    def require_right(self, *, commit: bool, already: Collection[str]) -> None:
        """Fail unless the result is there, and all else as it was."""
        now = self.state()
        out = self.kind.left_out
        others = {name for name in {*now, *self.before} if not is_changed(name) or name == out}
        for name in others - MOVING - (ABOVE - set(self.before)):
            assert now.get(name) == self.before.get(name), name
        for name, content in CHANGE.items():
            path = self.top / name
            if name == out:
                continue
            if content is None:
                assert not path.exists()
            elif content.startswith("-> "):
                shown = path.readlink() if path.is_symlink() else Path(path.read_text())
                assert str(shown) == content[3:]
            else:
                assert path.read_bytes().replace(b"\r\n", b"\n") == content.encode()
        if self.made.git("config", "--default", "true", "core.fileMode").strip() == "true":
            assert (self.top / "run.sh").stat().st_mode & stat.S_IXUSR
        paths = sorted(CHANGED)
        left = self.made.git("status", "--porcelain", "--", *paths).splitlines()
        if commit:
            assert left == []
            assert now["(stash)"] == self.before["(stash)"]
            parent, shown = (
                self.made.git("--no-replace-objects", "rev-parse", "HEAD^"),
                self.before["(head)"][0],
            )
            assert parent.strip() == shown
            words = ("diff", "--name-only", "--no-renames", "HEAD^", "HEAD")
            names = self.made.git("--no-replace-objects", *words)
            assert set(names.splitlines()) <= CHANGED
        else:
            kept = [name for name in now if name.endswith(("(refs)", "(head)", "(reflog)"))]
            assert all(now[name] == self.before[name] for name in kept)
            assert all(line[1] == " " or line[3:] in already for line in left), left
        assert self.made.git("fsck", "--no-dangling", "--no-progress", check=False) == ""


def state_of(top: Path) -> State:
    try:
        found = seen(top)
    except Exception:  # git does not know it as a checkout
        return {str(path.relative_to(top)): (path.read_bytes(),) for path in _files(top)}
    refs, _, commit = found["(refs)"]
    assert isinstance(refs, bytes)
    assert isinstance(commit, bytes)
    kept = b"".join(one for one in refs.splitlines(True) if b"refs/agentforge/" not in one)
    found["(head)"] = (commit.decode(),)
    found["(refs)"] = (kept, *found["(refs)"][1:])
    git_dir = git_dir_of(top)
    logs = {"stash": common_dir_of(git_dir) / "logs/refs/stash", "reflog": git_dir / "logs/HEAD"}
    for name, log in logs.items():
        found[f"({name})"] = (log.read_bytes() if log.exists() else b"",)
    return found


def _files(top: Path) -> list[Path]:
    return [
        path
        for path in sorted(top.rglob("*"))
        if path.is_file() and "objects" not in path.parts and "agentforge" not in path.parts
    ]


def is_changed(name: str) -> bool:
    return name in CHANGED or name in {"(head)", "(reflog)"}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the person's own configuration read, and no other."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


@pytest.mark.parametrize(("kind", "commit"), HOME)
def test_a_result_is_brought_home_or_refused(tmp_path: Path, kind: str, commit: bool) -> None:
    checkout = CHECKOUTS[kind]
    if checkout.begins is not None:
        require_no_session(tmp_path, checkout)
        return
    work = Work(tmp_path, checkout)
    index = work.index()
    assert work.state() == work.before
    work.change()
    assert {one.path for one in work.manager.diff(patch=True).files} == CHANGED
    options = ApplyOptions(commit=commit, message="x")

    if checkout.applies is not None:
        for dry_run in (True, False):
            with pytest.raises(AgentForgeError) as caught:
                work.results.apply(work.session, options, dry_run=dry_run)
            assert type(caught.value).__name__ == checkout.applies, caught.value
            assert kind not in OPERATIONS or kind in str(caught.value)
            assert work.state() == work.before
        return
    planned = work.results.apply(work.session, options, dry_run=True)
    assert work.state() == work.before
    done = work.results.apply(work.session, options)
    assert done.paths == planned.paths
    work.require_right(commit=commit, already=done.already)
    assert work.index() == index
    assert work.results.apply(work.session, options).nothing_to_do


@pytest.mark.parametrize("kind", BEGUN if SOAKING else BEGUN[::15])
def test_a_session_takes_the_uncommitted_work_along_and_brings_it_back(
    tmp_path: Path, kind: str
) -> None:
    checkout = CHECKOUTS[kind]
    if checkout.taken is not None:
        with pytest.raises(AgentForgeError) as caught:
            Work(tmp_path, checkout, uncommitted=True)
        assert type(caught.value).__name__ == checkout.taken, caught.value
        return
    work = Work(tmp_path, checkout, uncommitted=True)
    assert work.state() == work.before
    work.change()

    if checkout.whole is not None:
        with pytest.raises(AgentForgeError) as caught:
            work.results.apply(work.session, ApplyOptions())
        assert type(caught.value).__name__ == checkout.whole, caught.value
        assert work.state() == work.before
        return
    work.results.apply(work.session, ApplyOptions())

    now = work.state()
    for name in {*now, *work.before}:
        inside = name.startswith(tuple(f"{one}/" for one in CHANGED))
        made = name in ABOVE and name not in work.before
        if not is_changed(name) and name != "(index)" and not inside and not made:
            assert now.get(name) == work.before.get(name), name
    for name, content in CHANGE.items():
        if content is None or content.startswith("-> ") or name == checkout.left_out:
            continue
        assert (work.top / name).read_bytes().replace(b"\r\n", b"\n") == content.encode()


def require_no_session(folder: Path, checkout: Checkout) -> None:
    made = plain(folder)
    place = checkout.make(made) or made.top
    before = state_of(place)
    store = SessionStore(folder / "sessions")
    keeper = SessionSnapshots(store)
    with pytest.raises(AgentForgeError) as caught:
        keeper.attachments(place, "HEAD", with_uncommitted=True)
    assert type(caught.value).__name__ == checkout.begins, caught.value
    assert state_of(place) == before


def test_the_kinds_are_told_apart() -> None:
    assert len(CHECKOUTS) >= 60
    assert set(CHANGE) & set(BEGIN)
