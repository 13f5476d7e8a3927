"""A dry run and the run that follows name the same sessions and bytes, and nothing else changes."""

from __future__ import annotations

import fcntl
import os
import tempfile
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from agentforge_sessions.prune import (
    Disposal,
    PruneResult,
    RetentionPolicy,
    pin,
    prune,
    restore_from_trash,
)
from agentforge_sessions.prune.policy import GIB
from agentforge_sessions.sandbox import SandboxTarget
from tests.support.prune_sites import Site, metadata, outside_of, size_of, tree_of, uuid_of
from tests.support.soak import examples

NAMES = st.one_of(
    st.sampled_from(
        ["data", "deep/data", "deep/er/data", "with blank", "new\nline", "-rf", "~", "\udcff"]
    ),
    st.text("ab.~", min_size=1, max_size=4).filter(lambda name: name not in {".", ".."}),
)
PLANTS = (
    "link outside",
    "link to a session",
    "hard link",
    "fifo",
    "deep",
    "many",
    "mode 000",
    "pinned",
    "in use",
    "no metadata",
    "broken metadata",
    "another's metadata",
    "future",
    "metadata link",
    "metadata fifo",
)
BESIDE = (
    "a uuid that is a link outside",
    "a uuid that is a link to a session",
    "a uuid that is a file",
    "a uuid that is a fifo",
    "an upper case uuid",
    "a name",
    "a file",
    "a hidden name",
    "begun",
    "half restored",
)

sessions = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.dictionaries(NAMES, st.binary(max_size=300), max_size=4),
        st.sets(st.sampled_from(PLANTS), max_size=2),
    ),
    max_size=7,
)
policies = st.builds(
    RetentionPolicy,
    max_age_hours=st.sampled_from([None, 0, 10, 24, 59.5]),
    max_sessions=st.sampled_from([None, None, 0, 2, 4]),
    max_total_bytes=st.sampled_from([None, None, 0, 500, 5_000]),
    min_free_space_gb=st.sampled_from([None, None, 1]),
    max_deletions=st.sampled_from([None, None, 1, 3]),
)


def plant_in(site: Site, name: str, what: str, holds: ExitStack) -> None:
    """Do something to a session that a prune has to cope with."""
    session = site.root / name
    record = session / ".metadata.json"
    if what == "link outside":
        (session / "zz link").symlink_to(site.beside)
    elif what == "link to a session":
        (session / "zz other").symlink_to(f"../{uuid_of(1)}")
    elif what == "hard link":
        os.link(site.beside / "file", session / "zz hard")
    elif what == "fifo":
        os.mkfifo(session / "zz fifo")
    elif what == "deep":
        (session / "/".join(["zz"] * 60)).mkdir(parents=True)
    elif what == "many":
        for number in range(60):
            (session / f"zz {number}").touch()
    elif what == "mode 000":
        (session / "zz closed").mkdir()
        (session / "zz closed" / "in it").write_text("x")
        (session / "zz closed").chmod(0)
    elif what == "pinned":
        pin(SandboxTarget(site.root), name)
    elif what == "in use":
        fd = os.open(session, os.O_RDONLY)
        holds.callback(os.close, fd)
        fcntl.flock(fd, fcntl.LOCK_EX)
    else:
        record.unlink(missing_ok=True)
        if what == "broken metadata":
            record.write_bytes(b"\xff")
        elif what == "another's metadata":
            record.write_bytes(metadata(uuid_of(77), site.clock.now - timedelta(days=99)))
        elif what == "future":
            record.write_bytes(metadata(name, site.clock.now + timedelta(days=1)))
        elif what == "metadata link":
            (site.beside / "old").write_bytes(metadata(name, site.clock.now - timedelta(days=99)))
            record.symlink_to(site.beside / "old")
        elif what == "metadata fifo":
            os.mkfifo(record)


def plant_beside(site: Site, what: str) -> None:
    """Put something into the root that is no session."""
    old = metadata(uuid_of(90), site.clock.now - timedelta(days=99))
    if what == "a uuid that is a link outside":
        (site.root / uuid_of(90)).symlink_to(site.beside)
    elif what == "a uuid that is a link to a session":
        (site.root / uuid_of(91)).symlink_to(uuid_of(1))
    elif what == "a uuid that is a file":
        (site.root / uuid_of(92)).write_text("kept")
    elif what == "a uuid that is a fifo":
        os.mkfifo(site.root / uuid_of(93))
    elif what == "begun":
        (site.private / "going" / f"{uuid_of(94)}~1" / "deep").mkdir(parents=True)
        (site.private / "going" / f"{uuid_of(94)}~1" / "link").symlink_to(site.beside)
    elif what == "half restored":
        (site.private / "coming" / "0a" / "deep").mkdir(parents=True)
    else:
        name = {
            "an upper case uuid": uuid_of(0xA).upper(),
            "a name": "shared",
            "a file": "notes",
            "a hidden name": f"{uuid_of(95)}~1",
        }[what]
        (site.root / name).mkdir()
        (site.root / name / ".metadata.json").write_bytes(old)


def run(site: Site, policy: RetentionPolicy, dry_run: bool, grace: Any) -> PruneResult:
    return prune(
        SandboxTarget(site.root),
        policy,
        dry_run=dry_run,
        disposal=Disposal(grace=grace, batch=3),
        outside=evolve(site.outside(), free_bytes=lambda _: GIB - 9_000),
    )


@settings(max_examples=examples(40))
@given(
    sessions,
    st.sets(st.sampled_from(BESIDE)),
    policies,
    st.sampled_from([None, None, timedelta(days=1)]),
)
def test_a_dry_run_and_the_run_name_the_same_and_nothing_else_changes(
    made: list[tuple[int, dict[str, bytes], set[str]]],
    beside: set[str],
    policy: RetentionPolicy,
    grace: timedelta | None,
) -> None:
    with tempfile.TemporaryDirectory() as top, ExitStack() as holds:
        site = Site(Path(top) / "site")
        names = []
        for age, files, plants in made:
            usable = {
                name: content
                for name, content in files.items()
                if not any(other.startswith(f"{name}/") for other in files)
            }
            names.append(site.add(age_hours=age, files=usable or {"data": b"x"}))
            for plant in sorted(plants):
                plant_in(site, names[-1], plant, holds)
        for plant in sorted(beside):
            plant_beside(site, plant)
        if site.private.exists():
            site.private.chmod(0o700)
        before = tree_of(site.top)
        seldom = {name: size_of(site.root / name) for name in names}

        dry = run(site, policy, True, grace)
        assert tree_of(site.top) == before
        result = run(site, policy, False, grace)
        after = tree_of(site.top)

        assert result.errors == {}
        assert result.deleted_sessions == dry.deleted_sessions
        assert result.reclaimed_bytes == dry.reclaimed_bytes
        assert result.skipped_sessions == dry.skipped_sessions
        assert result.decisions == dry.decisions
        assert result.reclaimed_bytes == sum(seldom[name] for name in result.deleted_sessions)
        assert set(result.deleted_sessions) <= set(names)
        gone = [f"root/{name}" for name in result.deleted_sessions]
        private = ["root/.prune"]
        assert outside_of(after, private) == outside_of(before, [*gone, *private])
        pins = outside_of(after, []).keys() & {f"root/.prune/pins/{name}" for name in names}
        assert pins == before.keys() & {f"root/.prune/pins/{name}" for name in names}
        assert site.hidden() == []
        assert site.fs.open_descriptors == {}
        told = [name for event, name in site.events() if event == "removing"]
        assert told == result.deleted_sessions

        if grace is not None:
            for name in result.deleted_sessions:
                restore_from_trash(SandboxTarget(site.root), name, outside=site.outside())
            assert outside_of(tree_of(site.top), private) == outside_of(before, private)
            assert site.hidden("trash") == []
        holds.close()
        again = run(site, RetentionPolicy(), False, None)
        assert (again.deleted_sessions, again.errors) == ([], {})
