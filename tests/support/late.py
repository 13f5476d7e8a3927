"""A library that one test module needs, imported when a test first asks for something of it.

Each worker collects every test module, so that what those import is imported by all of them,
though one alone uses it. With a library that takes seconds this costs more than its tests do.
"""

from __future__ import annotations

import importlib
from typing import Any


class LateModule:
    """Stands for the module of this name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pytest looks at all that it collects: is it a test, a fixture?
            raise AttributeError(name)
        return getattr(importlib.import_module(self._name), name)
