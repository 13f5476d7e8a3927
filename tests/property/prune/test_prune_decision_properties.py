"""Whatever the sessions and the rules: what goes is the oldest part of what may, and no more."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agentforge_sessions.prune import Candidate, Reason, RetentionPolicy
from agentforge_sessions.prune.domain import Plan
from agentforge_sessions.prune.policy import GIB, decide
from tests.support.clock import START
from tests.support.soak import examples

STATES = ["active", "done", "failed", None]


@st.composite
def candidates(draw: st.DrawFn) -> list[Candidate]:
    ids = draw(st.lists(st.text("abc", min_size=1, max_size=3), unique=True, max_size=12))
    return [
        Candidate(
            kind="fake",
            session_id=name,
            dated_at=START - timedelta(hours=draw(st.integers(-1, 6))),
            size_bytes=draw(st.integers(0, 5)),
            disk_bytes=draw(st.sampled_from([0, 1, GIB // 4])),
            state=draw(st.sampled_from(STATES)),
            removable=draw(st.integers(0, 5)) > 0,
            pinned=draw(st.integers(0, 5)) == 0,
            in_use=draw(st.integers(0, 5)) == 0,
        )
        for name in ids
    ]


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


policies = st.builds(
    RetentionPolicy,
    max_age_hours=maybe(st.integers(0, 7) | st.floats(0, 7)),
    max_sessions=maybe(st.integers(0, 14)),
    max_total_bytes=maybe(st.integers(0, 40)),
    min_free_space_gb=maybe(st.sampled_from([0, 0.25, 0.5, 1, 3])),
    min_age_hours=maybe(st.integers(0, 7)),
    keep_states=st.sets(st.sampled_from(["active", "failed"])),
    max_deletions=maybe(st.integers(0, 8)),
)
world = st.fixed_dictionaries(
    {
        "free_bytes": maybe(st.sampled_from([0, GIB // 4, GIB // 2, GIB])),
        "others": st.integers(0, 3),
        "other_bytes": st.integers(0, 6),
    }
)


def exempt(one: Candidate, policy: RetentionPolicy) -> bool:
    return (
        one.pinned
        or one.in_use
        or not one.removable
        or one.state in policy.keep_states
        or one.dated_at > START
    )


def order(one: Candidate) -> tuple[Any, ...]:
    return one.dated_at, one.session_id


def asked(
    sessions: list[Candidate],
    one: Candidate,
    policy: RetentionPolicy,
    freed: int,
    around: dict[str, Any],
) -> bool:
    """Return whether any rule asks for a session to go, once so many bytes were freed."""
    age = (START - one.dated_at) / timedelta(hours=1)
    newer = [other for other in sessions if order(other) > order(one)]
    free = around["free_bytes"]
    limit = policy.max_age_hours
    bounded = (policy.max_sessions is not None and len(newer) >= policy.max_sessions) or (
        policy.max_total_bytes is not None
        and sum(each.size_bytes for each in (one, *newer)) > policy.max_total_bytes
    )
    short = (
        policy.min_free_space_gb is not None
        and free is not None
        and free + freed < policy.min_free_space_gb * GIB
    )
    least = policy.min_age_hours
    asked = (bounded and (least is None or age >= least)) or (
        short and age >= (1 if least is None else least)
    )
    return (limit is not None and (age > limit or limit == 0)) or asked


def gone(plan: Plan) -> list[Candidate]:
    return [one.candidate for one in plan.removals]


@settings(max_examples=examples(400))
@given(candidates(), policies, world)
def test_what_goes_is_the_oldest_part_of_what_may_go(
    sessions: list[Candidate], policy: RetentionPolicy, around: dict[str, Any]
) -> None:
    plan = decide(sessions, policy, now=START, **around)
    removed = gone(plan)
    may = sorted((one for one in sessions if not exempt(one, policy)), key=order)
    assert removed == may[: len(removed)]
    assert policy.max_deletions is None or len(removed) <= policy.max_deletions
    assert [one.candidate for one in plan.decisions] == sorted(sessions, key=order)


@settings(max_examples=examples(400))
@given(candidates(), policies, world)
def test_each_that_goes_was_needed_and_no_rule_asks_for_more(
    sessions: list[Candidate], policy: RetentionPolicy, around: dict[str, Any]
) -> None:
    """The reference is the rules as they are written, asked again before each removal."""
    plan = decide(sessions, policy, now=START, **around)
    removed = gone(plan)
    freed = 0
    for one in removed:
        assert asked(sessions, one, policy, freed, around)
        freed += one.disk_bytes
    if policy.max_deletions is not None and len(removed) >= policy.max_deletions:
        return
    for one in sessions:
        if one not in removed:
            assert exempt(one, policy) or not asked(sessions, one, policy, freed, around)


@settings(max_examples=examples(400))
@given(candidates(), policies, world)
def test_the_newest_stay_and_a_bound_that_does_not_hold_is_told(
    sessions: list[Candidate], policy: RetentionPolicy, around: dict[str, Any]
) -> None:
    plan = decide(sessions, policy, now=START, **around)
    removed = gone(plan)
    stay = len(sessions) - len(removed) + around["others"]
    size = sum(one.size_bytes for one in sessions if one not in removed) + around["other_bytes"]
    unmet = {told.rule: told.stays for told in plan.unmet}
    if policy.max_sessions is not None:
        newest = sorted(sessions, key=order)[max(len(sessions) - policy.max_sessions, 0) :]
        for decision in plan.decisions:
            assert Reason.TOO_MANY not in decision.reasons or decision.candidate not in newest
        assert ("max_sessions" in unmet) == (stay > policy.max_sessions)
        assert unmet.get("max_sessions", stay) == stay
    if policy.max_total_bytes is not None:
        assert ("max_total_bytes" in unmet) == (size > policy.max_total_bytes)
        assert unmet.get("max_total_bytes", size) == size


@settings(max_examples=examples(200))
@given(candidates(), policies, world)
def test_reasons_are_those_of_the_decision(
    sessions: list[Candidate], policy: RetentionPolicy, around: dict[str, Any]
) -> None:
    asking = {Reason.EXPIRED, Reason.TOO_MANY, Reason.TOO_LARGE, Reason.LOW_SPACE}
    for decision in decide(sessions, policy, now=START, **around).decisions:
        assert decision.reasons
        assert decision.remove == (set(decision.reasons) <= asking)
        if exempt(decision.candidate, policy):
            kept = {Reason.PINNED, Reason.STATE, Reason.IN_USE, Reason.FUTURE}
            assert decision.reasons[0] in kept


@settings(max_examples=examples(200))
@given(candidates(), policies, world, st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(
    sessions: list[Candidate], policy: RetentionPolicy, around: dict[str, Any], chance: Any
) -> None:
    shuffled = list(sessions)
    chance.shuffle(shuffled)
    plan = decide(sessions, policy, now=START, **around)
    assert decide(shuffled, policy, now=START, **around) == plan
    assert decide(iter(shuffled), policy, now=START, **around) == plan


@settings(max_examples=examples(200))
@given(candidates(), policies, world)
def test_a_limit_takes_the_same_ones_in_several_goes(
    sessions: list[Candidate], policy: RetentionPolicy, around: dict[str, Any]
) -> None:
    from attrs import evolve

    whole = gone(decide(sessions, evolve(policy, max_deletions=None), now=START, **around))
    several: list[Candidate] = []
    staying = list(sessions)
    limited = evolve(policy, max_deletions=2)
    while True:
        free = around["free_bytes"]
        freed = sum(one.disk_bytes for one in several)
        now = {**around, "free_bytes": None if free is None else free + freed}
        step = gone(decide(staying, limited, now=START, **now))
        if not step:
            break
        assert len(step) <= 2
        several += step
        staying = [one for one in staying if one not in step]
    assert several == whole
