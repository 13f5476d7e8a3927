"""A run's journal beside its session: each prompt, each answer, each verdict, durably.

A prompt is stored before the agent is called, an answer before it is applied, a verdict before it
is recorded in the session. So after a kill the next worker repeats only calls without an answer,
and continues with exactly what the previous worker had. Files are named by their attempt, counted
over the whole session, and never change once they are written.

They are JSON files in the session's repository; deleting the session deletes them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from attrs import frozen

from ...base.files import ReadError
from ...harness.session_layout import STEPS, TRACE_FILE
from ...harness.session_ports import SessionRepository
from ..agents.port import AgentAnswer, TokenUsage
from ..converters import made, plain
from ..gates.verdict import Verdict

_Value = TypeVar("_Value")


@frozen(kw_only=True)
class StepKey:
    """The key of an attempt.

    Attributes:
        serial: The attempt's number in the whole session, from 1.
        phase: The phase.
        attempt: The attempt's number in the phase, from 1.
    """

    serial: int
    phase: str
    attempt: int

    def name(self, kind: str, call: int | None = None) -> str:
        """Return the file name of a kind: `0003-green-1.2.answer.json`."""
        number = "" if call is None else f".{call}"
        return f"{self.serial:04d}-{self.phase}-{self.attempt}{number}.{kind}.json"


def digest_of(text: str) -> str:
    """Return the SHA-256 of a text in UTF-8, hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@frozen(eq=False)
class StepJournal:
    """The steps of one session. Only one worker at a time writes, under the run's lock."""

    _sessions: SessionRepository
    _session_id: str

    def read(self, name: str) -> dict[str, Any] | None:
        """Return a step, or None if there is none of this name.

        Raises:
            ReadError: The file is not a step.
        """
        data = self._sessions.read_step(self._session_id, name)
        if data is None:
            return None
        try:
            value = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ReadError(path=self._path(name), reason="it is no JSON") from error
        if not isinstance(value, dict):
            raise ReadError(path=self._path(name), reason="it is no JSON object")
        return value

    def write(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a step, atomically and durably.

        Raises:
            WriteError: The disk or its permissions.
        """
        data = json.dumps(value, ensure_ascii=True, indent=1).encode()
        self._sessions.keep_step(self._session_id, name, data)

    def _path(self, name: str) -> Path:
        return Path(self._sessions.where_is(self._session_id, f"{STEPS}/{name}"))

    # --------------------------------------------------------------------------- the three kinds

    def prompt(self, key: StepKey, call: int) -> str | None:
        """Return the prompt of a call, or None."""
        name = key.name("prompt", call)
        found = self.read(name)
        return None if found is None else self.made(name, lambda: str(found["prompt"]))

    def keep_prompt(self, key: StepKey, call: int, prompt: str) -> None:
        """Save the prompt of a call."""
        self.write(key.name("prompt", call), {"digest": digest_of(prompt), "prompt": prompt})

    def answer(self, key: StepKey, call: int, prompt: str) -> StoredAnswer | None:
        """Return the answer to a prompt, or None.

        Raises:
            ReadError: The stored answer belongs to another prompt.
        """
        name = key.name("answer", call)
        found = self.read(name)
        if found is None:
            return None
        if found.get("prompt_digest") != digest_of(prompt):
            raise ReadError(path=self._path(name), reason="it answers another prompt")
        return self.made(name, lambda: StoredAnswer.from_json(found))

    def keep_answer(self, key: StepKey, call: int, prompt: str, answer: StoredAnswer) -> None:
        """Save an answer, or the failure to give one."""
        self.write(
            key.name("answer", call), {"prompt_digest": digest_of(prompt), **answer.to_json()}
        )

    def passed(self, keys: Iterable[StepKey], gate: str) -> Mapping[str, Any] | None:
        """Return the facts of the last of these attempts that passed a kind of gate, or None."""
        for key in reversed(tuple(keys)):
            verdict = self.verdict(key)
            if verdict is not None and verdict.gate == gate and verdict.passed:
                return verdict.facts
        return None

    def verdict(self, key: StepKey) -> Verdict | None:
        """Return the verdict on an attempt, or None."""
        name = key.name("verdict")
        found = self.read(name)
        return None if found is None else self.made(name, lambda: made(Verdict, found))

    def keep_verdict(self, key: StepKey, verdict: Verdict) -> None:
        """Save a verdict."""
        self.write(key.name("verdict"), verdict.to_json())

    def made(self, name: str, make: Callable[[], _Value]) -> _Value:
        """Return a value built from a step's content.

        Raises:
            ReadError: The content is invalid.
        """
        try:
            return make()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ReadError(
                path=self._path(name),
                reason=f"it is no step ({type(error).__name__}: {error})",
            ) from error

    def names(self) -> list[str]:
        """Return the names of all steps, in their order; empty if there are none.

        The files of the session's trace and the states of programs are not included.
        """
        names = self._sessions.step_names(self._session_id)
        return [name for name in names if name != TRACE_FILE and not name.endswith(".aflive")]


@frozen(kw_only=True)
class StoredAnswer:
    """A stored answer of an agent, or why there is none.

    Attributes:
        answer: The answer; empty text if the agent failed.
        usage: The cost, estimated if the agent did not report it.
        duration_s: How long it took, in seconds.
        agent: The agent's description.
        failure: Why there is no answer, or None.
        may_recover: Whether a retry can help.
    """

    answer: AgentAnswer
    usage: TokenUsage
    duration_s: float
    agent: str
    failure: str | None = None
    may_recover: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return the answer as JSON data."""
        said = plain(self)
        return {**said.pop("answer"), **said}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> StoredAnswer:
        """Read the value of `to_json`."""
        return made(cls, value, answer=made(AgentAnswer, value, usage=None))
