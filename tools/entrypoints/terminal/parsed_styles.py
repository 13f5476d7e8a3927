"""Style sheets whose sources are parsed once for each set of colours in a process.

Parsing takes most of the time in which an application starts or changes its colours, and Textual
does it anew each time: twice at a start, because the theme is set then.
"""

from __future__ import annotations

from typing import Any, Final

from textual.cache import LRUCache
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet

_Parsed = LRUCache[tuple[Any, ...], list[RuleSet]]

_MOST_COLOURS: Final = 8
_MOST_SOURCES: Final = 256
_parsed: Final[LRUCache[frozenset[tuple[str, str]], _Parsed]] = LRUCache(_MOST_COLOURS)


def _parsed_with(variables: dict[str, str]) -> _Parsed:
    key = frozenset(variables.items())
    found = _parsed.get(key)
    if found is None:
        found = _parsed[key] = LRUCache(_MOST_SOURCES)
    return found


class ParsedStyles(Stylesheet):
    """A style sheet that shares what it parsed with all others of the same variables.

    Guarantees: its rules are those that a sheet of its own would have; at most eight sets of
    variables are kept.
    """

    def __init__(self, *, variables: dict[str, str]) -> None:
        super().__init__(variables=variables)
        self._parse_cache = _parsed_with(variables)

    def set_variables(self, variables: dict[str, str]) -> None:
        """Set the variables; what was parsed with others is kept for those who have them."""
        self._parse_cache = LRUCache(1)  # Textual empties the one that is there
        super().set_variables(variables)
        self._parse_cache = _parsed_with(variables)

    def reparse(self) -> None:
        """Apply new variables; a fault in a source leaves the rules as they were.

        Raises:
            StylesheetError: A source can't be read.
            StylesheetParseError: A source is no style sheet.
        """
        self.parse()
