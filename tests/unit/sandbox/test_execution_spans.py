"""An execution is a span, in the trace of who asked for it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agentforge_sessions.base.tracing import Traced, traced
from agentforge_sessions.sandbox import create_sandbox
from tests.support.tracing import id_of, parent_of, recorded


def test_an_execution_is_a_span_with_what_became_of_it(tmp_path: Path) -> None:
    with create_sandbox(workspace=tmp_path / "work") as sandbox, recorded() as kept:
        with traced(Traced.PHASE, detail="one"):
            sandbox.execute("raise SystemExit(3)")
        sandbox.execute("while True: pass", fuel=50_000_000)
    ended, trapped = kept.named("execute sandbox")
    assert parent_of(ended) == id_of(kept.only("phase one"))
    about = ended.attributes or {}
    assert (about["agentforge.executor"], about["process.exit.code"]) == ("sandbox", 3)
    assert "agentforge.trapped" not in about
    assert (trapped.attributes or {})["agentforge.trapped"] == "fuel"


def test_an_execution_on_a_thread_of_its_own_is_in_the_trace_of_its_task(tmp_path: Path) -> None:
    async def run() -> None:
        with traced(Traced.PHASE, detail="one"):
            await sandbox.execute_async("print(1)")

    with create_sandbox(workspace=tmp_path / "work") as sandbox, recorded() as kept:
        asyncio.run(run())
    assert parent_of(kept.only("execute sandbox")) == id_of(kept.only("phase one"))
