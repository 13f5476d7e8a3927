"""A program's steps in PostgreSQL, killed and raced as those in files are."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.crash._step_program import Place, Workers, kill_at_random, opened
from tests.crash._steps_together import (
    ITEMS,
    judge_budget,
    spend_by_processes,
    spend_by_threads,
    start_together,
)
from tests.support.postgres import PostgresServer
from tests.support.soak import SOAKING

KILLS = 2_000 if SOAKING else 6


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers("tests.crash._step_program") as started:
        yield started


@pytest.fixture
def url(server: PostgresServer, migrated: str) -> Iterator[str]:
    with server.lent(migrated) as lent:
        yield lent


def test_a_program_killed_at_random_moments_ends_as_if_undisturbed(
    workers: Workers, server: PostgresServer, migrated: str, tmp_path: Path
) -> None:
    rng = random.Random(random.SystemRandom().randrange(2**32))

    def places() -> Generator[Place, None, None]:
        for number in itertools.count():
            with server.lent(migrated) as lent:
                yield Place(tmp_path / str(number), lent)

    with closing(places()) as lent_places:
        kill_at_random(workers, lent_places, rng, KILLS)


def test_of_processes_on_one_key_one_leads_and_the_others_find_its_result(
    url: str, tmp_path: Path
) -> None:
    place = Place(tmp_path / "place", url)
    assert start_together(place, "lead_after_another", 16) == {0: 16}
    assert place.paid() == Counter(ITEMS)


def test_threads_that_share_a_budget_never_overspend_it(url: str, tmp_path: Path) -> None:
    with opened(Place(tmp_path / "place", url).folder) as store:
        spend_by_threads(store, 64)
        assert judge_budget(store) > 64


def test_processes_that_share_a_budget_never_overspend_it(url: str, tmp_path: Path) -> None:
    place = Place(tmp_path / "place", url)
    spend_by_processes(place, 8)
    with opened(place.folder) as store:
        assert judge_budget(store) > 8
