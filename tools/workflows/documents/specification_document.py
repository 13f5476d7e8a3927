"""The component specification: written by SPEC, built by TDFLOW.

One YAML document: metadata, and components with their location, entities (each with its fields and
methods), errors and acceptance criteria; or a requirement document (`requirement_document`).
Every fault is reported at once, with its line. Users find it in docs/workflows.md.

The module is long because one reader parses the whole form, section by section.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from ...base.reading.fields import Fields, Judge
from ...base.reading.nodes import Faults, MappingNode
from ...base.reading.yaml_nodes import read_document
from .requirement_document import RequirementReader, is_requirement_document
from .spec_rules import (
    COMPONENT_ID,
    CRITERION_ID,
    globs_of,
    location_problem,
    named_once,
    path_of,
    places_of,
    read_components,
    root_problem,
    tests_problem,
)
from .specification import (
    ENTITY_KINDS,
    OTHER_KINDS,
    STATUSES,
    Component,
    Criterion,
    Entity,
    InvalidSpecification,
    Member,
    Specification,
)
from .workflow_form import take_version

SCHEMA_VERSION: Final = 1
MAX_SPEC_BYTES: Final = 2 << 20
_MAX_DEPTH: Final = 12

_SPEC_ID: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_ANY_NAME: Final = re.compile(r"[^\s\x00-\x1f]{1,100}")
_VERSION: Final = re.compile(r"[0-9]{1,6}\.[0-9]{1,6}\.[0-9]{1,6}")


def load_specification(path: Path | str) -> Specification:
    """Read a specification file.

    Raises:
        InvalidSpecification: It can't be read or is not valid; the error names every fault.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SPEC_BYTES + 1)
    except OSError as error:
        raise InvalidSpecification(
            path=path, faults=[f"can't be read: {error.strerror}"]
        ) from error
    return parse_specification(data, path=path)


def parse_specification(data: bytes, *, path: Path) -> Specification:
    """Read a specification.

    Args:
        data: The document, in UTF-8.
        path: Where it comes from, for messages.

    Raises:
        InvalidSpecification: It is not valid; the error names every fault.
    """
    specification, faults = read_specification(data)
    if specification is None:
        raise InvalidSpecification(path=path, faults=faults)
    return specification


def read_specification(data: bytes) -> tuple[Specification | None, list[str]]:
    """Return a specification without faults, or None with every fault."""
    if len(data) > MAX_SPEC_BYTES:
        return None, [f"has more than {MAX_SPEC_BYTES:,} bytes, the limit"]
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return None, [f"byte {error.start} is not UTF-8"]
    faults = Faults()
    found = read_document(
        text,
        faults,
        lambda root: _reader(root, faults, text).specification(root),
        what="specification",
        max_depth=_MAX_DEPTH,
    )
    return (None, faults.sorted()) if faults else (found, [])


def _reader(
    root: MappingNode, faults: Faults, text: str
) -> _SpecificationReader | RequirementReader:
    """Return the reader of the document's form: requirements, or what SPEC writes."""
    if is_requirement_document(root):
        return RequirementReader(faults, text)
    return _SpecificationReader(faults, text)


class _SpecificationReader:
    def __init__(self, faults: Faults, text: str) -> None:
        self._faults = faults
        self._text = text
        self._python = True  # whether the current component is Python

    def specification(self, root: MappingNode) -> Specification | None:
        fields = Fields(root, "", self._faults)
        if not take_version(fields, SCHEMA_VERSION):
            return None
        inner = fields.inner("metadata", required=True)
        spec_id = inner.name("spec_id", _SPEC_ID, "it has 1 to 64 of a-z 0-9 -")
        title = inner.text("title", required=True)
        version = inner.name("version", _VERSION, "it is three numbers, as 1.0.0; quote it")
        status = inner.one_of("status", STATUSES, None, required=True)
        inner.text("description")
        inner.distinct("authors")
        inner.done()
        components = read_components(
            fields, root, self._text, keys=("component_id", "location"), read=self._component
        )
        clarifications = self._clarifications(fields)
        fields.done()
        if self._faults or not (spec_id and title and version and status):
            return None
        return Specification(
            spec_id=spec_id,
            title=title,
            version=version,
            status=status,
            components=components,
            clarifications=clarifications,
            text=self._text,
        )

    def _clarifications(self, fields: Fields) -> list[tuple[str, str]]:
        found = []
        for inner in fields.each("clarifications"):
            question = inner.text("question", required=True)
            answer = inner.text("answer", required=True)
            inner.done()
            found.append((question or "", answer or ""))
        return found

    # ------------------------------------------------------------------------------ components

    def _component(self, fields: Fields, lines: tuple[int, int]) -> Component | None:
        component_id = fields.name(
            "component_id", COMPONENT_ID, "it has a-z 0-9 _ and begins with a letter"
        )
        location = path_of(fields, "location")
        self._python = location is None or location.endswith(".py")
        tests = places_of(fields, "tests", least=1)
        other_files = places_of(fields, "other_files")
        import_root = fields.text("import_root")
        fields.text("name")
        description = fields.text("description")
        fields.distinct("dependencies")
        context = globs_of(fields, "context")
        names: dict[str, int] = {}
        found = [self._entity(one, names) for one in fields.each("entities", least=1)]
        entities = [one for one in found if one is not None]
        errors = [one for one in map(self._error, fields.each("errors")) if one is not None]
        if self._python:
            self._check_raises(fields, entities, {one.name for one in entities + errors})
        criteria = self._criteria(fields)
        fields.done()
        if component_id is None or location is None or not tests:
            return None
        for key, problem in (
            ("tests", tests_problem(location, tests)),
            ("import_root", root_problem(location, import_root)),
            ("location", location_problem(location, tests, import_root)),
        ):
            if problem is not None:
                fields.fault(key, problem)
        return Component(
            component_id=component_id,
            location=location,
            tests=tests,
            description=description,
            entities=entities,
            errors=errors,
            criteria=criteria,
            context=context,
            other_files=other_files,
            import_root=import_root,
            lines=lines,
        )

    def _name(self, fields: Fields) -> str | None:
        """Read a name in the component's language."""
        if self._python:
            return fields.name("name", _NAME, "it is a Python name")
        return fields.name("name", _ANY_NAME, "it has 1 to 100 characters, and no blank")

    def _check_raises(self, fields: Fields, entities: list[Entity], known: set[str]) -> None:
        """Check that every error a method raises is declared or built in."""
        import builtins

        for entity in entities:
            for method in entity.methods:
                for name in method.raises:
                    if name not in known and not hasattr(builtins, name):
                        fields.fault(
                            "",
                            f"{entity.name}.{method.name} raises {name!r}, which is neither among "
                            "its errors nor built in",
                        )

    def _entity(self, fields: Fields, names: dict[str, int]) -> Entity | None:
        name = self._name(fields)
        kinds = ENTITY_KINDS if self._python else ENTITY_KINDS + OTHER_KINDS
        kind = fields.one_of("kind", kinds, None, required=True)
        description = fields.text("description")
        fields.distinct("bases")
        members = self._members(fields, "fields", typed="type")
        methods = self._members(fields, "methods", typed="signature")
        fields.done()
        if name is None or kind is None:
            return None
        named_once(fields, "name", names, name)
        return Entity(
            name=name, kind=kind, description=description, fields=members, methods=methods
        )

    def _members(self, fields: Fields, key: str, *, typed: str) -> list[Member]:
        found = []
        names: dict[str, int] = {}
        for inner in fields.each(key):
            name = self._name(inner)
            member = Member(
                name=name or "",
                signature=inner.text(
                    typed, required=typed == "signature", judge=self._signature_problem(typed)
                ),
                description=inner.text("description"),
                raises=inner.distinct("raises") if typed == "signature" else (),
            )
            if typed == "type":
                inner.take("default")
                inner.take("value")
            inner.done()
            if name is not None:
                named_once(inner, "name", names, name)
                found.append(member)
        return found

    def _signature_problem(self, typed: str) -> Judge | None:
        if typed != "signature" or not self._python:
            return None
        return lambda text: (
            None
            if _is_signature(text)
            else f"{text[:60]!r} is none; write it as (tokens: int) -> bool"
        )

    def _error(self, fields: Fields) -> Entity | None:
        name = self._name(fields)
        fields.text("base")
        description = fields.text("when", required=True)
        fields.distinct("fields")
        fields.done()
        if name is None:
            return None
        return Entity(name=name, kind="exception", description=description)

    def _criteria(self, fields: Fields) -> list[Criterion]:
        found = []
        ids: dict[str, int] = {}
        for inner in fields.each("acceptance_criteria", least=1):
            criterion_id = inner.name("id", CRITERION_ID, "it is as AC-01")
            text = inner.text("text")
            steps = [inner.text(word) for word in ("given", "when", "then")]
            inner.text("title")
            inner.done()
            if text is None and not all(steps) and inner.usable:
                inner.fault("", "expected text, or given, when and then")
            if criterion_id is not None:
                named_once(inner, "id", ids, criterion_id)
                criterion = text or " ".join(filter(None, steps))
                found.append(Criterion(criterion_id=criterion_id, text=criterion))
        return found


def _is_signature(text: str) -> bool:
    """Return whether a text is the part of a definition that follows its name."""
    import ast

    try:
        tree = ast.parse(f"def f{text}: ...")
    except (SyntaxError, ValueError):
        return False
    return len(tree.body) == 1 and isinstance(tree.body[0], ast.FunctionDef)


def with_status(data: bytes, status: str) -> bytes | None:
    """Return a specification with another status and otherwise unchanged; None if it is invalid."""
    specification, _ = read_specification(data)
    if specification is None:
        return None
    text = data.decode("utf-8-sig")
    pattern = re.compile(
        r"(?m)^([ \t]*|[^#\n]*[{,][ \t]*)status:[ \t]*[\"']?(?:draft|approved)\b[\"']?"
    )
    changed = pattern.sub(lambda found: f"{found[1]}status: {status}", text, count=1).encode()
    again, _ = read_specification(changed)
    return changed if again is not None and again.status == status else None
