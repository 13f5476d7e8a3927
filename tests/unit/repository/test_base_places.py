"""A base names a repository's places; only those that the checkout itself has are used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from attrs import evolve

from agentforge_sessions.repository import NotARepository, UserRepository
from agentforge_sessions.repository.base import Base
from tests.support.repositories import new_checkout


@pytest.mark.parametrize("place", ["common_dir", "objects"])
def test_a_place_of_another_repository_is_refused(tmp_path: Path, place: str) -> None:
    mine, theirs = (new_checkout(tmp_path / name, {"a": name}) for name in ("mine", "theirs"))
    base, other = Base.of(UserRepository.at(mine)), Base.of(UserRepository.at(theirs))
    assert base.user_repository().work_tree == Path(os.path.realpath(mine))
    with pytest.raises(NotARepository):
        evolve(base, **{place: getattr(other, place)}).user_repository()
