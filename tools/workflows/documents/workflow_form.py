"""What the forms of a workflow file have in common: its head, and how its phases are taken."""

from __future__ import annotations

import os
import stat
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Final

from ...base.reading.yaml_document import Faults, Fields, Mapping, Node
from ...harness.session_domain import DEFAULT_TOKEN_BUDGET, MAX_COUNT, MAX_GOAL_CHARS
from ..names import NAME_RE, NAME_RULE, WORKFLOW_NAME_RE, WORKFLOW_NAME_RULE
from ..workflow import DEFAULT_MAX_ATTEMPTS, Phase, RunRetry, Workflow

MAX_PHASES: Final = 100
MAX_DEADLINE_S: Final = 86_400.0
MAX_ATTEMPTS: Final = 1000
MAX_FACTOR: Final = 10


class WorkflowForm(ABC):
    """Reads a workflow of one form; what is wrong with it goes to the faults."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.phase_nodes: list[Node] = []

    @abstractmethod
    def version(self, fields: Fields) -> bool:
        """Take the version; return whether anything else can be judged."""

    @abstractmethod
    def own_fields(self, fields: Fields) -> dict[str, Any]:
        """Take what this form has besides the head: the workflow's arguments, with its phases."""

    @abstractmethod
    def phase(self, node: Node, where: str) -> Phase:
        """Read a phase."""

    def workflow(self, root: Mapping) -> Workflow | None:
        """Read the workflow; None, and faults, if it is none."""
        fields = Fields(root, "", self.faults)
        if not self.version(fields):
            return None
        name = fields.name("name", WORKFLOW_NAME_RE, WORKFLOW_NAME_RULE)
        workflow_type = fields.name("workflow_type", NAME_RE, NAME_RULE)
        goal = prose(fields, "goal", most=MAX_GOAL_CHARS)
        budget = fields.whole("token_budget", DEFAULT_TOKEN_BUDGET, least=0, most=MAX_COUNT)
        retry = self._run_retry(fields)
        own = self.own_fields(fields)
        fields.done()
        if self.faults or name is None or workflow_type is None or budget is None:
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
        """Take how workers attempt a run again."""
        node = fields.take("retry")
        if node is None:
            return None
        inner, usual = Fields(node, "retry", self.faults), RunRetry()
        attempts = inner.whole("attempts", usual.attempts, least=0, most=MAX_ATTEMPTS)
        factor = inner.whole("factor", usual.factor, least=1, most=MAX_FACTOR)
        wait_s = inner.seconds("wait_s", most=MAX_DEADLINE_S)
        at_most_s = inner.seconds("at_most_s", most=MAX_DEADLINE_S)
        inner.done()
        return RunRetry(
            attempts=usual.attempts if attempts is None else attempts,
            wait_s=wait_s or usual.wait_s,
            factor=factor or usual.factor,
            at_most_s=at_most_s or usual.at_most_s,
        )

    def phases(self, fields: Fields) -> list[Phase]:
        """Take the phases."""
        nodes = fields.items("phases", required=True)
        if len(nodes) > MAX_PHASES:
            fields.fault("phases", f"are {len(nodes)}, {MAX_PHASES} are allowed")
        self.phase_nodes = nodes[:MAX_PHASES]
        return [self.phase(node, f"phases[{index}]") for index, node in enumerate(self.phase_nodes)]

    def max_attempts(self, fields: Fields, where: str) -> int:
        """Take how many attempts a phase may have."""
        retry = fields.take("retry")
        if retry is None:
            return DEFAULT_MAX_ATTEMPTS
        inner = Fields(retry, f"{where}.retry", self.faults)
        attempts = inner.whole("max_attempts", DEFAULT_MAX_ATTEMPTS, least=1, most=MAX_ATTEMPTS)
        inner.done()
        return attempts or DEFAULT_MAX_ATTEMPTS


def prose(fields: Fields, key: str, *, most: int, required: bool = False) -> str | None:
    """Take a text of a bounded length."""
    text = fields.text(key, required=required)
    if text is not None and len(text) > most:
        fields.fault(key, f"has {len(text):,} characters, {most:,} are allowed")
    return text


def not_utf8(data: bytes, error: UnicodeDecodeError) -> str:
    """Return where a document is not UTF-8, in words."""
    line = data.count(b"\n", 0, error.start) + 1
    return f"byte {error.start}, on its line {line}, is not UTF-8"


def read_limited(path: Path, limit: int) -> bytes | str:
    """Read a regular file; if that can't be done, say why."""
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
