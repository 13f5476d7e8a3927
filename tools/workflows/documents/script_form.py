"""Reads the phases and inputs of a workflow of scripts, from its file or its snapshot."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Any, Final

from ...base.reading.fields import Fields
from ...base.reading.nodes import Faults
from ...base.settings.choices import ISOLATIONS
from ...harness.session_domain import MAX_COUNT, MAX_GOAL_CHARS
from ..names import NAME_RE, NAME_RULE, path_problem
from ..workflow import Input, Phase, Script
from .workflow_form import WorkflowForm, at_most, not_utf8, read_limited, seconds

MAX_SCRIPT_BYTES: Final = 1 << 20
"""The largest script, in bytes."""
MAX_SCRIPTS_BYTES: Final = 4 << 20
"""The largest total size of a workflow's scripts, in bytes."""
MAX_INPUTS_BYTES: Final = 8 << 20
"""The largest total size of a workflow's inputs, in bytes."""
MAX_FILES: Final = 1000
"""The most inputs of a workflow, and the most artifacts that one phase names."""


class ScriptForm(WorkflowForm):
    """Reads a workflow of scripts.

    With a directory it reads a file that a person wrote, which names scripts and inputs;
    without one, a snapshot, which contains them.
    """

    def __init__(
        self, faults: Faults, directory: Path | None, *, isolation: str = "sandbox"
    ) -> None:
        super().__init__(faults)
        self._directory = directory
        self._isolation = isolation
        self._scripts_left = MAX_SCRIPTS_BYTES
        self._inputs_left = MAX_INPUTS_BYTES
        self._lines: dict[str, int] = {}

    def own_fields(self, fields: Fields) -> dict[str, Any]:
        """Read phases and inputs."""
        isolation = (
            fields.text("isolation")
            if self._directory is None
            else fields.one_of("isolation", ISOLATIONS, None)
        )
        return {
            "phases": self.phases(fields),
            "inputs": self._inputs(fields),
            "isolation": isolation or self._isolation,
        }

    def phase(self, fields: Fields) -> Phase:
        """Read a phase; its name must be new."""
        name = fields.name("name", NAME_RE, NAME_RULE) or ""
        if name and name in self._lines:
            former = self._lines[name]
            fields.fault("name", f"{name!r} is the name of the phase on line {former} too")
        self._lines.setdefault(name, fields.line)
        success = fields.inner("success")
        phase = Phase(
            name=name,
            description=fields.text("description", judge=at_most(MAX_GOAL_CHARS)),
            gate=Script(
                code=self._code(fields),
                deadline_s=seconds(fields, "deadline_s"),
                fuel=fields.whole("fuel", None, least=1, most=MAX_COUNT),
                exit_code=success.whole("exit_code", 0, least=0, most=255),
                artifacts=success.distinct("artifacts", judge=path_problem, most=MAX_FILES),
            ),
            tokens=fields.whole("tokens", 0, least=0, most=MAX_COUNT),
            max_attempts=self.max_attempts(fields),
        )
        success.done()
        fields.done()
        return phase

    def _code(self, fields: Fields) -> str:
        """Return the source of a phase, from its own text or from its file."""
        names_file = self._directory is not None and fields.has("script")
        if fields.has("code") and names_file:
            fields.refuse("script", "stands beside code; keep one of the two")
            names_file = False
        if not names_file and not fields.has("code"):
            if fields.usable:
                one = "code" if self._directory is None else "script (or code)"
                fields.fault("", f"{one} is missing")
            fields.take("code")
            return ""
        key = "script" if names_file else "code"
        code = fields.text(key)
        if code is not None and names_file:
            code = self._script(fields, code)
        return "" if code is None else self._checked(fields, key, code)

    def _script(self, fields: Fields, named: str) -> str | None:
        data = self._file(fields, "script", named, MAX_SCRIPT_BYTES)
        if data is None:
            return None
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            fields.fault("script", f"{named}: {not_utf8(data, error)}")
            return None

    def _checked(self, fields: Fields, key: str, code: str) -> str:
        size = len(code.encode())
        had_room = self._scripts_left >= 0
        self._scripts_left -= size
        if not code.strip():
            fields.fault(key, "is empty")
        elif size > MAX_SCRIPT_BYTES:
            fields.fault(key, f"has more than {MAX_SCRIPT_BYTES:,} bytes, the limit")
        elif "\0" in code:
            fields.fault(key, "holds a NUL character, which no Python source may")
        elif self._scripts_left < 0 and had_room:
            fields.fault(
                key, f"with it all scripts have more than {MAX_SCRIPTS_BYTES:,} bytes, the limit"
            )
        return code

    def _file(self, fields: Fields, key: str, named: str, limit: int) -> bytes | None:
        """Read a file that the workflow names; None if that fails, with the fault recorded."""
        if not named:
            fields.fault(key, "is empty")
            return None
        assert self._directory is not None  # noqa: S101 (snapshots name no files)
        data = read_limited(self._directory / named, limit)
        if isinstance(data, str):
            fields.fault(key, f"{named} {data}")
            return None
        return data

    # ------------------------------------------------------------------------------- inputs

    def _inputs(self, fields: Fields) -> tuple[Input, ...]:
        inputs: list[Input] = []
        targets = _Targets()
        for inner in fields.each("inputs", most=MAX_FILES):
            target = inner.text("target", required=True, judge=path_problem)
            content = self._content(inner)
            inner.done()
            if target is None:
                continue
            clash = targets.clash(target, inner.line)
            if clash is not None:
                inner.fault("target", f"{target!r} can't be there together with {clash}")
            inputs.append(Input(target=target, content=content))
        return tuple(inputs)

    def _content(self, fields: Fields) -> bytes:
        data: bytes | None = None
        if self._directory is None:
            data = self._inlined(fields)
        else:
            named = fields.text("source", required=True)
            if named is not None:
                data = self._file(fields, "source", named, MAX_INPUTS_BYTES)
        if data is None:
            return b""
        had_room = self._inputs_left >= 0
        self._inputs_left -= len(data)
        if self._inputs_left < 0 and had_room:
            fields.fault(
                "source", f"with it all inputs have more than {MAX_INPUTS_BYTES:,} bytes, the limit"
            )
        return data

    def _inlined(self, fields: Fields) -> bytes | None:
        if fields.has("text") is fields.has("base64"):
            if fields.usable:
                fields.fault("", "expected text or base64, one of the two")
            fields.take("text")
            fields.take("base64")
            return None
        text, coded = fields.text("text"), fields.text("base64")
        if coded is None:
            return None if text is None else text.encode()
        try:
            return base64.b64decode(coded, validate=True)
        except (binascii.Error, ValueError):
            fields.fault("base64", "is not base64")
            return None


class _Targets:
    """The inputs' paths, checked for conflicts within one workspace."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}
        self._above: dict[str, str] = {}

    def clash(self, target: str, line: int) -> str | None:
        """Add a path; return the path it conflicts with, or None."""
        parts = target.split("/")
        above = ["/".join(parts[:count]) for count in range(1, len(parts))]
        for path in (target, *above):
            if path in self._taken:
                return f"{path!r} of line {self._taken[path]}"
        if target in self._above:
            return self._above[target]
        self._taken[target] = line
        for path in above:
            self._above.setdefault(path, f"{target!r} of line {line}")
        return None
