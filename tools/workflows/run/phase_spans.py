"""The spans of the phases of one run: each from where it is entered until the next one is."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from ...base.tracing import Attribute, Traced, traced

if TYPE_CHECKING:
    from ...base.tracing.port import Span


class PhaseSpans:
    """Traces which phase a run is in, within a `with` block.

    Args:
        session_id: The session.
        workflow: The workflow's name.
    """

    def __init__(self, session_id: str, workflow: str) -> None:
        self._session_id = session_id
        self._workflow = workflow
        self._at: tuple[str, int] | None = None
        self._span: Span | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._span is not None:
            self._span.__exit__(kind, error, traceback)

    def at(self, phase: str, round_number: int) -> None:
        """The run is in a phase now, that was entered for the so many-th time."""
        if self._at == (phase, round_number):
            return
        if self._span is not None:
            self._span.__exit__(None, None, None)
        self._at = (phase, round_number)
        self._span = traced(
            Traced.PHASE,
            {
                Attribute.SESSION_ID: self._session_id,
                Attribute.WORKFLOW: self._workflow,
                Attribute.PHASE: phase,
                Attribute.ROUND: round_number,
            },
            detail=phase,
        )
        self._span.__enter__()
