"""Phase executors that run nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from attrs import define, field, frozen

from agentforge_sessions.harness import PhaseResult
from agentforge_sessions.harness.domain.history_events import PhaseRequest
from agentforge_sessions.harness.ports import SuspendedProgram

SUCCEEDED: Final = PhaseResult(success=True, exit_code=0, stdout="done\n", duration_s=0.25)
FAILED: Final = PhaseResult(success=False, exit_code=1, stderr="AssertionError\n", duration_s=0.25)
TRAPPED: Final = PhaseResult(success=False, trapped="deadline", duration_s=5.0)


@frozen
class Execution:
    """What an executor was asked to do."""

    code: str
    session_id: str
    deadline_s: float | None
    fuel: int | None
    files: Mapping[str, bytes | str] | None = None


@define
class FakeExecutor:
    """Answers with the results it was given, in turn, the last one for ever."""

    results: list[PhaseResult] = field(factory=lambda: [SUCCEEDED], converter=list)
    during: Callable[[], object] | None = None
    executions: list[Execution] = field(factory=list)

    def execute(
        self,
        code: str,
        *,
        session_id: str,
        deadline_s: float | None = None,
        fuel: int | None = None,
        files: Mapping[str, bytes | str] | None = None,
    ) -> PhaseResult:
        self.executions.append(Execution(code, session_id, deadline_s, fuel, files))
        if self.during is not None:
            self.during()
        return self.results.pop(0) if len(self.results) > 1 else self.results[0]

    @classmethod
    def answering(cls, results: Iterable[PhaseResult]) -> FakeExecutor:
        return cls(list(results))


@define
class WaitingExecutor:
    """Runs programs of lines, each a word and a text, and resumes them from their state.

    `say TEXT` prints it; `ask A | B` asks both at once; `call TOOL JSON`, `input PROMPT` and
    `sleep TIME` wait; `answers` prints what was answered; `append PATH TEXT` adds to a file,
    without a text the answers; `exit N` ends. Its state is JSON.
    """

    workspace: Callable[[str], Path] = Path
    runs: list[str] = field(factory=list)
    during: Callable[[], object] | None = None

    def execute(
        self,
        code: str,
        *,
        session_id: str,
        deadline_s: float | None = None,
        fuel: int | None = None,
        files: Mapping[str, bytes | str] | None = None,
    ) -> PhaseResult:
        self.runs.append("execute")
        lines = code.splitlines()
        return self._run({"lines": lines, "open": [], "answers": [], "last": 0}, session_id)

    def resume(
        self,
        program: bytes,
        answers: Mapping[int, object],
        *,
        session_id: str,
        deadline_s: float | None = None,
    ) -> PhaseResult:
        self.runs.append(f"resume {dict(answers)}")
        state = json.loads(program)
        for request in [*state["open"]]:
            if request["id"] in answers or request["kind"] == "sleep":
                state["open"].remove(request)
                state["answers"].append(str(answers.get(request["id"], "awake")))
        return self._run(state, session_id)

    def _run(self, state: dict[str, Any], session_id: str) -> PhaseResult:
        if self.during is not None:
            self.during()
        said = []
        while not state["open"] and state["lines"]:
            word, _, text = state["lines"].pop(0).partition(" ")
            if word == "say":
                said.append(text)
            elif word == "answers":
                said.append(", ".join(state["answers"]))
            elif word == "append":
                name, _, words = text.partition(" ")
                with (self.workspace(session_id) / name).open("a") as file:
                    file.write(words or ", ".join(state["answers"]))
            elif word == "exit":
                return PhaseResult(success=text == "0", exit_code=int(text))
            else:
                for one in text.split(" | "):
                    state["last"] += 1
                    about = {"ask": "prompt", "input": "prompt", "call": "tool", "sleep": "until"}
                    state["open"].append({"id": state["last"], "kind": word, about[word]: one})
                    if word == "call":
                        tool, _, arguments = one.partition(" ")
                        state["open"][-1] |= {"tool": tool, "arguments": arguments or None}
        stdout = "\n".join(said)
        if not state["open"]:
            return PhaseResult(success=True, exit_code=0, stdout=stdout)
        requests = tuple(PhaseRequest(**one) for one in state["open"])
        times = [datetime.fromisoformat(one.until) for one in requests if one.until]
        suspended = SuspendedProgram(
            program=json.dumps(state).encode(),
            requests=requests,
            wake_at=min(times, default=None),
            where=(f"<phase>:{len(state['lines'])} in <module>",),
        )
        return PhaseResult(success=False, stdout=stdout, suspended=suspended)
