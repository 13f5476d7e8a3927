"""What the phases of the interval scheduler share: reports, test runs and fingerprints.

The workflow copies this file to `kit/tdkit.py` in the session's workspace, where the phases and
the generated tests import it.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import sys
import time
import unittest
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

WORKSPACE = Path(__file__).resolve().parent.parent
SPEC = "spec/component.yaml"
COMPONENT_MODULE = "scheduler"
COMPONENT_FILE = "scheduler.py"
GREEN_COPY = "history/scheduler_green.py"
EXAMPLE_TESTS = "tests/test_scheduler.py"
PROPERTY_TESTS = "tests/test_properties.py"
PROTECTED = (SPEC, "spec/model.py", "kit/tdkit.py", EXAMPLE_TESTS, PROPERTY_TESTS)

_NAME = re.compile(r"test_([a-z]+)_(\d+)_")
_ExcInfo = tuple[type[BaseException], BaseException, TracebackType]


class PhaseError(Exception):
    """The workspace is not in the state that a phase starts from."""


# --- files ---------------------------------------------------------------------------------


def write_text(path: str, text: str) -> None:
    """Write a workspace file so that a reader finds the old text or the new one, never half."""
    target = WORKSPACE / path
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, target)


def write_report(phase: str, report: dict[str, Any]) -> str:
    """Write the report of a phase and return its path."""
    path = f"reports/{phase}.json"
    write_text(path, json.dumps(report, indent=2) + "\n")
    return path


def read_report(phase: str) -> dict[str, Any]:
    """Return the report that an earlier phase left.

    Raises:
        PhaseError: There is none, or it is not one.
    """
    path = WORKSPACE / "reports" / f"{phase}.json"
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PhaseError(f"reports/{phase}.json cannot be read: {error}") from error
    if not isinstance(report, dict) or report.get("phase") != phase:
        raise PhaseError(f"reports/{phase}.json is not the report of phase {phase}")
    return report


def fingerprint(path: str) -> str:
    """Return the SHA-256 of a workspace file, or "missing"."""
    try:
        return hashlib.sha256((WORKSPACE / path).read_bytes()).hexdigest()
    except FileNotFoundError:
        return "missing"


def fingerprints(paths: Iterable[str] = PROTECTED) -> dict[str, str]:
    """Return the fingerprint of each path."""
    return {path: fingerprint(path) for path in paths}


def require_unchanged_tests() -> None:
    """Refuse to go on when the specification or a test is not what `red` left.

    Raises:
        PhaseError: A file differs or is gone; the message names each of them.
    """
    recorded = read_report("red")["fingerprints"]
    changed = [path for path in PROTECTED if fingerprint(path) != recorded.get(path)]
    if changed:
        raise PhaseError(f"changed since red: {', '.join(changed)}")


def load_module(name: str, path: str) -> ModuleType:
    """Import a workspace file under a module name of its own.

    Raises:
        PhaseError: The file cannot be imported.
    """
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(name, WORKSPACE / path)
    if spec is None or spec.loader is None:
        raise PhaseError(f"{path} cannot be imported")
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (OSError, SyntaxError) as error:
        raise PhaseError(f"{path} cannot be imported: {error}") from error
    return module


# --- tests ---------------------------------------------------------------------------------


class ComponentCase(unittest.TestCase):
    """A test of the component, which is imported anew by name before each test."""

    component: Any
    maxDiff = 2000

    def setUp(self) -> None:
        """Import the component; while it is missing, every single test says so."""
        self.component = importlib.import_module(COMPONENT_MODULE)

    def agenda_of(self, scheduler: Any) -> list[tuple[int, int]]:
        """Return the bookings of a scheduler as plain pairs."""
        return [(booking.start, booking.end) for booking in scheduler.bookings()]

    def filled(
        self,
        *,
        hours: list[tuple[int, int]],
        bookings: list[tuple[int, int]],
        cancelled: tuple[str, ...] = (),
    ) -> Any:
        """Return a scheduler that has seen these bookings and cancellations."""
        scheduler = self.component.Scheduler(hours)
        for start, end in bookings:
            scheduler.book(start, end)
        for booking_id in cancelled:
            scheduler.cancel(booking_id)
        return scheduler


def pairs(spans: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return intervals as plain tuples, so that any kind of pair compares equal."""
    return [tuple(span) for span in spans]


def series(count: int, start: int, step: int, length: int) -> list[tuple[int, int]]:
    """Return a long regular run of intervals."""
    return [(start + i * step, start + i * step + length) for i in range(count)]


class _Recorder(unittest.TestResult):
    """Keeps the outcome, the cause and the duration of each test."""

    def __init__(self) -> None:
        super().__init__()
        self.records: dict[str, dict[str, Any]] = {}
        self._started = 0.0

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        """Start the clock of a test."""
        super().startTest(test)
        self._started = time.perf_counter()

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        """Record a pass."""
        super().addSuccess(test)
        self._record(test, "passed", "")

    def addFailure(self, test: unittest.TestCase, err: _ExcInfo) -> None:  # type: ignore[override]  # noqa: N802
        """Record an assertion that did not hold."""
        super().addFailure(test, err)
        self._record(test, "failed", _cause(err[1]))

    def addError(self, test: unittest.TestCase, err: _ExcInfo) -> None:  # type: ignore[override]  # noqa: N802
        """Record an exception, and whether it is the missing component."""
        super().addError(test, err)
        error = err[1]
        if isinstance(error, ModuleNotFoundError) and error.name == COMPONENT_MODULE:
            self._record(test, "failed", "component missing")
        else:
            self._record(test, "error", _cause(error))

    def _record(self, test: unittest.TestCase, outcome: str, cause: str) -> None:
        test_id = test.id()
        match = _NAME.search(test_id)
        self.records[test_id] = {
            "test": test_id,
            "criterion": f"{match[1].upper()}-{match[2]}" if match else "",
            "kind": "property" if test_id.startswith("test_properties.") else "example",
            "outcome": outcome,
            "cause": cause,
            "duration_s": round(time.perf_counter() - self._started, 6),
        }


def _cause(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:200]


def run_tests(phase: str) -> dict[str, Any]:
    """Run the generated tests in this process and return the report of the phase.

    Raises:
        PhaseError: A test file cannot be imported.
    """
    for folder in ("tests", "spec", "kit", "."):
        entry = str((WORKSPACE / folder).resolve())
        if entry not in sys.path:
            sys.path.insert(0, entry)
    importlib.invalidate_caches()
    suite = unittest.TestSuite()
    for path in (EXAMPLE_TESTS, PROPERTY_TESTS):
        suite.addTest(
            unittest.defaultTestLoader.loadTestsFromModule(load_module(Path(path).stem, path))
        )
    collected = suite.countTestCases()
    recorder = _Recorder()
    started = time.perf_counter()
    suite.run(recorder)
    duration_s = time.perf_counter() - started
    tests = sorted(recorder.records.values(), key=lambda record: str(record["test"]))
    outcomes = [record["outcome"] for record in tests]
    return {
        "schema_version": 1,
        "phase": phase,
        "counts": {
            "collected": collected,
            "passed": outcomes.count("passed"),
            "failed": outcomes.count("failed"),
            "errors": outcomes.count("error"),
            "component_missing": sum(record["cause"] == "component missing" for record in tests),
        },
        "duration_s": round(duration_s, 6),
        "fingerprints": fingerprints(),
        "tests": tests,
    }


def all_passed(report: dict[str, Any]) -> bool:
    """Tell whether every collected test ran and passed."""
    counts = report["counts"]
    return bool(counts["collected"]) and counts["passed"] == counts["collected"]


# --- words for the operator ----------------------------------------------------------------


def say(phase: str, text: str) -> None:
    """Print one line of progress, marked with its phase."""
    print(f"{phase:<8} {text}", flush=True)


def say_failures(phase: str, report: dict[str, Any], most: int = 10) -> None:
    """Print the first tests that did not pass, with their causes."""
    bad = [record for record in report["tests"] if record["outcome"] != "passed"]
    for record in bad[:most]:
        say(phase, f"  {record['test']}: {record['cause']}")
    if len(bad) > most:
        say(phase, f"  and {len(bad) - most} more")
