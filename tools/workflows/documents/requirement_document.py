"""Read a requirement document as a specification.

Such a document describes a feature: components (name, module, impl_file, test_file, and methods
with behavior and errors), requirements with acceptance criteria (given, when, then), entities,
interfaces, workflows, error handling, open questions. Users find it in docs/workflows.md.
"""

from __future__ import annotations

import re
from typing import Final

from attrs import evolve

from ...base.reading.fields import Fields
from ...base.reading.nodes import Faults, MappingNode
from .spec_rules import (
    COMPONENT_ID,
    CRITERION_ID,
    BoundCriterion,
    globs_of,
    location_problem,
    named_once,
    path_of,
    read_components,
    with_parts,
)
from .specification import (
    STATUSES,
    Component,
    Criterion,
    Entity,
    Member,
    Specification,
    is_python_test,
)

_SECTIONS: Final = frozenset({"requirements", "overview", "entities", "error_handling"})
_PRIORITIES: Final = ("must", "should", "could", "wont", "may")
_VERSION: Final = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6}){0,2}")
_METHOD: Final = re.compile(r"(?:[A-Za-z_]\w{0,99}\.)?[A-Za-z_]\w{0,99}")
_ENTITY: Final = re.compile(r"[A-Za-z_]\w{0,99}")
_REQUIREMENT: Final = re.compile(r"[A-Z][A-Z0-9]{0,11}-[0-9]{1,4}")
_MODULE: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_MODULE_RULE: Final = "it is a module, as agentforge_sessions.harness.session_store"
_CALL: Final = re.compile(r"\b([A-Za-z_]\w*)\(")
_FIELD: Final = re.compile(r"\b[a-z]\w*_\w+\b")


def is_requirement_document(root: MappingNode) -> bool:
    """Return whether a document has requirements, and not the form that SPEC writes."""
    return "schema_version" not in root and not _SECTIONS.isdisjoint(root)


class RequirementReader:
    """Builds a specification from a requirement document; records every fault."""

    def __init__(self, faults: Faults, text: str) -> None:
        self._faults = faults
        self._text = text

    def specification(self, root: MappingNode) -> Specification | None:
        """Read the document; None if it has any fault."""
        fields = Fields(root, "", self._faults)
        title, version, status = self._metadata(fields)
        components = read_components(
            fields, root, self._text, keys=("name", "impl_file"), read=self._component
        )
        known = {one.component_id for one in components}
        bound = self._requirements(fields, known)
        entities = self._entities(fields)
        errors = self._errors(fields)
        clarifications = self._questions(fields)
        for name in ("interfaces", "workflows"):
            self._named(fields, name)
        for name in ("overview", "testing_notes", "glossary"):
            fields.take(name)
        fields.done()
        if self._faults or not (title and version and status):
            return None
        return Specification(
            spec_id=_slug(title),
            title=title,
            version=version,
            status=status,
            components=with_parts(components, entities, errors, bound),
            clarifications=clarifications,
            text=self._text,
        )

    def _metadata(self, fields: Fields) -> tuple[str | None, str | None, str | None]:
        inner = fields.inner("metadata", required=True)
        title = inner.text("feature_name", required=True)
        version = inner.name("version", _VERSION, "it is one to three numbers, as 1.0; quote it")
        status = inner.one_of("status", STATUSES, None, required=True)
        for name in ("created_date", "updated_date", "description", "authors"):
            inner.take(name)  # a date may be unquoted, so that it is no text
        inner.done()
        return title, version, status

    # ------------------------------------------------------------------------------ components

    def _component(self, fields: Fields, lines: tuple[int, int]) -> Component | None:
        name = fields.name("name", COMPONENT_ID, "it has a-z 0-9 _ and begins with a letter")
        description = fields.text("description")
        location = path_of(fields, "impl_file")
        python = location is None or location.endswith(".py")
        module = (
            fields.name("module", _MODULE, _MODULE_RULE)
            if python
            else fields.text("module", required=True)
        )
        tests = path_of(fields, "test_file")
        if python and tests is not None and not is_python_test(tests):
            fields.fault("test_file", f"{tests!r} is no file test_….py")
        fields.distinct("dependencies")
        context = globs_of(fields, "context")
        methods = self._methods(fields)
        fields.done()
        if name is None or location is None or tests is None:
            return None
        one = Component(
            component_id=name,
            location=location,
            tests=(tests,),
            description=description,
            entities=_of_methods(methods),
            context=context,
            import_root=_import_root(location, module or "") if python else None,
            lines=lines,
        )
        problem = location_problem(location, one.tests, one.import_root)
        if problem is not None:
            fields.fault("impl_file", problem)
        elif python and module is not None and module != one.module:
            fields.fault("module", f"{module!r} is not what {location} is imported by")
        return one

    def _methods(self, fields: Fields) -> list[Member]:
        found: list[Member] = []
        names: dict[str, int] = {}
        for inner in fields.each("methods", least=1):
            name = inner.name("name", _METHOD, "it is a method, as save or TokenBudget.extend")
            behavior = inner.text("behavior", required=True)
            errors = inner.distinct("errors")
            inner.done()
            if name is not None:
                named_once(inner, "name", names, name)
                found.append(Member(name=name, description=behavior, raises=errors))
        return found

    # ---------------------------------------------------------------------------- requirements

    def _requirements(self, fields: Fields, known: set[str]) -> list[BoundCriterion]:
        kinds = fields.inner("requirements", required=True)
        found: list[BoundCriterion] = []
        ids: dict[str, int] = {}
        criteria: dict[str, int] = {}
        for kind in ("functional", "non_functional"):
            for inner in kinds.each(kind, least=1 if kind == "functional" else None):
                name = inner.name("id", _REQUIREMENT, "it is as FR-001")
                if name is not None:
                    named_once(inner, "id", ids, name)
                inner.text("title", required=True)
                inner.one_of("priority", _PRIORITIES, None, required=True)
                inner.text("description", required=True)
                inner.text("rationale")
                owners = self._owners(inner, known)
                for each in inner.each("acceptance_criteria", least=1):
                    bound = self._criterion(each, known, owners)
                    if bound is not None:
                        named_once(each, "id", criteria, bound.criterion.criterion_id)
                        found.append(bound)
                inner.done()
        kinds.done()
        return found

    def _owners(self, fields: Fields, known: set[str]) -> tuple[str, ...]:
        some = ", ".join(sorted(known))
        return fields.distinct(
            "components",
            judge=lambda name: None if name in known else f"{name[:60]!r} is none of {some}",
        )

    def _criterion(
        self, fields: Fields, known: set[str], owners: tuple[str, ...]
    ) -> BoundCriterion | None:
        criterion_id = fields.name("id", CRITERION_ID, "it is as AC-001")
        given, when, then = (fields.text(word, required=True) for word in ("given", "when", "then"))
        owners = self._owners(fields, known) or owners
        fields.done()
        if criterion_id is None or given is None or when is None or then is None:
            return None
        text = f"Given: {given} When: {when} Then: {then}"
        return BoundCriterion(
            criterion=Criterion(criterion_id=criterion_id, text=text),
            names=owners,
            calls=frozenset(_CALL.findall(text)),
            fields=frozenset(_FIELD.findall(then)),
        )

    # -------------------------------------------------------------------------------- the rest

    def _entities(self, fields: Fields) -> list[tuple[Entity, str]]:
        """Return the entities, each with its layer."""
        found: list[tuple[Entity, str]] = []
        names: dict[str, int] = {}
        for inner in fields.each("entities"):
            name = inner.name("name", _ENTITY, "it is a Python name")
            layer = inner.text("layer")
            kind = inner.text("type", required=True)
            description = inner.text("description")
            properties = self._members(inner, "properties")
            methods = self._members(inner, "methods")
            inner.distinct("invariants")
            inner.done()
            if name is None:
                continue
            named_once(inner, "name", names, name)
            entity = Entity(
                name=name,
                kind="enum" if kind == "enum" else "class",
                description=description,
                fields=properties,
                methods=methods,
            )
            found.append((entity, (layer or "").lower()))
        return found

    def _members(self, fields: Fields, key: str) -> list[Member]:
        found: list[Member] = []
        for inner in fields.each(key):
            name = inner.name("name", _ENTITY, "it is a Python name")
            description = inner.text("description")
            if key == "properties":
                kind = inner.text("type", required=True)
                inner.flag("nullable")
                inner.distinct("constraints")
            else:
                kind = inner.text("returns")
                for parameter in inner.each("parameters"):
                    parameter.name("name", _ENTITY, "it is a Python name")
                    parameter.text("type", required=True)
                    parameter.take("default")
                    parameter.text("description")
                    parameter.done()
            inner.done()
            if name is not None:
                found.append(Member(name=name, signature=kind, description=description))
        return found

    def _errors(self, fields: Fields) -> list[Entity]:
        found: list[Entity] = []
        names: dict[str, int] = {}
        for inner in fields.each("error_handling"):
            name = inner.name("error_code", _ENTITY, "it is a Python name")
            condition = inner.text("condition", required=True)
            inner.text("response")
            inner.text("user_message")
            inner.done()
            if name is not None:
                named_once(inner, "error_code", names, name)
                found.append(Entity(name=name, kind="exception", description=condition))
        return found

    def _questions(self, fields: Fields) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for inner in fields.each("open_questions"):
            question = inner.text("question", required=True)
            inner.text("context")
            proposed, answer = inner.text("proposed_answer"), inner.text("answer")
            inner.text("status")
            inner.done()
            if question is not None and (answer or proposed):
                found.append((question, answer or proposed or ""))
        return found

    def _named(self, fields: Fields, key: str) -> None:
        """Check that each item of a list has a name; the rest is for readers and not checked."""
        for inner in fields.each(key):
            inner.text("name", required=True)


def _of_methods(methods: list[Member]) -> list[Entity]:
    """Group a component's methods by their class."""
    groups: dict[str, list[Member]] = {}
    for one in methods:
        owner, _, name = one.name.rpartition(".")
        groups.setdefault(owner, []).append(evolve(one, name=name))
    return [Entity(name=name, kind="class", methods=own) for name, own in groups.items()]


def _import_root(location: str, module: str) -> str:
    """Return the folder where a module's imports begin, derived from its file."""
    for ending in (".py", "/__init__.py"):
        path = module.replace(".", "/") + ending
        if location.endswith(f"/{path}"):
            return location.removesuffix(f"/{path}")
    return "."


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:64].strip("-") or "feature"
