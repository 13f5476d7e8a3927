"""Answer every import, now and later."""

import builtins
import importlib.abc
import sys

from attack_kit import verdict


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        raise SystemExit(7)


verdict()
sys.meta_path.insert(0, Finder())
sys.path_importer_cache.clear()
builtins.__import__ = lambda *args, **kwargs: None
