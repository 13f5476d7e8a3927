"""The root of every error that this library raises on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar


class AgentForgeError(Exception):
    """Base of the library's errors.

    `str(error)` says what happened, what was kept and what to do. Programs read the fields.

    Attributes:
        retryable: Whether the same call, unchanged, may succeed later. A class says it for all of
            its errors; one error may say otherwise.
    """

    retryable: ClassVar[bool] = False

    @property
    def user_message(self) -> str:
        """One sentence for the person who uses the program; the whole text by default."""
        return str(self)

    @property
    def fields(self) -> Mapping[str, object]:
        """The error's public attributes, by name."""
        return MappingProxyType(
            {name: value for name, value in vars(self).items() if not name.startswith("_")}
        )
