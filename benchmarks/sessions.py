"""Measure saving, loading and listing sessions.

    python -m benchmarks.sessions [--quick] [--json] [--check] [--dir DIRECTORY]

benchmarks/README.md says what the rows are; docs/measurements/sessions.md what they were.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import platform
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import structlog
import yaml

from agentforge_sessions.harness import SessionContext, SessionHistory, SessionManager, SessionStore
from agentforge_sessions.harness.format.session_codec import (
    HEAD_BYTES,
    SessionEncoder,
    decode_head,
    decode_session,
    encode_session,
)
from agentforge_sessions.harness.views.briefing import brief
from benchmarks.measure import Candidate, Row, compare, row, table
from benchmarks.references import LibyamlStore, PlainStore, RawWriter, load_with_libyaml

SIZES = (10, 100, 1_000, 10_000)
SAVE_TARGET = 2.0
SAVE_TARGET_FROM = 1_000
LOAD_TARGET = 1.0
LOAD_TARGET_LARGE = 1 / 3
LIST_TARGET = 1 / 20
JSON_TARGET = 3.5
JSON_TARGET_FROM = 10_000

STORE = "SessionStore"
MANAGER = "SessionManager"
PLAIN = "(a) plain PyYAML"
LIBYAML = "(b) libyaml + fsync"
RAW = "(c) raw write + fsync"
JSON = "(d) json.loads of the same"

_BEGAN = datetime(2026, 1, 1, 9, tzinfo=UTC)
_EVENTS = ("checkpoint", "phase_succeeded", "session_paused")
_PHASES = ("spec", "red", "green", "refactor", "review")
_WORDS = (
    "added the failing test for the retry limit",
    "ran 14 tests, 13 passed, test_backoff failed: expected 3 attempts, got 4",
    "moved the parser into src/config/parser.py and kept the old import working",
    "wrote src/scheduler/queue.py, 112 lines; the lock is taken before the size is read",
    "exit code 0; 1.27 s; fuel 184467; created out/report.json",
)


def make_session(
    entries: int, session_id: str = "session_20260301_093000_000000"
) -> SessionContext:
    """Make a session as a worker leaves it after `entries` steps.

    One entry in ten has three lines of output, one in ten comes with an artifact; the details have
    some 80 characters.
    """
    rng = random.Random(entries)
    session = SessionContext.create(
        "tdflow", _PHASES[0], session_id=session_id, goal="Make the scheduler fair.", now=_BEGAN
    )
    for number in range(1, entries):
        now = _BEGAN + timedelta(seconds=number)
        if number % 20 == 0:
            session.enter_phase(_PHASES[number // 20 % len(_PHASES)], now=now)
            continue
        details = f"step {number}: {rng.choice(_WORDS)}"
        if number % 10 == 5:
            details += '\nstderr:\n  File "src/scheduler/queue.py", line 48, in push'
            session.add_artifact(f"src/scheduler/part_{number}.py", "created", now=now)
        session.add_history("phase_work", details=details, now=now)
    return session


def make_notes(entries: int) -> SessionContext:
    """Make a session whose entries are notes that are called as events are."""
    rng = random.Random(entries)
    session = make_session(entries)
    session.history[1:] = [
        SessionHistory.note(rng.choice(_EVENTS), one.timestamp, one.phase, one.details)
        for one in session.history[1:]
    ]
    return session


def _append(session: SessionContext) -> None:
    session.add_history("phase_work", details="step: ran 14 tests, 14 passed; 1.27 s")


def measure_saves(place: Path, size: int, *, rounds: int, budget_s: float) -> list[Row]:
    """Append one entry and save, in every way."""
    directory = place / f"save-{size}"
    for name in ("plain", "libyaml", "raw"):
        (directory / name).mkdir(parents=True)
    store = SessionStore(directory / "store")
    session = make_session(size)
    store.save(session)
    led = make_session(size)
    SessionStore(directory / "manager").save(led)
    manager = SessionManager(SessionStore(directory / "manager"))
    manager.load(led.session_id)
    plain, plain_session = PlainStore(directory / "plain"), make_session(size)
    libyaml, libyaml_session = LibyamlStore(directory / "libyaml"), make_session(size)
    raw = RawWriter(directory / "raw")
    content = store.session_path(session.session_id).read_bytes()
    raw.save(content)

    def save_store() -> None:
        _append(session)
        store.save(session)

    def save_manager() -> None:
        manager.add_history("phase_work", "step: ran 14 tests, 14 passed; 1.27 s")

    def save_plain() -> None:
        _append(plain_session)
        plain.save(plain_session)

    def save_libyaml() -> None:
        _append(libyaml_session)
        libyaml.save(libyaml_session)

    # Judged back to back; the slow ones run apart, for they would empty the processor's caches.
    timed = compare(
        {
            STORE: Candidate(save_store),
            MANAGER: Candidate(save_manager),
            RAW: Candidate(lambda: raw.save(content)),
        },
        rounds=rounds,
        budget_s=budget_s,
    )
    timed |= compare(
        {LIBYAML: Candidate(save_libyaml), PLAIN: Candidate(save_plain)},
        rounds=rounds // 5,
        budget_s=budget_s,
    )
    shutil.rmtree(directory)
    reference = (RAW, timed[RAW])
    target = SAVE_TARGET if size >= SAVE_TARGET_FROM else None
    return [
        row("save", size, STORE, timed[STORE], reference=reference, target=target),
        row("save", size, MANAGER, timed[MANAGER], reference=reference, target=target),
        row("save", size, RAW, timed[RAW], note=f"{len(content):,} bytes"),
        row("save", size, LIBYAML, timed[LIBYAML], reference=reference),
        row("save", size, PLAIN, timed[PLAIN], reference=reference, note="nothing is synced"),
    ]


def measure_loads(place: Path, size: int, *, rounds: int, budget_s: float) -> list[Row]:
    """Read a session, in every way; its file is in the page cache."""
    directory = place / f"load-{size}"
    for name in ("plain", "libyaml"):
        (directory / name).mkdir(parents=True)
    session = make_session(size)
    store = SessionStore(directory / "store")
    store.save(session)
    manager = SessionManager(store)
    plain, libyaml = PlainStore(directory / "plain"), LibyamlStore(directory / "libyaml")
    libyaml.save(session)
    shutil.copy(directory / "libyaml" / "session.yaml", directory / "plain")
    if libyaml.load() != session or store.load(session.session_id) != session:
        raise SystemExit("the stores don't read the same session")
    timed = compare(
        {
            STORE: Candidate(lambda: store.load(session.session_id)),
            MANAGER: Candidate(lambda: manager.load(session.session_id)),
            LIBYAML: Candidate(libyaml.load),
            PLAIN: Candidate(plain.load),
        },
        rounds=rounds,
        budget_s=budget_s,
    )
    shutil.rmtree(directory)
    reference = (LIBYAML, timed[LIBYAML])
    target = LOAD_TARGET_LARGE if size >= 10_000 else LOAD_TARGET
    return [
        row("load", size, STORE, timed[STORE], reference=reference, target=target),
        row("load", size, MANAGER, timed[MANAGER], reference=reference, target=target),
        row("load", size, LIBYAML, timed[LIBYAML]),
        row("load", size, PLAIN, timed[PLAIN], reference=reference, note="builds no objects"),
    ]


def measure_listing(
    place: Path, *, sessions: int, entries: int, sample: int, rounds: int, budget_s: float
) -> list[Row]:
    """List a base full of sessions by their heads, and by loading them."""
    directory = place / "listing"
    base = directory / "sessions"
    base.mkdir(parents=True)
    template = make_session(entries, "session_20260301_093000_000000")
    template.revision = 1
    content = encode_session(template)
    libyaml_base = directory / "libyaml"
    libyaml_base.mkdir()
    for number in range(sessions):  # as the store writes them, less what makes them durable
        name = f"session_20260301_093000_{number:06}"
        (base / name).mkdir()
        (base / name / "session.yaml").write_bytes(
            content.replace(b"session_20260301_093000_000000", name.encode(), 1)
        )
    LibyamlStore(libyaml_base).save(template)
    paths = []
    for number in range(sample):
        paths.append(libyaml_base / f"{number}.yaml")
        shutil.copy(libyaml_base / "session.yaml", paths[-1])
    os.sync()  # so that it is not written while we measure
    store = SessionStore(base)
    manager = SessionManager(store)
    if sum(1 for _ in store.summaries()) != sessions:
        raise SystemExit("the listing is not complete")
    timed = compare(
        {
            "summaries()": Candidate(lambda: list(store.summaries())),
            "SessionManager.list()": Candidate(manager.list),
            LIBYAML: Candidate(lambda: [load_with_libyaml(path) for path in paths]),
        },
        rounds=rounds,
        budget_s=budget_s,
    )
    shutil.rmtree(directory)
    scale = sessions / sample
    timed[LIBYAML].samples = [took * scale for took in timed[LIBYAML].samples]
    reference = (LIBYAML, timed[LIBYAML])
    note = f"{sample:,} loaded, scaled"
    return [
        row(
            "list",
            sessions,
            "summaries()",
            timed["summaries()"],
            reference=reference,
            target=LIST_TARGET,
            note=f"{entries} entries each",
        ),
        row(
            "list",
            sessions,
            "SessionManager.list()",
            timed["SessionManager.list()"],
            reference=reference,
            target=LIST_TARGET,
        ),
        row("list", sessions, LIBYAML, timed[LIBYAML], note=note),
    ]


def measure_parts(size: int, *, rounds: int, budget_s: float) -> list[Row]:
    """Time what happens in memory alone."""
    session = make_session(size)
    content = encode_session(session)
    document = json.dumps(session.to_dict())
    notes = encode_session(make_notes(size))
    encoder = SessionEncoder()
    growing = make_session(size)
    path = Path("session.yaml")

    def encode_one_more() -> None:
        encoder.encode(growing, revision=1)

    encode_one_more()
    timed = compare(
        {
            "encode, nothing known": Candidate(lambda: encode_session(session)),
            "encode, one entry more": Candidate(encode_one_more, lambda: _append(growing)),
            "decode": Candidate(lambda: decode_session(content, path=path)),
            "decode, notes called as events": Candidate(lambda: decode_session(notes, path=path)),
            JSON: Candidate(lambda: json.loads(document)),
            "decode the head": Candidate(lambda: decode_head(content[:HEAD_BYTES])),
            "briefing of 2,000 tokens": Candidate(lambda: brief(session)),
        },
        rounds=rounds,
        budget_s=budget_s,
    )
    target = JSON_TARGET if size >= JSON_TARGET_FROM else None
    reference = (JSON, timed[JSON])
    return [
        row("memory", size, name, one, reference=reference, target=target)
        if name.startswith("decode") and name != "decode the head"
        else row("memory", size, name, one)
        for name, one in timed.items()
    ]


# ------------------------------------------------------------------------------------- the machine


def _file_system(path: Path) -> str:
    best, kind = "", "unknown"
    with suppress(OSError):
        for line in Path("/proc/mounts").read_text().splitlines():
            _, mount, name, *_ = line.split()
            inside = str(path) == mount or str(path).startswith(mount.rstrip("/") + "/")
            if inside and len(mount) >= len(best):
                best, kind = mount, name
    return kind


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def facts(place: Path) -> dict[str, Any]:
    """Say what was measured on."""
    return {
        "python": platform.python_version(),
        "pyyaml": yaml.__version__,
        "kernel": platform.release().partition("-")[0],
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "file_system": _file_system(place.resolve()),
        "load_average": round(os.getloadavg()[0], 2),
    }


@contextmanager
def place_in(parent: Path) -> Iterator[Path]:
    """Have a folder for one run, which is removed after it."""
    parent.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        with suppress(OSError):
            parent.rmdir()


def _rows(place: Path, *, quick: bool) -> Iterator[Row]:
    budget_s = 1.0 if quick else 12.0
    for size in SIZES:
        rounds = (20 if size >= 10_000 else 60) if quick else (100 if size >= 10_000 else 500)
        yield from measure_saves(place, size, rounds=rounds, budget_s=budget_s)
    for size in SIZES:
        rounds = (5 if size >= 10_000 else 30) if quick else (40 if size >= 10_000 else 200)
        yield from measure_loads(place, size, rounds=rounds, budget_s=budget_s)
    yield from measure_listing(
        place,
        sessions=1_000 if quick else 10_000,
        entries=100,
        sample=50 if quick else 300,
        rounds=3 if quick else 10,
        budget_s=2.0 if quick else 15.0,
    )
    for size in SIZES:
        yield from measure_parts(size, rounds=10 if quick else 50, budget_s=budget_s)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and with --check judge."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sessions", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, fewer sessions")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path(".benchmarks"),
        help="where to write, on the disk to be measured (default: %(default)s)",
    )
    given = parser.parse_args(arguments)
    if not yaml.__with_libyaml__:
        raise SystemExit("this PyYAML was built without libyaml, which is a reference here")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    began = time.monotonic()
    rows: list[Row] = []
    with place_in(given.dir) as place:
        machine = facts(place)
        for one in _rows(place, quick=given.quick):
            if not rows or rows[-1].group != one.group or rows[-1].size != one.size:
                print(f"{one.group} {one.size:,} …", file=sys.stderr, flush=True)
            rows.append(one)
            gc.collect()
    machine["took_s"] = round(time.monotonic() - began)
    missed = [one for one in rows if one.met is False]
    if given.json:
        print(json.dumps({"machine": machine, "rows": [one.as_fields() for one in rows]}, indent=1))
    else:
        print(", ".join(f"{name} {value}" for name, value in machine.items()))
        print(table(rows))
        judged = sum(1 for one in rows if one.met is not None)
        print(f"{judged - len(missed)} of {judged} targets met")
    return 1 if given.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
