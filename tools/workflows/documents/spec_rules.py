"""The rules shared by both forms of a specification, and the parts that each component gets."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Callable
from typing import Final

from attrs import evolve, frozen

from ...base.reading.fields import Fields
from ...base.reading.nodes import MappingNode
from ..names import path_problem
from .specification import Component, Criterion, Entity, is_in, is_python_test, module_of, root_of

COMPONENT_ID: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
CRITERION_ID: Final = re.compile(r"[A-Z][A-Z0-9]{0,11}-[0-9]{1,4}")
MAX_GLOB_CHARS: Final = 500
_PROSE: Final = re.compile(r"\.(?:txt|md|rst|adoc)$")
_FRAMEWORKS: Final = frozenset(
    {"pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"}
)


def named_once(fields: Fields, key: str, taken: dict[str, int], value: str) -> None:
    """Record a fault if a value is also on an earlier line; else remember its line."""
    if value in taken:
        fields.fault(key, f"{value!r} stands on line {taken[value]} too")
    taken.setdefault(value, fields.line)


def read_components(
    fields: Fields,
    root: MappingNode,
    text: str,
    *,
    keys: tuple[str, str],
    read: Callable[[Fields, tuple[int, int]], Component | None],
) -> list[Component]:
    """Read the components of a document; record repeated ids and files as faults.

    Args:
        fields: The document's fields.
        root: The document.
        text: The document's text.
        keys: The names of a component's id and of its file.
        read: Reads a component, given its first line and the one after its last; None on a fault.
    """
    found = fields.each("components", least=1)
    begins = root.key_lines.get("components", 0)
    end = text.count("\n") + 2
    after = min((line for line in root.key_lines.values() if line > begins), default=end)
    components: list[Component] = []
    ids: dict[str, int] = {}
    places: dict[str, int] = {}
    starts = [*(one.line for one in found), after]
    for inner, behind in zip(found, starts[1:], strict=True):
        one = read(inner, (inner.line, behind))
        if one is not None:
            named_once(inner, keys[0], ids, one.component_id)
            named_once(inner, keys[1], places, one.location)
            components.append(one)
    return components


def globs_of(fields: Fields, name: str) -> tuple[str, ...]:
    """Read globs of project files, relative and inside the project."""
    return fields.distinct(name, judge=_glob_problem)


def _glob_problem(glob: str) -> str | None:
    if glob.startswith(("/", "~")) or ".." in glob.split("/"):
        return f"{glob[:60]!r} leads out of the project; write it relative"
    if not glob.strip() or len(glob) > MAX_GLOB_CHARS:
        return f"{glob[:60]!r} is no glob of 1 to {MAX_GLOB_CHARS} characters"
    return None


def path_of(fields: Fields, key: str) -> str | None:
    """Read the required path of a source file, in any language."""
    return fields.text(key, required=True, judge=_source_problem)


def _source_problem(path: str) -> str | None:
    prose = f"{path!r} is no source file" if _PROSE.search(path) else None
    return path_problem(path) or prose


def places_of(fields: Fields, key: str, *, least: int | None = None) -> tuple[str, ...]:
    """Read files, directories that end in `/`, and globs."""
    return fields.distinct(
        key, least=least, judge=lambda place: path_problem(place.removesuffix("/"))
    )


def tests_problem(location: str, tests: tuple[str, ...]) -> str | None:
    """Return why files can't be a component's tests; Python test files need certain names."""
    for place in tests if location.endswith(".py") else ():
        if not place.endswith(("/", "*")) and not is_python_test(place):
            return f"{place!r} is neither a file test_….py nor a directory ending in /"
    return None


def root_problem(location: str, import_root: str | None) -> str | None:
    """Return why a component's imports can't begin in a folder, or None."""
    if import_root is None or import_root == ".":
        return None
    if not location.endswith(".py"):
        return "is of Python components"
    problem = path_problem(import_root)
    if problem is None and not location.startswith(f"{import_root}/"):
        problem = f"{location!r} is not below {import_root!r}"
    return problem


def location_problem(
    location: str, tests: tuple[str, ...], import_root: str | None = None
) -> str | None:
    """Return why tests can't import a component from its file, or why the file is one of them."""
    problem = _import_problem(location, import_root) if location.endswith(".py") else None
    if problem is not None:
        return problem
    for place in tests:
        if is_in(location, place) and (location == place or location.endswith(".py")):
            return f"{location!r} is the component's own file, and among its tests ({place})"
    return None


def _import_problem(location: str, import_root: str | None) -> str | None:
    name = location.rsplit("/", 1)[-1]
    parts = module_of(location, root_of(location, import_root)).split(".")
    wrong = [part for part in parts if not part.isidentifier() or keyword.iskeyword(part)]
    if wrong:
        return f"{location!r} can't be imported: {wrong[0]!r} is no name of a module"
    if parts[0] in sys.stdlib_module_names or parts[0] in _FRAMEWORKS:
        return f"{location!r} can't be imported: {parts[0]!r} is a module that is there already"
    if name == "conftest.py" or re.fullmatch(r"test_.*|.*_test\.py", name):
        return f"{location!r} goes by the name of a test"
    return None


@frozen(kw_only=True)
class BoundCriterion:
    """A criterion, and what decides which components it belongs to.

    Attributes:
        criterion: The criterion.
        names: The components named with it.
        calls: The methods it calls.
        fields: The names in its `then` that may be a component's fields.
    """

    criterion: Criterion
    names: tuple[str, ...]
    calls: frozenset[str]
    fields: frozenset[str]


def with_parts(
    components: list[Component],
    entities: list[tuple[Entity, str]],
    errors: list[Entity],
    criteria: list[BoundCriterion],
) -> list[Component]:
    """Return the components with their entities, errors and criteria."""
    last = len(components) - 1
    owned: list[list[Entity]] = [[] for _ in components]
    for entity, layer in entities:
        places = [
            index for index, one in enumerate(components) if _is_of(entity.name, layer, one)
        ] or [last]
        owned[places[0]].append(entity)
    bound: list[list[Criterion]] = [[] for _ in components]
    vocabulary = [_vocabulary(one, own) for one, own in zip(components, owned, strict=True)]
    for criterion in criteria:
        places = [
            index
            for index, one in enumerate(components)
            if one.component_id in criterion.names
            or (
                not criterion.names
                and (
                    criterion.calls & vocabulary[index][0]
                    or criterion.fields & vocabulary[index][1]
                )
            )
        ] or [last]
        for index in places:
            bound[index].append(criterion.criterion)
    found = []
    for index, one in enumerate(components):
        raised = {
            name for group in one.entities for member in group.methods for name in member.raises
        }
        found.append(
            evolve(
                one,
                entities=owned[index] or one.entities,
                errors=[error for error in errors if error.name in raised],
                criteria=bound[index],
            )
        )
    return found


def _is_of(entity: str, layer: str, component: Component) -> bool:
    """Return whether an entity belongs to a component: by its methods, its name or its layer."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", entity).lower()
    methods = {group.name for group in component.entities}
    last_word = component.component_id.rsplit("_", 1)[-1]
    return entity in methods or snake == component.component_id or layer == last_word


def _vocabulary(
    component: Component, entities: list[Entity]
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of a component's methods, and of its fields and properties."""
    groups = [*component.entities, *entities]
    methods = frozenset(member.name for group in groups for member in group.methods)
    fields = frozenset(member.name for group in entities for member in group.fields)
    return methods, fields | methods
