"""What a guest does to files in its workspace is what a native program would have done.

Sequences of operations are carried out twice by the same code: by a guest on the mounted
workspace, and natively on a directory. Every answer, the tree that is left, and the changes the
result tells must agree, except for what docs/sandbox.md says of the workspace:

- "An open file is held in memory whole, and written when it is closed": so each operation opens,
  uses and closes its file, and no other operation looks at a file that is still open.
- "A rewrite with the same bytes is a modification, opening for appending without writing is none":
  so a file counts as modified wherever its content differs, and may count where it was written to
  in some way; where nothing was written or renamed it must not.
- "Directories are not listed" among the changes: so only files are compared.
- "It cannot set times" and "can make no links": so neither is tried.

Two differences are none of those the documentation names; both are pinned by tests of their own,
so that a change of either is seen:

- An operation with more than one fault is refused for another of its faults than natively
  (`ONE_OF_SEVERAL_FAULTS`). It is refused by both, and nothing changes.
- A descriptor opened with O_RDONLY and either of O_CREAT and O_TRUNC can be written to. So the
  sequences write to no such descriptor.

Errors are compared by the class of the exception and the name of its errno: the guest's numbers
are WASI's. Paths are relative and without `..`, whose meaning for a native program depends on
what is there. Only sizes of files are compared: what a directory's size is, is up to a file system.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentforge_sessions.sandbox import create_sandbox, prepare
from tests.support.soak import examples

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)

ONE_OF_SEVERAL_FAULTS = {
    "rename": {
        "EINVAL": {"ENOTDIR", "ENOENT"},
        "EBUSY": {"ENOTDIR", "ENOENT"},
    },
    "exclusive": {"EISDIR": {"EEXIST"}},
}
"""By kind of operation and what the guest is told: what a native program may be told instead.

Of a rename with a name that is too long, the guest is told that first, whatever else is wrong.
"""

BEFORE = {"f": b"the first file\n" * 10, "d/g": b"below", "d/e/h": b"", "full/x": b"x" * 3000}
"""What is in a workspace when a sequence begins; the directory `empty` is beside it."""

OPERATIONS = r"""
import errno, os

def use(file, actions):
    said = []
    for action, *args in actions:
        try:
            if action == "write":
                said.append(file.write(bytes([args[0] % 256]) * args[1]))
            elif action == "read":
                said.append(file.read(*args).hex())
            else:
                said.append(getattr(file, action)(*args))
        except Exception as error:
            said.append(wrong(error))
    return said

def wrong(error):
    number = getattr(error, "errno", None)
    return [type(error).__name__, errno.errorcode.get(number) if number else None]

def carry_out(top, operation):
    kind, path, *rest = operation
    full = top + "/" + path
    if kind == "open":
        with open(full, rest[0] + "b") as file:
            return use(file, rest[1])
    if kind == "descriptor":
        flags = 0
        for name in rest[0]:
            flags |= getattr(os, name)
        fd = os.open(full, flags)
        try:
            return os.write(fd, b"d" * rest[1]) if rest[1] else None
        finally:
            os.close(fd)
    if kind in ("rename", "replace"):
        return getattr(os, kind)(full, top + "/" + rest[0])
    if kind == "makedirs":
        return os.makedirs(full, exist_ok=rest[0])
    if kind == "truncate":
        return os.truncate(full, rest[0])
    if kind == "listdir":
        return sorted(os.listdir(full))
    if kind == "stat":
        return ["dir"] if os.path.isdir(full) else ["file", os.stat(full).st_size]
    if kind == "asked":
        return [getattr(os.path, name)(full) for name in ("exists", "isfile", "isdir", "islink")]
    return getattr(os, kind)(full)

def run(top, operations):
    said = []
    for operation in operations:
        try:
            said.append(carry_out(top, operation))
        except Exception as error:
            said.append(wrong(error))
    return said
"""
GUEST = OPERATIONS + "import json\nprint(json.dumps([run(t, o) for t, o in sequences]))\n"


def writes_where_it_should_not(step: Any) -> bool:
    """Whether a step writes to a descriptor that is for reading, opened as the guest's lets it."""
    flags = step[2]
    return flags[0] == "O_RDONLY" and bool({"O_CREAT", "O_TRUNC"} & {*flags})


names = st.sampled_from(["f", "d", "e", "g", "h", "x", "full", "empty", "new", "n2", "Z \u00e9"])
paths = st.lists(names, min_size=1, max_size=3).map("/".join) | st.sampled_from(
    [
        *BEFORE,
        "d",
        "d/e",
        "full",
        "empty",
        ".",
        "./f",
        "d//g",
        "d/./g",
        "f/below",
        "new",
        "new/below",
        "n" * 255,
        "n" * 256,
    ]
)
small = st.integers(0, 6000)
actions = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 255), small),
        st.tuples(st.just("read"), st.integers(-1, 5000)),
        st.tuples(st.just("seek"), st.integers(-20, 8000), st.sampled_from([0, 1, 2])),
        st.tuples(st.just("truncate"), small),
        st.tuples(st.just("truncate")),
        st.tuples(st.just("tell")),
        st.tuples(st.just("flush")),
    ),
    max_size=6,
)
flags = st.tuples(
    st.sampled_from(["O_RDONLY", "O_WRONLY", "O_RDWR"]),
    st.lists(st.sampled_from(["O_CREAT", "O_EXCL", "O_TRUNC", "O_APPEND"]), unique=True),
).map(lambda parts: [parts[0], *parts[1]])
modes = st.sampled_from(["r", "w", "a", "x", "r+", "w+", "a+", "x+"])
descriptors = st.tuples(st.just("descriptor"), paths, flags, st.integers(0, 2000)).map(
    lambda step: (*step[:3], 0) if writes_where_it_should_not(step) else step
)
operations = st.one_of(
    st.tuples(st.just("open"), paths, modes, actions),
    descriptors,
    st.tuples(st.sampled_from(["rename", "replace"]), paths, paths),
    st.tuples(st.sampled_from(["mkdir", "rmdir", "unlink", "listdir", "stat", "asked"]), paths),
    st.tuples(st.just("makedirs"), paths, st.booleans()),
    st.tuples(st.just("truncate"), paths, small),
)
sequences = st.lists(st.lists(operations, max_size=14), min_size=1, max_size=12)


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> None:
    prepare()


@pytest.fixture(scope="module")
def places() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as place:
        yield Path(place)


def lay_out(top: Path) -> None:
    (top / "empty").mkdir(parents=True)
    for name, content in BEFORE.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(content)


def tree(top: Path) -> dict[str, bytes | None]:
    """Every entry below a directory: a file's content, None for a directory."""
    found: dict[str, bytes | None] = {}
    for path in sorted(top.rglob("*")):
        assert not path.is_symlink()
        found[str(path.relative_to(top))] = path.read_bytes() if path.is_file() else None
    return found


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def alike(step: Any, said: Any, right: Any) -> bool:
    """Whether a guest was answered as a native program was."""
    if said == right:
        return True
    kind = {"replace": "rename", "open": "exclusive", "descriptor": "exclusive"}.get(
        step[0], step[0]
    )
    if kind == "exclusive" and not ("O_EXCL" in step[2] or step[2][0] == "x"):
        return False
    if not (is_error(said) and is_error(right)):
        return False
    if kind == "rename" and said[1] == "ENAMETOOLONG":
        return any(len(name.encode()) > 255 for path in step[1:3] for name in path.split("/"))
    return right[1] in ONE_OF_SEVERAL_FAULTS.get(kind, {}).get(said[1], ())


def is_error(answer: Any) -> bool:
    """Whether an answer is the class and the number of an error."""
    return isinstance(answer, list) and len(answer) == 2 and str(answer[0]).endswith("Error")


def check(top: Path, tried: list[list[Any]]) -> None:
    """Carry sequences out in a guest and natively, and compare everything."""
    native, workspace = top / "native", top / "workspace"
    for number in range(len(tried)):
        lay_out(native / str(number))
        lay_out(workspace / str(number))
    given_sequences = [[str(number), steps] for number, steps in enumerate(tried)]
    files_before = {name for name, content in tree(workspace).items() if content is not None}

    result = create_sandbox(workspace=workspace).execute(
        GUEST, inject={"sequences": given_sequences}
    )

    assert result.success, result.stderr
    code: dict[str, Any] = {}
    exec(OPERATIONS, code)
    answers = json.loads(result.stdout)
    for number, steps in enumerate(tried):
        expected = as_json(code["run"](str(native / str(number)), steps))
        for step, said, right in zip(steps, answers[number], expected, strict=True):
            assert alike(step, said, right), f"{step} of {steps} gave {said}, natively {right}"
    left = tree(workspace)
    assert left == tree(native)

    before = {f"{n}/{name}": data for n in range(len(tried)) for name, data in BEFORE.items()}
    assert set(before) == files_before
    after = {name: data for name, data in left.items() if data is not None}
    both = before.keys() & after.keys()
    differ = {name for name in both if before[name] != after[name]}
    assert set(result.files_created) == after.keys() - before.keys()
    assert set(result.files_deleted) == before.keys() - after.keys()
    assert differ <= set(result.files_modified) <= both
    writing = {str(n) for n, steps in enumerate(tried) if any(map(may_write, steps))}
    assert {name.split("/")[0] for name in result.files_modified} <= writing
    assert result.metadata["changes_complete"] is True


def may_write(step: Any) -> bool:
    """Whether an operation could have changed a file."""
    kind, _, *rest = step
    if kind == "open":
        wrote = any(action[0] in ("write", "truncate") for action in rest[1])
        return rest[0][0] in "wx" or (rest[0] != "r" and wrote)
    if kind == "descriptor":
        return "O_TRUNC" in rest[0] or rest[0][0] != "O_RDONLY"
    return kind in ("rename", "replace", "truncate")


@settings(
    max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck), database=None
)
@given(tried=sequences)
def test_file_operations_of_a_guest_are_those_of_a_native_program(
    places: Path, tried: list[list[Any]]
) -> None:
    top = Path(tempfile.mkdtemp(dir=places))
    try:
        check(top, as_json(tried))
    finally:
        shutil.rmtree(top)


@pytest.mark.parametrize(
    ("step", "guest", "native"),
    [
        (["rename", "f", "f/f"], "EINVAL", "ENOTDIR"),
        (["rename", "empty", "empty/x/y"], "EINVAL", "ENOENT"),
        (["rename", "nowhere", "n" * 256], "ENAMETOOLONG", "ENOENT"),
        (["rename", "d/.", "n" * 256], "ENAMETOOLONG", "EBUSY"),
        (["rename", "f/f", "n" * 256], "ENAMETOOLONG", "ENOTDIR"),
        (["replace", ".", "f/below"], "EBUSY", "ENOTDIR"),
        (["replace", ".", "nowhere/below"], "EBUSY", "ENOENT"),
        (["open", "d/.", "x", []], "EISDIR", "EEXIST"),
    ],
)
def test_of_several_faults_a_guest_is_told_another_and_nothing_changes(
    tmp_path: Path, step: list[Any], guest: str, native: str
) -> None:
    said, right = both(tmp_path, step)
    assert right[1] == native
    assert said[1] in (guest, native)
    assert tree(tmp_path / "workspace") == tree(tmp_path / "native")


@pytest.mark.parametrize("flag", ["O_CREAT", "O_TRUNC"])
def test_a_descriptor_for_reading_opened_with_creation_or_truncation_takes_writes(
    tmp_path: Path, flag: str
) -> None:
    refused = ["OSError", "EBADF"]
    assert both(tmp_path, ["descriptor", "f", ["O_RDONLY", flag], 3]) == (
        refused,
        refused,
    )


def both(top: Path, step: list[Any]) -> tuple[Any, Any]:
    """What a guest and a native program are answered to one operation."""
    for name in ("native", "workspace"):
        lay_out(top / name)
    code: dict[str, Any] = {}
    exec(OPERATIONS, code)
    result = create_sandbox(workspace=top / "workspace").execute(
        GUEST, inject={"sequences": [[".", [step]]]}
    )
    assert result.success, result.stderr
    natively = as_json(code["run"](str(top / "native"), [step]))
    return json.loads(result.stdout)[0][0], natively[0]


def test_a_difference_would_be_seen(tmp_path: Path) -> None:
    """The comparison itself notices what is not alike: here, what the host hides."""
    for name in ("native", "workspace"):
        (tmp_path / name).mkdir()
    with pytest.raises(AssertionError):
        check_hidden(tmp_path)


def check_hidden(top: Path) -> None:
    code: dict[str, Any] = {}
    exec(OPERATIONS, code)
    steps = [["open", ".metadata.json", "w", [["write", 1, 5]]]]
    natively = as_json(code["run"](str(top / "native"), steps))
    result = create_sandbox(workspace=top / "workspace").execute(
        GUEST, inject={"sequences": [[".", steps]]}
    )
    assert json.loads(result.stdout) == [natively]
    assert os.listdir(top / "workspace") == os.listdir(top / "native")
