"""Measure looking through old sessions and removing them, against du, rm -rf and another sandbox.

    python -m benchmarks.prune [--quick] [--json] [--check] [--dir DIRECTORY] [--peers DIRECTORY]

docs/measurements/prune.md says what the rows are, and what they were.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import random
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog

from agentforge_sessions.harness import SessionManager, SessionStore
from agentforge_sessions.harness.format.session_codec import encode_session
from agentforge_sessions.prune import PRIVATE, read_audit
from agentforge_sessions.prune.audit_log import AUDIT_NAME
from agentforge_sessions.sandbox import prune_sessions
from agentforge_sessions.sandbox.session_workspaces.session_metadata import (
    SessionMetadata,
    encode_metadata,
)
from benchmarks._sandbox_peers import PEERS, Unavailable, install
from benchmarks.measure import Candidate, Row, Timed, compare, row, table
from benchmarks.references import LibyamlStore, load_with_libyaml
from benchmarks.sessions import facts, make_session, place_in

DRY_TARGET = 3.0
REMOVAL_TARGET = 2.0
PEER_TARGET = 1 / 3
CLEAN_UP_TARGET = 1 / 20

OURS = "prune_sessions"
DRY = "prune_sessions, dry run"
DU = "du -s"
RM = "rm -rf"
LLM = "llm-wasm-sandbox 0.4.4"
CLEAN_UP = "cleanup_old_sessions"
CLEAN_UP_DRY = "cleanup_old_sessions, dry run"
LIBYAML = "libyaml (yaml.CSafeLoader)"

_LONG_AGO = datetime.now(UTC) - timedelta(days=60)
_FILES = ("main.py", "data.json", "report.md", "log.txt")
_PEER_CODE = """
import sys, time
from pathlib import Path
from sandbox.sessions import prune_sessions
began = time.perf_counter()
result = prune_sessions(older_than_hours=24.0, workspace_root=Path(sys.argv[1]))
took = time.perf_counter() - began
print(took, len(result.deleted_sessions))
"""


# ------------------------------------------------------------------------------------- the trees


def make_workspaces(root: Path, count: int) -> None:
    """Make old session workspaces of five files each, and have them on the disk.

    The same seed gives the same names and sizes, so that every candidate gets an equal tree.
    """
    rng = random.Random(count)
    root.mkdir()
    for _ in range(count):
        session_id = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        directory = os.fspath(root / session_id)
        os.mkdir(directory, 0o700)
        metadata = encode_metadata(
            SessionMetadata(session_id=session_id, created_at=_LONG_AGO, updated_at=_LONG_AGO)
        )
        contents = [(name, b"x" * rng.randrange(200, 4_000)) for name in _FILES]
        for name, content in ((".metadata.json", metadata), *contents):
            fd = os.open(f"{directory}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            os.write(fd, content)
            os.close(fd)
    settle()


def make_agent_sessions(base: Path, count: int, entries: int) -> None:
    """Make agent sessions that were completed long ago, as the store writes them."""
    template = make_session(entries - 1, "session_20260301_093000_000000")
    template.apply("complete", now=_LONG_AGO)
    template.revision = 1
    content = encode_session(template)
    base.mkdir(parents=True)
    for number in range(count):
        name = f"session_20260301_093000_{number:06}"
        (base / name).mkdir()
        (base / name / "session.yaml").write_bytes(
            content.replace(b"session_20260301_093000_000000", name.encode(), 1)
        )
    settle()


def settle() -> None:
    """Have nothing that waits to be written while we measure."""
    os.sync()
    gc.collect()


# ------------------------------------------------------------------------------------- candidates


def run_du(root: Path) -> None:
    """Add up the tree, as everybody does."""
    subprocess.run(["du", "-s", str(root)], check=True, stdout=subprocess.DEVNULL)


def run_rm(root: Path) -> float:
    """Remove the tree without asking, noting or syncing anything."""
    began = time.perf_counter()
    subprocess.run(["rm", "-rf", str(root)], check=True)
    return time.perf_counter() - began


def run_ours(root: Path, count: int) -> float:
    """Prune, and see that all went and is accounted for."""
    began = time.perf_counter()
    result = prune_sessions(24, root)
    took = time.perf_counter() - began
    removing = [
        one for one in read_audit(root / PRIVATE / AUDIT_NAME) if one["event"] == "removing"
    ]
    if len(result.deleted_sessions) != count or len(removing) != count or result.errors:
        raise SystemExit(f"not all was pruned: {result}")
    return took


def run_peer(program: Path, root: Path, count: int) -> float:
    """Have the other sandbox prune, in its own environment; its own clock says how long."""
    said = subprocess.run(
        [str(program), "-I", "-c", _PEER_CODE, str(root.resolve())],
        check=True,
        capture_output=True,
        text=True,
        cwd=root.parent,
    ).stdout.split()
    if int(said[1]) != count:
        raise SystemExit(f"{LLM} pruned {said[1]} of {count}")
    return float(said[0])


# --------------------------------------------------------------------------------------- measures


def measure_dry_run(place: Path, count: int, *, rounds: int) -> list[Row]:
    """Look through workspaces that would all go; everything is in the page cache."""
    root = place / "dry"
    make_workspaces(root, count)
    if len(prune_sessions(24, root, dry_run=True).deleted_sessions) != count:
        raise SystemExit("the dry run does not see all")
    timed = compare(
        {
            DRY: Candidate(lambda: prune_sessions(24, root, dry_run=True)),
            DU: Candidate(lambda: run_du(root)),
        },
        rounds=rounds,
        budget_s=60.0,
    )
    shutil.rmtree(root)
    reference = (DU, timed[DU])
    return [
        row("look", count, DRY, timed[DRY], reference=reference, target=DRY_TARGET),
        row("look", count, DU, timed[DU]),
    ]


def measure_removal(place: Path, count: int, *, rounds: int, peer: Path | None) -> list[Row]:
    """Remove equal trees, each made anew and on the disk before; the order changes each round."""
    runs: dict[str, Callable[[Path], float]] = {
        OURS: lambda root: run_ours(root, count),
        RM: run_rm,
    }
    if peer is not None:
        runs[LLM] = lambda root: run_peer(peer, root, count)
    timed = {name: Timed() for name in runs}
    order = random.Random(1)
    names = list(runs)
    for one in range(rounds):
        order.shuffle(names)
        for name in names:
            root = place / f"removal-{one}"
            make_workspaces(root, count)
            timed[name].samples.append(runs[name](root))
            shutil.rmtree(root, ignore_errors=True)
            settle()
    references: Mapping[str, float] = {RM: REMOVAL_TARGET, LLM: PEER_TARGET}
    rows = [
        row(
            "remove",
            count,
            OURS,
            timed[OURS],
            reference=(name, timed[name]),
            target=target,
            note="audited, durable",
        )
        if name in timed
        else Unmeasured(
            "remove", count, OURS, 0, 0.0, 0.0, name, target=target, note="not measured"
        )
        for name, target in references.items()
    ]
    return rows + [row("remove", count, name, timed[name]) for name in (RM, LLM) if name in timed]


def measure_clean_up(
    place: Path, count: int, *, entries: int, sample: int, rounds: int
) -> list[Row]:
    """Look through ended agent sessions, and remove them; against reading each of them."""
    base = place / "sessions"
    libyaml = place / "libyaml"
    libyaml.mkdir()
    LibyamlStore(libyaml).save(make_session(entries, "session_20260301_093000_000000"))
    paths = []
    for number in range(sample):
        paths.append(libyaml / f"{number}.yaml")
        shutil.copy(libyaml / "session.yaml", paths[-1])

    def clean_up(*, dry_run: bool) -> float:
        manager = SessionManager(SessionStore(base))
        began = time.perf_counter()
        gone = manager.cleanup_old_sessions(30, dry_run=dry_run)
        took = time.perf_counter() - began
        if len(gone) != count:
            raise SystemExit(f"{len(gone)} of {count} sessions were cleaned up")
        return took

    def load_all() -> float:
        began = time.perf_counter()
        for path in paths:
            load_with_libyaml(path)
        return (time.perf_counter() - began) * count / sample

    timed = {name: Timed() for name in (CLEAN_UP, CLEAN_UP_DRY, LIBYAML)}
    for _ in range(rounds):
        make_agent_sessions(base, count, entries)
        timed[CLEAN_UP_DRY].samples.append(clean_up(dry_run=True))
        timed[LIBYAML].samples.append(load_all())
        timed[CLEAN_UP].samples.append(clean_up(dry_run=False))
        shutil.rmtree(base)
        settle()
    shutil.rmtree(libyaml)
    reference = (LIBYAML, timed[LIBYAML])
    note = f"{entries} entries each"
    return [
        row(
            "clean up",
            count,
            name,
            timed[name],
            reference=reference,
            target=CLEAN_UP_TARGET,
            note=note,
        )
        for name in (CLEAN_UP_DRY, CLEAN_UP)
    ] + [row("clean up", count, LIBYAML, timed[LIBYAML], note=f"{sample:,} loaded, scaled")]


@dataclass
class Unmeasured(Row):
    """A target whose other side could not be measured."""

    @property
    def met(self) -> bool | None:
        """It was not."""
        return False


# ------------------------------------------------------------------------------------------- main


def _peer(peers: Path) -> Path | str:
    (peer,) = (one for one in PEERS if one.kind == "llm")
    try:
        return install(peer, peers, None)
    except Unavailable as error:
        return str(error)


def _rows(place: Path, peer: Path | None, *, quick: bool) -> Iterator[Row]:
    count = 2_000 if quick else 10_000
    yield from measure_dry_run(place, count, rounds=5 if quick else 11)
    yield from measure_removal(place, count, rounds=3, peer=peer)
    yield from measure_clean_up(
        place, count, entries=100, sample=50 if quick else 300, rounds=2 if quick else 3
    )


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and with --check judge."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prune", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, fewer sessions")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    parser.add_argument("--peers", type=Path, help="where the peers' environments are kept")
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path(".benchmarks"),
        help="where to write, on the disk to be measured (default: %(default)s)",
    )
    given = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    rows: list[Row] = []
    with place_in(given.dir) as place:
        machine = facts(place)
        peers = given.peers.resolve() if given.peers is not None else place.resolve() / "peers"
        peers.mkdir(parents=True, exist_ok=True)
        peer = _peer(peers)
        began = time.monotonic()
        for one in _rows(place, None if isinstance(peer, str) else peer, quick=given.quick):
            rows.append(one)
            print(f"{one.group} {one.size:,}, {one.what}: {one.p50_ms:,.0f} ms", file=sys.stderr)
    machine["took_s"] = round(time.monotonic() - began)
    missed = [one for one in rows if one.met is False]
    if given.json:
        print(json.dumps({"machine": machine, "rows": [one.as_fields() for one in rows]}, indent=1))
    else:
        print(", ".join(f"{name} {value}" for name, value in machine.items()))
        print(table(rows))
        if isinstance(peer, str):
            print(f"not measured: {LLM}: {peer}")
        judged = sum(1 for one in rows if one.met is not None)
        print(f"{judged - len(missed)} of {judged} targets met")
    return 1 if given.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
