"""What every test may use."""

from __future__ import annotations

import functools
import gc
import itertools
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import structlog
from hypothesis.configuration import set_hypothesis_home_dir

from agentforge_sessions.harness import SessionManager, SessionStore
from tests.support.clock import FakeClock, FakeTokens
from tests.support.filesystem import FaultyFileSystem
from tests.support.memory_disk import memory_disk, remove_memory_disk
from tests.support.soak import SOAKING

gc.set_threshold(100_000, 50, 100)  # what is collected stays; looking through it all costs seconds

if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    # Under nohup, what tests start would ignore it too, and tests that send it would wait for ever.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# What a person said on this machine (trust, marks, configuration) is not the tests'.
_PERSON = tempfile.mkdtemp(prefix="agentforge-person-")
os.environ["XDG_STATE_HOME"] = f"{_PERSON}/state"
os.environ["XDG_CONFIG_HOME"] = f"{_PERSON}/config"

set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "agentforge-hypothesis")
hypothesis.settings.register_profile(
    "agentforge",
    deadline=None,
    database=None,
    print_blob=True,
    derandomize=not SOAKING,  # the same examples at each run; `make soak` looks for new ones
)
hypothesis.settings.load_profile("agentforge")


collect_ignore = ["recorded"]
"""Sessions as they were recorded; some hold tests that an agent wrote."""

_HERE = Path(__file__).parent
_CAMPAIGNS = tuple(
    _HERE / name
    for name in (
        *("property", "corpus", "crash", "faults", "security", "real_work", "e2e/gates"),
        "e2e/test_example_scripts.py",  # nothing of ours runs in it but the scripts, in the guest
    )
)
_LONGEST = tuple(
    _HERE / name
    for name in (
        *("contract/jail", "contract/sandbox", "crash", "security", "property/harness"),
        *("unit/sandbox", "unit/workflows", "unit/repository", "contract/harness", "corpus"),
    )
)
_LONG = tuple(
    _HERE / name
    for name in (
        *("e2e", "real_work", "property", "scenarios/fleet", "scenarios/repositories", "faults"),
        *("unit/agents", "unit/cli", "unit/mcp_server", "unit/prune", "unit/questions"),
        *("unit/terminal",),
    )
)
_IN_MEMORY = tuple(
    _HERE / name
    for name in (
        *("acceptance", "corpus", "crash", "faults", "property", "scenarios"),
        *("contract/durable", "contract/harness", "contract/prune", "contract/questions"),
        *("unit/adapters", "unit/agent_hooks", "unit/cli", "unit/durable", "unit/harness"),
        *("unit/observers", "unit/pages", "unit/project", "unit/prune", "unit/questions"),
        *("unit/repository", "unit/workflows"),
    )
)
_ON_DISK = tuple(
    _HERE / name
    for name in (
        *("crash/test_editing_crash.py", "crash/test_repository_run_crash.py"),
        *("unit/cli/test_configuration.py", "unit/cli/test_doctor_configured.py"),
        *("contract/harness/test_phase_executor_contract.py", "scenarios/sandbox_sessions"),
        "faults/test_real_disks.py",
    )
)
"""What needs a jail, which lends nothing of `/dev`, or is about a disk."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Measure no coverage in campaigns, and begin with what takes long.

    Coverage takes half as long again, and campaigns show nothing new of it. Workers take the files
    as they come (`--dist loadfile`): were a long one the last, all others would wait for it. This
    comes after the shuffling of pytest-randomly, which stays as it is among the long and the short.
    """
    for item in items:
        if _is_below(item.path, _CAMPAIGNS):
            item.add_marker(pytest.mark.no_cover)
    items.sort(
        key=lambda item: (not _is_below(item.path, _LONGEST), not _is_below(item.path, _LONG))
    )


def pytest_collection_finish() -> None:
    """Look no more through what imports and collection made: it lives as long as the process."""
    gc.freeze()


@functools.cache
def _is_below(path: Path, places: tuple[Path, ...]) -> bool:
    return any(path.is_relative_to(place) for place in places)


def pytest_sessionfinish() -> None:
    """Close the interpreters opened ahead before pytest takes its fault handlers away."""
    shutil.rmtree(_PERSON, ignore_errors=True)
    remove_memory_disk()
    pool = sys.modules.get("agentforge_sessions.sandbox.interpreters.process_pool")
    if pool is not None:
        pool.close_pool()


@pytest.fixture(autouse=True)
def _log_configuration() -> Iterator[None]:
    """Leave the logs configured as they were: the command line configures them for its process."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


_places = itertools.count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of the test's own: in memory, or where pytest would make it.

    Without the link to the latest one, and without resolving the path, for thousands of tests.
    """
    name = re.sub(r"\W", "_", request.node.name)[:30]
    in_memory = _is_below(request.path, _IN_MEMORY) and not _is_below(request.path, _ON_DISK)
    place = (memory_disk() if in_memory else None) or tmp_path_factory.getbasetemp()
    path = place / f"{name}{next(_places)}"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A base directory that is not there yet."""
    return tmp_path / "sessions"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def fs() -> FaultyFileSystem:
    """The real file system, recorded; a test may make it fail."""
    return FaultyFileSystem()


@pytest.fixture
def store(base: Path, fs: FaultyFileSystem) -> SessionStore:
    return SessionStore(base, fs=fs, token=FakeTokens(), lock_timeout_s=0.5)


@pytest.fixture
def manager(store: SessionStore, clock: FakeClock) -> SessionManager:
    return SessionManager(store, clock=clock)
