"""Templates on disk: what was written is found, and what is not right is not found."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge_sessions.sandbox.compiled.compiled_module import making
from agentforge_sessions.sandbox.host.template import PIECE, Template, TemplateImage
from agentforge_sessions.sandbox.interpreters.template_file import read_template, write_template
from tests.support.wasm_probe import PAGE, Probe

SIZE = 32 * PAGE
NAME = "0123-plain.template"
ATTACHED = b"attached" * 1000
SETTINGS = {"code": "00ff", "index": [["a/b", 0, 3]]}


def image() -> TemplateImage:
    probe = Probe()
    chance = random.Random(1)
    probe.put(chance.randbytes(3000), 2 * PAGE + 100)
    probe.put(chance.randbytes(PAGE), 7 * PAGE)
    probe.put(chance.randbytes(30), SIZE - 30)
    made = TemplateImage.of(probe.instance)
    probe.close()
    return made


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    made = tmp_path / "cache"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture
def file(cache: Path) -> Path:
    with making(cache):
        assert write_template(cache, NAME, image(), SETTINGS, ATTACHED)
    return cache / NAME


def content(of: TemplateImage) -> bytes:
    return os.pread(of.fd, of.size, 0)


def test_what_was_written_is_found(cache: Path, file: Path) -> None:
    found = read_template(cache, NAME)
    assert found is not None
    assert content(found.image) == content(image())
    assert found.image.data == image().data
    assert found.image.known_digest == hashlib.sha256(content(image())).hexdigest()
    assert Template(image()).digest == found.image.known_digest
    assert found.settings == SETTINGS
    assert os.pread(found.attached[0], len(ATTACHED), found.attached[1]) == ATTACHED
    assert file.stat().st_mode & 0o7777 == 0o600
    assert sorted(os.listdir(cache)) == [".agentforge-compile.lock", NAME, f"{NAME}.checked"]


def test_zeros_take_no_room(file: Path) -> None:
    held = len(image().data) * PIECE + len(ATTACHED)
    assert file.stat().st_blocks * 512 < held + 3 * PIECE < SIZE


def test_instances_begin_with_it_and_begin_again(cache: Path, file: Path) -> None:
    found = read_template(cache, NAME)
    assert found is not None
    template = Template(found.image)
    for _ in range(3):
        probe = Probe()
        template.begin(probe.instance)
        assert bytes(probe.instance.memory.view(0, SIZE)) == content(image())
        probe.put(b"of one alone", 7 * PAGE)
        assert template.restore(probe.instance)
        assert template.is_memory_of(probe.instance)
        probe.close()
    assert content(found.image) == content(image())
    assert file.exists()


def flip(at: int) -> Callable[[Path], None]:
    def harm(path: Path) -> None:
        with path.open("r+b") as file:
            file.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 1]))

    return harm


def a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def longer(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"x")


HARMS: list[Callable[[Path], object]] = [
    flip(7 * PAGE),  # of the memory
    flip(SIZE + 10),  # of what is attached
    flip(-100),  # of the description
    flip(-1),  # of the digest
    cut,
    longer,
    lambda path: path.write_bytes(b""),
    lambda path: path.write_bytes(b"x" * 100),
    lambda path: path.chmod(0o640),
    lambda path: os.link(path, path.with_name("second")),
    a_link,
    lambda path: (path.unlink(), path.mkdir()),
    lambda path: path.unlink(),
    lambda path: path.parent.chmod(0o750),
]


@pytest.mark.parametrize("harm", HARMS)
def test_one_that_is_not_right_is_none(
    cache: Path, file: Path, harm: Callable[[Path], object]
) -> None:
    harm(file)
    before = len(os.listdir("/proc/self/fd"))
    assert read_template(cache, NAME) is None
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("harm", [flip(7 * PAGE), cut, a_link, lambda path: path.chmod(0o640)])
def test_one_that_is_not_right_is_replaced(
    cache: Path, file: Path, harm: Callable[[Path], object]
) -> None:
    harm(file)
    with making(cache):
        assert write_template(cache, NAME, image(), SETTINGS)
    found = read_template(cache, NAME)
    assert found is not None
    assert content(found.image) == content(image())


def test_a_copy_is_read_whole_once(cache: Path, file: Path) -> None:
    record = cache / f"{NAME}.checked"
    said = json.loads(record.read_bytes())
    file.write_bytes(file.read_bytes())  # the same, but at another time
    assert read_template(cache, NAME, unread=False) is None
    assert read_template(cache, NAME) is not None
    assert json.loads(record.read_bytes())[0] != said[0]
    assert json.loads(record.read_bytes())[1] == said[1]
    assert read_template(cache, NAME, unread=False) is not None


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"[1, 2]", b"\xff", b"[[1], 2, 3]"])
def test_a_record_that_says_nothing_has_the_file_read_again(
    cache: Path, file: Path, text: bytes
) -> None:
    (cache / f"{NAME}.checked").write_bytes(text)
    assert read_template(cache, NAME, unread=False) is None
    assert read_template(cache, NAME) is not None
    flip(7 * PAGE)(file)
    (cache / f"{NAME}.checked").write_bytes(text)
    assert read_template(cache, NAME) is None


def test_without_a_directory_or_a_file_there_is_none(cache: Path) -> None:
    assert read_template(None, NAME) is None
    assert read_template(cache, NAME) is None
    assert read_template(cache / "missing", NAME) is None


def test_those_of_releases_that_nobody_uses_any_more_are_removed(cache: Path) -> None:
    days = 86400
    names = {
        "0123-aaaa-plain.template": 100 * days,
        "0123-aaaa-plain.template.checked": 100 * days,
        "0123-bbbb-science.template": 80 * days,
        "0123-wasmtime49.0.0-fuel.cwasm": 1000 * days,
        "notes-plain.template.txt": 1000 * days,
        ".0123-cccc-plain.template": 1000 * days,
    }
    (cache / "0123-dddd-plain.template").mkdir()
    os.utime(cache / "0123-dddd-plain.template", (0, 0))
    today = cache.stat().st_mtime
    for name, age in names.items():
        (cache / name).write_bytes(b"x")
        os.utime(cache / name, (today - age, today - age))
    with making(cache):
        assert write_template(cache, NAME, image(), SETTINGS)
    found = set(os.listdir(cache)) - {".agentforge-compile.lock", NAME, f"{NAME}.checked"}
    assert found == {"0123-dddd-plain.template", *list(names)[2:]}


def test_where_it_cannot_be_written_it_is_not_and_nothing_is_left(cache: Path) -> None:
    (cache / NAME).mkdir()
    (cache / NAME / "in").touch()
    with making(cache):
        assert not write_template(cache, NAME, image(), SETTINGS)
    assert not write_template(cache / "missing", NAME, image(), SETTINGS)
    cache.chmod(0o755)
    assert not write_template(cache, "other", image(), SETTINGS)
    assert sorted(os.listdir(cache)) == [".agentforge-compile.lock", NAME]
