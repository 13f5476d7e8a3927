"""A question to a person, as a value: one class from the asker to the files; pure.

Agents, agent sessions and question sessions ask with it. Any text and any number of options is a
valid value; the askers limit what may be asked (`questions.rules`, `workflows.answers`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from .errors import AgentForgeError, ErrorKind


class QuestionError(AgentForgeError, kind=ErrorKind.REFUSED, kw_only=True):
    """Base of the errors of questions to a person."""

    session_id: str | None = None
    """The question session concerned."""


class FaultyInput(QuestionError, ValueError, kind=ErrorKind.USAGE):
    """Input with faults, all of them reported at once; nothing was written."""

    message = "{where}{faults:;}"
    faults: Sequence[str]
    """Everything that is wrong, in the order of the input."""
    where: str = ""
    """What the input is, as the beginning of the text."""


class InvalidQuestions(FaultyInput):
    """Questions that can't be asked."""


def as_tuple(values: Any) -> Any:
    """Convert any iterable but a text to a tuple; the validators report the rest."""
    if isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping):
        return tuple(values)
    return values


def text_faults(name: str, value: object) -> list[str]:
    """Return why a value is not a text that UTF-8 can encode."""
    if not isinstance(value, str):
        return [f"{name}: expected text, got {type(value).__name__}"]
    try:
        value.encode()
    except UnicodeEncodeError:
        return [f"{name}: it holds a lone surrogate, which UTF-8 can't"]
    return []


def list_faults(name: str, values: object, kind: type, word: str) -> list[str]:
    """Return why a value is not a tuple of `kind`."""
    if not isinstance(values, tuple):
        return [f"{name}: expected a list, got {type(values).__name__}"]
    return [
        f"{name}[{i}]: expected {word}, got {type(one).__name__}"
        for i, one in enumerate(values)
        if not isinstance(one, kind)
    ]


def kind_faults(name: str, value: object, kind: type, word: str) -> list[str]:
    """Return why a value is not a `kind`; booleans are not numbers."""
    exact = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    return [] if exact else [f"{name}: expected {word}, got {value!r}"]


@frozen(kw_only=True)
class Option:
    """One of the offered answers.

    Attributes:
        label: The text that is chosen, and that the answer contains.
        description: Its meaning, or None.
    """

    label: str
    description: str | None = None

    def __attrs_post_init__(self) -> None:
        faults = text_faults("label", self.label)
        if self.description is not None:
            faults += text_faults("description", self.description)
        if faults:
            raise InvalidQuestions(faults)


def _as_options(options: Iterable[Option | str]) -> tuple[Option, ...]:
    values: Any = as_tuple(options)
    if not isinstance(values, tuple):
        return values  # type: ignore[no-any-return]  # refused below
    return tuple(Option(label=one) if isinstance(one, str) else one for one in values)


@frozen(kw_only=True)
class Question:
    """One question to a person.

    Attributes:
        prompt: The whole question; its markdown is rendered where it is shown.
        title: A word or two for lists and tabs.
        options: The offered answers, options or their labels; a free text is always possible
            instead.
        multi_select: Whether several options may be chosen.
    """

    prompt: str
    title: str
    options: tuple[Option, ...] = field(default=(), converter=_as_options)
    multi_select: bool = False

    def __attrs_post_init__(self) -> None:
        faults = text_faults("prompt", self.prompt) + text_faults("title", self.title)
        faults += list_faults("options", self.options, Option, "an option")
        faults += kind_faults("multiSelect", self.multi_select, bool, "true or false")
        if faults:
            raise InvalidQuestions(faults)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of its options."""
        return tuple(option.label for option in self.options)
