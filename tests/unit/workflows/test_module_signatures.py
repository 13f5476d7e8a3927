"""What a Python module offers and imports, by its source."""

from __future__ import annotations

import pytest

from agentforge_sessions.workflows.prompts.project_outline import (
    imported_modules,
    parse_module,
    signatures,
)

SOURCE = '''\
"""What it is for.

More.
"""
import os, a.b
from c import d as e, f
from . import sibling
from ..above import thing
from ...... import too_far
from g import *
LIMIT: int = 3
NAME = "x"
_hidden = 1

@decorated(1)
class Thing(Base, metaclass=Meta):
    """A thing."""
    size: int
    def __init__(self, size: int = 3, *, name: str | None = None) -> None:
        self.size = size
    async def go(self) -> list[int]:
        """Go on."""
        return []
    def _secret(self): ...

class Empty: pass

def run(*args, **kw): return 1
def _private(): ...
'''


def test_signatures_are_what_is_public_without_bodies() -> None:
    tree = parse_module(SOURCE)
    assert tree is not None
    assert signatures(tree) == (
        "# What it is for.\n"
        "LIMIT: int\n"
        "NAME = ...\n"
        "@decorated(1)\n"
        "class Thing(Base, Meta):\n"
        "    # A thing.\n"
        "    size: int\n"
        "    def __init__(self, size: int=3, *, name: str | None=None) -> None: ...\n"
        "    async def go(self) -> list[int]: ...\n"
        "        # Go on.\n"
        "class Empty:\n"
        "    ...\n"
        "def run(*args, **kw): ...\n"
    )


def test_imports_are_named_as_modules_and_as_what_may_be_modules() -> None:
    tree = parse_module(SOURCE)
    assert tree is not None
    assert imported_modules(tree, ("p", "q")) == [
        *("os", "a.b", "c", "c.d", "c.f", "p.q", "p.q.sibling", "p.above", "p.above.thing", "g"),
    ]


@pytest.mark.parametrize(
    "source", ["def", "\0", "x = " + "(" * 5000, "f'{'", "\ud800", "x = '\\d'\ndef f(" + "x" * 9]
)
def test_what_is_no_python_is_none(source: str) -> None:
    assert parse_module(source) is None


def test_a_warning_of_the_parser_is_none_of_ours() -> None:
    assert parse_module("x = '\\d'") is not None
