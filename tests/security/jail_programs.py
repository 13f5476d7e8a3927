"""Programs for a jail that try to get out, or to use more than they may.

A program calls `attempt(label, function, …)` for what has to be refused, `expect(label, truth)` for
what has to hold, and `tell(name, value)` for what the test judges. It prints DONE at its end.

What would change the machine if it got through is only asked for: a file is opened for writing and
closed, a system call gets arguments that it refuses anyway and is judged by its error. Nothing is
sent a signal but itself and its own children.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from attrs import frozen

from agentforge_sessions.jail import StopReason

KIT: Final = r"""
import ctypes, errno, os, resource, signal, socket, stat, sys, time
BASE = os.environ["BASE"]; SECRET = BASE + "/secret.txt"; OTHER = BASE + "/other-session"
LIBC = ctypes.CDLL(None, use_errno=True)
NUMBERS = {"x86_64": 0, "aarch64": 1}[os.uname().machine]

def attempt(label, function, *args):
    try:
        value = function(*args)
    except (OSError, ValueError, OverflowError, SystemExit) as error:
        print("refused", label, type(error).__name__, error, flush=True)
        return None
    print("ESCAPED", label, ascii(value)[:200], flush=True)
    return value

def expect(label, truth):
    print("holds" if truth else "ESCAPED", label, flush=True)

def tell(name, value):
    print(f"told {name}={value}", flush=True)

def read(path):
    with open(path, "rb") as file:
        return file.read(4096)

def open_to_write(path):
    os.close(os.open(path, os.O_WRONLY))

def refused_call(label, numbers, *args, errors=(errno.EPERM,)):
    LIBC.syscall.restype = ctypes.c_long
    outcome = LIBC.syscall(ctypes.c_long(numbers[NUMBERS]), *args)
    number = ctypes.get_errno()
    expect(f"{label} {outcome} {errno.errorcode.get(number)}", outcome == -1 and number in errors)
"""


@frozen(kw_only=True)
class Program:
    """A program, and how it has to end.

    Attributes:
        source: What it does after the kit.
        ends: The exit codes and stops that are right.
        limits: Limits other than the suite's.
        done: Whether it has to come to its end.
    """

    source: str
    ends: tuple[int | StopReason, ...] = (0,)
    limits: Mapping[str, float] = MappingProxyType({})
    done: bool = True


def _p(source: str) -> Program:
    return Program(source=source)


FILES: Final = {
    "read_the_secret_by_its_path": _p('attempt("read", read, SECRET)'),
    "read_the_secret_by_climbing": _p('attempt("read", read, "../" * 20 + SECRET.lstrip("/"))'),
    "read_another_session": _p(
        'attempt("list", os.listdir, OTHER); attempt("read", read, OTHER + "/work.txt")'
    ),
    "list_the_homes": _p(
        'attempt("root", os.listdir, "/root") if os.path.isdir("/root") and os.listdir("/root")'
        ' else None\nexpect("homes", os.listdir("/home") == ["jail"])\n'
        'expect("empty home", os.listdir(os.environ["HOME"]) == [])'
    ),
    "read_credentials": _p(
        'for home in ("/root", BASE + "/home", os.environ["HOME"]):\n'
        ' for name in (".ssh/id_rsa", ".aws/credentials", ".netrc", ".config/gh/hosts.yml",'
        ' ".claude.json", ".docker/config.json", ".git-credentials"):\n'
        '  attempt(name, read, f"{home}/{name}")'
    ),
    "read_the_systems_secrets": _p(
        'for name in ("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh/ssh_host_rsa_key",'
        ' "/etc/machine-id", "/etc/hostname", "/etc/ssl/private"):\n attempt(name, read, name)\n'
        'expect("users", len(read("/etc/passwd").splitlines()) == 2)'
    ),
    "follow_a_link_out": _p('os.symlink(SECRET, "link"); attempt("read", read, "link")'),
    "follow_a_linked_folder_out": _p(
        'os.symlink(BASE, "folder"); attempt("read", read, "folder/secret.txt")'
    ),
    "link_a_program_in": _p('attempt("link", os.link, "/usr/bin/env", "hard")'),
    "look_through_the_roots_of_processes": _p(
        'for pid in os.listdir("/proc"):\n'
        " if pid.isdigit():\n"
        '  attempt(pid, read, f"/proc/{pid}/root{SECRET}")\n'
        '  attempt(pid, read, f"/proc/{pid}/cwd/../secret.txt")'
    ),
    "look_through_descriptors": _p(
        'mine = os.listdir("/proc/self/fd")\nexpect(f"descriptors {mine}", len(mine) <= 4)\n'
        "for fd in range(3, 200):\n"
        ' attempt(str(fd), os.fstat, fd) if fd != 3 or os.path.exists("/proc/self/fd/3") else None'
    ),
    "open_the_systems_files_for_writing": _p(
        'for name in ("/usr/bin/env", "/usr/bin/python3", "/etc/passwd", "/etc/ld.so.cache",'
        ' "/etc/hosts", sys.executable):\n attempt(name, open_to_write, name)\n'
        'for name in ("/", "/usr", "/usr/bin", "/etc", "/dev", "/run", "/proc", "/home"):\n'
        " expect(name, not os.path.isdir(name) or not os.access(name, os.W_OK))"
    ),
    "find_what_should_not_be_there": _p(
        'for name in ("/sys", "/var", "/boot", "/mnt", "/media", "/srv", "/opt", "/lost+found"):\n'
        " expect(name, not os.path.isdir(name) or os.listdir(name) == [])\n"
        'expect("run", not os.path.exists("/run") or os.listdir("/run") in ([], ["agentforge"]))'
    ),
    "open_devices": _p(
        'for name in ("mem", "kmem", "port", "kmsg", "sda", "vda", "nvme0n1", "loop-control",'
        ' "fuse", "kvm", "net/tun", "vsock", "snapshot", "console", "tty0", "input/event0"):\n'
        ' attempt(name, os.open, f"/dev/{name}", os.O_RDONLY)\n'
        'expect("devices", set(os.listdir("/dev")) <= {"null", "zero", "full", "random", "urandom",'
        ' "tty", "pts", "ptmx", "shm", "fd", "stdin", "stdout", "stderr", "core", "console"})'
    ),
    "make_a_device": _p(
        'attempt("null", os.mknod, "node", stat.S_IFCHR | 0o666, os.makedev(1, 3))'
    ),
    "take_a_file_for_roots": _p(
        'open("mine", "w").close(); attempt("chown", os.chown, "mine", 0, 0)\n'
        'attempt("capability", os.setxattr, "mine", "security.capability",'
        ' b"\\x01\\x00\\x00\\x02" + bytes(16))'
    ),
    "remove_the_ground": _p(
        'attempt("rmdir", os.rmdir, os.getcwd())\n'
        'attempt("rename", os.rename, os.getcwd(), "/work2")'
    ),
    "open_a_file_by_its_handle": _p(
        'refused_call("open_by_handle_at", (304, 265), ctypes.c_int(-100), None, ctypes.c_int(0))'
    ),
}
PRIVILEGES: Final = {
    "ask_for_capabilities": _p(
        'lines = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)\n'
        'for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):\n'
        " expect(name, int(lines[name], 16) == 0)\n"
        'expect("no new privileges", lines["NoNewPrivs"].strip() == "1")\n'
        'expect("filtered", lines["Seccomp"].strip() == "2")'
    ),
    "become_root": _p(
        'attempt("setuid", os.setuid, 0); attempt("setgid", os.setgid, 0)\n'
        'attempt("setgroups", os.setgroups, [0]); attempt("setresuid", os.setresuid, 0, 0, 0)\n'
        'expect("user", os.getresuid() == (1000, 1000, 1000))'
    ),
    "run_a_setuid_copy": _p(
        "import shutil, subprocess\n"
        'shutil.copy("/usr/bin/id", "copy"); os.chmod("copy", 0o6755)\n'
        'seen = subprocess.run(["./copy", "-u"], capture_output=True, text=True).stdout\n'
        'expect("user", seen.strip() == "1000")\n'
        'for place in ("/usr", os.getcwd(), "/tmp"):\n'
        " expect(place, os.statvfs(place).f_flag & os.ST_NOSUID)"
    ),
    "make_namespaces": _p(
        'refused_call("unshare user", (272, 97), ctypes.c_long(0x10000000))\n'
        'refused_call("unshare mount", (272, 97), ctypes.c_long(0x00020000))\n'
        "import subprocess\n"
        'done = subprocess.run(["unshare", "-U", "true"], capture_output=True)\n'
        'expect("unshare -U", done.returncode != 0)'
    ),
    "make_a_user_namespace_by_clone": _p(
        "flags = 0x10000000 | signal.SIGCHLD\n"
        "outcome = LIBC.syscall(ctypes.c_long((56, 220)[NUMBERS]), ctypes.c_long(flags), None,"
        " None, None, None)\n"
        "if outcome == 0:\n os._exit(0)\n"
        'expect(f"clone {outcome}", outcome == -1)'
    ),
    "enter_namespaces": _p(
        'fd = os.open("/proc/self/ns/net", os.O_RDONLY)\n'
        'refused_call("setns", (308, 268), ctypes.c_int(fd), ctypes.c_int(0))'
    ),
    "ask_to_mount": _p(
        'refused_call("mount", (165, 40), b"none", b"/nowhere", b"tmpfs", ctypes.c_long(0), None)\n'
        'refused_call("umount2", (166, 39), b"/nowhere", ctypes.c_int(0))\n'
        'refused_call("pivot_root", (155, 41), b"/nowhere", b"/nowhere")\n'
        'refused_call("fsopen", (430, 430), b"none", ctypes.c_int(0))\n'
        'refused_call("open_tree", (428, 428), ctypes.c_int(-1), b"", ctypes.c_int(0))\n'
        'refused_call("move_mount", (429, 429), ctypes.c_int(-1), b"", ctypes.c_int(-1), b"", 0)\n'
        'refused_call("mount_setattr", (442, 442), ctypes.c_int(-1), b"", 0, None, 0)'
    ),
    "change_the_root": _p('attempt("chroot", os.chroot, ".")'),
    "ask_for_the_hosts_name": _p(
        'expect("name", socket.gethostname() == "jail")\n'
        'refused_call("sethostname", (170, 161), b"x", ctypes.c_long(-1))\n'
        'refused_call("setdomainname", (171, 162), b"x", ctypes.c_long(-1))'
    ),
    "ask_for_the_clock": _p(
        'refused_call("clock_settime", (227, 112), ctypes.c_int(0), None)\n'
        'refused_call("settimeofday", (164, 170), None, None)\n'
        'refused_call("adjtimex", (159, 171), None)\n'
        'refused_call("clock_adjtime", (305, 266), ctypes.c_int(0), None)'
    ),
    "ask_the_kernel_for_more": _p(
        'refused_call("init_module", (175, 105), None, ctypes.c_long(0), b"")\n'
        'refused_call("delete_module", (176, 106), b"no-such-module", ctypes.c_int(0))\n'
        'refused_call("kexec_load", (246, 104), None, ctypes.c_long(0), None, ctypes.c_long(-1))\n'
        'refused_call("reboot", (169, 142), ctypes.c_int(0), ctypes.c_int(0), ctypes.c_int(0))\n'
        'refused_call("swapoff", (168, 225), b"/nowhere")\n'
        'refused_call("acct", (163, 89), b"/nowhere")\n'
        'refused_call("quotactl", (179, 60), ctypes.c_int(-1), None, 0, None)\n'
        'refused_call("syslog", (103, 116), ctypes.c_int(10), None, ctypes.c_int(0))'
    ),
    "open_core_pattern": _p('attempt("open", open_to_write, "/proc/sys/kernel/core_pattern")'),
    "open_all_of_proc_for_writing": _p(
        'for folder, folders, names in os.walk("/proc"):\n'
        ' if folder == "/proc":\n'
        '  mine = ("1", str(os.getpid()))\n'
        "  folders[:] = [n for n in folders if n in mine or not n.isdigit()]\n"
        " for name in names:\n"
        '  path = f"{folder}/{name}"\n'
        "  try:\n   open_to_write(path)\n"
        "  except OSError:\n   pass\n"
        "  else:\n   expect(path, stat.S_ISLNK(os.lstat(path).st_mode))"
    ),
    "read_what_is_masked_in_proc": _p(
        'for name in ("keys", "key-users", "kallsyms", "cmdline", "kcore", "sysrq-trigger"):\n'
        ' attempt(name, read, f"/proc/{name}")'
    ),
    "make_itself_more_important": _p(
        'attempt("nice", os.nice, -5)\n'
        'attempt("fifo", os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1))'
    ),
    "raise_its_limits": _p(
        "for kind in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE):\n"
        " more = resource.getrlimit(kind)[1] + 1\n"
        " attempt(str(kind), resource.setrlimit, kind, (more, more))\n"
        'expect("no core", resource.getrlimit(resource.RLIMIT_CORE) == (0, 0))'
    ),
}
KERNEL: Final = {
    "trace_a_process": _p(
        'refused_call("ptrace", (101, 117), ctypes.c_long(0), ctypes.c_long(0), None, None)'
    ),
    "read_the_memory_of_a_process": _p(
        "me = ctypes.c_int(os.getpid())\n"
        'refused_call("process_vm_readv", (310, 270), me, None, 0, None, 0, 0)\n'
        'refused_call("process_vm_writev", (311, 271), me, None, 0, None, 0, 0)\n'
        'refused_call("pidfd_getfd", (438, 438), ctypes.c_int(-1), ctypes.c_int(0), 0)'
    ),
    "use_keyrings": _p(
        'refused_call("keyctl", (250, 219), ctypes.c_int(0), ctypes.c_int(-3), ctypes.c_int(0))\n'
        'refused_call("add_key", (248, 217), None, None, None, 0, 0)\n'
        'refused_call("request_key", (249, 218), None, None, None, 0)'
    ),
    "use_io_uring": _p(
        'refused_call("setup", (425, 425), ctypes.c_int(0), None)\n'
        'refused_call("enter", (426, 426), ctypes.c_int(-1), 0, 0, 0, None, 0)\n'
        'refused_call("register", (427, 427), ctypes.c_int(-1), 0, None, 0)'
    ),
    "use_tracing_of_the_kernel": _p(
        'refused_call("bpf", (321, 280), ctypes.c_int(-1), None, 0)\n'
        'refused_call("perf_event_open", (298, 241), None, 0, 0, -1, 0)\n'
        'refused_call("userfaultfd", (323, 282), ctypes.c_int(-1))\n'
        'refused_call("fanotify_init", (300, 262), ctypes.c_int(-1), 0)\n'
        'refused_call("memfd_secret", (447, 447), ctypes.c_int(-1))'
    ),
    "call_by_another_interface": _p(
        "if NUMBERS == 0:\n"
        ' refused_call("x32 getpid", (0x40000000 | 39, 0), errors=(errno.ENOSYS,))'
    ),
    "type_into_the_terminal": _p(
        'refused_call("TIOCSTI", (16, 29), ctypes.c_int(0), ctypes.c_long(0x5412), None)\n'
        'refused_call("TIOCLINUX", (16, 29), ctypes.c_int(0), ctypes.c_long(0x541C), None)\n'
        'attempt("terminal", os.open, "/dev/tty", os.O_RDWR)'
    ),
}
NETWORK: Final = {
    "connect_to_the_host": _p(
        'port = int(os.environ["PORT"])\n'
        'for host in ("127.0.0.1", "127.1.2.3"):\n'
        " attempt(host, socket.create_connection, (host, port), 5)\n"
        'attempt("::1", socket.create_connection, ("::1", port), 5)'
    ),
    "connect_to_the_world": _p(
        'attempt("tcp", socket.create_connection, ("192.0.2.1", 80), 5)\n'
        "datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        'attempt("udp", datagram.sendto, b"x", ("192.0.2.1", 53))\n'
        'lines = open("/proc/net/dev").read().splitlines()[2:]\n'
        'expect("interfaces", [line.split(":")[0].strip() for line in lines] == ["lo"])'
    ),
    "ask_for_a_name": _p('attempt("name", socket.getaddrinfo, "example.invalid", 80)'),
    "connect_to_an_abstract_socket": _p(
        "client = socket.socket(socket.AF_UNIX)\n"
        'attempt("abstract", client.connect, "\\0" + os.environ["ABSTRACT"])'
    ),
    "connect_to_a_socket_by_its_path": _p(
        'for path in (BASE + "/host.sock", "/run/docker.sock", "/var/run/docker.sock",'
        ' "/run/dbus/system_bus_socket", "/run/systemd/private"):\n'
        " attempt(path, socket.socket(socket.AF_UNIX).connect, path)"
    ),
    "open_sockets_of_other_families": _p(
        "for family in (16, 17, 38, 40, 31, 15, 29):\n"
        ' attempt(f"family {family}", socket.socket, family, socket.SOCK_DGRAM, 0)\n'
        'attempt("raw", socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)\n'
        'attempt("pair", socket.socketpair, 16)'
    ),
}
PROCESSES: Final = {
    "see_other_processes": _p(
        'pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]\n'
        'expect(f"processes {pids}", len(pids) <= 3)\n'
        'expect("first", open("/proc/1/comm").read().strip() == "bwrap")\n'
        "for pid in pids:\n"
        ' found = b""\n'
        " try:\n  found = read(f'/proc/{pid}/environ')\n"
        " except OSError:\n  pass\n"
        ' expect(f"environment of {pid}", b"HOST_ONLY" not in found)'
    ),
    "ask_for_processes_of_the_host": _p(
        'host = int(os.environ["HOST_PID"])\n'
        'attempt("host", os.kill, host, 0) if host > 50 else None\n'
        'attempt("all", os.kill, -1, 0)'
    ),
    "see_the_hosts_environment": _p(
        'expect("variables", not {"HOST_ONLY", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS",'
        ' "PYTHONPATH"} & set(os.environ))\n'
        'expect("home", os.environ["HOME"] == "/home/jail")'
    ),
    "see_shared_memory_of_the_host": _p(
        'expect("shm", os.listdir("/dev/shm") == [])\n'
        'expect("sysv", len(open("/proc/sysvipc/shm").read().splitlines()) == 1)\n'
        'attempt("segment", LIBC.shmget, 1, 1, 0) if LIBC.shmget(1, 1, 0) != -1 else None'
    ),
    "leave_a_child_behind": _p(
        "if os.fork() == 0:\n"
        " os.setsid()\n"
        " signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        " signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        " time.sleep(600)"
    ),
    "leave_a_daemon_behind": _p(
        "if os.fork() == 0:\n"
        " os.setsid()\n"
        " if os.fork():\n  os._exit(0)\n"
        " os.closerange(0, 100)\n"
        " time.sleep(600)\n"
        " os._exit(0)\n"
        "os.wait()"
    ),
    "forge_the_report": Program(
        source="for fd in range(3, 100):\n"
        " try:\n  os.write(fd, b'{ \"exit-code\": 0 }\\n')\n"
        " except OSError:\n  pass\n"
        "print('DONE', flush=True)\nos._exit(7)",
        ends=(7,),
    ),
    "pretend_to_be_bubblewrap": Program(
        source="sys.stderr.write('bwrap: execvp x: No such file or directory\\n')\n"
        "print('DONE', flush=True)\nos._exit(1)",
        ends=(1,),
    ),
    "die_with_a_core": Program(source="print('DONE', flush=True)\nos.abort()", ends=(134,)),
}
LIMITS: Final = {
    "sleep_for_ever": Program(
        source="time.sleep(600)",
        ends=(StopReason.DEADLINE,),
        limits={"deadline_s": 0.5},
        done=False,
    ),
    "compute_for_ever": Program(
        source="while True: pass",
        ends=(StopReason.DEADLINE,),
        limits={"deadline_s": 0.5},
        done=False,
    ),
    "ignore_every_signal": Program(
        source="for number in range(1, 65):\n"
        " try:\n  signal.signal(number, signal.SIG_IGN)\n"
        " except (OSError, ValueError):\n  pass\n"
        "time.sleep(600)",
        ends=(StopReason.DEADLINE,),
        limits={"deadline_s": 0.5},
        done=False,
    ),
    "fork_without_end": Program(
        source="made = 0\n"
        "for _ in range(400):\n"
        " try:\n  child = os.fork()\n"
        " except OSError:\n  break\n"
        " if child == 0:\n  time.sleep(600); os._exit(0)\n"
        " made += 1\n"
        "else:\n time.sleep(600)\n"
        'tell("made", made); expect("bounded", made <= 70)',
        ends=(0, StopReason.PROCESSES),
        done=False,
    ),
    "start_threads_without_end": Program(
        source="import threading\n"
        "threading.stack_size(64 << 10)\nmade = 0\n"
        "for _ in range(400):\n"
        " try:\n  threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
        " except RuntimeError:\n  break\n"
        " made += 1\n"
        "else:\n time.sleep(600)\n"
        'tell("made", made); expect("bounded", made <= 70)\n'
        "print('DONE', flush=True); os._exit(0)",
        ends=(0, StopReason.PROCESSES),
        done=False,
    ),
    "fill_memory": Program(
        source="held = []\nfor _ in range(600): held.append(b'x' * (1 << 20))\ntime.sleep(600)",
        ends=(StopReason.MEMORY,),
        done=False,
    ),
    "fill_memory_by_children": Program(
        source="for _ in range(6):\n"
        " if os.fork() == 0:\n  held = b'x' * (90 << 20); time.sleep(600)\n"
        "time.sleep(600)",
        ends=(StopReason.MEMORY,),
        done=False,
    ),
    "fill_shared_memory": Program(
        source="import mmap\n"
        "held = mmap.mmap(-1, 600 << 20)\n"
        "for _ in range(600): held.write(b'x' * (1 << 20))\ntime.sleep(600)",
        ends=(StopReason.MEMORY,),
        done=False,
    ),
    "fill_files_in_memory": Program(
        source="for _ in range(40):\n"
        " fd = os.memfd_create('x')\n"
        " for _ in range(15): os.write(fd, b'x' * (1 << 20))\n"
        "time.sleep(600)",
        ends=(StopReason.MEMORY,),
        done=False,
    ),
    "fill_the_scratch_folders": _p(
        'for folder in ("/tmp", "/dev/shm", os.environ["HOME"]):\n'
        " size = 0\n"
        " try:\n"
        "  for index in range(8):\n"
        '   with open(f"{folder}/{index}", "wb", 0) as file:\n'
        "    for _ in range(15): size += file.write(b'x' * (1 << 20))\n"
        " except OSError:\n  pass\n"
        ' expect(f"{folder} {size >> 20}", size <= 33 << 20)'
    ),
    "fill_the_disk": Program(
        source="for index in range(30):\n"
        ' with open(f"{index}", "wb") as file:\n'
        "  for _ in range(15): file.write(os.urandom(1 << 20))\n"
        "time.sleep(600)",
        ends=(StopReason.DISK,),
        done=False,
    ),
    "fill_the_disk_and_end_at_once": Program(
        source="for index in range(10):\n"
        ' with open(f"{index}", "wb") as file:\n'
        "  file.write(bytes(15 << 20))\n",
        ends=(StopReason.DISK,),
        done=False,
    ),
    "fill_the_disk_by_files_without_a_name": Program(
        source="held = []\n"
        "for index in range(25):\n"
        ' file = open("x", "wb"); os.remove("x"); held.append(file)\n'
        " for _ in range(15): file.write(os.urandom(1 << 20))\n"
        " file.flush()\n"
        "time.sleep(600)",
        ends=(StopReason.DISK,),
        done=False,
    ),
    "write_one_large_file": _p(
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "def write():\n"
        ' with open("large", "wb", 0) as file:\n'
        "  for _ in range(20):\n"
        "   if file.write(bytes(1 << 20)) < 1 << 20: raise OSError('cut short')\n"
        'attempt("write", write)\nexpect("size", os.path.getsize("large") <= 16 << 20)'
    ),
    "make_a_sparse_file": _p(
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        'open("sparse", "wb").close(); attempt("truncate", os.truncate, "sparse", 1 << 40)'
    ),
    "make_many_files": Program(
        source='for index in range(4_000): open(f"f{index}", "wb").close()\ntime.sleep(600)',
        ends=(StopReason.FILES,),
        done=False,
    ),
    "make_many_files_in_memory": Program(
        source='for index in range(4_000): open(f"/tmp/f{index}", "wb").close()\ntime.sleep(600)',
        ends=(StopReason.FILES,),
        done=False,
    ),
    "dig_deep": Program(
        source='for _ in range(700):\n os.mkdir("d"); os.chdir("d")\ntime.sleep(600)',
        ends=(StopReason.FILES,),
        done=False,
    ),
    "flood_standard_output": Program(
        source="while True: os.write(1, b'x' * 65536)", ends=(StopReason.OUTPUT,), done=False
    ),
    "flood_standard_error": Program(
        source="while True: os.write(2, b'x' * 65536)", ends=(StopReason.OUTPUT,), done=False
    ),
    "open_many_files": _p(
        "held = []\n"
        "def keep():\n"
        " while len(held) < 5000: held.append(os.open('/dev/null', os.O_RDONLY))\n"
        'attempt("open", keep)\nos.closerange(4, 5000)'
    ),
}
PROGRAMS: Final[dict[str, Program]] = {
    **FILES,
    **PRIVILEGES,
    **KERNEL,
    **NETWORK,
    **PROCESSES,
    **LIMITS,
}
BY_THE_WAY: Final = frozenset(
    {"fork_without_end", "start_threads_without_end"}
    | {name for name, program in LIMITS.items() if StopReason.MEMORY in program.ends}
)
"""The programs whose limit control groups hold where there are some, and looks where not."""
