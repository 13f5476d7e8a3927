"""The guest's `/tmp` and `/`: no directory of the host, within the workspace's quota, private."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from agentforge_sessions.sandbox import (
    ExecutionPolicy,
    ReadOnlyMount,
    Sandbox,
    create_sandbox,
    prepare,
)

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> None:
    prepare()


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    policy = ExecutionPolicy(
        workspace_bytes=4 << 20,
        workspace_files=100,
        memory_bytes=256 << 20,
        temporary_bytes=5 << 20,
    )
    return create_sandbox(workspace=tmp_path / "w", policy=policy)


FILLING = {
    "one_file": "with open('/tmp/big', 'wb') as f:\n    while True: f.write(bytes(100_000))",
    "many_files": "for i in range(10**6): open(f'/tmp/{i}', 'wb').close()",
    "directories": "import os\nfor i in range(10**6): os.mkdir(f'/tmp/{i}')",
    "home": "import os\nfor i in range(10**6): open(f\"{os.environ['HOME']}/{i}\", 'wb').close()",
}
BESIDE = {
    "beside_the_workspace": "open('mine', 'wb').write(bytes(3 << 20))\n"
    "open('/tmp/rest', 'wb').write(bytes(2 << 20))",
    "before_the_workspace": "open('/tmp/rest', 'wb').write(bytes(2 << 20))\n"
    "open('mine', 'wb').write(bytes(3 << 20))",
}


EXCEEDED = {("temporary_bytes",), ("temporary_files",)}


@pytest.mark.parametrize("name", FILLING)
def test_a_quota_counts_what_is_beside_the_workspace(sandbox: Sandbox, name: str) -> None:
    result = sandbox.execute(FILLING[name])
    assert "No space left" in result.stderr
    assert not result.success
    assert result.metadata["quota_exceeded"] in EXCEEDED
    assert sandbox.execute("open('/tmp/x', 'wb').write(bytes(1 << 20))").success  # all given back


@pytest.mark.parametrize("name", BESIDE)
def test_neither_takes_the_others_room(sandbox: Sandbox, name: str) -> None:
    result = sandbox.execute(BESIDE[name])
    assert (result.success, result.metadata["quota_exceeded"]) == (True, ())


def test_a_full_workspace_leaves_temporary_files_their_room(sandbox: Sandbox) -> None:
    result = sandbox.execute(
        "import tempfile\n"
        "try:\n  with open('full', 'wb', 0) as file:\n    while True: file.write(bytes(100_000))\n"
        "except OSError as error: print(error.strerror)\n"
        "with tempfile.TemporaryFile() as file:\n"
        "  file.write(bytes(4 << 20)); file.flush(); print('held')\n"
        "held = open('/tmp/unnamed', 'wb+', 0)\n"
        "import os; os.remove('/tmp/unnamed')\n"
        "more = open('/tmp/more', 'wb', 0)\n"
        "print(held.write(bytes(4 << 20)), more.write(b'x'))\n"
        "try: more.write(bytes(2 << 20))\n"
        "except OSError as error: print(error.strerror)\n"
        "held.close(); print(more.write(bytes(2 << 20)))\n"
    )
    refused = "No space left on device\n"
    assert result.stdout == f"{refused}held\n4194304 1\n{refused}2097152\n", result.stderr
    assert result.metadata["quota_exceeded"] == ("temporary_bytes", "workspace_bytes")


@pytest.mark.parametrize("place", ["/tmp", "$HOME"])
def test_entries_beside_the_workspace_are_counted_apart(sandbox: Sandbox, place: str) -> None:
    result = sandbox.execute(
        "import os\n"
        "for i in range(90): os.mkdir(f'd{i}')\n"
        f"place = os.path.expandvars({place!r}); count = 0\n"
        "try:\n  while True: os.mkdir(f'{place}/{count}'); count += 1\n"
        "except OSError as error: print(count, error.strerror)\n"
    )
    assert result.stdout == "100 No space left on device\n"
    assert result.metadata["quota_exceeded"] == ("temporary_files",)


def test_temporary_files_have_a_limit_of_their_own(tmp_path: Path) -> None:
    policy = ExecutionPolicy(temporary_bytes=2 << 20)
    result = create_sandbox(workspace=tmp_path / "w", policy=policy).execute(
        "open('/tmp/x', 'wb').write(bytes(3 << 20))"
    )
    assert "No space left" in result.stderr
    assert result.metadata["quota_exceeded"] == ("temporary_bytes",)


def test_room_that_is_given_back_is_room_again(sandbox: Sandbox) -> None:
    result = sandbox.execute(
        "import os\n"
        "for _ in range(20):\n"
        "    with open('/tmp/big', 'wb') as f: f.write(bytes(3 << 20))\n"
        "    os.remove('/tmp/big')\n"
        "open('mine', 'wb').write(bytes(3 << 20))\n"
    )
    assert result.success, result
    assert result.metadata["quota_exceeded"] == ()


def test_what_is_held_in_memory_stays_within_the_policys_memory(tmp_path: Path) -> None:
    policy = ExecutionPolicy(memory_bytes=64 << 20)
    result = create_sandbox(workspace=tmp_path / "w", policy=policy).execute(
        "i = 0\nwhile True:\n    with open(f'/tmp/{i}', 'wb') as f: f.write(bytes(8 << 20))\n"
        "    i += 1\n"
    )
    assert "No space left" in result.stderr
    assert result.metadata["quota_exceeded"] == ("temporary_bytes",)


def test_nothing_can_be_made_at_the_top(sandbox: Sandbox) -> None:
    result = sandbox.execute(
        "import os\n"
        "for path in ('/x', '/usr/x', '/run/x', '/usr/local/lib/x', '/etc/x', '/app/../x'):\n"
        "    for call in (os.mkdir, lambda p: open(p, 'w')):\n"
        "        try: call(path); print('MADE', path)\n"
        "        except OSError: pass\n"
        "print(sorted(os.listdir('/')), os.listdir('/usr'), os.path.isdir('/run/agentforge'))\n"
    )
    assert result.stdout == "['app', 'tmp', 'usr'] ['local'] False\n"


def test_a_mount_is_listed_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    policy = ExecutionPolicy(mounts=(ReadOnlyMount(tmp_path / "given", "/opt/data/given"),))
    result = create_sandbox(workspace=tmp_path / "w", policy=policy).execute(
        "import os; print(sorted(os.listdir('/')), os.listdir('/opt'), os.listdir('/opt/data'))"
    )
    assert result.stdout == "['app', 'opt', 'tmp', 'usr'] ['data'] ['given']\n"


def test_programs_find_their_home_and_their_temporary_files(sandbox: Sandbox) -> None:
    result = sandbox.execute(
        "import os, pathlib, shutil, tempfile, zipfile\n"
        "with tempfile.TemporaryDirectory() as directory:\n"
        "    tree = pathlib.Path(directory, 'a/b')\n"
        "    tree.mkdir(parents=True)\n"
        "    (tree / 'c.txt').write_text('deep')\n"
        "    shutil.copytree(directory, '/tmp/copy')\n"
        "    shutil.make_archive('/app/made', 'zip', directory)\n"
        "print(pathlib.Path('/tmp/copy/a/b/c.txt').read_text())\n"
        "print(zipfile.ZipFile('made.zip').namelist())\n"
        "with tempfile.NamedTemporaryFile('w+', delete_on_close=False) as file:\n"
        "    file.write('named'); file.close()\n"
        "    print(open(file.name).read())\n"
        "with tempfile.TemporaryFile() as file:\n"
        "    file.write(b'12345'); file.seek(1); print(file.read())\n"
        "pathlib.Path('~/.config/tool').expanduser().mkdir(parents=True)\n"
        "shutil.move('/tmp/copy/a/b/c.txt', '/app/c.txt')\n"
        "print(os.path.exists('/tmp/copy/a/b/c.txt'), open('c.txt').read())\n"
    )
    assert (result.stderr, result.success) == ("", True)
    assert result.stdout == ("deep\n['a/', 'a/b/', 'a/b/c.txt']\nnamed\nb'2345'\nFalse deep\n")


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The host's temporary directory, of this test alone."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


def test_the_hosts_temporary_directory_holds_nothing_of_the_guests(
    sandbox: Sandbox, private: Path
) -> None:
    seen: list[int] = []

    def look(_: str) -> None:
        for directory, _, names in os.walk(private):
            seen.extend(os.stat(os.path.join(directory, name)).st_size for name in names)

    code = "open('/tmp/x', 'wb').write(bytes(1 << 20)); print('look')"
    assert sandbox.execute(code, on_stdout=look).success
    assert all(size < 1 << 20 for size in seen)
