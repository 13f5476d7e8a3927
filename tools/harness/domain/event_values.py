"""Values built, compared and written by their fields, as events are; pure."""

from __future__ import annotations

from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from typing import Any, ClassVar, Final, dataclass_transform

_of_fields: Final = dataclass(init=False, repr=False, eq=False, kw_only=True)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
@_of_fields
class EventValue:
    """An immutable value, built from named fields and compared by them.

    Its methods serve every subclass: generating them for each of some forty classes would take
    longer than everything else that a command with one save loads. Slots would create each class
    twice.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __init_subclass__(cls) -> None:
        _of_fields(cls)

    def __init__(self, **values: Any) -> None:
        for one in fields(self):
            value = values.pop(one.name, MISSING)
            if value is MISSING:
                value = one.default if one.default is not MISSING else _made_default(one)
            object.__setattr__(self, one.name, value)
        if values:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(values)}")

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, one.name) for one in fields(self))

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        assert isinstance(other, EventValue)  # noqa: S101 # for the type checker
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), self._values()))

    def __repr__(self) -> str:
        given = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields(self))
        return f"{type(self).__name__}({given})"

    def __getstate__(self) -> tuple[Any, ...]:
        return self._values()

    def __setstate__(self, values: tuple[Any, ...]) -> None:
        for one, value in zip(fields(self), values, strict=True):
            object.__setattr__(self, one.name, value)


class Occurrence(EventValue):
    """Something that happened, with the fields that it always has.

    Attributes:
        log_name: Its name in the log and for observers.
        level: Its log level: "info", "warning" or "error".
        with_phase: Whether its log line names the session's phase.
        with_attempt: Whether its log line names the attempt, too.
    """

    log_name: ClassVar[str]
    level: ClassVar[str] = "info"
    with_phase: ClassVar[bool] = True
    with_attempt: ClassVar[bool] = False


def _made_default(one: Field[Any]) -> Any:
    if one.default_factory is MISSING:
        raise TypeError(f"the field {one.name} is missing")
    return one.default_factory()
