"""A component specification as values: components, their files, what they offer, what must hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from attrs import field, frozen

from ...base.errors import ErrorKind
from ...base.text.path_pattern import is_exact, matches
from ...harness import HarnessError
from ..converters import as_tuple

STATUSES: Final = ("draft", "approved")
ENTITY_KINDS: Final = ("class", "enum", "exception", "function", "constant", "protocol")
OTHER_KINDS: Final = ("interface", "type", "struct", "trait", "module", "command", "component")
"""More kinds of what a component offers, in languages other than Python."""
_PYTHON_TEST: Final = re.compile(r"(?:.*/)?(?:test_[^/]*|[^/]*_test)\.py")


class InvalidSpecification(HarnessError, kind=ErrorKind.INVALID_FILE):
    """A document is not a component specification; nothing was started with it."""

    message = """{path} is not a usable specification: {faults:;}. Nothing was begun;
    docs/workflows.md describes the form."""
    path: Path
    faults: Sequence[str]
    """Every fault, in the order of the file, most with their line."""


class UnknownComponent(HarnessError, kind=ErrorKind.USAGE):
    """A specification has no component of this name."""

    message = "{path} has {asked}; it has {known:,}. Name one of them; nothing was begun."
    component_id: str | None
    path: Path
    known: Sequence[str]

    @property
    def asked(self) -> str:
        """The component the specification lacks."""
        return f"no component {self.component_id!r}" if self.component_id else "several components"


@frozen(kw_only=True)
class Member:
    """A field or method of an entity.

    Attributes:
        name: Its name.
        signature: A method's parameters and result, `(tokens: int) -> None`; a field's type.
        description: What it is or does, or None.
        raises: The errors a method raises.
    """

    name: str
    signature: str | None = None
    description: str | None = None
    raises: tuple[str, ...] = ()


@frozen(kw_only=True)
class Entity:
    """A named part of a component's interface.

    Attributes:
        name: Its name.
        kind: One of `ENTITY_KINDS`, or of `OTHER_KINDS` where the language is not Python.
        description: What it is, or None.
        fields: Its fields or an enum's values.
        methods: Its methods; for a function, the one method of its name.
    """

    name: str
    kind: str
    description: str | None = None
    fields: tuple[Member, ...] = field(default=(), converter=as_tuple)
    methods: tuple[Member, ...] = field(default=(), converter=as_tuple)


@frozen(kw_only=True)
class Criterion:
    """An acceptance criterion of a component.

    Attributes:
        criterion_id: Its id, such as AC-01; the names of its tests contain it as `ac_01`.
        text: What has to hold.
    """

    criterion_id: str
    text: str

    @property
    def in_test_names(self) -> str:
        """The id as a test's name contains it: lower case, `_` for `-`."""
        return self.criterion_id.lower().replace("-", "_")


@frozen(kw_only=True)
class Component:
    """One component of a specification.

    Attributes:
        component_id: Its id.
        location: Its main file, relative to the workspace; the suffix determines the language.
        tests: Its test files, directories (ending in `/`) or globs, relative to the workspace.
        description: What it is for, or None.
        entities: What its module offers.
        errors: The errors it defines, by name; they may be among the entities, too.
        criteria: Its acceptance criteria.
        context: Globs of project files that its developer is shown.
        other_files: Further files, directories or globs that belong to it besides its tests.
        import_root: The folder where a Python component's imports begin, relative, "." for the
            workspace; None: `src` for a location below it, else the workspace.
        lines: The lines of the document that describe it, from 1, the end exclusive.
    """

    component_id: str
    location: str
    tests: tuple[str, ...]
    description: str | None = None
    entities: tuple[Entity, ...] = field(default=(), converter=as_tuple)
    errors: tuple[Entity, ...] = field(default=(), converter=as_tuple)
    criteria: tuple[Criterion, ...] = field(default=(), converter=as_tuple)
    context: tuple[str, ...] = field(default=(), converter=as_tuple)
    other_files: tuple[str, ...] = field(default=(), converter=as_tuple)
    import_root: str | None = None
    lines: tuple[int, int] = (1, 1)

    @property
    def is_python(self) -> bool:
        """Whether its main file is Python, which the sandbox can run."""
        return self.location.endswith(".py")

    @property
    def root(self) -> str:
        """The folder where its imports begin, "" for the workspace itself."""
        return root_of(self.location, self.import_root)

    @property
    def module(self) -> str:
        """The name by which tests import it; in a language other than Python, its location."""
        return module_of(self.location, self.root) if self.is_python else self.location

    @property
    def code_places(self) -> tuple[str, ...]:
        """Its files except the tests; the main file first."""
        return (self.location, *self.other_files)


def root_of(location: str, import_root: str | None) -> str:
    """Return the folder where a file's imports begin, "" for the workspace itself."""
    root = ("src" if location.startswith("src/") else "") if import_root is None else import_root
    return "" if root == "." or not location.startswith(f"{root}/") else root


def module_of(location: str, root: str) -> str:
    """Return the module name of a Python file, for imports that begin in a folder."""
    below = location.removeprefix(f"{root}/") if root else location
    return below.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


@frozen(kw_only=True)
class Specification:
    """A specification of one or more components.

    Attributes:
        spec_id: Its id.
        title: Its title.
        version: Its version, such as 1.0.0.
        status: "draft" or "approved".
        components: At least one.
        clarifications: The person's decisions: each question with its answer.
        text: The document's text.
    """

    spec_id: str
    title: str
    version: str
    status: str
    components: tuple[Component, ...] = field(converter=as_tuple)
    clarifications: tuple[tuple[str, str], ...] = field(default=(), converter=as_tuple)
    text: str = field(repr=False)

    def component(self, component_id: str | None, *, path: Path) -> Component:
        """Return a component; for None the only one.

        Raises:
            UnknownComponent: There is none of this id, or no id and several components.
        """
        if component_id is None and len(self.components) == 1:
            return self.components[0]
        for one in self.components:
            if one.component_id == component_id:
                return one
        raise UnknownComponent(
            component_id, path=path, known=[one.component_id for one in self.components]
        )

    def excerpt(self, component: Component) -> str:
        """Return the document with this component only, as an agent needs it."""
        lines = self.text.splitlines()
        spans = sorted(one.lines for one in self.components)
        kept = []
        for number, line in enumerate(lines, 1):
            inside = next((span for span in spans if span[0] <= number < span[1]), None)
            if inside is None or inside == component.lines:
                kept.append(line)
        return "\n".join(kept) + "\n"


def is_in(path: str, place: str) -> bool:
    """Return whether a path is a place or in it: a file, a directory ending in `/`, or a glob."""
    if place.endswith("/"):
        return path.startswith(place) if is_exact(place) else matches(place, path)
    return path == place or (not is_exact(place) and matches(place, path))


def is_in_any(path: str, places: Iterable[str]) -> bool:
    """Return whether a path is one of some places or in one of them."""
    return any(is_in(path, place) for place in places)


def is_test_path(component: Component, path: str) -> bool:
    """Return whether a path is one of the component's tests; its own files never are."""
    return path not in component.code_places and is_in_any(path, component.tests)


def is_python_test(path: str) -> bool:
    """Return whether pytest would collect a file of this name as a test."""
    return _PYTHON_TEST.fullmatch(path) is not None
