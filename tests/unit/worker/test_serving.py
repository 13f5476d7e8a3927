"""A session's process, from its worker's greeting to its end."""

from __future__ import annotations

import io
from typing import Any

import pytest

from agentforge_sessions.entrypoints.worker.process import Parent, serve
from agentforge_sessions.fleet.workers.messages import encode


class Runners:
    """Runs nothing, and remembers that it was closed."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("told", [[], [{"store": "postgresql://db/x"}]])
def test_what_was_opened_is_closed_when_the_worker_has_ended(told: list[dict[str, Any]]) -> None:
    opened: list[Runners] = []

    def open_runners(*given: Any, **more: Any) -> Any:
        opened.append(Runners(*given, **more))
        return opened[-1]

    parent = Parent(
        io.BytesIO(b"".join(map(encode, told))),
        io.BytesIO(),
        grace_s=3_600,
        interrupt=lambda: None,
        end=lambda _: None,
    )
    serve(parent, open_runners)
    assert [one.closed for one in opened] == [1] * len(told)
