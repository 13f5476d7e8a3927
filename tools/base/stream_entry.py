"""An entry of a stream, as logs and stores return it without its body; pure."""

# Annotations are evaluated here: as strings, each field's would be compiled at import.

from typing import NamedTuple


class StreamEntry(NamedTuple):
    """A stored entry.

    Attributes:
        position: Its position; that of a later entry of the same stream is greater, or the same if
            the body of this one is empty.
        size: The body's length in bytes.
        check: The store's check value for the body.
        head: Its head.
    """

    position: int
    size: int
    check: int
    head: bytes
