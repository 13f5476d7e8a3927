"""A program's steps, killed at whatever instant: what is recorded is there once, and paid once."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash._step_program import (
    CALLS,
    DEAD,
    NO_DEATH,
    WAITS,
    Place,
    Workers,
    kill_at_random,
    run_to_the_end,
)
from tests.support.soak import SOAKING

KILLS = 2_000 if SOAKING else 10
POINTS = None if SOAKING else 5
"""At how many of the calls that change a file it is killed; None: at each."""


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers("tests.crash._step_program") as started:
        yield started


def test_a_program_killed_at_each_change_of_a_file_goes_on_without_paying_for_what_is_recorded(
    workers: Workers, tmp_path: Path
) -> None:
    calm = Place(tmp_path / "calm")
    changes = []
    while workers.run(calm.folder, NO_DEATH) == WAITS:
        changes.append(int((calm.folder / "changes").read_text()))
        calm.attend()
    changes.append(int((calm.folder / "changes").read_text()))
    calm.judge_end()
    assert calm.paid() == Counter(CALLS)
    for start, count in enumerate(changes):  # the first start, and those after an answer
        points = range(count) if POINTS is None else random.sample(range(count), min(POINTS, count))
        for point in points:
            place = Place(tmp_path / f"{start}-{point}")
            for _ in range(start):
                assert workers.run(place.folder, NO_DEATH) == WAITS
                place.attend()
            code = workers.run(place.folder, Path(str(point)))
            assert code in {0, WAITS, DEAD}, (start, point)  # threads may change less than before
            place.judge()
            run_to_the_end(workers, place)
            again = place.paid() - Counter(CALLS)
            assert again.total() <= 2, (start, point, again)  # those that were under way


def test_a_program_killed_at_random_moments_ends_as_if_undisturbed(
    workers: Workers, tmp_path: Path
) -> None:
    rng = random.Random(random.SystemRandom().randrange(2**32))
    places = (Place(tmp_path / str(number)) for number in itertools.count())
    kill_at_random(workers, places, rng, KILLS)
