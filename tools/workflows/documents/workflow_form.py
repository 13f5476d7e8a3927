"""The common part of all forms of workflow files: the head, and the reading of phases."""

from __future__ import annotations

import os
import stat
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Final

from ...base.reading.fields import Fields, Judge
from ...base.reading.nodes import Faults, MappingNode, as_whole
from ...harness.session_domain import DEFAULT_TOKEN_BUDGET, MAX_COUNT, MAX_GOAL_CHARS
from ..names import NAME_RE, NAME_RULE, WORKFLOW_NAME_RE, WORKFLOW_NAME_RULE
from ..workflow import DEFAULT_MAX_ATTEMPTS, Phase, RunRetry, Workflow
from .workflow_snapshot import SCHEMA_VERSION

MAX_PHASES: Final = 100
MAX_DEADLINE_S: Final = 86_400.0
MAX_ATTEMPTS: Final = 1000
MAX_FACTOR: Final = 10


class WorkflowForm(ABC):
    """Reads a workflow of one form; records every fault."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.phase_lines: list[int] = []

    @abstractmethod
    def own_fields(self, fields: Fields) -> dict[str, Any]:
        """Return the workflow's arguments that this form adds to the head, including its phases."""

    @abstractmethod
    def phase(self, fields: Fields) -> Phase:
        """Read a phase."""

    def workflow(self, root: MappingNode) -> Workflow | None:
        """Read the workflow; None if it has faults, which are recorded."""
        fields = Fields(root, "", self.faults)
        if not take_version(fields, SCHEMA_VERSION):
            return None
        name = fields.name("name", WORKFLOW_NAME_RE, WORKFLOW_NAME_RULE)
        workflow_type = fields.name("workflow_type", NAME_RE, NAME_RULE)
        goal = fields.text("goal", judge=at_most(MAX_GOAL_CHARS))
        budget = fields.whole("token_budget", DEFAULT_TOKEN_BUDGET, least=0, most=MAX_COUNT)
        retry = self._run_retry(fields)
        own = self.own_fields(fields)
        fields.done()
        if self.faults or name is None or workflow_type is None:
            return None
        return Workflow(
            name=name,
            workflow_type=workflow_type,
            goal=goal,
            token_budget=budget,
            retry=retry,
            **own,
        )

    def _run_retry(self, fields: Fields) -> RunRetry | None:
        """Read how workers retry a run."""
        inner, usual = fields.inner("retry"), RunRetry()
        found = RunRetry(
            attempts=inner.whole("attempts", usual.attempts, least=0, most=MAX_ATTEMPTS),
            wait_s=seconds(inner, "wait_s") or usual.wait_s,
            factor=inner.whole("factor", usual.factor, least=1, most=MAX_FACTOR),
            at_most_s=seconds(inner, "at_most_s") or usual.at_most_s,
        )
        inner.done()
        return found if inner.usable else None

    def phases(self, fields: Fields) -> list[Phase]:
        """Read the phases."""
        found = fields.each("phases", least=1, most=MAX_PHASES)
        self.phase_lines = [one.line for one in found]
        return [self.phase(one) for one in found]

    def max_attempts(self, fields: Fields) -> int:
        """Read the number of attempts a phase may have."""
        inner = fields.inner("retry")
        attempts = inner.whole("max_attempts", DEFAULT_MAX_ATTEMPTS, least=1, most=MAX_ATTEMPTS)
        inner.done()
        return attempts


def take_version(fields: Fields, known: int) -> bool:
    """Read schema_version; return False if the rest can't be validated, as of a newer version."""
    version = fields.read("schema_version", str(known), as_whole, required=True)
    if version is None or version == known:
        return True
    fields.fault(
        "schema_version",
        f"{version} is newer than {known}, the newest that this version of AgentForge Harness "
        "reads; upgrade it"
        if version > known
        else f"expected {known}, found {version}",
    )
    return version < known


def seconds(fields: Fields, key: str) -> float | None:
    """Read a number of seconds above 0."""
    return fields.number(key, most=MAX_DEADLINE_S, unit="seconds")


def at_most(limit: int) -> Judge:
    """Return a check for texts of at most this many characters."""

    def judge(text: str) -> str | None:
        over = len(text) > limit
        return f"has {len(text):,} characters, {limit:,} are allowed" if over else None

    return judge


def not_utf8(data: bytes, error: UnicodeDecodeError) -> str:
    """Return in words where a document is not UTF-8."""
    line = data.count(b"\n", 0, error.start) + 1
    return f"byte {error.start}, on its line {line}, is not UTF-8"


def read_limited(path: Path, limit: int) -> bytes | str:
    """Read a regular file; if that fails, return why as text."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        return f"can't be read: {os.strerror(error.errno or 0)}"
    except ValueError:
        return "can't be read: no file has such a name"
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return "can't be read: it is not a regular file"
        pieces = []
        left = limit + 1
        while left and (piece := os.read(fd, left)):
            pieces.append(piece)
            left -= len(piece)
        if not left:
            return f"has more than {limit:,} bytes, the limit"
        return b"".join(pieces)
    except OSError as error:
        return f"can't be read: {os.strerror(error.errno or 0)}"
    finally:
        os.close(fd)
