"""Assign entities, errors and criteria of a requirement document to its components; pure.

The document does not say which criterion applies to which component. A criterion belongs to the
components that a requirement or the criterion itself names under `components`; else to those that
have a method called in it (`record_tokens(50000)`), or a field named in its `then`
(`tokens_used`); else, because it concerns the whole, to the last component.
"""

from __future__ import annotations

import re

from attrs import evolve, frozen

from .specification import Component, Criterion, Entity


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
