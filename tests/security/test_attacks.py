"""Guest programs that try to get out, each run against a workspace with a secret beside it.

Every program runs with `attack_kit.py` in its workspace and says ESCAPED or CONTAINED. What it says
is one part of the judgement: the other is the host's own look at everything outside.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from attrs import evolve, frozen

from tools.sandbox import (
    ExecutionPolicy,
    Sandbox,
    SandboxResult,
    WorkspaceError,
    create_sandbox,
    open_workspace_file,
    prepare,
)
from tools.sandbox.workspace import Snapshot, open_workspace, take_snapshot

HERE = Path(__file__).parent
ATTACKS = sorted(path.stem for path in (HERE / "attacks").glob("*.py"))
SECRET = "the-secret-7f3a91"
GRACE_S = 0.5

# What an attack needs of the policy beside the defaults of this file.
DEADLINES = {"numpy_loop": 3.0}
SHORT_DEADLINE_S = 1.0
MEMORY = {"fill_memory": 128 << 20}
FUEL = {"burn_fuel": 2_000_000_000}


# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> None:
    prepare()


@frozen(kw_only=True)
class Ground:
    """Where one attack takes place: a base directory, its workspace, what is beside it."""

    base: Path
    sandbox: Sandbox

    @property
    def workspace(self) -> Path:
        return self.base / "workspace"

    def outside(self) -> tuple[dict[str, bytes], set[str]]:
        """The content of every file, and every entry, outside the workspace."""
        contents, entries = {}, set()
        for directory, names, files in os.walk(self.base):
            if Path(directory) == self.base:
                names.remove("workspace")
            entries |= {os.path.join(directory, name) for name in names + files}
            for name in files:
                contents[os.path.join(directory, name)] = Path(directory, name).read_bytes()
        return contents, entries


def build_ground(base: Path, policy: ExecutionPolicy) -> Ground:
    sandbox = create_sandbox(workspace=base / "workspace", policy=policy)
    (base / "canary.txt").write_text("canary")
    (base / "outside" / "inner").mkdir(parents=True)
    (base / "outside" / "secret.txt").write_text(SECRET)
    (base / "outside" / "inner" / "deep.txt").write_text(SECRET)
    workspace = base / "workspace"
    (workspace / "notes.txt").write_text("notes")
    (workspace / "attack_kit.py").write_bytes((HERE / "attack_kit.py").read_bytes())
    for name, target in {
        "secret_link": "../outside/secret.txt",
        "secret_abs": f"{base}/outside/secret.txt",
        "outside_link": "../outside",
        "outside_abs": f"{base}/outside",
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


@pytest.fixture
def ground(tmp_path: Path, request: pytest.FixtureRequest) -> Ground:
    name = getattr(request, "param", "")
    policy = ExecutionPolicy(
        deadline_s=DEADLINES.get(name, 20.0),
        memory_bytes=MEMORY.get(name, 512 << 20),
        fuel_budget=FUEL.get(name, 10**12),
        output_bytes=1 << 20,
        open_files=64,
    )
    base = tmp_path / "base"
    base.mkdir()
    return build_ground(base, policy)


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
    match expected.group(1) if expected else "exit 0":
        case "exit 0":
            good = result.exit_code == 0 and result.trapped is None
        case "exit 1":
            good = (result.exit_code, result.trapped) == (1, None)
        case "truncated":
            good = result.truncated and result.exit_code == 0
        case "trapped crash, or exit 1":
            good = result.trapped == "crash" or (result.exit_code, result.trapped) == (1, None)
        case other:
            good = other == f"trapped {result.trapped}"
    if not good:
        found.append(f"it ended with exit code {result.exit_code} and trap {result.trapped}")
    return found


@pytest.mark.parametrize(
    ("ground", "name"), list(zip(ATTACKS, ATTACKS, strict=True)), indirect=["ground"], ids=ATTACKS
)
def test_attack_is_contained_and_the_host_goes_on(ground: Ground, name: str) -> None:
    source = (HERE / "attacks" / f"{name}.py").read_text()
    limit = None
    if "# expect: trapped deadline" in source:
        limit = DEADLINES.get(name, SHORT_DEADLINE_S)
    before = ground.outside()

    started = time.monotonic()
    result = ground.sandbox.execute(source, argv=[str(ground.base)], timeout=limit)
    took = time.monotonic() - started

    transcript = f"\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}"
    assert problems(source, result, before, ground.outside()) == [], transcript
    assert took <= (limit or 20.0) + GRACE_S
    for left in ground.workspace.iterdir():  # deeper than what pytest's own cleaning manages
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
    assert ground.sandbox.execute("print('still here')").stdout == "still here\n"


def test_the_attacks_are_numerous() -> None:
    assert len(ATTACKS) >= 25


def _fine() -> SandboxResult:
    return SandboxResult(
        success=True,
        stdout="CONTAINED\n",
        stderr="",
        exit_code=0,
        trapped=None,
        fuel_consumed=1,
        duration_s=0.1,
        files_created=(),
        files_modified=(),
        files_deleted=(),
        truncated=False,
        workspace_path=Path("/nowhere"),
    )


NOTHING: tuple[dict[str, bytes], set[str]] = ({}, set())


def test_a_contained_attack_has_no_problems() -> None:
    assert problems("", _fine(), NOTHING, NOTHING) == []


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
    found = problems("", evolve(_fine(), **change), NOTHING, NOTHING)
    assert any(word in problem for problem in found)


@pytest.mark.parametrize(
    "after", [({"canary": b"other"}, {"canary"}), ({"canary": b"1"}, {"canary", "planted"})]
)
def test_every_change_outside_is_a_problem(after: tuple[dict[str, bytes], set[str]]) -> None:
    assert problems("", _fine(), ({"canary": b"1"}, {"canary"}), after) != []


def test_attacks_do_escape_where_nothing_holds_them(ground: Ground) -> None:
    """The attacks are real: with the base itself as workspace, the same aim is within reach."""
    open_ground = create_sandbox(workspace=ground.base)
    (ground.base / "attack_kit.py").write_bytes((HERE / "attack_kit.py").read_bytes())
    code = "from attack_kit import *\nattempt('read', read, 'outside/secret.txt')\nverdict()"
    result = open_ground.execute(code, argv=[str(ground.base)])
    assert SECRET in result.stdout
    assert "ESCAPED: read" in result.stdout


def test_a_named_pipe_in_the_workspace_is_refused_before_anything_runs(ground: Ground) -> None:
    os.mkdir(ground.workspace / "sub")
    os.mkfifo(ground.workspace / "sub" / "pipe")
    with pytest.raises(WorkspaceError) as caught:
        ground.sandbox.execute("open('ran.txt', 'w')")
    assert caught.value.path == ground.workspace / "sub" / "pipe"
    assert not (ground.workspace / "ran.txt").exists()


def test_a_workspace_swapped_for_a_link_is_refused(ground: Ground) -> None:
    ground.workspace.rename(ground.base / "moved")
    ground.workspace.symlink_to("outside")
    with pytest.raises(WorkspaceError):
        ground.sandbox.execute("open('secret.txt').read()")
    assert (ground.base / "outside" / "secret.txt").read_text() == SECRET


def test_a_link_left_by_a_guest_does_not_lead_the_host_out(ground: Ground) -> None:
    result = ground.sandbox.execute("import os; os.symlink('../outside/secret.txt', 'report.txt')")
    assert result.files_created == ("report.txt",)
    with pytest.raises(WorkspaceError):
        open_workspace_file(ground.workspace, "report.txt")
    with pytest.raises(WorkspaceError):
        open_workspace_file(ground.workspace, "outside_link/secret.txt")


def test_a_hostile_tree_costs_the_host_a_bounded_list(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"{number:03}").touch()
    root = open_workspace(tmp_path)
    try:
        whole: Snapshot = take_snapshot(root)
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


def test_private_files_of_an_execution_are_gone_afterwards(ground: Ground) -> None:
    ground.sandbox.execute("pass")
    before = set(os.listdir(tempfile.gettempdir()))
    ground.sandbox.execute("open('/tmp/x', 'w').write('x' * 10**6)\nimport os\nos.mkdir('/d')")
    left = set(os.listdir(tempfile.gettempdir())) - before
    assert not [name for name in left if name.startswith("wasi-python-root")]
