"""Many at once: one process leads a key, and no budget is overspent by what is reserved."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.crash._step_program import Place, opened
from tests.crash._steps_together import (
    ITEMS,
    LED,
    judge_budget,
    spend_by_processes,
    spend_by_threads,
    start_together,
)


def test_of_processes_on_one_key_one_leads_and_the_others_find_its_result(tmp_path: Path) -> None:
    place = Place(tmp_path / "place")
    assert start_together(place, "lead_after_another", 16) == {0: 16}
    assert place.paid() == Counter(ITEMS)


def test_of_processes_on_one_key_that_do_not_wait_one_leads(tmp_path: Path) -> None:
    place = Place(tmp_path / "place")
    ends = start_together(place, "lead_or_give_up", 16)
    assert ends.keys() <= {0, LED}
    assert ends[0] >= 1
    assert place.paid() == Counter(ITEMS)


def test_threads_that_share_a_budget_never_overspend_it(tmp_path: Path) -> None:
    with opened(Place(tmp_path / "place").folder) as store:
        spend_by_threads(store, 64)
        assert judge_budget(store) > 64


def test_processes_that_share_a_budget_never_overspend_it(tmp_path: Path) -> None:
    place = Place(tmp_path / "place")
    spend_by_processes(place, 8)
    with opened(place.folder) as store:
        assert judge_budget(store) > 8
