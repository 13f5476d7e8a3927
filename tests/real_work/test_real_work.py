"""Work as it is done: tables, charts, archives, databases, many files and large ones.

Each program runs in a session's workspace under the default policy, unless it says otherwise, and
what it made is looked at from the host.
"""

from __future__ import annotations

import hashlib
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge_sessions.sandbox import (
    ExecutionPolicy,
    Sandbox,
    create_session_sandbox,
    list_session_files,
    prepare,
    read_session_file,
    write_session_file,
)
from tests.support.soak import SOAKING

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)

MANY = 10_000 if SOAKING else 1_000
"""How many small files are written."""


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> None:
    prepare()


@pytest.fixture
def session(tmp_path: Path) -> Callable[..., tuple[str, Sandbox]]:
    def make(**limits: float) -> tuple[str, Sandbox]:
        policy = ExecutionPolicy(**limits)
        return create_session_sandbox(policy=policy, workspace_root=tmp_path)

    return make


def test_a_table_becomes_a_workbook_that_reads_back(
    session: Callable[..., tuple[str, Sandbox]], tmp_path: Path
) -> None:
    session_id, sandbox = session()
    rows = "".join(f"{number},{'EMEA' if number % 3 else 'APAC'}\n" for number in range(300))
    write_session_file(session_id, "in/sales.csv", "amount,region\n" + rows, tmp_path)
    result = sandbox.execute(
        "import pandas\n"
        "table = pandas.read_csv('in/sales.csv')\n"
        "sums = table.groupby('region')['amount'].sum()\n"
        "with pandas.ExcelWriter('report.xlsx', engine='openpyxl') as book:\n"
        "    table.to_excel(book, sheet_name='sales', index=False)\n"
        "    sums.to_frame().to_excel(book, sheet_name='sums')\n"
        "import openpyxl\n"
        "book = openpyxl.load_workbook('report.xlsx')\n"
        "print(book.sheetnames, book['sales'].max_row)\n"
        "print([[cell.value for cell in row] for row in book['sums'].iter_rows()])\n"
    )
    assert result.success, result.stderr
    apac = sum(range(0, 300, 3))
    assert result.stdout == (
        "['sales', 'sums'] 301\n"
        f"[['region', 'amount'], ['APAC', {apac}], ['EMEA', {sum(range(300)) - apac}]]\n"
    )
    assert result.files_created == ("report.xlsx",)
    book = tmp_path / session_id / "report.xlsx"
    with zipfile.ZipFile(book) as archive:
        assert archive.testzip() is None
        assert "xl/worksheets/sheet2.xml" in archive.namelist()


def test_a_chart_becomes_a_picture(
    session: Callable[..., tuple[str, Sandbox]], tmp_path: Path
) -> None:
    session_id, sandbox = session()
    result = sandbox.execute(
        "import matplotlib.pyplot as plot\n"
        "figure, axes = plot.subplots(figsize=(4, 3), dpi=100)\n"
        "axes.bar(['a', 'b', 'c'], [3, 1, 2])\n"
        "axes.set_title('Sales')\n"
        "figure.savefig('chart.png')\n"
    )
    assert result.success, result.stderr
    assert result.stderr == ""  # matplotlib has its data, and a directory for its own
    assert result.fuel_consumed is not None
    assert result.fuel_consumed < ExecutionPolicy().fuel_budget / 20
    picture = read_session_file(session_id, "chart.png", tmp_path)
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", picture[16:24]) == (400, 300)
    pixels = b""
    at = 8
    while at < len(picture):  # every part is whole, and the picture is not blank
        size, kind = struct.unpack(">I4s", picture[at : at + 8])
        body = picture[at + 8 : at + 8 + size]
        assert struct.unpack(">I", picture[at + 8 + size : at + 12 + size])[0] == zlib.crc32(
            kind + body
        )
        pixels += body if kind == b"IDAT" else b""
        at += 12 + size
    assert len(set(zlib.decompress(pixels))) > 20


def test_an_archive_is_made_and_read(
    session: Callable[..., tuple[str, Sandbox]], tmp_path: Path
) -> None:
    session_id, sandbox = session()
    result = sandbox.execute(
        "import zipfile, hashlib\n"
        "with zipfile.ZipFile('all.zip', 'w', zipfile.ZIP_DEFLATED) as archive:\n"
        "    for number in range(50):\n"
        "        archive.writestr(f'part/{number:02}.txt', f'line {number}\\n' * 1000)\n"
        "with zipfile.ZipFile('all.zip', 'a') as archive:\n"
        "    archive.writestr('late.txt', 'late')\n"
        "with zipfile.ZipFile('all.zip') as archive:\n"
        "    print(archive.testzip(), len(archive.namelist()))\n"
        "    archive.extractall('out')\n"
    )
    assert (result.success, result.stdout) == (True, "None 51\n"), result.stderr
    with zipfile.ZipFile(tmp_path / session_id / "all.zip") as archive:
        assert archive.testzip() is None
        assert archive.read("part/07.txt") == b"line 7\n" * 1000
    assert (tmp_path / session_id / "out" / "part" / "49.txt").read_bytes() == b"line 49\n" * 1000
    assert len(result.files_created) == 52


def test_a_database_in_memory_answers(session: Callable[..., tuple[str, Sandbox]]) -> None:
    _, sandbox = session()
    result = sandbox.execute(
        "import sqlite3\n"
        "database = sqlite3.connect(':memory:')\n"
        "database.execute('create table sale (region text, amount integer)')\n"
        "database.executemany('insert into sale values (?, ?)',\n"
        "                     [('ab'[n % 2], n) for n in range(10_000)])\n"
        "query = 'select region, sum(amount) from sale group by region order by region'\n"
        "print(database.execute(query).fetchall())\n"
    )
    evens, odds = sum(range(0, 10_000, 2)), sum(range(1, 10_000, 2))
    assert result.stdout == f"[('a', {evens}), ('b', {odds})]\n", result.stderr


def test_many_small_files_are_written_and_listed(
    session: Callable[..., tuple[str, Sandbox]], tmp_path: Path
) -> None:
    session_id, sandbox = session()
    result = sandbox.execute(
        "import os\n"
        "for number in range(10):\n"
        "    os.mkdir(f'set{number}')\n"
        f"for number in range({MANY}):\n"
        "    with open(f'set{number % 10}/{number:05}.txt', 'w') as file:\n"
        "        file.write(str(number))\n"
        "names = [name for _, _, files in os.walk('.') for name in files]\n"
        "print(len(names), len(set(names)))\n"
    )
    assert result.stdout == f"{MANY} {MANY}\n", result.stderr
    expected = sorted(f"set{number % 10}/{number:05}.txt" for number in range(MANY))
    assert list_session_files(session_id, tmp_path, "**/*.txt") == expected
    assert list(result.files_created) == expected
    for name in expected[::97]:
        content = (tmp_path / session_id / name).read_text()
        assert content == str(int(name.split("/")[1].removesuffix(".txt")))


PIECES = (
    "import hashlib\n"
    "seen = hashlib.sha256()\n"
    "with open('large.bin', 'wb') as file:\n"
    "    for number in range(200):\n"
    "        piece = bytes([number]) * 1_000_000\n"
    "        seen.update(piece)\n"
    "        file.write(piece)\n"
    "print(seen.hexdigest())\n"
)


def test_a_file_of_200_mb_is_written_in_pieces(
    session: Callable[..., tuple[str, Sandbox]], tmp_path: Path
) -> None:
    session_id, sandbox = session()
    result = sandbox.execute(PIECES)
    assert result.success, result.stderr
    large = tmp_path / session_id / "large.bin"
    assert large.stat().st_size == 200_000_000
    with large.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == result.stdout.strip()
    assert result.files_created == ("large.bin",)


def test_a_file_larger_than_allowed_is_refused_by_name_and_the_session_goes_on(
    session: Callable[..., tuple[str, Sandbox]], tmp_path: Path
) -> None:
    session_id, sandbox = session(file_bytes=64 << 20)
    result = sandbox.execute(PIECES)
    assert (result.exit_code, result.trapped) == (1, None)
    assert "OSError: [Errno 22] File too large" in result.stderr
    assert result.metadata["quota_exceeded"] == ("file_bytes",)
    assert [(lost.path, lost.errno) for lost in result.lost_writes] == [("large.bin", "EFBIG")]
    # As on a disk: what was written before the refusal is there.
    assert 0 < (tmp_path / session_id / "large.bin").stat().st_size <= 64 << 20
    assert sandbox.execute("open('small.txt', 'w').write('x')").success


def test_a_database_in_a_file_outlives_the_execution(
    session: Callable[..., tuple[str, Sandbox]], tmp_path: Path
) -> None:
    session_id, sandbox = session()
    made = sandbox.execute(
        "import sqlite3\n"
        "with sqlite3.connect('data.db') as database:\n"
        "    database.execute('create table sale (amount integer)')\n"
        "    database.executemany('insert into sale values (?)', [(n,) for n in range(1000)])\n"
        "database.close()\n"
    )
    assert made.success, made.stderr
    asked = sandbox.execute(
        "import sqlite3\n"
        "print(sqlite3.connect('data.db').execute('select sum(amount) from sale').fetchone())\n"
    )
    assert asked.stdout == f"({sum(range(1000))},)\n", asked.stderr
    assert (tmp_path / session_id / "data.db").read_bytes().startswith(b"SQLite format 3\0")
