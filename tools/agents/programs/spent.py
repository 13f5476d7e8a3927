"""What a conversation has cost, as it is recorded; pure."""

# Annotations are evaluated here: each field's would be compiled if it were a text.

from collections.abc import Mapping
from typing import NamedTuple


class Spent(NamedTuple):
    """What an agent program has reported of a conversation.

    Attributes:
        total: All of it, in tokens.
        models: The same by model.
        baseline: What of it belongs to no session, or to another one.
    """

    total: int
    models: Mapping[str, int]
    baseline: int
