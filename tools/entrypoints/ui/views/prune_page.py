"""What a prune would remove and why. Nothing is removed from here: the page names the command."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode
from xml.etree.ElementTree import Element

from attrs import frozen

from ....base.errors import AgentForgeError
from ....prune import PruneResult, RetentionPolicy, human_bytes
from ....prune.domain import WORDS, Decision
from ....wiring.pruning import PruneKind, prune_kinds
from ...pages.html import Child, element
from ...pages.parts import table
from ..errors import InvalidForm
from ..services import Services
from ..view import View, ago, error_box, part
from .forms import Form, count_in, text_in

_SHOWN: Final = 200
_HOURS_A_DAY: Final = 24.0
_NAMES: Final = {
    "harness": "Agent sessions",
    "sandbox": "Sandbox sessions",
    "questions": "Question sessions",
}
_FIELDS: Final = {
    "older_than": "Older than, in days",
    "keep_last": "Keep the newest",
    "max_size": "At most, in MB",
}


@frozen(kw_only=True)
class Rules:
    """The rules that are tried.

    Attributes:
        days: Sessions go that were last used or ended longer ago, in days; None without this rule.
        newest: All but so many of the newest go; None without this rule.
        megabytes: The oldest go until a kind has no more, in MB; None without this rule.
    """

    days: int | None = None
    newest: int | None = None
    megabytes: int | None = None

    @classmethod
    def of(cls, form: Form) -> Rules:
        """Read them from the fields of an address.

        Raises:
            InvalidForm: One of them is no number.
        """
        faults: dict[str, str] = {}
        found: dict[str, int] = {}
        for name, label in _FIELDS.items():
            if text_in(form, name) is None:
                continue
            try:
                found[name] = count_in(form, name, what=label)
            except InvalidForm as error:
                faults.update(error.faults)
        if faults:
            raise InvalidForm(faults)
        return cls(
            days=found.get("older_than"),
            newest=found.get("keep_last"),
            megabytes=found.get("max_size"),
        )

    @property
    def given(self) -> bool:
        """Whether there are any."""
        return (self.days, self.newest, self.megabytes) != (None, None, None)

    def policy(self, kind: PruneKind) -> RetentionPolicy:
        """Return what they mean for a kind, as `agentforge prune` has it."""
        if kind.max_age_hours is None:
            return RetentionPolicy()
        if not self.given:
            return RetentionPolicy(max_age_hours=kind.max_age_hours)
        size = None if self.megabytes is None else self.megabytes << 20
        return RetentionPolicy(
            max_age_hours=None if self.days is None else self.days * _HOURS_A_DAY,
            max_sessions=self.newest,
            max_total_bytes=size,
        )

    def address(self) -> str:
        """Return the address of their page."""
        given = {"older_than": self.days, "keep_last": self.newest, "max_size": self.megabytes}
        fields = {name: value for name, value in given.items() if value is not None}
        return f"/prune?{urlencode(fields)}" if fields else "/prune"

    def words(self) -> list[str]:
        """Return the options of the command that removes what the page shows."""
        options = {
            "--older-than": None if self.days is None else f"{self.days}d",
            "--keep-last": self.newest,
            "--max-size": None if self.megabytes is None else f"{self.megabytes}MB",
        }
        return [str(one) for name, value in options.items() if value for one in (name, value)]


def prune_view(services: Services, form: Form, _: str) -> View:
    """Show what would go by the rules of the address, or by the kinds' own.

    Raises:
        InvalidForm: A rule is none.
    """
    rules = Rules.of(form)
    kinds = prune_kinds(store=services.store, questions_dir=services.places.questions)
    command = f"{services.places.command} {shlex.join(['prune', *rules.words()])}"
    parts = [
        element("h1", "What a prune would remove", id="heading"),
        _rules(rules),
        element(
            "p",
            "Nothing is removed here. To do it: ",
            element("code", command),
            id="command",
            class_="notice",
        ),
    ]
    parts += [_kind(name, kind, rules) for name, kind in kinds.items() if kind.is_there]
    return View(title="Prune", content=parts, address=rules.address())


def _rules(rules: Rules) -> Element:
    values: Mapping[str, int | None] = {
        "older_than": rules.days,
        "keep_last": rules.newest,
        "max_size": rules.megabytes,
    }
    fields = [
        element(
            "label",
            label,
            element(
                "input",
                type="text",
                inputmode="numeric",
                name=name,
                id=name,
                value=None if values[name] is None else str(values[name]),
                size=6,
            ),
        )
        for name, label in _FIELDS.items()
    ]
    return element(
        "form",
        fields,
        element("button", "Try these rules", type="submit"),
        element("a", "The kinds' own rules", href="/prune") if rules.given else None,
        id="rules",
        class_="filter rules",
        hx_get="/view/prune",
        hx_target="#view",
        hx_swap="keyed",
        data_calm=True,
    )


def _kind(name: str, kind: PruneKind, rules: Rules) -> Element:
    title = _NAMES.get(name, name)
    try:
        found = kind.prune(rules.policy(kind), dry_run=True)
    except AgentForgeError as error:
        return part(f"kind-{name}", error_box(error, title="It can't be looked at"), title=title)
    removals = [one for one in found.decisions if one.remove]
    return part(
        f"kind-{name}",
        _decisions(name, removals),
        element("p", f"and {len(removals) - _SHOWN:,} more") if len(removals) > _SHOWN else None,
        _rest(found),
        title=title,
        note=_summary(kind, rules, found, len(removals)),
    )


def _summary(kind: PruneKind, rules: Rules, found: PruneResult, count: int) -> str:
    stays = len(found.decisions) - count
    if kind.max_age_hours is None:
        return f"The configuration keeps them for ever; {stays:,} stay."
    by = "" if rules.given else f"Those last used or ended {_age(kind.max_age_hours)} ago go. "
    freed = human_bytes(found.reclaimed_bytes)
    return f"{by}{count:,} would be removed ({freed}), {stays:,} stay."


def _age(hours: float) -> str:
    return (
        f"{hours / _HOURS_A_DAY:g} days"
        if hours > _HOURS_A_DAY
        else f"{hours:g} hour{'' if hours == 1 else 's'}"
    )


def _decisions(name: str, removals: list[Decision]) -> Child:
    if not removals:
        return element("p", "Nothing to remove.", class_="muted")
    return table(
        f"What would be removed of {_NAMES.get(name, name)}",
        ("Session", "State", "Last used", "Size", "Why"),
        ((_name(name, one), *_cells(one)) for one in removals[:_SHOWN]),
    )


def _name(kind: str, one: Decision) -> Element:
    name = element("code", one.candidate.session_id)
    if kind != "harness":
        return name
    return element("a", name, href=f"/sessions/{one.candidate.session_id}")


def _cells(one: Decision) -> tuple[Child, ...]:
    return (
        one.candidate.state or "",
        ago(one.candidate.dated_at),
        human_bytes(one.candidate.size_bytes),
        ", ".join(WORDS[reason] for reason in one.reasons),
    )


def _rest(found: PruneResult) -> Child:
    """Return what is left alone, with the reason, and what could not be looked at."""
    lines: dict[str, list[Any]] = {}
    for one in found.skipped:
        lines.setdefault(f"left alone, {str(one.reason).replace('_', ' ')}", []).append(
            one.session_id
        )
    for session_id, error in found.errors.items():
        lines.setdefault(error, []).append(session_id)
    if not lines:
        return None
    return element(
        "ul",
        [
            element("li", f"{why}: ", element("code", ", ".join(ids[:3])), _and_more(ids))
            for why, ids in lines.items()
        ],
        class_="muted",
    )


def _and_more(ids: list[Any]) -> str | None:
    return f" and {len(ids) - 3:,} more" if len(ids) > 3 else None
