"""Take from each Python of a run of tests what macOS has not; see `make test-portable`.

What is gone: calls of Linux in `os` and its kin, functions of its C library, and /proc for the code
of the package; what tests and psutil, which has its own way on macOS, look up there stays.
"""

import importlib
import os
import sys

MISSING = {  # in this order: what is imported later looks once what the former have
    "os": "O_PATH O_TMPFILE O_DIRECT O_NOATIME copy_file_range eventfd eventfd_read eventfd_write "
    "EFD_CLOEXEC EFD_NONBLOCK EFD_SEMAPHORE fdatasync getrandom getxattr setxattr listxattr "
    "removexattr memfd_create MFD_CLOEXEC MFD_ALLOW_SEALING pidfd_open P_PIDFD pipe2 "
    "posix_fadvise posix_fallocate POSIX_FADV_DONTNEED sched_getaffinity sched_setaffinity "
    "sched_getscheduler splice getresuid getresgid setresuid setresgid setns unshare",
    "select": "epoll",
    "fcntl": "F_ADD_SEALS F_GET_SEALS F_SEAL_SEAL F_SEAL_SHRINK F_SEAL_GROW F_SEAL_WRITE "
    "F_SETPIPE_SZ F_GETPIPE_SZ F_OFD_SETLK F_OFD_GETLK F_OFD_SETLKW F_NOTIFY F_SETLEASE",
    "resource": "prlimit",
    "signal": "pidfd_send_signal sigtimedwait sigwaitinfo",
    "socket": "TCP_KEEPIDLE TCP_USER_TIMEOUT SO_PEERCRED SOCK_CLOEXEC SOCK_NONBLOCK AF_NETLINK "
    "AF_VSOCK",
}
FOREIGN = frozenset({"statx", "inotify_init1", "memfd_create", "pthread_getattr_np"})
"""Functions of the C library that `ctypes` would find."""

for module_name, names in MISSING.items():
    module = importlib.import_module(module_name)
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
        if name in getattr(module, "__all__", ()):
            module.__all__.remove(name)

import errno  # noqa: E402
import importlib.abc  # noqa: E402
import importlib.util  # noqa: E402


def _asks_for_the_package() -> bool:
    """Whether the innermost code that is not of the standard library is the package's."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("agentforge_sessions"):
            return True
        if name.startswith(("psutil", "tests", "_pytest", "xdist")):
            return False
        frame = frame.f_back
    return False


def _is_of_linux(path: object) -> bool:
    if not isinstance(path, str | bytes | os.PathLike):
        return False
    text = os.fsdecode(path)
    return text == "/proc" or text.startswith(("/proc/", "/sys/", "/etc/machine-id"))


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    looks = event in {"open", "os.listdir", "os.scandir"} and _is_of_linux(arguments[0])
    if looks and _asks_for_the_package():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), arguments[0])


sys.addaudithook(_refuse)


class _WithoutProc:
    """A call of `os`; an object, since a function would become a method in a class."""

    def __init__(self, call, missing):
        self._call, self._missing = call, missing

    def __call__(self, path, *more, **named):
        if _is_of_linux(path) and _asks_for_the_package():
            return self._missing(path)
        return self._call(path, *more, **named)


def _no_file(path):
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


for name in ("stat", "lstat", "readlink", "access"):
    call = getattr(os, name)
    ours = _WithoutProc(call, (lambda _: False) if name == "access" else _no_file)
    for able in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
        if call in able:
            able.add(ours)
    setattr(os, name, ours)


class _Ctypes(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads ctypes, which then finds no function of Linux."""

    def find_spec(self, name, path=None, target=None):
        if name != "ctypes":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        self._loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        self._loader.exec_module(module)
        found = module.CDLL.__getitem__

        def looked_up(library, name):
            if name in FOREIGN:
                raise AttributeError(name)
            return found(library, name)

        module.CDLL.__getitem__ = looked_up


sys.meta_path.insert(0, _Ctypes())
