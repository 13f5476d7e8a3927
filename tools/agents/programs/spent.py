"""The cost of a conversation, as it is recorded; pure."""

# Annotations are evaluated here: as strings, each field's would have to be compiled.

from collections.abc import Mapping
from typing import NamedTuple


class Spent(NamedTuple):
    """The usage that an agent program has reported for a conversation.

    Attributes:
        total: The total, in tokens.
        models: The same by model.
        baseline: The part of it that belongs to no session, or to another one.
    """

    total: int
    models: Mapping[str, int]
    baseline: int
