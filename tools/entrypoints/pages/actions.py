"""What a page offers besides reading: links, forms and live parts, each made by who can serve them.

A page that stands alone offers nothing (`READ_ONLY`), and its parts are then text and anchors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from attrs import frozen

from ...harness.views.checkpoints import CheckpointEntry
from .html import Attribute, Child
from .values.asked_questions import QuestionView
from .values.session_view import FileView, SessionView


def _nothing(_: object) -> Child:
    return None


def _no_address(_: str) -> str | None:
    return None


def _no_attributes(_: str) -> Mapping[str, Attribute]:
    return {}


@frozen(kw_only=True)
class Actions:
    """What a page offers, part by part; nothing by default.

    Attributes:
        session: What stands beside the session's name, as forms to pause or abort it.
        checkpoint: What stands in a checkpoint's row, as forms to go back or to fork.
        question: What stands below a question that waits, as the form of its answer.
        file: What stands beside a file's name, as a link to all of it.
        address_of: The address of another session's page, or None.
        section: Further attributes of a section by its name, as those by which it is kept live.
    """

    session: Callable[[SessionView], Child] = _nothing
    checkpoint: Callable[[CheckpointEntry], Child] = _nothing
    question: Callable[[QuestionView], Child] = _nothing
    file: Callable[[FileView], Child] = _nothing
    address_of: Callable[[str], str | None] = _no_address
    section: Callable[[str], Mapping[str, Attribute]] = _no_attributes


READ_ONLY: Final = Actions()
"""Nothing besides reading."""
