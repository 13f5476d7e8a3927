"""Being told by the file system: at once, of everything, and by nobody who is awake meanwhile."""

from __future__ import annotations

import errno
import os
import queue
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agentforge_sessions.questions.waiting.directory_watcher import (
    THREAD_NAME,
    Inotify,
    InotifyWatcher,
    _until_readable,
    is_available,
)

pytestmark = pytest.mark.skipif(not is_available(), reason="this system has no inotify")
PATIENCE_S = 60


class Ears:
    """Hears what is told."""

    def __init__(self) -> None:
        self._heard: queue.Queue[None] = queue.Queue()

    def tell(self) -> None:
        self._heard.put(None)

    def hears(self) -> None:
        self._heard.get(timeout=PATIENCE_S)

    @property
    def count(self) -> int:
        return self._heard.qsize()


def replace(path: Path) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text("{}")
    os.replace(temporary, path)


def watcher_threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == THREAD_NAME]


@pytest.mark.parametrize(
    "change",
    [
        lambda path: replace(path / "answers.json"),
        lambda path: (path / "status.json").write_text("{}"),
        lambda path: (path / "there").unlink(),
        lambda path: path.rename(path.with_name("elsewhere")),
        lambda path: ((path / "there").unlink(), path.rmdir()),
    ],
    ids=["replaced", "written in place", "deleted", "renamed away", "directory deleted"],
)
def test_a_change_is_told(tmp_path: Path, change: object) -> None:
    path, ears = tmp_path / "session", Ears()
    path.mkdir()
    (path / "there").write_text("")
    with InotifyWatcher().watching(path, ears.tell):
        change(path)  # type: ignore[operator]
        ears.hears()


def test_locks_and_hidden_files_are_no_news(tmp_path: Path) -> None:
    ears = Ears()
    with InotifyWatcher().watching(tmp_path, ears.tell):
        (tmp_path / "status.json.lock").write_text("1")
        (tmp_path / ".answers.json.tmp").write_text("{}")
        os.rename(tmp_path / ".answers.json.tmp", tmp_path / ".other")
        replace(tmp_path / "answers.json")
        ears.hears()
    assert ears.count == 0


def test_everybody_who_watches_a_directory_is_told_of_it_and_of_no_other(tmp_path: Path) -> None:
    one, two, other = Ears(), Ears(), Ears()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    watcher = InotifyWatcher()
    with (
        watcher.watching(tmp_path / "a", one.tell),
        watcher.watching(tmp_path / "b", other.tell),
    ):
        with watcher.watching(tmp_path / "a", two.tell):
            replace(tmp_path / "a" / "answers.json")
            one.hears()
            two.hears()
        replace(tmp_path / "a" / "answers.json")
        one.hears()
    assert (one.count, two.count, other.count) == (0, 0, 0)


def test_the_thread_sleeps_until_something_happens_and_ends_with_the_last_wait(
    tmp_path: Path,
) -> None:
    woken = []
    closed = threading.Event()

    def wait(descriptors: Sequence[int]) -> list[int]:
        found = _until_readable(descriptors)
        woken.append(found)
        if descriptors[1] in found:  # by itself, or beside the last events of the directory
            closed.set()
        return found

    ears, watcher = Ears(), InotifyWatcher(wait=wait)
    with watcher.watching(tmp_path, ears.tell):
        replace(tmp_path / "answers.json")
        ears.hears()
    assert closed.wait(PATIENCE_S)
    # Each event may come alone: three of the temporary file and one of the answers, then the end.
    assert len(woken) <= 5


def test_an_instance_is_given_back_when_nobody_waits(tmp_path: Path) -> None:
    before = set(watcher_threads())
    watcher = InotifyWatcher()
    for _ in range(150):  # a user has 128 instances by default
        with watcher.watching(tmp_path, lambda: None):
            threads = set(watcher_threads()) - before
        for thread in threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


def test_a_directory_that_can_not_be_watched_leaves_the_look_of_the_wait(tmp_path: Path) -> None:
    watcher, ears = InotifyWatcher(), Ears()
    with watcher.watching(tmp_path / "missing", ears.tell):
        pass
    (tmp_path / "file").write_text("")
    with watcher.watching(tmp_path / "file", ears.tell):
        pass
    with watcher.watching(tmp_path, ears.tell):
        replace(tmp_path / "answers.json")
        ears.hears()


def test_a_thread_that_is_refused_is_logged_once_and_hinders_nobody(tmp_path: Path) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    watcher = InotifyWatcher(start=refuse)
    descriptors = len(os.listdir("/proc/self/fd"))
    with capture_logs() as logs:
        for _ in range(3):
            with watcher.watching(tmp_path, lambda: None):
                pass
    assert [one["event"] for one in logs] == ["questions.not_watched"]
    assert len(os.listdir("/proc/self/fd")) <= descriptors


def test_a_signal_while_the_thread_starts_closes_no_file_of_others(tmp_path: Path) -> None:
    threads = []
    go_on = threading.Event()

    def interrupted(thread: threading.Thread) -> None:
        thread.start()
        threads.append(thread)
        raise KeyboardInterrupt

    def wait(descriptors: Sequence[int]) -> list[int]:
        go_on.wait(PATIENCE_S)
        return _until_readable(descriptors)

    watcher = InotifyWatcher(wait=wait, start=interrupted)
    with pytest.raises(KeyboardInterrupt), watcher.watching(tmp_path, lambda: None):
        pass
    others = [os.open(tmp_path, os.O_RDONLY) for _ in range(8)]  # with numbers that are free now
    go_on.set()
    threads[0].join(PATIENCE_S)
    assert not threads[0].is_alive()
    for fd in others:
        os.close(fd)


def test_a_forked_child_starts_with_nobody_to_tell(tmp_path: Path) -> None:
    watcher, ears = InotifyWatcher(), Ears()
    with watcher.watching(tmp_path, ears.tell):
        pid = os.fork()
        if pid == 0:
            watcher.forget()
            heard = threading.Event()
            with watcher.watching(tmp_path, heard.set):
                replace(tmp_path / "answers.json")
                os._exit(0 if heard.wait(PATIENCE_S) else 1)
        assert os.waitpid(pid, 0)[1] == 0
        ears.hears()  # and the parent's own is as it was


def test_what_the_kernel_refuses_is_an_error_with_its_number(tmp_path: Path) -> None:
    inotify = Inotify()
    try:
        with pytest.raises(OSError, match="No such file") as caught:
            inotify.add(str(tmp_path / "missing"))
        assert caught.value.errno == errno.ENOENT
        assert inotify.read() == []
        assert inotify.add(str(tmp_path)) == inotify.add(str(tmp_path))
    finally:
        inotify.close()
