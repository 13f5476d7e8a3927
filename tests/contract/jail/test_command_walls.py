"""What runs commands for agents and gates: a jail, or nothing around them if a person said so."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge_sessions.base.cancellation import CancelToken, OperationCancelled, cancellable
from agentforge_sessions.jail import (
    CommandMissing,
    CommandWalls,
    FolderMount,
    InvalidJail,
    Jail,
    JailLimits,
    JailPolicy,
    JailUnavailable,
    Means,
    MountPointUnusable,
    NoWalls,
    StopReason,
    command_walls,
)

Maker = Callable[..., CommandWalls]


@pytest.fixture(params=[True, False], ids=["jail", "no walls"])
def walls(request: pytest.FixtureRequest) -> Maker:
    def made(*, deadline_s: float = 60.0, output_bytes: int = 8 << 20, **given: object) -> object:
        limits = JailLimits(deadline_s=deadline_s, output_bytes=output_bytes)
        policy = JailPolicy(limits=limits, walls=request.param, **given)  # type: ignore[arg-type]
        return command_walls(policy, programs=["sh"])

    try:
        made().check()  # type: ignore[attr-defined]
    except JailUnavailable as error:
        pytest.skip(str(error))
    return made  # type: ignore[return-value]


def test_a_policy_has_walls_unless_one_says_otherwise() -> None:
    assert JailPolicy().walls
    assert isinstance(command_walls(JailPolicy()), Jail)
    assert isinstance(command_walls(JailPolicy(walls=False)), NoWalls)


def test_a_command_works_in_its_workspace(walls: Maker, tmp_path: Path) -> None:
    one = walls()
    script = "pwd; cat > file; echo no >&2; exit 3"
    done = one.run(["sh", "-c", script], workspace=tmp_path, stdin=b"in")
    assert (done.exit_code, done.stopped, done.success) == (3, None, False)
    assert (done.stdout.decode(), done.stderr) == (f"{one.sees(tmp_path)}\n", b"no\n")
    assert (tmp_path / "file").read_bytes() == b"in"
    assert one.run(["sh", "-c", "kill -9 $$"], workspace=tmp_path).exit_code == 128 + 9
    assert done.sealed == (done.usage.held_by is not Means.NONE)


def test_a_command_gets_named_variables_only(
    walls: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET", "s3cret")
    one = walls(environment={"NAMED": "a"})
    done = one.run(["env"], workspace=tmp_path, environment={"GIVEN": "b"})
    lines = done.stdout.decode().splitlines()
    assert {"NAMED=a", "GIVEN=b", "PYTHONDONTWRITEBYTECODE=1"} <= set(lines)
    assert "s3cret" not in done.stdout.decode()
    with pytest.raises(InvalidJail, match="LD_PRELOAD"):
        one.run(["env"], workspace=tmp_path, environment={"LD_PRELOAD": "x"})


def test_the_deadline_and_the_bound_of_output_end_a_command(walls: Maker, tmp_path: Path) -> None:
    late = walls(deadline_s=0.2).run(["sleep", "600"], workspace=tmp_path)
    assert late.usage.seconds < 30
    assert (late.exit_code, late.stopped) == (None, StopReason.DEADLINE)
    one = walls(output_bytes=4096)
    loud = one.run(["head", "-c", "1000000", "/dev/zero"], workspace=tmp_path)
    assert (loud.exit_code, loud.stopped) == (None, StopReason.OUTPUT)
    assert len(loud.stdout) <= 4096
    assert one.run(["sleep", "600"], workspace=tmp_path, deadline_s=0.2).stopped is not None


def test_what_a_command_started_ends_with_it(walls: Maker, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "held")
    os.mkfifo(tmp_path / "ready")
    held = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    try:
        script = "{ echo > ready; exec sleep 600; } > held & read x < ready; echo done"
        done = walls().run(["sh", "-c", script], workspace=tmp_path)
        assert done.stdout == b"done\n"
        poll = select.poll()
        poll.register(held, select.POLLIN)
        assert poll.poll(30_000) == [(held, select.POLLHUP)]  # the last writer has ended
    finally:
        os.close(held)


def test_a_cancelled_operation_ends_its_command(walls: Maker, tmp_path: Path) -> None:
    token, one = CancelToken(), walls()
    os.mkfifo(tmp_path / "ready")
    waiting = threading.Thread(target=lambda: ((tmp_path / "ready").read_text(), token.cancel()))
    waiting.start()
    with cancellable(token), pytest.raises(OperationCancelled):
        one.run(["sh", "-c", "echo > ready; exec sleep 600"], workspace=tmp_path)
    waiting.join()


def test_programs_that_are_not_there_are_named(walls: Maker, tmp_path: Path) -> None:
    one = walls()
    one.require(["sh"])
    one.require(["./of-the-workspace"])
    with pytest.raises(CommandMissing, match="no-such-program"):
        one.require(["no-such-program"])
    (tmp_path / "plain").write_text("#!/bin/sh\n")
    assert one.run(["./plain"], workspace=tmp_path).exit_code == 126
    assert one.run(["./nothing"], workspace=tmp_path).exit_code == 127
    words = ["sh", "-c", "no-such-program"]
    missing = one.missing(one.run(words, workspace=tmp_path), words)
    assert missing is not None
    assert "'no-such-program' is nowhere on this machine's PATH" in missing.hint
    words = ["sh", "-c", "exit 3"]
    assert one.missing(one.run(words, workspace=tmp_path), words) is None


def test_a_mount_is_there_while_a_command_runs(walls: Maker, tmp_path: Path) -> None:
    packages, workspace = tmp_path / "packages", tmp_path / "work"
    (packages / ".bin").mkdir(parents=True)
    tool = packages / ".bin" / "tool"
    tool.write_text("#!/bin/sh\necho from the packages\n")
    tool.chmod(0o755)
    workspace.mkdir()
    one = walls(mounts=[FolderMount(source=packages, target="in/node_modules")])
    done = one.run(["sh", "-c", "tool; ls -A in/node_modules"], workspace=workspace)
    assert done.stdout.startswith(b"from the packages\n"), done
    assert b".bin" in done.stdout
    left = workspace / "in" / "node_modules"
    assert left.is_dir()
    assert not left.is_symlink()
    assert not list(left.iterdir())


def test_no_link_of_the_workspace_is_a_mount_point(walls: Maker, tmp_path: Path) -> None:
    packages, workspace, other = tmp_path / "packages", tmp_path / "work", tmp_path / "other"
    for folder in (packages, workspace, other / "node_modules"):
        folder.mkdir(parents=True)
    (workspace / "in").symlink_to(other)
    one = walls(mounts=[FolderMount(source=packages, target="in/node_modules")])
    with pytest.raises(MountPointUnusable):
        one.run(["true"], workspace=workspace)
    assert not (other / "node_modules").is_symlink()


def test_without_walls_a_command_is_the_person(tmp_path: Path) -> None:
    one = NoWalls(JailPolicy(walls=False))
    one.check()
    done = one.run(["sh", "-c", "id -u; echo $HOME"], workspace=tmp_path)
    assert done.stdout.decode() == f"{os.getuid()}\n{os.environ['HOME']}\n"
    assert not done.sealed


def test_without_walls_files_of_the_workspace_come_before_a_mount(tmp_path: Path) -> None:
    packages, workspace = tmp_path / "packages", tmp_path / "work"
    packages.mkdir()
    (workspace / "node_modules").mkdir(parents=True)
    (workspace / "node_modules" / "own").write_text("own")
    mounts = [FolderMount(source=packages, target="node_modules")]
    one = NoWalls(JailPolicy(walls=False, mounts=mounts))
    assert one.run(["cat", "node_modules/own"], workspace=workspace).stdout == b"own"
    assert (workspace / "node_modules" / "own").exists()


def test_a_command_ended_by_a_signal_has_its_number(walls: Maker, tmp_path: Path) -> None:
    done = walls().run(["sh", "-c", f"kill -{int(signal.SIGTERM)} $$"], workspace=tmp_path)
    assert done.exit_code == 128 + signal.SIGTERM
