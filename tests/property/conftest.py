"""Thousands of examples need no thousands of log lines, and write where a sync takes no time."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator

import pytest
import structlog

from tests.support.memory_disk import memory_disk


@pytest.fixture(autouse=True, scope="module")
def _silence() -> Iterator[None]:
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.configure(**before)


@pytest.fixture(autouse=True, scope="module")
def _temporary_files_in_memory() -> Iterator[None]:
    before, tempfile.tempdir = tempfile.tempdir, str(memory_disk() or tempfile.gettempdir())
    yield
    tempfile.tempdir = before
