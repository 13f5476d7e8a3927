"""Public names of a package that load their module on first access (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module


def on_first_use(package: str, places: Mapping[str, str]) -> Callable[[str], object]:
    """Return a package's `__getattr__`, which imports a name's module on first access to the name.

    The package caches the name from then on. `dir(package)` lists `__all__` before anything is
    loaded; a package that defines none gets one with all names of the table.

    Args:
        package: The package's `__name__`.
        places: Space-separated names, by the module of the package that defines them; a leading dot
            marks a module of the parent package.
    """
    modules = {name: module for module, names in places.items() for name in names.split()}

    def find(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)
        found = getattr(import_module(f".{modules[name]}", package), name)
        setattr(sys.modules[package], name, found)
        return found

    own = vars(sys.modules[package])
    own.setdefault("__all__", sorted(modules))
    own["__dir__"] = lambda: sorted({*own["__all__"], *_dunder(own)})
    return find


def _dunder(names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if name.startswith("__") and name.endswith("__"))
