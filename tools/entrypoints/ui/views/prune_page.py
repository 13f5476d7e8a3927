"""The page of what a prune would remove and why. It removes nothing; it names the command."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias
from urllib.parse import urlencode
from xml.etree.ElementTree import Element

from ....base.errors import AgentForgeError
from ....prune import PruneResult, RetentionPolicy, human_bytes
from ....prune.domain import WORDS, Decision
from ....wiring.pruning import PruneKind, prune_kinds, transcripts_kind
from ...pages.html import Child, element
from ...pages.parts import muted, note, section, table
from ..errors import InvalidForm
from ..services import UiServices
from ..view import View, ago, error_box, page_heading
from .controls import Form, count_in, text_in

_SHOWN: Final = 200
_IDS: Final = 3
_HOURS_A_DAY: Final = 24.0
_NAMES: Final = {
    "agent": "Agent sessions",
    "sandbox": "Sandbox sessions",
    "questions": "Question sessions",
    "transcripts": "Transcripts",
}
Rules: TypeAlias = Mapping[str, int]
"""The values of the rules given, by their fields in `_RULES`."""
_RULES: Final = {
    "older_than": ("Older than, in days", "--older-than", "d"),
    "keep_last": ("Keep the newest", "--keep-last", ""),
    "max_size": ("At most, in MB", "--max-size", "MB"),
}
"""The label of each rule's field, the option of the command, and its unit there."""


def prune_view(services: UiServices, form: Form, _: str) -> View:
    """Return the page of what a prune by the address's rules, or else by default, would remove.

    Raises:
        InvalidForm: A rule's value is invalid.
    """
    rules = _rules_in(form)
    options = [
        word
        for name, (_, option, unit) in _RULES.items()
        if name in rules
        for word in (option, f"{rules[name]}{unit}")
    ]
    command = f"{services.places.command} {shlex.join(['prune', *options])}"
    kinds = {
        **prune_kinds(store=services.store, questions_dir=services.places.questions),
        **transcripts_kind(services.store),
    }
    hint = ("Nothing is removed here. To do it: ", element("code", command))
    return View(
        title="Prune",
        address=f"/prune?{urlencode(rules)}" if rules else "/prune",
        content=[
            page_heading("What a prune would remove"),
            _form(rules),
            element("p", hint, id="command", class_="notice"),
            *(_kind(name, kind, rules) for name, kind in kinds.items() if kind.is_there),
        ],
    )


def _rules_in(form: Form) -> Rules:
    faults: dict[str, str] = {}
    found: dict[str, int] = {}
    for name, (label, _, _) in _RULES.items():
        if text_in(form, name) is None:
            continue
        try:
            found[name] = count_in(form, name, what=label)
        except InvalidForm as error:
            faults |= error.faults
    if faults:
        raise InvalidForm(faults)
    return found


def _policy(kind: PruneKind, rules: Rules) -> RetentionPolicy:
    """Return a kind's policy under the rules, the same as that of `agentforge prune`."""
    if kind.max_age_hours is None:
        return RetentionPolicy()
    if not rules:
        return RetentionPolicy(max_age_hours=kind.max_age_hours)
    return RetentionPolicy(
        max_age_hours=rules["older_than"] * _HOURS_A_DAY if "older_than" in rules else None,
        max_sessions=rules.get("keep_last"),
        max_total_bytes=rules["max_size"] << 20 if "max_size" in rules else None,
    )


def _form(rules: Rules) -> Element:
    fields = []
    for name, (label, _, _) in _RULES.items():
        value = str(rules[name]) if name in rules else None
        kind = {"type": "text", "inputmode": "numeric", "name": name, "id": name}
        fields.append(element("label", label, element("input", **kind, value=value, size=6)))
    return element(
        "form",
        fields,
        element("button", "Try these rules", type="submit"),
        element("a", "The kinds' own rules", href="/prune") if rules else None,
        id="rules",
        class_="filter rules",
        hx_get="/view/prune",
        hx_target="#view",
        hx_swap="keyed",
        data_calm=True,
    )


def _kind(name: str, kind: PruneKind, rules: Rules) -> Element:
    title, place = _NAMES.get(name, name), f"kind-{name}"
    try:
        found = kind.prune(_policy(kind, rules), dry_run=True)
    except AgentForgeError as error:
        box = error_box(error, title="It can't be looked at")
        return section(place, title, box, class_="card")
    removals = [one for one in found.decisions if one.remove]
    more = len(removals) - _SHOWN
    stay = len(found.decisions) - len(removals)
    head = ("Session", "State", "Last used", "Size", "Why")
    rows = [_row(name, one) for one in removals[:_SHOWN]]
    return section(
        place,
        title,
        note(_summary(kind.max_age_hours, rules, len(removals), stay, found.reclaimed_bytes)),
        table(f"What would be removed of {title}", head, rows)
        if rows
        else muted("Nothing to remove.", tag="p"),
        element("p", f"and {more:,} more") if more > 0 else None,
        _rest(found),
        class_="card",
    )


def _summary(age: float | None, rules: Rules, count: int, stay: int, freed: int) -> str:
    if age is None:
        return f"The configuration keeps them for ever; {stay:,} stay."
    words = f"{age / _HOURS_A_DAY:g} days" if age > _HOURS_A_DAY else _hours(age)
    by = "" if rules else f"Those last used or ended {words} ago go. "
    return f"{by}{count:,} would be removed ({human_bytes(freed)}), {stay:,} stay."


def _hours(age: float) -> str:
    return f"{age:g} hour{'' if age == 1 else 's'}"


def _row(kind: str, one: Decision) -> Sequence[Child]:
    name = element("code", one.candidate.session_id)
    address = f"/sessions/{one.candidate.session_id}"
    return (
        element("a", name, href=address) if kind == "agent" else name,
        one.candidate.state or "",
        ago(one.candidate.dated_at),
        human_bytes(one.candidate.size_bytes),
        ", ".join(WORDS[reason] for reason in one.reasons),
    )


def _rest(found: PruneResult) -> Child:
    """Return the sessions skipped or unreadable, grouped by reason."""
    ids: dict[str, list[str]] = {}
    for one in found.skipped:
        why = f"left alone, {str(one.reason).replace('_', ' ')}"
        ids.setdefault(why, []).append(one.session_id)
    for session_id, error in found.errors.items():
        ids.setdefault(error, []).append(session_id)
    lines = [
        element(
            "li",
            f"{why}: ",
            element("code", ", ".join(names[:_IDS])),
            f" and {len(names) - _IDS:,} more" if len(names) > _IDS else None,
        )
        for why, names in ids.items()
    ]
    return muted(lines, tag="ul") if lines else None
