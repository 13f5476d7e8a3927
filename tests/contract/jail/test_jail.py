"""What a jail gives a command, and what comes of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from agentforge_sessions.jail import (
    WORKSPACE,
    CommandMissing,
    FolderForbidden,
    FolderMount,
    InvalidJail,
    Jail,
    JailLimits,
    JailPolicy,
    JailUnavailable,
    MountPointUnusable,
    Refusal,
    StopReason,
)
from tests.support.jail_starters import PYTHON
from tests.support.promptness import when


@pytest.fixture(scope="module")
def jail() -> Jail:
    try:
        made = Jail(JailPolicy(limits=JailLimits(deadline_s=60)))
        made.check()
    except JailUnavailable as error:
        pytest.skip(str(error))
    return made


def with_policy(**given: object) -> Jail:
    return Jail(JailPolicy(limits=JailLimits(deadline_s=60), **given))  # type: ignore[arg-type]


def test_a_command_works_in_its_workspace(jail: Jail, tmp_path: Path) -> None:
    result = jail.run(
        ["sh", "-c", "pwd; echo made > file; echo no >&2; exit 3"], workspace=tmp_path
    )
    assert (result.exit_code, result.stopped, result.success) == (3, None, False)
    assert (result.stdout, result.stderr) == (f"{WORKSPACE}\n".encode(), b"no\n")
    assert (tmp_path / "file").read_text() == "made\n"
    assert result.sealed
    assert result.usage.workspace_files == 1
    assert result.usage.seconds > 0


def test_a_command_reads_its_input_and_its_variables(jail: Jail, tmp_path: Path) -> None:
    data = bytes(range(256)) * 4096
    result = jail.run(["cat"], workspace=tmp_path, stdin=data)
    assert result.stdout == data
    result = jail.run(["env"], workspace=tmp_path, environment={"GIVEN": "a=b c"})
    assert b"GIVEN=a=b c\n" in result.stdout
    assert b"HOME=/home/jail\n" in result.stdout


def test_files_can_be_given_along(jail: Jail, tmp_path: Path) -> None:
    script = b"#!/bin/sh\necho from a script\n"
    result = jail.run(
        ["/run/agentforge/script"], workspace=tmp_path, files={"/run/agentforge/script": script}
    )
    assert result.stdout == b"from a script\n"


def test_a_signal_and_a_missing_program_are_told(jail: Jail, tmp_path: Path) -> None:
    assert jail.run(["sh", "-c", "kill -9 $$"], workspace=tmp_path).exit_code == 137
    missing = jail.run(["./nothing"], workspace=tmp_path)
    assert (missing.exit_code, missing.started) == (127, False)
    (tmp_path / "text").write_text("x")
    refused = jail.run(["./text"], workspace=tmp_path)
    assert (refused.exit_code, refused.started) == (126, False)
    with pytest.raises(CommandMissing):
        jail.run(["no-such-program-here"], workspace=tmp_path)


def test_a_caller_can_end_a_command(jail: Jail, tmp_path: Path) -> None:
    began = tmp_path / "began"
    asked: list[bool] = []
    waiting = when(began.exists, lambda: asked.append(True))
    result = jail.run(
        ["sh", "-c", "touch began; sleep 600"], workspace=tmp_path, cancelled=lambda: bool(asked)
    )
    waiting.join()
    assert (result.stopped, result.exit_code) == (StopReason.CANCELLED, None)


def test_pytest_of_a_virtual_environment_runs(jail: Jail, tmp_path: Path) -> None:
    """Its own folder and that of the Python that it was made with are found from the program."""
    if sys.prefix == sys.base_prefix:
        pytest.skip("these tests don't run in a virtual environment")
    (tmp_path / "test_one.py").write_text("def test_one():\n    assert 1 + 1 == 2\n")
    command = [f"{sys.prefix}/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    result = jail.run(command, workspace=tmp_path, environment=alone)
    assert result.exit_code == 0, result.stderr
    assert b"1 passed" in result.stdout


def test_a_folder_of_a_checkout_stands_read_only_in_the_workspace(
    jail: Jail, tmp_path: Path
) -> None:
    workspace, modules = tmp_path / "w", tmp_path / "checkout" / "node_modules"
    workspace.mkdir()
    (modules / ".bin").mkdir(parents=True)
    tool = modules / ".bin" / "tool"
    tool.write_text("#!/bin/sh\necho tool of the checkout\n")
    tool.chmod(0o755)
    mounted = with_policy(mounts=[FolderMount(source=modules, target="node_modules")])
    result = mounted.run(["tool"], workspace=workspace)
    assert result.stdout == b"tool of the checkout\n"
    result = mounted.run(["sh", "-c", "echo x > node_modules/new"], workspace=workspace)
    assert result.exit_code != 0
    assert os.listdir(modules) == [".bin"]
    (workspace / "node_modules").rmdir()
    (workspace / "node_modules").symlink_to(tmp_path)
    with pytest.raises(MountPointUnusable):
        mounted.run(["true"], workspace=workspace)


@pytest.mark.parametrize(
    "already_there", [(), (".vite",), (".cache", ".vite", ".vite-temp", ".vitest")]
)
def test_what_test_runners_cache_beside_packages_is_thrown_away(
    jail: Jail, tmp_path: Path, already_there: tuple[str, ...]
) -> None:
    workspace, modules = tmp_path / "w", tmp_path / "checkout" / "node_modules"
    workspace.mkdir()
    (modules / "pkg").mkdir(parents=True)
    for name in already_there:
        (modules / name).mkdir()
        (modules / name / "mine").write_text("the person's own cache")
    mounted = with_policy(mounts=[FolderMount(source=modules, target="node_modules")])
    writes = "mkdir -p node_modules/$n/deps && echo x > node_modules/$n/deps/results.json || exit 1"
    script = f"for n in .cache .vite .vite-temp .vitest; do {writes}; done; ls -A node_modules"
    result = mounted.run(["sh", "-c", script], workspace=workspace)
    assert result.stdout.split() == [b".cache", b".vite", b".vite-temp", b".vitest", b"pkg"]
    assert result.exit_code == 0, result.stderr
    assert sorted(os.listdir(modules)) == sorted([*already_there, "pkg"])
    assert all(os.listdir(modules / name) == ["mine"] for name in already_there)
    packages = mounted.run(["sh", "-c", "echo x > node_modules/pkg/new"], workspace=workspace)
    assert packages.exit_code != 0
    assert not (modules / "pkg" / "new").exists()


def test_a_link_or_file_where_a_cache_belongs_is_not_followed(jail: Jail, tmp_path: Path) -> None:
    workspace, modules = tmp_path / "w", tmp_path / "checkout" / "node_modules"
    workspace.mkdir()
    modules.mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (modules / ".vite").symlink_to(tmp_path / "outside")
    (modules / ".cache").write_text("a file")
    mounted = with_policy(mounts=[FolderMount(source=modules, target="node_modules")])
    script = "echo x > node_modules/.vite/y && echo x > node_modules/.cache/y"
    result = mounted.run(["sh", "-c", script], workspace=workspace)
    assert result.exit_code == 0, result.stderr
    assert os.listdir(tmp_path / "outside") == []
    assert (modules / ".cache").read_text() == "a file"


def test_a_folder_that_the_policy_names_can_be_read(jail: Jail, tmp_path: Path) -> None:
    workspace, data = tmp_path / "w", tmp_path / "data"
    workspace.mkdir()
    data.mkdir()
    (data / "file").write_text("read me")
    assert jail.run(["cat", str(data / "file")], workspace=workspace).exit_code == 1
    result = with_policy(read=[data]).run(["cat", str(data / "file")], workspace=workspace)
    assert result.stdout == b"read me"


def test_what_is_private_is_never_shown(jail: Jail, tmp_path: Path) -> None:
    for path in ("/root", "/etc", "/run", "/"):
        with pytest.raises(FolderForbidden):
            with_policy(read=[path])
    with pytest.raises(FolderForbidden):
        with_policy(read=[tmp_path], private=[tmp_path / "sessions"])
    with pytest.raises(FolderForbidden):
        jail.run(["true"], workspace=Path("/"))


_LIST_ETC = """
import os
for here, folders, names in os.walk("/etc"):
    for name in sorted(folders + names):
        path = os.path.join(here, name)
        if os.path.islink(path):
            print(path, os.readlink(path))
        elif os.path.isdir(path):
            print(path, "/")
        else:
            print(path, hash(open(path, "rb").read()))
"""


def test_etc_is_one_mount_and_holds_what_a_jail_would_put_together(
    jail: Jail, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, cache = tmp_path / "w", tmp_path / "cache"
    workspace.mkdir()
    (tmp_path / "file").write_text("")
    seen = []
    for place in (cache, tmp_path / "file"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(place))
        made = with_policy(environment={"PYTHONHASHSEED": "1"})
        command = [PYTHON, "-c", _LIST_ETC]
        listed = made.run(command, workspace=workspace).stdout.decode().splitlines()
        mounts = made.run(["cat", "/proc/self/mountinfo"], workspace=workspace).stdout.decode()
        seen.append((sorted(listed), mounts.count(" /etc")))
        refused = made.run(["sh", "-c", "echo x > /etc/new"], workspace=workspace)
        assert b"Read-only" in refused.stderr
    (kept, kept_mounts), (composed, composed_mounts) = seen
    assert kept == composed
    assert "/etc/passwd" in "\n".join(kept)
    assert (kept_mounts, len(os.listdir(cache / "agentforge/jail"))) == (1, 1)
    assert composed_mounts != 1


def test_what_is_shown_in_etc_besides_stands_there_too(
    jail: Jail, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (workspace := tmp_path / "w").mkdir()
    command = ["cat", "/etc/passwd", "/etc/services"]
    assert jail.run(command, workspace=workspace).exit_code == 1
    services = with_policy(read=["/etc/services"]).run(command, workspace=workspace)
    assert b"https" in services.stdout
    given = {"/etc/services": b"mine"}
    assert b"mine" in jail.run(command, workspace=workspace, files=given).stdout
    resolver = ["cat", "/etc/passwd", "/etc/resolv.conf"]
    assert with_policy(network=True).run(resolver, workspace=workspace).exit_code == 0


def test_nothing_in_proc_is_written_and_devices_are(jail: Jail, tmp_path: Path) -> None:
    script = """
for name in /proc/self/comm /proc/self/oom_score_adj /proc/sys/kernel/core_pattern; do
    ( : >> $name ) && echo "$name was opened"
done
echo out > /dev/stdout; echo again > /proc/self/fd/1; echo lost > /dev/null; ls /proc/self/status
"""
    result = jail.run(["sh", "-c", script], workspace=tmp_path)
    assert result.stdout == b"out\nagain\n/proc/self/status\n"


def test_a_network_is_told_as_unsealed(jail: Jail, tmp_path: Path) -> None:
    result = with_policy(network=True).run(["cat", "/proc/net/dev"], workspace=tmp_path)
    assert result.exit_code == 0
    assert not result.sealed


def test_a_machine_that_refuses_is_told(jail: Jail, tmp_path: Path) -> None:
    pretended = tmp_path / "bwrap"
    pretended.write_text(
        "#!/bin/sh\necho 'bwrap: setting up uid map: Read-only file system' >&2\nexit 1\n"
    )
    pretended.chmod(0o755)
    with pytest.raises(JailUnavailable) as caught:
        Jail(bubblewrap=pretended).check()
    assert caught.value.refusal is Refusal.PROC_READ_ONLY
    assert "systempaths=unconfined" in str(caught.value)


@pytest.mark.parametrize("command", [[], "true", ["a\0b"], [""], [1]])
def test_a_command_that_is_none_is_refused(jail: Jail, tmp_path: Path, command: object) -> None:
    with pytest.raises(InvalidJail):
        jail.run(command, workspace=tmp_path)  # type: ignore[arg-type]


def test_control_groups_leave_nothing_behind(jail: Jail, tmp_path: Path) -> None:
    jail.run([PYTHON, "-c", "print(1)"], workspace=tmp_path)
    for folder in ("/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids"):
        if os.path.isdir(folder):
            own = f"agentforge-jail-{os.getpid()}-"
            assert not [name for name in os.listdir(folder) if name.startswith(own)]
