"""The examples that come with the package: workflows of scripts, each in a folder of its own.

They are the repository's `examples/workflows`: `example_workflows` is a link to it; the wheel
contains the files in its place.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from attrs import frozen

from ..errors import UnknownExample

_FOLDER: Final = Path(__file__).with_name("example_workflows")
_WORKFLOW: Final = "workflow.yaml"


@frozen
class Example:
    """A workflow that comes with the package.

    Attributes:
        name: Its name.
        workflow: Its workflow file; the files that it names are beside it.
    """

    name: str
    workflow: Path

    def files(self) -> dict[str, bytes]:
        """Return the contents of all its files, by name."""
        return {
            one.name: one.read_bytes()
            for one in sorted(self.workflow.parent.iterdir())
            if one.is_file()
        }


def examples() -> tuple[Example, ...]:
    """Return the examples, by name."""
    found = sorted(_FOLDER.glob(f"*/{_WORKFLOW}"))
    return tuple(Example(path.parent.name, path) for path in found)


def find_example(name: str) -> Example:
    """Return an example.

    Raises:
        UnknownExample: There is none of this name.
    """
    known = {one.name: one for one in examples()}
    if name not in known:
        raise UnknownExample(name, list(known))
    return known[name]
