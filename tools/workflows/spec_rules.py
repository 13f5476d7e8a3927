"""What both forms of a specification ask of their fields."""

from __future__ import annotations

import keyword
import re
import sys
from typing import Final

from ..yaml_document import Faults, Fields
from .names import path_problem

COMPONENT_ID: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
CRITERION_ID: Final = re.compile(r"[A-Z][A-Z0-9]{0,11}-[0-9]{1,4}")
MAX_GLOB_CHARS: Final = 500
_FRAMEWORKS: Final = frozenset(
    {"pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"}
)


def named_once(faults: Faults, taken: dict[str, int], value: str, line: int, where: str) -> None:
    """Refuse a value that stands on an earlier line, and remember its line."""
    if value in taken:
        faults.add(line, f"{where}: {value!r} stands on line {taken[value]} too")
    taken.setdefault(value, line)


def one_of(fields: Fields, name: str, known: tuple[str, ...]) -> str | None:
    """Take a required text that is one of a few; None, and a fault, if it is none of them."""
    node = fields.take(name, required=True)
    text = None if node is None else fields.text_of(name, node)
    if text is not None and text not in known:
        fields.fault(name, f"{text[:60]!r} is none of {', '.join(known)}", node)
        return None
    return text


def globs_of(fields: Fields, name: str) -> tuple[str, ...]:
    """Take globs of files of the project, relative and inside it."""
    found = fields.texts(name)
    for glob in found:
        if glob.startswith(("/", "~")) or ".." in glob.split("/"):
            fields.fault(name, f"{glob[:60]!r} leads out of the project; write it relative")
        elif not glob.strip() or len(glob) > MAX_GLOB_CHARS:
            fields.fault(name, f"{glob[:60]!r} is no glob of 1 to {MAX_GLOB_CHARS} characters")
    return found


def path_of(fields: Fields, key: str, *, test: bool = False) -> str | None:
    """Take a required path of a Python file, of a test's if asked for."""
    node = fields.take(key, required=True)
    path = None if node is None else fields.text_of(key, node)
    if path is None:
        return None
    problem = path_problem(path)
    if problem is None and not path.endswith(".py"):
        problem = f"{path!r} is no Python file"
    if problem is None and test and not path.rsplit("/", 1)[-1].startswith("test_"):
        problem = f"{path!r} is no file test_….py"
    if problem is not None:
        fields.fault(key, problem, node)
        return None
    return path


def location_problem(location: str, tests: tuple[str, ...]) -> str | None:
    """Return why tests could not import a component from its file, or why it is one of them."""
    name = location.rsplit("/", 1)[-1]
    parts = location.removesuffix(".py").split("/")
    wrong = [part for part in parts if not part.isidentifier() or keyword.iskeyword(part)]
    if wrong:
        return f"{location!r} can't be imported: {wrong[0]!r} is no name of a module"
    if parts[0] in sys.stdlib_module_names or parts[0] in _FRAMEWORKS:
        return f"{location!r} can't be imported: {parts[0]!r} is a module that is there already"
    if name == "conftest.py" or re.fullmatch(r"test_.*|.*_test\.py", name):
        return f"{location!r} goes by the name of a test"
    for place in tests:
        if location == place or (place.endswith("/") and location.startswith(place)):
            return f"{location!r} is the component's own file, and among its tests ({place})"
    return None
