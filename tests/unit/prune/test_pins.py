"""Pins: sessions that no prune removes."""

from __future__ import annotations

import errno
import os

import pytest

from agentforge_sessions.prune import (
    PruneResult,
    PruneRootMissing,
    PruneRootUnusable,
    RetentionPolicy,
    pin,
    pinned,
    prune,
    unpin,
)
from agentforge_sessions.prune.domain import Reason
from agentforge_sessions.sandbox import SandboxTarget
from tests.support.prune_sites import Site, tree_of, uuid_of


@pytest.fixture
def target(site: Site) -> SandboxTarget:
    return SandboxTarget(site.root)


def run(site: Site) -> PruneResult:
    return prune(SandboxTarget(site.root), RetentionPolicy(max_age_hours=0), outside=site.outside())


def test_a_pinned_session_stays_until_it_is_unpinned(site: Site, target: SandboxTarget) -> None:
    old = site.add(age_hours=30)
    assert pin(target, old, outside=site.outside())
    assert pinned(site.root) == {old}

    result = run(site)
    assert result.deleted_sessions == []
    assert [one.reasons for one in result.decisions] == [(Reason.PINNED,)]

    assert unpin(target, old, outside=site.outside())
    assert pinned(site.root) == frozenset()
    assert run(site).deleted_sessions == [old]


def test_pinning_again_and_unpinning_what_is_not_pinned_say_so(
    site: Site, target: SandboxTarget
) -> None:
    name = uuid_of(1)
    assert not unpin(target, name, outside=site.outside())
    assert pin(target, name, outside=site.outside())
    assert not pin(target, name, outside=site.outside())
    assert unpin(target, name, outside=site.outside())
    assert not unpin(target, name, outside=site.outside())


def test_a_pin_may_come_before_its_session_and_outlives_it(
    site: Site, target: SandboxTarget
) -> None:
    name = uuid_of(5)
    pin(target, name, outside=site.outside())
    site.add(age_hours=99, session_id=name)
    assert run(site).deleted_sessions == []
    os.rename(site.root / name, site.top / "elsewhere")
    run(site)
    assert pinned(site.root) == {name}


def test_a_pin_is_durable_when_it_is_told(site: Site, target: SandboxTarget) -> None:
    pin(target, uuid_of(1), outside=site.outside())
    steps = site.steps()
    made = steps.index(f"open .prune/pins/{uuid_of(1)}")
    assert "fsync .prune/pins" in steps[made:]
    steps = steps[:made]
    assert "fsync .prune" in steps
    assert "fsync base" in steps


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "x", ".prune", "nul\0", "n" * 300])
def test_what_can_be_no_session_is_refused_and_nothing_made(
    site: Site, target: SandboxTarget, name: str
) -> None:
    for act in (pin, unpin):
        with pytest.raises(ValueError, match="no id of a sandbox session"):
            act(target, name, outside=site.outside())
    assert os.listdir(site.root) == []


def test_a_missing_root_is_told(site: Site) -> None:
    missing = SandboxTarget(site.top / "missing")
    for act in (pin, unpin):
        with pytest.raises(PruneRootMissing):
            act(missing, uuid_of(1), outside=site.outside())
    with pytest.raises(PruneRootMissing):
        pinned(missing.root)


def test_pins_that_can_not_be_read_keep_everything(site: Site, target: SandboxTarget) -> None:
    """Not knowing what is pinned is no reason to take it for not pinned."""
    names = [site.add(age_hours=30), site.add(age_hours=30)]
    pin(target, names[0], outside=site.outside())
    before = tree_of(site.top)
    for operation in ("open", "listdir"):
        site.fs.begin(
            lambda _, call, operation=operation: (
                errno.EIO if call.operation == operation and "pins" in call.path else None
            )
        )
        with pytest.raises(PruneRootUnusable):
            run(site)
    assert tree_of(site.top) == before


def test_a_session_that_is_pinned_after_it_was_decided_stays(
    site: Site, target: SandboxTarget
) -> None:
    """A pin that was told before the removal began is kept to."""
    old = [site.add(age_hours=30), site.add(age_hours=29)]
    done = False

    def meanwhile(call: object) -> None:
        nonlocal done
        if not done and getattr(call, "path", "").endswith(f"{old[1]}/.metadata.json"):
            done = True
            pin(target, old[0])

    site.fs.before = meanwhile
    result = run(site)

    assert done
    assert result.deleted_sessions == [old[1]]
    assert site.sessions() == [old[0]]
