from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentforge_sessions.base.errors import ErrorKind
from agentforge_sessions.base.program_run import Ended, ProgramRun, run_program
from agentforge_sessions.repository import (
    Git,
    GitFailed,
    GitOutputTooLarge,
    GitTimedOut,
    GitUnavailable,
    NotARepository,
    OwnRepository,
    UnknownRevision,
    UserRepository,
)
from tests.support.promptness import wait_until
from tests.support.repositories import commit_all, new_checkout, plain_git


def program(folder: Path, text: str) -> str:
    file = folder / "git"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


def fake(folder: Path, text: str) -> Git:
    """Make a git that says its version, and otherwise does what the text says."""
    return Git(program(folder, f'test "$1" = version && echo git version 2.40.0 && exit\n{text}'))


def test_a_missing_git_is_an_error_that_says_what_to_install() -> None:
    with pytest.raises(GitUnavailable, match="apt-get install git") as caught:
        _ = Git(find=lambda: None).program
    assert caught.value.required == "2.39"
    assert caught.value.kind is ErrorKind.NOT_DONE


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("git version 2.38.9", "too old"),
        ("git version 1.8.3.1", "too old"),
        ("busybox", "does not say its version"),
        ("", "does not say its version"),
    ],
)
def test_a_git_that_is_too_old_or_none_is_refused(
    tmp_path: Path, answer: str, message: str
) -> None:
    with pytest.raises(GitUnavailable, match=message) as caught:
        _ = Git(program(tmp_path, f"echo {answer}")).program
    assert caught.value.found == str(tmp_path / "git")


@pytest.mark.parametrize("version", ["2.39.0", "2.39.5 (Apple Git-154)", "2.100.1", "3.0.0"])
def test_a_new_enough_git_is_taken(tmp_path: Path, version: str) -> None:
    git = Git(program(tmp_path, f"echo 'git version {version}'"))
    assert git.program == str(tmp_path / "git")


def test_a_git_that_can_not_be_started_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(GitUnavailable, match="can't be run"):
        _ = Git(str(tmp_path / "none")).program


def test_a_program_is_asked_for_its_version_once_in_a_process_until_it_changes(
    tmp_path: Path,
) -> None:
    asked = tmp_path / "asked"
    text = f"echo x >> {asked}; echo git version 2.40.0"
    for _ in range(2):
        assert Git(program(tmp_path, text)).program
    assert Git(str(tmp_path / "git")).program
    times = asked.read_text().count("x")
    assert times <= 2
    (tmp_path / "git").unlink()
    assert Git(program(tmp_path, f"{text} ")).program
    assert asked.read_text().count("x") == times + 1
    with pytest.raises(GitUnavailable, match="too old"):
        _ = Git(program(tmp_path, "echo git version 2.0.0")).program


def test_a_failure_has_the_command_its_code_and_what_was_said(tmp_path: Path) -> None:
    own = OwnRepository(tmp_path, git=fake(tmp_path, r"printf 'fatal: \033[31mno\n' >&2; exit 3"))
    with pytest.raises(GitFailed) as caught:
        own.run("write-tree")
    error = caught.value
    assert (error.command, error.exit_code, error.git_dir) == ("write-tree", 3, tmp_path)
    assert error.output == "fatal: [31mno"
    assert error.kind is ErrorKind.STORAGE


def test_an_accepted_exit_code_is_an_answer(tmp_path: Path) -> None:
    own = OwnRepository(tmp_path, git=fake(tmp_path, "echo conflict; exit 1"))
    output = own.run("merge-tree", accept=(0, 1))
    assert (output.exit_code, output.line) == (1, "conflict")


def test_git_is_ended_at_its_time_limit_with_all_that_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    text = f"sleep 1000 & echo $! > {pids}.new; echo $$ >> {pids}.new; mv {pids}.new {pids}; wait"

    def runner(run: ProgramRun) -> Ended:
        if run.words[1] == "version":
            return Ended(0, b"git version 2.40.0\n", b"")
        beginning = iter([0.0])
        return run_program(run, monotonic=lambda: next(beginning, 1e9 if pids.exists() else 0.0))

    own = OwnRepository(tmp_path, git=Git(program(tmp_path, text), runner=runner))
    with pytest.raises(GitTimedOut) as caught:
        own.run("gc", timeout_s=0.05)
    assert caught.value.timeout_s == 0.05
    assert caught.value.kind is ErrorKind.TIMEOUT
    for pid in pids.read_text().split():
        wait_until(lambda pid=pid: not running(int(pid)))


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_what_git_leaves_running_is_ended_at_its_normal_end(tmp_path: Path) -> None:
    own = OwnRepository(tmp_path, git=fake(tmp_path, "sleep 1000 & echo $!"))
    pid = int(own.run("maintenance").line)
    wait_until(lambda: not running(pid))


def test_an_endless_output_is_cut_short(tmp_path: Path) -> None:
    own = OwnRepository(tmp_path, git=fake(tmp_path, "exec yes"))
    with pytest.raises(GitOutputTooLarge) as caught:
        own.run("cat-file", max_output=100_000)
    assert caught.value.max_bytes == 100_000


def test_an_endless_standard_error_keeps_its_end_only(tmp_path: Path) -> None:
    text = "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done >&2; exit 4"
    with pytest.raises(GitFailed) as caught:
        OwnRepository(tmp_path, git=fake(tmp_path, text)).run("fsck")
    assert caught.value.output.endswith("line 19999")
    assert len(caught.value.output) < 500


def test_a_long_input_reaches_git_and_one_that_is_not_read_does_no_harm(tmp_path: Path) -> None:
    long = b"x" * (1 << 20)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    counted = OwnRepository(tmp_path, git=fake(tmp_path / "a", "exec wc -c")).run("x", stdin=long)
    assert int(counted.line) == len(long)
    unread = OwnRepository(tmp_path, git=fake(tmp_path / "b", "exec <&-; echo done"))
    assert unread.run("x", stdin=long).line == "done"


def test_output_can_go_to_an_open_file(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        OwnRepository(tmp_path, git=fake(tmp_path, "echo hello")).run("x", output_fd=file.fileno())
    assert (tmp_path / "out").read_bytes() == b"hello\n"


def test_a_lock_that_git_holds_outlives_a_killed_caller(tmp_path: Path) -> None:
    """The next owner must not begin while git still writes for one that was killed."""
    begun, go_on = tmp_path / "begun", tmp_path / "go_on"
    text = f"touch {begun}; while ! test -e {go_on}; do sleep 0.02; done"
    fake(tmp_path, text)
    code = (
        "import os, fcntl, pathlib\n"
        "from agentforge_sessions.repository import Git, OwnRepository\n"
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        "fd = os.open(folder, os.O_RDONLY)\n"
        "fcntl.flock(fd, fcntl.LOCK_EX)\n"
        "OwnRepository(folder, git=Git(str(folder / 'git'))).run('gc', held=[fd])\n"
    )
    caller = subprocess.Popen([sys.executable, "-c", code])
    try:
        wait_until(begun.exists)
    finally:
        caller.send_signal(signal.SIGKILL)
        caller.wait()
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        go_on.touch()
        fcntl.flock(fd, fcntl.LOCK_EX)
    finally:
        os.close(fd)


def test_the_environment_of_the_caller_does_not_reach_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))
    monkeypatch.setenv("SECRET", "x")
    output = OwnRepository(tmp_path, git=fake(tmp_path, "env")).run("x")
    names = {line.split(b"=")[0] for line in output.stdout.splitlines()}
    assert b"GIT_TRACE" not in names
    assert b"SECRET" not in names
    assert b"GIT_DIR" in names


# ---- A person's repository


def test_a_repository_is_found_from_a_folder_of_its_checkout(tmp_path: Path) -> None:
    work = new_checkout(tmp_path / "work", {"sub/a.txt": "one\n"})
    user = UserRepository.at(work / "sub")
    assert (user.work_tree, user.git_dir, user.common_dir) == (work, work / ".git", work / ".git")
    assert (user.index, user.objects) == (work / ".git" / "index", work / ".git" / "objects")
    assert (user.object_format, user.shallow) == ("sha1", False)


def test_a_linked_work_tree_has_its_own_index_and_the_common_objects(tmp_path: Path) -> None:
    work = new_checkout(tmp_path / "work", {"a.txt": "one\n"})
    plain_git(work, "worktree", "add", "-q", tmp_path / "linked")
    user = UserRepository.at(tmp_path / "linked")
    assert user.work_tree == tmp_path / "linked"
    assert user.git_dir == work / ".git" / "worktrees" / "linked"
    assert user.common_dir == work / ".git"
    assert user.index == user.git_dir / "index"
    assert user.objects == work / ".git" / "objects"
    assert user.resolve("HEAD") == UserRepository.at(work).resolve("HEAD")


def test_a_shallow_clone_is_known_as_one(tmp_path: Path) -> None:
    work = new_checkout(tmp_path / "work", {"a.txt": "one\n"})
    commit_all(work, "second")
    plain_git(tmp_path, "clone", "-q", "--depth=1", f"file://{work}", "clone")
    assert UserRepository.at(tmp_path / "clone").shallow


@pytest.mark.parametrize("kind", ["missing", "file", "folder", "bare"])
def test_what_is_no_checkout_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    if kind == "file":
        path.touch()
    elif kind != "missing":
        path.mkdir()
        if kind == "bare":
            plain_git(path, "init", "-q", "--bare")
    with pytest.raises(NotARepository) as caught:
        UserRepository.at(path)
    assert caught.value.path == path
    assert caught.value.kind is ErrorKind.REFUSED


def test_a_checkout_in_a_folder_with_a_line_break_is_refused(tmp_path: Path) -> None:
    work = new_checkout(tmp_path / "a\nb", {"a.txt": "one\n"})
    with pytest.raises(NotARepository):
        UserRepository.at(work)


def test_revisions_are_resolved_to_commits(tmp_path: Path) -> None:
    work = new_checkout(tmp_path / "work", {"a.txt": "one\n"})
    first = plain_git(work, "rev-parse", "HEAD").stdout.decode().strip()
    second = commit_all(work, "second")
    plain_git(work, "tag", "-a", "-m", "x", "v1", first)
    user = UserRepository.at(work)
    found = [user.resolve(one) for one in ("HEAD", "main", "main~1", "v1", first[:10])]
    assert found == [second, second, first, first, first]


def test_an_unknown_revision_is_refused(tmp_path: Path) -> None:
    user = UserRepository.at(new_checkout(tmp_path / "work", {"a.txt": "one\n"}))
    for name in ("none", "", "--all", "-h", "HEAD:a.txt", "a\nb", "a\0b", "\x1b["):
        with pytest.raises(UnknownRevision) as caught:
            user.resolve(name)
        assert caught.value.revision == name
        assert "\x1b" not in str(caught.value)


def test_a_repository_without_a_commit_says_so(tmp_path: Path) -> None:
    user = UserRepository.at(new_checkout(tmp_path / "work"))
    with pytest.raises(UnknownRevision, match="no commit yet"):
        user.resolve("HEAD")
