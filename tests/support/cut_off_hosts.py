"""A host of its own for a program, in a network namespace, whose cable can be pulled."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from attrs import frozen


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


@frozen
class CutOffHost:
    """The host, and the cable to it.

    Attributes:
        name: Of its namespace.
        address: Under which this machine is known there.
        network: What both ends are in.
    """

    name: str
    address: str
    network: str
    cable: str

    def command(self, words: Sequence[str]) -> list[str]:
        """Return the words that run a program there."""
        return ["ip", "netns", "exec", self.name, *words]

    def pull(self) -> None:
        """Pull the cable: nothing goes through, and nobody is told."""
        _ip("link", "set", self.cable, "down")

    def plug_in(self) -> None:
        """Put it back."""
        _ip("link", "set", self.cable, "up")


@contextmanager
def cut_off_host() -> Iterator[CutOffHost]:
    """Make such a host for the block; skip the test where that is not permitted."""
    if os.geteuid() != 0:
        pytest.skip("a network namespace takes root")
    number = os.getpid() % 65_536
    base = f"10.213.{number // 256}"
    first = number % 64 * 4
    host = CutOffHost(
        name=f"agentforge-{number}",
        address=f"{base}.{first + 1}",
        network=f"{base}.{first}/30",
        cable=f"afh{number}",
    )
    made = subprocess.run(
        ["ip", "netns", "add", host.name], capture_output=True, text=True, check=False, timeout=30
    )
    if made.returncode != 0:
        pytest.skip(f"a network namespace can't be made here: {made.stderr.strip()}")
    try:
        inside = f"afn{number}"
        _ip("link", "add", host.cable, "type", "veth", "peer", "name", inside, "netns", host.name)
        _ip("address", "add", f"{host.address}/30", "dev", host.cable)
        _ip("-n", host.name, "address", "add", f"{base}.{first + 2}/30", "dev", inside)
        _ip("-n", host.name, "link", "set", "lo", "up")
        _ip("-n", host.name, "link", "set", inside, "up")
        host.plug_in()
        yield host
    finally:
        _ip("netns", "delete", host.name)  # and both ends of the cable with it
