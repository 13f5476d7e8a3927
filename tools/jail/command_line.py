"""Bubblewrap's command line for a jail; pure.

The order matters: later mounts cover earlier ones, and the root is made read-only after all others
are in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from attrs import frozen

from .walls.system_folders import ETC, WORKSPACE, SystemView, is_in_etc

HOME: Final = "/home/jail"
OWN_FOLDER: Final = "/run/agentforge"
"""The folder of the files that the jail's maker provides."""
USER_ID: Final = 1000
_HOST: Final = "jail"
_USERS: Final = (
    f"jail:x:{USER_ID}:{USER_ID}:jail:{HOME}:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"
)
_GROUPS: Final = f"jail:x:{USER_ID}:\nnogroup:x:65534:\n"
_HOSTS: Final = f"127.0.0.1 localhost {_HOST}\n::1 localhost\n"
SYSTEM_FILES: Final[Mapping[str, bytes]] = {
    "/etc/passwd": _USERS.encode(),
    "/etc/group": _GROUPS.encode(),
    "/etc/hosts": _HOSTS.encode(),
}


@frozen(kw_only=True)
class Bind:
    """A file or folder of the host, and its path for a command; read-only.

    Attributes:
        source: The host's path.
        target: The path in the jail.
        scratch: Names of folders in it that are writable and in memory.
        layer: A folder of the host that is overlaid on it, so that it has all of `scratch`; or
            empty.
    """

    source: str
    target: str
    scratch: tuple[str, ...] = ()
    layer: str = ""


@frozen(kw_only=True)
class GivenFile:
    """A file that is made for one jail.

    Attributes:
        fd: A descriptor of its content.
        target: Its path for a command.
        mode: Its permissions.
    """

    fd: int
    target: str
    mode: int = 0o444


@frozen(kw_only=True)
class JailPlan:
    """All that determines a command line.

    Attributes:
        view: The visible part of the system's folders.
        read: Toolchains and other readable paths, each at its own path.
        workspace: The host's path of the workspace.
        writable: Whether the workspace can be written.
        mounts: Read-only folders in the workspace.
        files: Files made for this jail.
        environment: The complete environment of the command.
        scratch_bytes: The size of each scratch folder.
        network: Whether the command has the host's network.
        seccomp_fd: A descriptor of the system call filter.
        etc: A folder to mount as `/etc`; if None, `/etc` is assembled from the view's and the given
            files.
        status_fd: The descriptor that bubblewrap writes its status to.
        block_fd: The descriptor that bubblewrap reads before it starts the command.
    """

    view: SystemView
    read: tuple[Bind, ...]
    workspace: str
    writable: bool = True
    mounts: tuple[Bind, ...]
    files: tuple[GivenFile, ...]
    environment: Mapping[str, str]
    scratch_bytes: int
    network: bool
    seccomp_fd: int
    etc: str | None
    status_fd: int
    block_fd: int


def bubblewrap_arguments(plan: JailPlan) -> list[str]:
    """Return bubblewrap's options for a plan, without the program and without the command."""
    return [
        *_namespaces(plan),
        *_system(plan),
        *_processes(plan),
        *_devices_and_scratch(plan),
        *(word for bind in plan.read for word in ("--ro-bind", bind.source, bind.target)),
        *_given(plan),
        *("--bind" if plan.writable else "--ro-bind", plan.workspace, WORKSPACE),
        *(word for bind in plan.mounts for word in _mounted(bind, plan.scratch_bytes)),
        *("--chdir", WORKSPACE, "--remount-ro", "/"),
    ]


def _mounted(bind: Bind, scratch_bytes: int) -> Iterator[str]:
    """Mount a folder; its scratch folders together are as large as one of the jail's own."""
    if bind.layer:
        yield from ("--overlay-src", bind.source, "--overlay-src", bind.layer)
        yield from ("--ro-overlay", bind.target)
    else:
        yield from ("--ro-bind", bind.source, bind.target)
    size = str(max(1 << 20, scratch_bytes // max(1, len(bind.scratch))))
    for name in bind.scratch:
        yield from ("--size", size, "--perms", "1777", "--tmpfs", f"{bind.target}/{name}")


def _namespaces(plan: JailPlan) -> Iterator[str]:
    yield from ("--unshare-all", "--unshare-user", "--disable-userns")
    if plan.network:
        yield "--share-net"
    yield from ("--die-with-parent", "--new-session", "--cap-drop", "ALL")
    yield from ("--uid", str(USER_ID), "--gid", str(USER_ID), "--hostname", _HOST)
    yield "--clearenv"
    for name, value in plan.environment.items():
        yield from ("--setenv", name, value)
    yield from ("--seccomp", str(plan.seccomp_fd), "--json-status-fd", str(plan.status_fd))
    yield from ("--block-fd", str(plan.block_fd))


def _system(plan: JailPlan) -> Iterator[str]:
    if plan.etc is not None:
        yield from ("--ro-bind", plan.etc, ETC)
    for folder in plan.view.folders:
        if plan.etc is None or not is_in_etc(folder):
            yield from ("--ro-bind", folder, folder)
    for says, link in plan.view.links:
        yield from ("--symlink", says, link)


def _processes(plan: JailPlan) -> Iterator[str]:
    """Mount `/proc`, read-only: a jail started by root has root's user id, whatever it sees."""
    yield from ("--proc", "/proc", "--remount-ro", "/proc")
    for file in plan.view.masked:
        yield from ("--ro-bind", "/dev/null", file)


def _devices_and_scratch(plan: JailPlan) -> Iterator[str]:
    size = str(plan.scratch_bytes)
    yield from ("--dev", "/dev", "--size", size, "--perms", "1777", "--tmpfs", "/dev/shm")  # noqa: S108 (the jail's)
    yield from ("--remount-ro", "/dev")
    for folder in plan.view.hidden:
        yield from ("--size", "4096", "--tmpfs", folder)
    yield from ("--size", size, "--perms", "1777", "--tmpfs", "/tmp")  # noqa: S108 (the jail's)
    yield from ("--size", size, "--perms", "0700", "--tmpfs", HOME)


def _given(plan: JailPlan) -> Iterator[str]:
    for file in plan.files:
        yield from ("--perms", f"{file.mode:04o}", "--file", str(file.fd), file.target)
