"""A jail that fails after its first process is there, and before the command."""

from __future__ import annotations

import select
import sys
from pathlib import Path

import pytest

from agentforge_sessions.jail import JailLimits, JailUnavailable
from agentforge_sessions.jail.errors import Refusal
from agentforge_sessions.jail.jailed_process import Channels, JailedProcess
from agentforge_sessions.jail.watch import Watch

REPORT = (
    "import os, sys; os.write({fd}, b'{{\"child-pid\": %d}}\\n' % os.getpid()); sys.exit({said!r})"
)
SAID = "bwrap: Can't find source path /nosuch: No such file or directory"


def test_jail_that_ends_before_its_command_may_start_is_refused_with_the_reason(
    tmp_path: Path,
) -> None:
    """As bubblewrap does, which reports its child before it looks for what it is to show."""
    channels, limits = Channels(), JailLimits()
    words = [sys.executable, "-c", REPORT.format(fd=channels.status[1], said=SAID)]
    try:
        with JailedProcess(words, channels, (), limits=limits, stdin=b"", cancelled=None) as made:
            made.make_ready(None)
            _wait_until_nobody_reads(channels.block[1])
            with pytest.raises(JailUnavailable, match="/nosuch") as caught:
                made.run(Watch(limits, tmp_path, None))
    finally:
        channels.close()
    assert caught.value.refusal is Refusal.FOLDER_MISSING


def _wait_until_nobody_reads(fd: int) -> None:
    poll = select.poll()
    poll.register(fd, 0)
    assert poll.poll(60_000) == [(fd, select.POLLERR)]
