"""CPython's own tests of files, run in the guest, and what is known of those that fail there.

The tests are those of the Python that runs this (its package `test`), mounted read-only. Nothing of
them is kept here. `cpython_failures.toml` says which fail in the guest, and why.
"""

from __future__ import annotations

import fnmatch
import importlib.util
import json
import platform
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

from agentforge_sessions.sandbox import ExecutionPolicy, ReadOnlyMount, create_sandbox

MODULES: Final = (
    "test_os", "test_posix", "test_fileio", "test_io", "test_file", "test_bufio", "test_tempfile",
    "test_shutil", "test_zipfile", "test_tarfile", "test_gzip", "test_filecmp",
    "test_genericpath", "test_glob", "test_fileinput", "test_sqlite3", "test_dbm", "test_shelve",
    "test_logging", "test_pathlib",
)  # fmt: skip

LIST: Final = Path(__file__).with_name("cpython_failures.toml")

_DRIVER: Final = Path(__file__).with_name("guest_unittest.py")
_MARK: Final = "\x1e"
_POLICY: Final = {
    "deadline_s": 3000,
    "fuel_budget": 1 << 62,
    "memory_bytes": 4 << 30,
    "output_bytes": 1 << 28,
    "workspace_bytes": 16 << 30,
    "temporary_bytes": 4 << 30,
    "file_bytes": 4 << 30,
    "file_calls": 1_000_000_000,
}


@frozen
class Outcome:
    """How a test ended.

    Attributes:
        what: "passed", "failed", "skipped", or "trapped" where the interpreter did not survive it.
        detail: The traceback, or why it was left out.
    """

    what: str
    detail: str

    @property
    def failed(self) -> bool:
        return self.what in ("failed", "trapped")


@frozen
class Entry:
    """Some tests that are expected to fail.

    Attributes:
        reason: Why, by the key of one of the list's reasons.
        tests: Their ids, as patterns.
        releases: Of which releases' tests, as "3.11" or "3.11.2"; none for all.
    """

    reason: str
    tests: Sequence[str]
    releases: Sequence[str]


@frozen
class Expectations:
    """What is known of the tests of one release.

    Attributes:
        reasons: What each key of a reason means.
        entries: The tests that are expected to fail.
        least: How many tests of a module pass at least; of no module for another release.
        exact: Whether the list was made with this very release: of another with the same first two
            numbers, a test that fails for its release only may pass.
        timed: Tests that compare the clock within bounds that a busy machine breaks.
    """

    reasons: Mapping[str, str]
    entries: Sequence[Entry]
    least: Mapping[str, int]
    exact: bool
    timed: Sequence[str]

    def reason(self, test: str) -> Entry | None:
        """Why a test is expected to fail; None where it is not."""
        return next((entry for entry in self.entries if _matches(test, entry.tests)), None)

    def faults(self, outcomes: Mapping[str, Outcome]) -> list[str]:
        """What is otherwise than expected, a line for each test."""
        found = []
        for test, outcome in outcomes.items():
            entry = self.reason(test)
            if outcome.failed and entry is None:
                found.append(f"{test} {outcome.what}:\n{outcome.detail}")
            elif outcome.what == "passed" and entry is not None and self._certain(entry):
                found.append(f"{test} passed, though it is listed: {self.reasons[entry.reason]}")
        return found

    def counts(self, outcomes: Mapping[str, Outcome]) -> dict[str, int]:
        """How many tests there are of each outcome, the expected failures by reason."""
        found: dict[str, int] = {}
        for test, outcome in outcomes.items():
            entry = self.reason(test)
            known = outcome.failed and entry is not None
            key = f"failed ({entry.reason})" if known and entry is not None else outcome.what
            found[key] = found.get(key, 0) + 1
        return found

    def _certain(self, entry: Entry) -> bool:
        return self.exact or entry.reason != "version"


def expectations(release: str | None = None, path: Path = LIST) -> Expectations | None:
    """What is known of the tests of a release (this Python's); None where there is no list."""
    release = release or platform.python_version()
    minor = release.rpartition(".")[0]
    listed = tomllib.loads(path.read_text("utf-8"))
    if not any(made.startswith(f"{minor}.") for made in listed["made_with"]):
        return None
    entries = [
        Entry(each["reason"], each["tests"], each.get("releases", ()))
        for each in listed["expected"]
    ]
    return Expectations(
        listed["reasons"],
        [each for each in entries if not each.releases or {minor, release} & {*each.releases}],
        listed["least"].get(release, {}),
        release in listed["made_with"],
        listed["timed"],
    )


def suite_directory() -> Path | None:
    """Where this Python's own tests are; None where it was installed without them."""
    found = importlib.util.find_spec("test.support")
    if found is None or found.origin is None:
        return None
    directory = Path(found.origin).resolve().parents[1]
    return directory if (directory / "test_os.py").exists() else None


def has_module(suite: Path, module: str) -> bool:
    """Whether the tests of a module are there; Debian's package leaves some out."""
    return (suite / f"{module}.py").exists() or (suite / module / "__init__.py").exists()


def run_in_guest(
    module: str, suite: Path, workspace: Path, *, place: str, tries: int, known: Expectations
) -> dict[str, Outcome]:
    """Run the tests of a module in the guest, in an execution of its own.

    A test that ends the interpreter is noted, and the others are run in another execution. One that
    depends on how busy the machine is has `tries`.
    """
    outcomes: dict[str, Outcome] = {}
    while True:
        found, complete = _execute(module, suite, workspace, place, outcomes)
        outcomes.update(found)
        again = [
            test
            for test, outcome in found.items()
            if outcome.failed and _matches(_short(test), known.timed)
        ]
        if again and tries > 1:
            tries -= 1
            for test in again:
                del outcomes[test]
        elif complete:
            return {_short(test): outcome for test, outcome in outcomes.items()}


def _execute(
    module: str, suite: Path, workspace: Path, place: str, done: Iterable[str]
) -> tuple[dict[str, Outcome], bool]:
    mount = ReadOnlyMount(suite, "/suite/test")
    policy = ExecutionPolicy(mounts=(mount,), **_POLICY)  # type: ignore[arg-type]
    sandbox = create_sandbox(workspace=workspace, policy=policy)
    inside = (suite / module / f"{module}.py").exists()
    result = sandbox.execute(
        _DRIVER.read_text("utf-8"),
        inject={
            "NAMES": [f"{module}.{module}" if inside else module],
            "PLACE": place,
            "DONE": list(done),
        },
    )
    outcomes: dict[str, Outcome] = {}
    begun: str | None = None
    for line in result.stdout.split("\n"):
        if not line.startswith(_MARK):
            continue
        kind, *values = json.loads(line[1:])
        if kind == "begin":
            (begun,) = values
        elif kind == "end":
            outcomes[values[0]], begun = Outcome(*values[1:]), None
        else:
            return outcomes, True
    ended = f"{result.trapped or result.exit_code} {result.metadata['trap_detail']}\n"
    if begun is None:
        raise AssertionError(f"{module} could not be run: {ended}{result.stderr[-4000:]}")
    outcomes[begun] = Outcome("trapped", ended + result.stderr[-4000:])
    return outcomes, False


def _short(test: str) -> str:
    return test.removeprefix("test.")


def _matches(test: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(test, pattern) for pattern in patterns)
