"""Reads the phases and inputs of a workflow of scripts, from its file or from its snapshot."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Any, Final

from attrs import evolve

from ...base.reading.yaml_document import Faults, Fields, Node, Refused, Scalar, describe
from ...base.settings.choices import ISOLATIONS
from ...harness.session_domain import MAX_COUNT, MAX_GOAL_CHARS
from ..names import NAME_RE, NAME_RULE, path_problem
from ..workflow import Input, Phase, Script
from .workflow_form import MAX_DEADLINE_S, WorkflowForm, not_utf8, prose, read_limited
from .workflow_snapshot import SCHEMA_VERSION

MAX_SCRIPT_BYTES: Final = 1 << 20
"""Largest script."""
MAX_SCRIPTS_BYTES: Final = 4 << 20
"""The most that all scripts of a workflow have together."""
MAX_INPUTS_BYTES: Final = 8 << 20
"""The most that all inputs of a workflow have together."""
MAX_FILES: Final = 1000
"""The most inputs of a workflow, and the most artifacts that one phase names."""


class ScriptForm(WorkflowForm):
    """Reads a workflow of scripts.

    With a directory it reads a file that a person wrote, where scripts and inputs are named;
    without one, a snapshot, where they are inlined.
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

    def version(self, fields: Fields) -> bool:
        """Return whether the rest can be judged, which it can't of a newer version."""
        node = fields.take("schema_version", required=True)
        if isinstance(node, Scalar) and not node.quoted and node.text.isdecimal():
            version = int(node.text[:20])
            if version == SCHEMA_VERSION:
                return True
            if version > SCHEMA_VERSION:
                fields.fault(
                    "schema_version",
                    f"{version} is newer than {SCHEMA_VERSION}, the newest that this version of "
                    "AgentForge Harness reads; upgrade it",
                    node,
                )
                return False
        if node is not None and not isinstance(node, Refused):
            fields.fault(
                "schema_version", f"expected {SCHEMA_VERSION}, found {describe(node)}", node
            )
        return True

    def own_fields(self, fields: Fields) -> dict[str, Any]:
        """Take phases and inputs."""
        said = fields.text("isolation")
        isolation = said or self._isolation
        if self._directory is not None and said and said not in ISOLATIONS:
            fields.fault("isolation", f"{isolation[:40]!r} is none of {', '.join(ISOLATIONS)}")
            isolation = "sandbox"
        return {
            "phases": self.phases(fields),
            "inputs": self._inputs(fields),
            "isolation": isolation,
        }

    def phase(self, node: Node, where: str) -> Phase:
        """Read a phase, whose name is new."""
        fields = Fields(node, where, self.faults)
        name = fields.name("name", NAME_RE, NAME_RULE) or ""
        if name and name in self._lines:
            self.faults.add(
                node.line,
                f"{where}.name: {name!r} is the name of the phase on line {self._lines[name]} too",
            )
        self._lines.setdefault(name, node.line)
        description = prose(fields, "description", most=MAX_GOAL_CHARS)
        script = Script(
            code=self._code(fields),
            deadline_s=fields.seconds("deadline_s", most=MAX_DEADLINE_S),
            fuel=fields.whole("fuel", None, least=1, most=MAX_COUNT),
        )
        tokens = fields.whole("tokens", 0, least=0, most=MAX_COUNT) or 0
        success = fields.take("success")
        if success is not None:
            inner = Fields(success, f"{where}.success", self.faults)
            script = evolve(
                script,
                exit_code=inner.whole("exit_code", 0, least=0, most=255) or 0,
                artifacts=self._artifacts(inner),
            )
            inner.done()
        phase = Phase(
            name=name,
            description=description,
            gate=script,
            tokens=tokens,
            max_attempts=self.max_attempts(fields, where),
        )
        fields.done()
        return phase

    def _code(self, fields: Fields) -> str:
        """Take the source of a phase, from its own text or from its file."""
        inline = fields.take("code")
        script = fields.take("script") if self._directory is not None else None
        if inline is not None and script is not None:
            fields.fault("script", "stands beside code; keep one of the two", script)
            return ""
        node = script if inline is None else inline
        if node is None:
            if fields.usable:
                one = "code" if self._directory is None else "script (or code)"
                fields.fault("", f"{one} is missing")
            return ""
        key = "script" if inline is None else "code"
        code = fields.text_of(key, node)
        if code is not None and inline is None:
            code = self._script(fields, node, code)
        return "" if code is None else self._checked(fields, key, node, code)

    def _script(self, fields: Fields, node: Node, named: str) -> str | None:
        data = self._file(fields, "script", node, named, MAX_SCRIPT_BYTES)
        if data is None:
            return None
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            fields.fault("script", f"{named}: {not_utf8(data, error)}", node)
            return None

    def _checked(self, fields: Fields, key: str, node: Node, code: str) -> str:
        size = len(code.encode())
        had_room = self._scripts_left >= 0
        self._scripts_left -= size
        if not code.strip():
            fields.fault(key, "is empty", node)
        elif size > MAX_SCRIPT_BYTES:
            fields.fault(key, f"has more than {MAX_SCRIPT_BYTES:,} bytes, the limit", node)
        elif "\0" in code:
            fields.fault(key, "holds a NUL character, which no Python source may", node)
        elif self._scripts_left < 0 and had_room:
            fields.fault(
                key, f"with it all scripts have more than {MAX_SCRIPTS_BYTES:,} bytes, the limit"
            )
        return code

    def _file(self, fields: Fields, key: str, node: Node, named: str, limit: int) -> bytes | None:
        """Read a file that the workflow names; None, and a fault, if that can't be done."""
        if not named:
            fields.fault(key, "is empty", node)
            return None
        assert self._directory is not None  # noqa: S101 (snapshots name no files)
        data = read_limited(self._directory / named, limit)
        if isinstance(data, str):
            fields.fault(key, f"{named} {data}", node)
            return None
        return data

    def _artifacts(self, fields: Fields) -> tuple[str, ...]:
        nodes = fields.items("artifacts")
        if len(nodes) > MAX_FILES:
            fields.fault("artifacts", f"are {len(nodes)}, {MAX_FILES} are allowed")
        paths: list[str] = []
        for index, node in enumerate(nodes[:MAX_FILES]):
            label = f"artifacts[{index}]"
            path = self._workspace_path(fields, label, node)
            if path in paths:
                fields.fault(label, f"{path!r} stands twice", node)
            elif path is not None:
                paths.append(path)
        return tuple(paths)

    # ------------------------------------------------------------------------------- inputs

    def _inputs(self, fields: Fields) -> tuple[Input, ...]:
        nodes = fields.items("inputs")
        if len(nodes) > MAX_FILES:
            fields.fault("inputs", f"are {len(nodes)}, {MAX_FILES} are allowed")
        inputs: list[Input] = []
        targets = _Targets()
        for index, node in enumerate(nodes[:MAX_FILES]):
            inner = Fields(node, f"inputs[{index}]", self.faults)
            named = inner.take("target", required=True)
            target = None if named is None else self._workspace_path(inner, "target", named)
            content = self._content(inner)
            inner.done()
            if target is None:
                continue
            clash = targets.clash(target, node.line)
            if clash is not None:
                inner.fault("target", f"{target!r} can't be there together with {clash}")
            inputs.append(Input(target=target, content=content))
        return tuple(inputs)

    def _content(self, fields: Fields) -> bytes:
        key = "source"
        data: bytes | None = None
        if self._directory is None:
            data = self._inlined(fields)
        else:
            node = fields.take("source", required=True)
            named = None if node is None else fields.text_of("source", node)
            if node is not None and named is not None:
                data = self._file(fields, key, node, named, MAX_INPUTS_BYTES)
        if data is None:
            return b""
        had_room = self._inputs_left >= 0
        self._inputs_left -= len(data)
        if self._inputs_left < 0 and had_room:
            fields.fault(
                key, f"with it all inputs have more than {MAX_INPUTS_BYTES:,} bytes, the limit"
            )
        return data

    def _inlined(self, fields: Fields) -> bytes | None:
        text = fields.take("text")
        coded = fields.take("base64")
        if (text is None) is (coded is None):
            if fields.usable:
                fields.fault("", "expected text or base64, one of the two")
            return None
        if text is not None:
            value = fields.text_of("text", text)
            return None if value is None else value.encode()
        assert coded is not None  # noqa: S101 (one of the two is there)
        value = fields.text_of("base64", coded)
        if value is None:
            return None
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            fields.fault("base64", "is not base64", coded)
            return None

    def _workspace_path(self, fields: Fields, key: str, node: Node) -> str | None:
        """Return a path in the workspace; None, and a fault, if it is none."""
        path = fields.text_of(key, node)
        if path is None:
            return None
        problem = path_problem(path)
        if problem is not None:
            fields.fault(key, problem, node)
            return None
        return path


class _Targets:
    """The inputs' paths, which can't all be in one workspace."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}
        self._above: dict[str, str] = {}

    def clash(self, target: str, line: int) -> str | None:
        """Take a path; say what it clashes with, or None."""
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
