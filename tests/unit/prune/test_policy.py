"""The decision: which sessions go, which stay, and why."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Any

import pytest

from agentforge_sessions.prune import Candidate, InvalidRetentionPolicy, PruneError, RetentionPolicy
from agentforge_sessions.prune.domain import Plan, Reason
from agentforge_sessions.prune.policy import GIB, decide
from tests.support.clock import START

R = Reason


def one(name: str, age_hours: float, **fields: Any) -> Candidate:
    return Candidate(
        kind="fake", session_id=name, dated_at=START - timedelta(hours=age_hours), **fields
    )


def names(plan: Plan) -> str:
    return "".join(decision.candidate.session_id for decision in plan.removals)


def reasons(plan: Plan) -> dict[str, tuple[Reason, ...]]:
    return {decision.candidate.session_id: decision.reasons for decision in plan.decisions}


def decided(candidates: list[Candidate], free_bytes: int | None = None, **rules: Any) -> Plan:
    return decide(candidates, RetentionPolicy(**rules), now=START, free_bytes=free_bytes)


ABCD = [one("d", 1), one("b", 30), one("a", 40), one("c", 20)]
"""In no order; `a` is the oldest."""


# ---------------------------------------------------------------- one rule at a time


def test_without_any_rule_everything_stays() -> None:
    plan = decided(ABCD, free_bytes=0)
    assert names(plan) == ""
    assert reasons(plan) == dict.fromkeys("abcd", (R.RECENT,))


@pytest.mark.parametrize(
    ("hours", "gone"),
    [(0, "abcd"), (0.9999, "abcd"), (1, "abc"), (30, "a"), (29.9, "ab"), (40, "")],
)
def test_sessions_older_than_that_go(hours: float, gone: str) -> None:
    plan = decided(ABCD, max_age_hours=hours)
    assert names(plan) == gone
    assert {reasons(plan)[name] for name in gone} <= {(R.EXPIRED,)}


def test_a_session_dated_ahead_of_the_clock_is_not_old_at_all() -> None:
    assert names(decided([one("a", -0.01)], max_age_hours=0)) == ""


def test_an_age_of_no_hours_takes_what_was_used_just_now() -> None:
    assert names(decided([one("a", 0)], max_age_hours=0)) == "a"


@pytest.mark.parametrize("seconds", [0.001, 1, 299, 86_400])
def test_a_session_dated_in_the_future_stays_whatever_the_rules_ask(seconds: float) -> None:
    ahead = one("a", -seconds / 3600, size_bytes=5)
    plan = decided(
        [ahead, one("b", 1)],
        free_bytes=0,
        max_age_hours=0,
        max_sessions=0,
        max_total_bytes=0,
        min_free_space_gb=1,
    )
    assert names(plan) == "b"
    assert reasons(plan)["a"] == (R.FUTURE,)
    assert [(told.session_id, str(told.reason)) for told in plan.skipped] == [
        ("a", "dated_in_the_future")
    ]


def test_the_age_may_be_longer_than_there_are_dates() -> None:
    for hours in (1e9, 1e300, 10**400):
        assert names(decided(ABCD, max_age_hours=hours)) == ""


@pytest.mark.parametrize(("most", "gone"), [(4, ""), (3, "a"), (1, "abc"), (0, "abcd")])
def test_so_many_stay(most: int, gone: str) -> None:
    assert names(decided(ABCD, max_sessions=most)) == gone


@pytest.mark.parametrize(
    ("most", "gone"), [(100, ""), (99, "a"), (90, "a"), (89, "ab"), (40, "abc"), (39, "abcd")]
)
def test_what_stays_has_at_most_so_many_bytes(most: int, gone: str) -> None:
    sizes = {"a": 10, "b": 20, "c": 30, "d": 40}
    sized = [one(name, 50 - at, size_bytes=size) for at, (name, size) in enumerate(sizes.items())]
    assert names(decided(sized, max_total_bytes=most)) == gone


@pytest.mark.parametrize(
    ("free", "gone"), [(GIB, ""), (GIB - 1, "a"), (GIB - 50, "a"), (GIB - 51, "ab"), (0, "ab")]
)
def test_so_much_is_free_afterwards_by_room_on_the_disk(free: int, gone: str) -> None:
    sized = [one("a", 3, disk_bytes=50, size_bytes=9**9), one("b", 2, disk_bytes=50)]
    assert names(decided(sized, free_bytes=free, min_free_space_gb=1)) == gone


def test_space_that_nobody_measured_asks_for_nothing() -> None:
    assert names(decided(ABCD, free_bytes=None, min_free_space_gb=10**9)) == ""


def test_parts_of_a_gibibyte_count() -> None:
    sized = [one("a", 3, disk_bytes=GIB)]
    assert names(decided(sized, free_bytes=GIB // 2, min_free_space_gb=0.5)) == ""
    assert names(decided(sized, free_bytes=GIB // 2 - 1, min_free_space_gb=0.5)) == "a"


# ---------------------------------------------------------------- order


def test_the_oldest_goes_first_then_the_id_decides() -> None:
    same = [one(name, 5) for name in "cab"] + [one("z", 6)]
    assert names(decided(same, max_sessions=1)) == "zab"
    assert names(decided(same[::-1], max_sessions=1)) == "zab"
    assert names(decided(same, max_age_hours=0)) == "zabc"


def test_the_input_may_come_once() -> None:
    plan = decide(iter(ABCD), RetentionPolicy(max_age_hours=25), now=START)
    assert names(plan) == "ab"


# ---------------------------------------------------------------- several rules


def test_a_session_goes_if_any_rule_asks_and_says_which() -> None:
    sized = [one("a", 40, size_bytes=5), one("b", 30, size_bytes=5), one("c", 20, size_bytes=5)]
    plan = decided(
        sized,
        free_bytes=0,
        max_age_hours=35,
        max_sessions=1,
        max_total_bytes=12,
        min_free_space_gb=1,
    )
    assert reasons(plan) == {
        "a": (R.EXPIRED, R.TOO_MANY, R.TOO_LARGE, R.LOW_SPACE),
        "b": (R.TOO_MANY, R.LOW_SPACE),
        "c": (R.LOW_SPACE,),
    }


def test_what_one_rule_removed_helps_the_others() -> None:
    sized = [one("a", 40, size_bytes=90), one("b", 30, size_bytes=5), one("c", 1, size_bytes=5)]
    assert names(decided(sized, max_age_hours=39, max_total_bytes=10)) == "a"
    assert names(decided(sized, max_sessions=2, max_total_bytes=10)) == "a"


# ---------------------------------------------------------------- what stays


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"pinned": True}, R.PINNED),
        ({"in_use": True}, R.IN_USE),
        ({"removable": False, "state": "busy"}, R.STATE),
        ({"state": "kept"}, R.STATE),
        ({"pinned": True, "in_use": True, "removable": False}, R.PINNED),
    ],
)
def test_what_is_exempt_stays_whatever_the_rules_ask(
    fields: dict[str, Any], reason: Reason
) -> None:
    plan = decided(
        [one("a", 99, size_bytes=5, **fields), one("b", 1, state="other")],
        free_bytes=0,
        max_age_hours=0,
        max_sessions=0,
        max_total_bytes=0,
        min_free_space_gb=1,
        keep_states={"kept"},
    )
    assert names(plan) == "b"
    assert reasons(plan)["a"] == (reason,)


@pytest.mark.parametrize("fields", [{"pinned": True}, {"in_use": True}, {"removable": False}])
def test_the_newest_stay_where_older_ones_can_not_go(fields: dict[str, Any]) -> None:
    held = [one("a", 9, size_bytes=50, **fields), one("b", 8, size_bytes=50, **fields)]
    free = [one("c", 5, size_bytes=1), one("d", 4, size_bytes=1), one("e", 3, size_bytes=1)]
    plan = decided([*held, *free], max_sessions=2)
    assert names(plan) == "c"
    [unmet] = plan.unmet
    assert (unmet.rule, unmet.bound, unmet.stays) == ("max_sessions", 2, 4)
    assert str(unmet) == "4 sessions stay, more than 2"
    plan = decided([*held, *free], max_total_bytes=2)
    assert names(plan) == "c"
    [unmet] = plan.unmet
    assert (unmet.rule, unmet.bound, unmet.stays) == ("max_total_bytes", 2, 102)
    assert str(unmet) == "102 B stay, more than 2 B"


def test_what_can_not_be_considered_costs_no_other_its_place_and_the_unmet_bound_is_told() -> None:
    policy = RetentionPolicy(max_sessions=4, max_total_bytes=10)
    sized = [one("a", 3, size_bytes=4), one("b", 2, size_bytes=4)]
    plan = decide(sized, policy, now=START, others=3, other_bytes=3)
    assert names(plan) == ""
    assert [(told.rule, told.stays) for told in plan.unmet] == [
        ("max_sessions", 5),
        ("max_total_bytes", 11),
    ]
    assert decide(sized, policy, now=START, others=2, other_bytes=2).unmet == ()


def test_space_that_can_not_be_freed_is_told() -> None:
    sized = [one("a", 3, disk_bytes=50), one("b", 2, disk_bytes=50, pinned=True)]
    [unmet] = decided(sized, free_bytes=0, min_free_space_gb=1).unmet
    assert (unmet.rule, unmet.bound, unmet.stays) == ("min_free_space_gb", GIB, 50)
    assert str(unmet) == "50 B would be free, less than 1.0 GB"


def test_no_rule_but_age_takes_what_was_used_lately() -> None:
    young = [one("a", 30, size_bytes=5), one("b", 2, size_bytes=5), one("c", 0.01, size_bytes=5)]
    for rule in ({"max_sessions": 0}, {"max_total_bytes": 0}, {"min_free_space_gb": 1}):
        plan = decided(young, free_bytes=0, min_age_hours=2, **rule)
        assert names(plan) == "ab"
        assert reasons(plan)["c"] == (R.YOUNG,)
        assert [told.rule for told in plan.unmet] == list(rule)
    assert names(decided(young, max_age_hours=0, min_age_hours=2)) == "abc"


def test_space_that_is_out_of_reach_takes_nothing_of_the_last_hour_unless_that_is_asked_for() -> (
    None
):
    sized = [one(name, age, disk_bytes=5) for name, age in (("a", 9), ("b", 1), ("c", 0.99))]
    plan = decided(sized, free_bytes=0, min_free_space_gb=10**6)
    assert names(plan) == "ab"
    assert reasons(plan)["c"] == (R.YOUNG,)
    assert [told.rule for told in plan.unmet] == ["min_free_space_gb"]
    assert names(decided(sized, free_bytes=0, min_free_space_gb=1, min_age_hours=0)) == "abc"
    assert names(decided(sized, free_bytes=0, min_free_space_gb=1, min_age_hours=2)) == "a"
    assert names(decided(sized, free_bytes=0, min_free_space_gb=1, max_sessions=0)) == "abc"


def test_what_a_rule_asks_for_and_is_needed_is_told() -> None:
    held = [one("a", 9, pinned=True), one("b", 8, in_use=True), one("c", 1, pinned=True)]
    plan = decided([*held, one("d", 0.5, in_use=True)], max_age_hours=2)
    assert [(told.session_id, str(told.reason)) for told in plan.skipped] == [
        ("a", "pinned"),
        ("b", "in_use"),
    ]


def test_several_states_are_kept_and_a_session_without_a_state_is_in_none() -> None:
    class State(StrEnum):
        DONE = "done"

    stated = [one("a", 4, state="done"), one("b", 3, state="failed"), one("c", 2)]
    assert names(decided(stated, max_age_hours=0, keep_states={State.DONE})) == "bc"
    assert names(decided(stated, max_age_hours=0, keep_states=["done", "failed"])) == "c"
    assert names(decided(stated, max_age_hours=0, keep_states="done")) == "bc"
    assert names(decided(stated, max_age_hours=0, keep_states=())) == "abc"


# ---------------------------------------------------------------- a limit


@pytest.mark.parametrize(("most", "gone"), [(0, ""), (1, "a"), (3, "abc"), (99, "abcd")])
def test_at_most_so_many_go_and_the_rest_waits(most: int, gone: str) -> None:
    plan = decided(ABCD, max_age_hours=0, max_deletions=most)
    assert names(plan) == gone
    waiting = [name for name in "abcd" if name not in gone]
    assert [name for name, why in reasons(plan).items() if why == (R.LIMIT,)] == waiting


def test_what_is_exempt_or_recent_does_not_use_up_the_limit() -> None:
    plan = decided([one("0", 50, pinned=True), *ABCD], max_age_hours=25, max_deletions=1)
    assert names(plan) == "a"
    assert reasons(plan) == {
        "0": (R.PINNED,),
        "a": (R.EXPIRED,),
        "b": (R.LIMIT,),
        "c": (R.RECENT,),
        "d": (R.RECENT,),
    }


def test_a_plan_adds_up_what_goes() -> None:
    sized = [one("a", 3, size_bytes=4), one("b", 2, size_bytes=5), one("c", 0, size_bytes=6)]
    plan = decided(sized, max_age_hours=1)
    assert plan.size_bytes == 9
    assert [decision.candidate.session_id for decision in plan.decisions] == ["a", "b", "c"]


# ---------------------------------------------------------------- faults


def test_all_faults_of_a_policy_are_told_at_once() -> None:
    with pytest.raises(InvalidRetentionPolicy) as caught:
        RetentionPolicy(
            max_age_hours=-1,
            max_sessions=1.5,  # type: ignore[arg-type]
            max_total_bytes=True,
            min_free_space_gb=float("nan"),
            min_age_hours=-3,
            keep_states={3, "fine"},  # type: ignore[arg-type]
            max_deletions=-2,
        )
    faults = caught.value.faults
    assert len(faults) == 7
    for name in (
        "max_age_hours",
        "max_sessions",
        "max_total_bytes",
        "min_free_space_gb",
        "min_age_hours",
        "keep_states",
        "max_deletions",
    ):
        assert sum(name in fault for fault in faults) == 1
        assert name in str(caught.value)
    assert isinstance(caught.value, PruneError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "rules",
    [
        {"max_age_hours": value}
        for value in (-0.001, float("inf"), float("-inf"), "24", True, False, [], timedelta(1))
    ]
    + [
        {name: value}
        for name in ("min_free_space_gb", "min_age_hours")
        for value in (-1, float("inf"), "1", True)
    ]
    + [
        {name: value}
        for name in ("max_sessions", "max_total_bytes", "max_deletions")
        for value in (-1, 1.0, "1", False, float("nan"))
    ]
    + [{"keep_states": value} for value in (5, None, [["a"]], [None], b"done", {"a", 1})],
)
def test_what_is_no_rule_is_refused_as_a_fault_of_the_policy(rules: dict[str, Any]) -> None:
    with pytest.raises(InvalidRetentionPolicy) as caught:
        RetentionPolicy(**rules)
    [name] = rules
    assert all(fault.startswith(f"{name}: expected") for fault in caught.value.faults)


@pytest.mark.parametrize(
    "rules",
    [
        {"max_age_hours": 0},
        {"max_age_hours": 0.5},
        {"max_age_hours": 10**400},
        {"max_sessions": 0},
        {"max_total_bytes": 10**30},
        {"min_free_space_gb": 0},
        {"min_free_space_gb": 10**400},
        {"min_free_space_gb": 1.7e308},
        {"min_age_hours": 0.5},
        {"max_deletions": 0},
        {},
    ],
)
def test_what_is_one_is_taken(rules: dict[str, Any]) -> None:
    policy = RetentionPolicy(**rules)
    decide(ABCD, policy, now=START, free_bytes=1)
    counted = {"max_sessions", "max_total_bytes", "min_free_space_gb"} & set(rules)
    assert policy.counts_everything == bool(counted)
