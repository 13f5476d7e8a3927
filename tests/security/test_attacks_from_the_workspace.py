"""Whatever code leaves in a workspace: none of it runs on the host, and nothing outside changes.

Each attack goes through all that the host does with a workspace: checkpoint, difference, going
back, a fork, the result shown, exported, and applied to the person's checkout. It runs where
nothing but the test's own folder can be written.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest
from attrs import evolve

from agentforge_sessions.base.errors import AgentForgeError
from agentforge_sessions.harness import SessionContext, SessionManager, SessionStore
from agentforge_sessions.repository.apply.apply_plan import ApplyOptions
from agentforge_sessions.wiring.workspaces.session_results import SessionResults
from agentforge_sessions.wiring.workspaces.session_snapshots import SessionSnapshots
from tests.security.workspace_attacks import ATTACKS, SECRET, Attack, Ground
from tests.support.applying import services_in
from tests.support.contained import contained
from tests.support.repositories import plain_git, user_environment, write_files
from tests.support.soak import SOAKING

PARTS: Final = 5
"""In how many processes the attacks are tried: each imports all anew. The quick run has one."""
Shown = dict[str, tuple[object, ...]]


def shown(folder: Path, *, but: tuple[str, ...] = ()) -> Shown:
    """All that is in a folder, to the byte, with modes and links."""
    found: Shown = {}
    for top, folders, files in os.walk(folder):
        inside = os.path.relpath(top, folder)
        folders[:] = [one for one in folders if os.path.normpath(f"{inside}/{one}") not in but]
        for name in [*folders, *files]:
            path = Path(top, name)
            status = path.lstat()
            content: object = None
            if stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(status.st_mode) and status.st_size < 1 << 30:
                content = path.read_bytes()
            mode = stat.S_IFMT(status.st_mode) | status.st_mode & 0o777
            found[os.path.normpath(f"{inside}/{name}")] = (mode, content)
    return found


def without_git(found: Shown) -> Shown:
    """What a snapshot keeps: all but `.git` in any spelling, and links called `.gitmodules`."""
    return {
        name: one
        for name, one in found.items()
        if ".git" not in name.lower().split("/")
        and not (name.endswith(".gitmodules") and stat.S_ISLNK(one[0]))  # type: ignore[arg-type]
    }


class Host:
    """What the host does with a session, and what must not have happened afterwards."""

    def __init__(self, ground: Ground, attack: Attack) -> None:
        self.attack = attack
        self.ground = ground
        self.store = SessionStore(ground.folder / "sessions")
        self.keeper = SessionSnapshots(self.store)
        self.manager = SessionManager(self.store, snapshots=self.keeper)
        services = services_in(ground.folder)
        self.results = SessionResults(
            self.keeper,
            evolve(services, environment={**services.environment, "HOME": str(ground.home)}),
        )
        attachments = self.keeper.attachments(ground.checkout, "HEAD", with_uncommitted=False)
        self.session: SessionContext = self.manager.create("work", "one", attachments=attachments)
        self.workspace = self.store.workspace_path(self.session.session_id)
        self.ground = evolve(ground, workspace=self.workspace)
        self.before = self._outside()

    def _outside(self) -> Shown:
        ours = ("sessions", "scratch", "plain", "out", "checkout/.git/refs/agentforge")
        return shown(self.ground.folder, but=ours)

    def require_harmless(self, doing: str) -> None:
        assert not self.ground.sprung(), f"{doing} ran a program"
        assert self._outside() == self.before, f"{doing} changed something outside"

    def does(self, name: str, act: Callable[[], object], *, works: bool) -> None:
        """Do something that works, or is refused with an error of ours."""
        if works:
            act()
        else:
            with pytest.raises(AgentForgeError):
                act()
        self.require_harmless(name)


def all_attacked(folder: Path, names: Sequence[str]) -> None:
    """Try some attacks, each on a ground of its own."""
    for number, name in enumerate(names):
        ground = folder / str(number)
        ground.mkdir()
        try:
            attacked(ground, name)
        except BaseException as error:
            error.add_note(f"the attack was: {name}")
            raise


def attacked(folder: Path, name: str) -> None:
    attack = ATTACKS[name]
    host = Host(Ground.prepared(folder), attack)
    manager, results, session = host.manager, host.results, host.session
    os.environ["HOME"] = str(host.ground.home)
    write_files(host.workspace, {"new.txt": "n\n"})
    manager.checkpoint_session()
    (benign,) = [one.number for one in manager.checkpoints()][-1:]
    calm = shown(host.workspace)

    attack.make(host.ground)
    left = without_git(shown(host.workspace))
    host.ground.sprung()  # while it was set up
    require_trap(host.ground, attack)

    host.does("checkpoint", manager.checkpoint_session, works=True)
    last = manager.checkpoints()[-1]
    assert (last.snapshot is not None) == attack.kept, last.unkept
    for patch in (False, True):
        host.does("diff", lambda patch=patch: manager.diff(patch=patch), works=attack.kept)
    host.does("dry run", lambda: dry_run(results, session), works=attack.kept and attack.applied)
    host.does("export", lambda: results.export(session, folder / "out"), works=attack.kept)
    if attack.kept:
        assert without_git(shown(folder / "out")) == left
    host.does("fork", lambda: forked(host, last.number), works=attack.kept)
    host.does("going back", lambda: manager.rewind(benign), works=attack.kept)
    if not attack.kept:
        return
    assert shown(host.workspace) == calm
    host.does("going forward", lambda: manager.rewind(last.number), works=True)
    assert without_git(shown(host.workspace)) == left
    require_applied_or_refused(host)


def require_trap(ground: Ground, attack: Attack) -> None:
    """Fail unless plain git falls for an attack that should work on it."""
    if not attack.springs:
        return
    plain = ground.folder / "plain"
    subprocess.run(["cp", "-a", ground.workspace, plain], check=True)
    write_files(plain, {"a.txt": "and changed\n"})
    for words in (["status"], ["diff"], ["add", "-A"], ["commit", "-qm", "x"], ["diff", "HEAD"]):
        subprocess.run(
            ["git", "-C", plain, *words],
            env={**user_environment(ground.home), "TMPDIR": str(ground.folder)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=60,
        )
    assert ground.sprung(), "the trap does not spring for plain git"
    shutil.rmtree(plain)


def dry_run(results: SessionResults, session: SessionContext) -> object:
    return results.apply(session, ApplyOptions(), dry_run=True)


def forked(host: Host, number: int) -> None:
    other = SessionManager(host.store, snapshots=host.keeper)
    other.open(host.session.session_id)
    fork = other.fork(number)
    workspace = host.store.workspace_path(fork.session_id)
    assert without_git(shown(workspace)) == without_git(shown(host.workspace))


def require_applied_or_refused(host: Host) -> None:
    """Bring the result home: only files of the checkout change, or nothing at all."""
    ground = host.ground
    result = without_git(shown(host.workspace))
    if not host.attack.applied:
        with pytest.raises(AgentForgeError):
            host.results.apply(host.session, ApplyOptions())
        host.require_harmless("apply")
        return
    host.results.apply(host.session, ApplyOptions())
    assert not ground.sprung(), "apply ran a program"
    now = host._outside()
    inside = {name for name in now if name.startswith("checkout/")}
    repository = {name for name in now if name.startswith("checkout/.git/")}
    changed = {name for name in now if now[name] != host.before.get(name)}
    changed |= set(host.before) - set(now)
    gone = {name for name in changed if name not in now}
    assert changed - gone <= inside
    assert {name for name in changed & repository if "/objects/" not in name} <= {
        "checkout/.git/index"
    }
    for name in inside - repository - {"checkout/.git"}:
        mode, content = now[name]
        path = name.removeprefix("checkout/")
        wanted = result[path]
        assert host.attack.converted or content == wanted[1], name
        if stat.S_ISREG(wanted[0]):  # type: ignore[arg-type]
            stored = plain_git(ground.checkout, "cat-file", "blob", b":0:" + os.fsencode(path))
            assert stored.stdout == wanted[1], name
        assert stat.S_IFMT(mode) == stat.S_IFMT(wanted[0]), name  # type: ignore[arg-type]
    assert (ground.outside / "secret").read_text() == SECRET


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS if SOAKING else 1))
def test_nothing_runs_on_the_host_and_nothing_outside_changes(tmp_path: Path, part: int) -> None:
    contained(all_attacked, tmp_path, list(ATTACKS)[part::PARTS], timeout_s=500)


def test_the_attacks_are_many() -> None:
    assert len(ATTACKS) >= 40
