"""A logger that keeps what is logged."""

from __future__ import annotations


class Recorder:
    """Keeps each event with its level and fields, in their order."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, dict[str, object]]] = []

    def info(self, event: str, **fields: object) -> None:
        self.told.append(("info", event, fields))

    def warning(self, event: str, **fields: object) -> None:
        self.told.append(("warning", event, fields))

    def of(self, event: str) -> list[dict[str, object]]:
        """Return the fields of each event of a name."""
        return [fields for _, name, fields in self.told if name == event]

    def names(self, level: str | None = None) -> list[str]:
        """Name the events, in their order."""
        return [name for its, name, _ in self.told if level in {None, its}]

    @property
    def warnings(self) -> list[tuple[str, dict[str, object]]]:
        return [(event, fields) for level, event, fields in self.told if level == "warning"]
