"""Guest programs that try to get out, each run in a session's workspace with secrets beside it.

Every program runs with `attack_kit.py` in its workspace and says ESCAPED or CONTAINED. What it says
is one part of the judgement: the others are the host's own look at everything outside, at the clock
and at its memory, and that the session works as before.

A program says in comments what it needs and how it must end:

    # expect: exit 0          (this is the default; "any exit", "truncated" and
    # expect: exit 1, or trapped crash      alternatives after ", or " are possible)
    # policy: memory_bytes=134217728        (limits other than those of this file)
    # host memory: 200        (how many MiB this process may grow by meanwhile)
    # long                    (it takes seconds, and others like it do not: `make soak` runs it)
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from agentforge_sessions.sandbox import (
    ExecutionPolicy,
    Sandbox,
    SandboxResult,
    WorkspaceError,
    create_sandbox,
    get_session_sandbox,
    prepare,
    read_session_metadata,
)
from agentforge_sessions.sandbox.interpreters.process_pool import (
    close_pool,
    configure_pool,
    pool_stats,
    warm_pool,
)
from agentforge_sessions.sandbox.workspaces.workspace import open_workspace, open_workspace_file
from agentforge_sessions.sandbox.workspaces.workspace_tree import TreeSnapshot, take_snapshot
from tests.support.own_memory import growth_of_memory
from tests.support.promptness import given_time, soonest
from tests.support.sandbox_results import result_with
from tests.support.soak import SOAKING

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
ATTACKS = sorted(path.stem for path in (HERE / "attacks").glob("*.py"))
QUICK = [
    name
    for name in ATTACKS
    if not re.search("^# long$", (HERE / "attacks" / f"{name}.py").read_text(), re.MULTILINE)
]
TRIED = ATTACKS if SOAKING else QUICK[::3]
SECRET = "the-secret-7f3a91"
SESSION = "workspace"
GRACE_S = 0.5
DEADLINE_S = 120.0
SHORT_DEADLINE_S = 0.2
"""For what is expected to run into its deadline; more where it could not begin in that time."""
MEMORY_SLACK_MIB = 300
"""How much this process may grow by beside the guest's own memory."""

TIGHT = {
    "memory_bytes": 256 << 20,
    "fuel_budget": 10**12,
    "output_bytes": 1 << 20,
    "open_files": 64,
    "workspace_bytes": 64 << 20,
    "workspace_files": 4000,
    "file_bytes": 16 << 20,
    "temporary_bytes": 64 << 20,
    "file_calls": 100_000,
}

AFTERWARDS = """
import builtins, os, sys
home = os.environ['HOME']
print(
    'still here', hasattr(builtins, 'left'), hasattr(sys, 'left'), 'LEFT' in os.environ,
    os.listdir('/tmp') == [os.path.basename(home)], os.listdir(home), os.getcwd(),
    os.path.lexists('/left.txt'), os.path.lexists('/etc'), os.path.lexists('/var'),
    sys.getrecursionlimit() > 500, sys.modules['os'] is os,
)
"""
CLEAN = "still here False False False True [] /app False False False True True\n"
"""What any interpreter says of itself that saw nothing of another run."""

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> None:
    prepare()


@frozen(kw_only=True)
class Ground:
    """Where one attack takes place: a workspace root, a session's workspace, what is beside it."""

    base: Path
    sandbox: Sandbox

    @property
    def workspace(self) -> Path:
        return self.base / SESSION

    def attacked(self, sandbox: Sandbox, source: str) -> SandboxResult:
        """Run an attack with time enough to begin, and see that it did not take longer than that.

        A machine that is busy may hold up one run; the limit is held to by one of several.
        """

        def attempt(limit_s: float) -> tuple[SandboxResult, float, float]:
            started = time.monotonic()
            result = sandbox.execute(source, argv=[str(self.base)], timeout=limit_s)
            return result, limit_s, time.monotonic() - started - limit_s

        def begun(ran: tuple[SandboxResult, float, float]) -> bool:
            return ran[0].trapped != "deadline" or "CONTAINED" in ran[0].stdout

        result, limit_s, late_s = given_time(attempt, sandbox.policy.deadline_s, begun)
        assert late_s <= GRACE_S or soonest(lambda: attempt(limit_s)[2], GRACE_S) <= GRACE_S
        return result

    def outside(self) -> tuple[dict[str, bytes], set[str]]:
        """The content and the times of every file, and every entry, outside the workspace."""
        contents, entries = {}, set()
        for directory, names, files in os.walk(self.base):
            if Path(directory) == self.base:
                names.remove(SESSION)
            for name in names + files:
                path = Path(directory, name)
                seen = path.lstat()
                entries.add(f"{path} {seen.st_mode:o} {seen.st_uid} {seen.st_nlink}")
                if stat.S_ISREG(seen.st_mode):
                    changed = str(seen.st_mtime_ns).encode()
                    contents[str(path)] = path.read_bytes() + b" at " + changed
        return contents, entries


def build_ground(base: Path, policy: ExecutionPolicy) -> Ground:
    sandbox = get_session_sandbox(SESSION, policy=policy, workspace_root=base)
    get_session_sandbox("neighbour", workspace_root=base)
    (base / "neighbour" / "theirs.txt").write_text(SECRET)
    (base / "canary.txt").write_text("canary")
    (base / ".incoming-canary").write_text(SECRET)
    (base / ".discarded-canary").mkdir()
    (base / ".discarded-canary" / "inside.txt").write_text(SECRET)
    (base / "outside" / "inner").mkdir(parents=True)
    (base / "outside" / "secret.txt").write_text(SECRET)
    (base / "outside" / "mod.py").write_text("print('ESCAPED: imported')")
    (base / "outside" / "inner" / "deep.txt").write_text(SECRET)
    workspace = base / SESSION
    (workspace / "notes.txt").write_text("notes")
    (workspace / "attack_kit.py").write_bytes((HERE / "attack_kit.py").read_bytes())
    for name, target in {
        "secret_link": "../outside/secret.txt",
        "secret_abs": f"{base}/outside/secret.txt",
        "outside_link": "../outside",
        "outside_abs": f"{base}/outside",
        "neighbour_link": "../neighbour",
        "dangling": "nowhere",
        "dangling_out": "../outside/planted.txt",
        "dangling_out_abs": f"{base}/outside/planted_abs.txt",
        "passwd_link": "/etc/passwd",
        "loop": "loop",
        "loop_a": "loop_b",
        "loop_b": "loop_a",
    }.items():
        os.symlink(target, workspace / name)
    return Ground(base=base, sandbox=sandbox)


def needs(name: str) -> dict[str, float]:
    """What the program of a name asks of the policy."""
    source = (HERE / "attacks" / f"{name}.py").read_text() if name else ""
    found = re.search(r"^# policy: (.+)$", source, re.MULTILINE)
    asked = [] if found is None else [part.split("=") for part in found.group(1).split(", ")]
    short = "# expect: trapped deadline" in source
    default = {"deadline_s": SHORT_DEADLINE_S if short else DEADLINE_S}
    return {**TIGHT, **default, **{key: ast.literal_eval(value) for key, value in asked}}


@pytest.fixture
def ground(tmp_path: Path, request: pytest.FixtureRequest) -> Ground:
    base = tmp_path / "base"
    base.mkdir()
    return build_ground(base, ExecutionPolicy(**needs(getattr(request, "param", ""))))


def ended_as(expected: str, result: SandboxResult) -> bool:
    """Whether an execution ended in one of the ways that were expected of it."""
    for way in expected.split(", or "):
        kind, _, detail = way.removesuffix(", truncated").partition(" ")
        if way.endswith(", truncated") and not result.truncated:
            continue
        match kind:
            case "exit":
                good = result.exit_code == int(detail) and result.trapped is None
            case "any":
                good = result.trapped is None
            case "truncated":
                good = result.truncated and (result.exit_code, result.trapped) == (0, None)
            case _:
                good = result.trapped == detail
        if good:
            return True
    return False


def problems(
    source: str,
    result: SandboxResult,
    before: tuple[dict[str, bytes], set[str]],
    after: tuple[dict[str, bytes], set[str]],
) -> list[str]:
    """Everything wrong with how an attack went; an empty list is a contained attack."""
    found = []
    said = result.stdout + result.stderr
    if "ESCAPED" in said:
        found.append("it says it escaped")
    if "CONTAINED" not in result.stdout:
        found.append("it never got as far as attacking")
    if SECRET in said or "root:x:" in said:
        found.append("it read what it must not")
    if after[0] != before[0]:
        found.append("a file outside was changed")
    if after[1] != before[1]:
        found.append("something was created or deleted outside")
    expected = re.search(r"^# expect: (.+)$", source, re.MULTILINE)
    if not ended_as(expected.group(1) if expected else "exit 0", result):
        found.append(f"it ended with exit code {result.exit_code} and trap {result.trapped}")
    return found


@pytest.mark.parametrize(
    ("ground", "name"), list(zip(TRIED, TRIED, strict=True)), indirect=["ground"], ids=TRIED
)
def test_attack_is_contained_and_the_host_goes_on(ground: Ground, name: str) -> None:
    source = (HERE / "attacks" / f"{name}.py").read_text()
    policy = needs(name)
    before = ground.outside()
    metadata = read_session_metadata(SESSION, ground.base)

    with growth_of_memory() as grown:
        result = ground.attacked(ground.sandbox, source)

    transcript = f"\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}"
    assert problems(source, result, before, ground.outside()) == [], transcript
    stated = re.search(r"^# host memory: (\d+)$", source, re.MULTILINE)
    most = policy["memory_bytes"] / (1 << 20) + MEMORY_SLACK_MIB
    assert grown[-1] < (int(stated.group(1)) if stated else most)
    held = held_by(ground.workspace)
    assert held[0] <= policy["workspace_bytes"]
    assert held[1] <= policy["workspace_files"]
    after = read_session_metadata(SESSION, ground.base)
    assert metadata is not None
    assert after is not None
    assert (after.session_id, after.created_at) == (SESSION, metadata.created_at)

    afterwards = ground.sandbox.execute(AFTERWARDS, timeout=DEADLINE_S)
    assert afterwards.stdout == CLEAN, afterwards.stderr
    for left in ground.workspace.iterdir():  # deeper than what pytest's own cleaning manages
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)


APART = ATTACKS if SOAKING else ["burn_fuel", "recursion_without_limit"]


@pytest.mark.parametrize("name", APART)
def test_attack_is_contained_by_a_process_apart(tmp_path: Path, name: str) -> None:
    source = (HERE / "attacks" / f"{name}.py").read_text()
    policy = ExecutionPolicy(**needs(name))
    base = tmp_path / "base"
    base.mkdir()
    ground = build_ground(base, policy)
    with create_sandbox(workspace=ground.workspace, policy=policy, isolation="process") as sandbox:
        before = ground.outside()
        result = ground.attacked(sandbox, source)
        transcript = f"\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}\n{result.metadata}"
        assert problems(source, result, before, ground.outside()) == [], transcript
        afterwards = sandbox.execute(AFTERWARDS, timeout=DEADLINE_S)
        assert afterwards.stdout == CLEAN, afterwards.stderr
    for left in ground.workspace.iterdir():
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)


RESTORED = ATTACKS if SOAKING else QUICK[1::12]


@pytest.mark.parametrize("name", RESTORED)
def test_attack_is_contained_in_a_restored_interpreter(tmp_path: Path, name: str) -> None:
    source = (HERE / "attacks" / f"{name}.py").read_text()
    policy = ExecutionPolicy(**needs(name))
    base = tmp_path / "base"
    base.mkdir()
    ground = build_ground(base, policy)
    options: Any = {
        "workspace": ground.workspace,
        "policy": policy,
        "stateful": True,
        "durable": tmp_path / "state",
    }
    with create_sandbox(**options) as sandbox:
        assert sandbox.execute("left = [1]", timeout=DEADLINE_S).success
    with create_sandbox(**options) as sandbox:
        before = ground.outside()
        result = ground.attacked(sandbox, source)
        transcript = f"\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}\n{result.metadata}"
        assert problems(source, result, before, ground.outside()) == [], transcript
        undone = result.metadata["turn_lost"] is not None
    with create_sandbox(**options) as sandbox:
        again = sandbox.execute("print(left)", timeout=DEADLINE_S)
        assert again.stdout == "[1]\n" or not undone, again
    afterwards = ground.sandbox.execute(AFTERWARDS, timeout=DEADLINE_S)
    assert afterwards.stdout == CLEAN, afterwards.stderr
    for left in ground.workspace.iterdir():
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)


def test_modules_left_in_the_workspace_do_not_stand_in_for_what_the_host_gives(
    ground: Ground,
) -> None:
    ground.sandbox.execute(
        "for name in ('json', 'linecache', 'atexit', 'gc', 'io', '_io', 'encodings', 'decoder'):\n"
        "    with open(name + '.py', 'w') as file:\n"
        "        file.write('import sys\\nprint(\"planted\", file=sys.stderr)\\n'\n"
        '                   \'cache = {}\\nloads = lambda *args: {"x": "forged"}\')\n'
    )
    for stdin in (None, "some input"):
        result = ground.sandbox.execute("print(x)", inject={"x": "given"}, stdin=stdin)
        assert (result.stdout, result.stderr) == ("given\n", "")


def test_what_a_guest_prints_decides_nothing_of_the_result_but_the_label_of_memory(
    ground: Ground,
) -> None:
    for words in ("DeadlineExceeded", "Fuel", "trapped: crash", "cancelled", "FileCallsExceeded"):
        result = ground.sandbox.execute(
            f"import sys; sys.stderr.write({words!r} + '\\n'); sys.exit(1)"
        )
        assert (result.exit_code, result.trapped, result.success) == (1, None, False)


def held_by(workspace: Path) -> tuple[int, int]:
    """How many bytes and entries a guest has in a workspace, beside what the host put there."""
    size = entries = 0
    for _, names, files, here in os.fwalk(workspace):  # deeper than a path may be long
        seen = [os.stat(name, dir_fd=here, follow_symlinks=False) for name in names + files]
        kept = [found for found in seen if not stat.S_ISLNK(found.st_mode)]
        entries += len(kept)
        size += sum(found.st_size for found in kept if stat.S_ISREG(found.st_mode))
    return size, entries - 1  # the session's own file


def test_the_attacks_are_numerous() -> None:
    assert len(ATTACKS) >= 120


@pytest.mark.parametrize(
    ("expected", "exit_code", "trapped", "truncated", "good"),
    [
        ("exit 0", 0, None, False, True),
        ("exit 0", 1, None, False, False),
        ("exit 1, truncated", 1, None, False, False),
        ("exit 1, truncated", 1, None, True, True),
        ("truncated", 0, None, False, False),
        ("trapped crash, or exit 1", 1, None, False, True),
        ("trapped crash, or exit 1", None, "deadline", False, False),
        ("any exit", 77, None, False, True),
        ("any exit", None, "crash", False, False),
    ],
)
def test_only_the_expected_endings_count(
    expected: str, exit_code: int | None, trapped: str | None, truncated: bool, good: bool
) -> None:
    result = contained(exit_code=exit_code, trapped=trapped, truncated=truncated)
    assert ended_as(expected, result) is good


def test_growth_of_memory_is_seen() -> None:
    program = (
        "import os\n"
        "from tests.support.own_memory import growth_of_memory\n"
        "with growth_of_memory() as grown:\n"
        "    taken, looks = bytearray(os.urandom(1 << 20)) * 64, len(grown)\n"
        "    while len(grown) < looks + 2:\n"
        "        pass\n"
        "print(grown[-1])"
    )  # in a process of its own: what this one gives back meanwhile would hide it
    grown = subprocess.check_output([sys.executable, "-c", program], cwd=REPOSITORY, timeout=60)
    assert float(grown) > 48


def contained(**changes: object) -> SandboxResult:
    return result_with(**{"stdout": "CONTAINED\n", **changes})


NOTHING: tuple[dict[str, bytes], set[str]] = ({}, set())


def test_a_contained_attack_has_no_problems() -> None:
    assert problems("", contained(), NOTHING, NOTHING) == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"stdout": "CONTAINED\nESCAPED: x\n"}, "says it escaped"),
        ({"stdout": "nothing\n"}, "never got as far"),
        ({"stderr": f"found {SECRET}"}, "read what it must not"),
        ({"exit_code": 1}, "exit code 1"),
        ({"trapped": "crash", "exit_code": None}, "trap crash"),
    ],
)
def test_every_sign_of_an_escape_is_a_problem(change: dict[str, object], word: str) -> None:
    found = problems("", contained(**change), NOTHING, NOTHING)
    assert any(word in problem for problem in found)


@pytest.mark.parametrize(
    "after", [({"canary": b"other"}, {"canary"}), ({"canary": b"1"}, {"canary", "planted"})]
)
def test_every_change_outside_is_a_problem(after: tuple[dict[str, bytes], set[str]]) -> None:
    assert problems("", contained(), ({"canary": b"1"}, {"canary"}), after) != []


def test_attacks_do_escape_where_nothing_holds_them(ground: Ground) -> None:
    """The attacks are real: with the base itself as workspace, the same aim is within reach."""
    open_ground = create_sandbox(workspace=ground.base)
    (ground.base / "attack_kit.py").write_bytes((HERE / "attack_kit.py").read_bytes())
    code = "from attack_kit import *\nattempt('read', read, 'outside/secret.txt')\nverdict()"
    result = open_ground.execute(code, argv=[str(ground.base)])
    assert SECRET in result.stdout
    assert "ESCAPED: read" in result.stdout


def test_what_is_neither_file_nor_directory_is_not_there(ground: Ground) -> None:
    os.mkdir(ground.workspace / "sub")
    os.mkfifo(ground.workspace / "sub" / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(ground.workspace)  # a socket's path may not be long
        try:
            server.bind("socket")
        finally:
            os.chdir(here)
        result = ground.sandbox.execute(
            "import os\n"
            "print(os.listdir('sub'), 'socket' in os.listdir(), os.path.exists('loop'))\n"
            "for name in ('sub/pipe', 'socket', 'secret_link', 'outside_link'):\n"
            "    for mode in ('rb', 'wb', 'ab', 'r+b'):\n"
            "        try:\n"
            "            open(name, mode)\n"
            "            print('opened', name, mode)\n"
            "        except OSError as error:\n"
            "            pass\n"
            "    for change in (os.remove, os.rmdir, os.mkdir, lambda n: os.rename(n, 'x'),\n"
            "                   lambda n: os.rename('notes.txt', n)):\n"
            "        try:\n"
            "            change(name)\n"
            "            print('changed', name)\n"
            "        except OSError as error:\n"
            "            pass\n"
        )
    assert result.stdout == "[] False False\n", result.stderr
    assert stat.S_ISFIFO((ground.workspace / "sub" / "pipe").lstat().st_mode)
    assert (result.files_created, result.files_modified, result.files_deleted) == ((), (), ())


def test_a_workspace_swapped_for_a_link_is_refused(ground: Ground) -> None:
    ground.workspace.rename(ground.base / "moved")
    ground.workspace.symlink_to("outside")
    with pytest.raises(WorkspaceError):
        ground.sandbox.execute("open('secret.txt').read()")
    assert (ground.base / "outside" / "secret.txt").read_text() == SECRET


def test_a_guest_makes_no_link_out_and_none_leads_the_host_out(ground: Ground) -> None:
    result = ground.sandbox.execute(
        "import os\n"
        "for make in (os.symlink, os.link):\n"
        "    try:\n"
        "        make('../outside/secret.txt', 'report.txt')\n"
        "    except OSError as error:\n"
        "        print('refused')\n"
    )
    assert result.stdout == "refused\nrefused\n"
    assert not os.path.lexists(ground.workspace / "report.txt")
    os.symlink("../outside/secret.txt", ground.workspace / "report.txt")
    with pytest.raises(WorkspaceError):
        open_workspace_file(ground.workspace, "report.txt")
    with pytest.raises(WorkspaceError):
        open_workspace_file(ground.workspace, "outside_link/secret.txt")


def test_a_hostile_tree_costs_the_host_a_bounded_list(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"{number:03}").touch()
    root = open_workspace(tmp_path)
    try:
        whole: TreeSnapshot = take_snapshot(root)
        cut = take_snapshot(root, max_entries=20)
        short = take_snapshot(root, max_listed_bytes=30)
    finally:
        os.close(root)
    assert (len(whole.files), whole.complete) == (50, True)
    assert (len(cut.files), cut.complete) == (20, False)
    assert (len(short.files), short.complete) == (10, False)


def test_nothing_of_one_execution_is_left_for_the_next_outside_the_workspace(
    ground: Ground,
) -> None:
    ground.sandbox.execute(
        "import os, builtins, pathlib\n"
        "open('/tmp/left.txt', 'w').write('x'); os.makedirs('/left', exist_ok=True)\n"
        "pathlib.Path.home().joinpath('.pdbrc').write_text('x'); builtins.left = 1"
    )
    result = ground.sandbox.execute(
        "import os, builtins\n"
        "print(os.listdir('/tmp') == [os.path.basename(os.environ['HOME'])], "
        "os.path.exists('/left'), os.listdir(os.environ['HOME']), hasattr(builtins, 'left'))"
    )
    assert result.stdout == "True False [] False\n"


def test_private_files_of_an_execution_are_gone_afterwards(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = tmp_path / "temporary"  # others on this machine make and remove theirs meanwhile
    private.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(private))
    size = pool_stats().size
    close_pool()
    try:
        code = "open('/tmp/x', 'w').write('x' * 10**6)\nimport os\nos.mkdir('/d')"
        for _ in range(2):
            ground.sandbox.execute(code)
            warm_pool()  # a pooled interpreter is closed beside the next execution
        assert os.listdir(private) == []
    finally:
        configure_pool(size)
