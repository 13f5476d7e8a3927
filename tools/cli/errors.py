"""What can go wrong on the command line itself."""

from __future__ import annotations


class CliError(Exception):
    """Base of the command line's own errors."""


class Declined(CliError):
    """The person was asked and did not say yes; nothing was done."""

    def __init__(self) -> None:
        super().__init__("nothing was done, because you did not say yes")


class ConfirmationNeeded(CliError):
    """A question could not be asked: there is no terminal to answer at, or the output is JSON.

    Attributes:
        operation: What needs the yes.
    """

    def __init__(self, operation: str) -> None:
        super().__init__(
            f"{operation} needs your yes and nobody can be asked here; nothing was done. "
            "Add --yes to go ahead."
        )
        self.operation = operation


class OutputLost(CliError):
    """Standard output takes no more, as on a full disk."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(
            f"could not write the output: {cause.strerror or cause}. Free the disk, or send the "
            "output elsewhere, then try again."
        )


class Interrupted(CliError):
    """Ctrl-C.

    Attributes:
        session_id: The session that was being worked on, or None.
    """

    def __init__(self, message: str = "interrupted", *, session_id: str | None = None) -> None:
        super().__init__(message)
        self.session_id = session_id
