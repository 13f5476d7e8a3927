"""What each key of a configuration could cause, and so whether a stranger may set it; pure.

A project's file came with the project, maybe from a stranger. A key that runs, connects, sends,
mounts, reads outside the project, creates, widens, speaks to a model, or moves sessions applies
only once the person has trusted the file. A key that is not in the table needs trust.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from ..errors import counted, listed
from .choices import LANGUAGES, PACKAGE_MANAGERS, TRANSCRIPTS

_PASSWORD: Final = re.compile(r"(://[^/@:?#\\\s]{0,100}):[^/@?#\\\s]{0,500}@")
"""The password of an address. None of the excluded characters can occur in it: after one of them
there is no password, but text that could hide the host of the connection."""
_ADDRESSES: Final = frozenset({"store.url", "store.direct", "store.objects", "webhooks"})
_BLANKS: Final = re.compile(r" {9,}")


@frozen
class Harmless:
    """A key that changes only what the person themselves sees or hears.

    Attributes:
        values: Its harmless values; any other needs trust.
    """

    values: tuple[str | bool, ...]


@frozen
class Smaller:
    """A bound that a project may lower without being trusted.

    Attributes:
        than: The default bound.
        least: Its minimum.
    """

    than: float
    least: float = 1


@frozen
class NeedsTrust:
    """A key that a person has to allow.

    Attributes:
        allows: What it allows, as a sentence whose `{}` is the value.
    """

    allows: str


_EITHER: Final = Harmless((True, False))

Standing = Harmless | Smaller | NeedsTrust

TABLE: Final[Mapping[str, Standing]] = MappingProxyType(
    {
        "project.language": Harmless(LANGUAGES),
        "project.package_manager": Harmless(PACKAGE_MANAGERS),
        "project.source": NeedsTrust("imports begin in {}; agents are told so"),
        "project.tests": NeedsTrust("agents are told that the tests are in {}"),
        "project.test": NeedsTrust("agents are told to run {}"),
        "sessions.directory": NeedsTrust("sessions are read from and written to {}"),
        "run.workflow": NeedsTrust("`agentforge run` runs the workflow {}"),
        "run.agent": NeedsTrust("runs, or connects to, the agent {}"),
        "run.agent_timeout_s": Smaller(600),
        "run.max_output": NeedsTrust("an agent may answer with up to {} tokens"),
        "run.agent_mode": NeedsTrust("agents work in the mode {}"),
        "run.agent_network": NeedsTrust("an agent that edits has the network: {}"),
        "run.agent_environment": NeedsTrust("agents are given these environment variables: {}"),
        "run.isolation": NeedsTrust("scripts run in the {}"),
        "context.enabled": NeedsTrust("agents are sent files of the project: {}"),
        "context.files": NeedsTrust("agents are sent these files: {}"),
        "context.max_tokens": NeedsTrust("agents are sent up to {} tokens of the project"),
        "context.tree": NeedsTrust("agents are sent the names of the project's files: {}"),
        "context.guides": NeedsTrust("agents are sent these guides: {}"),
        "context.role": NeedsTrust("agents are told who they are: {}"),
        "context.rules": NeedsTrust("agents are sent the rules in {}"),
        "briefing.shows": NeedsTrust("briefings show agents {}"),
        "repository.use": NeedsTrust("sessions work on a copy of the repository: {}"),
        "repository.path": NeedsTrust("sessions work on a copy of {}"),
        "repository.base": NeedsTrust("sessions begin from {}"),
        "repository.with_uncommitted": NeedsTrust("sessions get what is not committed: {}"),
        "gate.command": NeedsTrust("runs {} in a jail; as you, in none, where agents.gate is true"),
        "gate.report": NeedsTrust("tests are judged by {}"),
        "gate.report_path": NeedsTrust("the report is read from {}"),
        "gate.timeout_s": Smaller(300),
        "jail.read": NeedsTrust("commands in a jail can read {}"),
        "jail.mounts": NeedsTrust("commands in a jail see {} of the checkout"),
        "jail.network": NeedsTrust("commands in a jail have the network: {}"),
        "jail.environment": NeedsTrust("commands in a jail get these environment variables: {}"),
        "jail.timeout_s": Smaller(600),
        "jail.memory_bytes": Smaller(4 << 30, least=16 << 20),
        "jail.processes": Smaller(512, least=4),
        "agents.create": NeedsTrust("a prompt in an agent program begins a session: {}"),
        "agents.token_budget": NeedsTrust("an agent's session ends at {} tokens"),
        "agents.gate": NeedsTrust(
            "the gate's command runs after each turn, as you, in no jail: {}"
        ),
        "agents.gate_rounds": Smaller(3),
        "privacy.transcripts": Harmless(TRANSCRIPTS),  # applied where it is stricter
        "store.url": NeedsTrust(
            "connects to the database {}, which gets what sessions record and files"
        ),
        "store.direct": NeedsTrust("connects to the database {}"),
        "store.objects": NeedsTrust("sends workspaces to {}"),
        "store.cache_bytes": NeedsTrust("a worker keeps up to {} bytes of workspaces"),
        "questions.directory": NeedsTrust("questions are read from and written to {}"),
        "questions.shared": NeedsTrust("questions are those that all your projects share: {}"),
        "questions.max_sessions": NeedsTrust("up to {} questions may wait"),
        "questions.retention_s": NeedsTrust("questions are removed {} seconds after their end"),
        "questions.session_timeout_s": NeedsTrust("questions end after {} seconds"),
        "questions.max_questions": NeedsTrust("a question session has up to {} questions"),
        "questions.min_options": NeedsTrust("a question has at least {} options"),
        "questions.max_options": NeedsTrust("a question has up to {} options"),
        "questions.max_text_chars": NeedsTrust("a question's text has up to {} characters"),
        "notify.bell": _EITHER,
        "notify.title": _EITHER,
        "notify.desktop": NeedsTrust("runs notify-send for questions and events: {}"),
        "notify.on_question": NeedsTrust("runs {} as you, for each question"),
        "notify.events": NeedsTrust("you are notified of {}"),
        "notify.on_event": NeedsTrust("runs {} as you, for each of these events"),
        "webhooks": NeedsTrust("sends what happens in sessions to {}"),
        "observers": NeedsTrust("what happens in sessions reaches the installed plugins {}"),
    }
)
"""Each key, by its section. `webhooks` and `observers` are lists of tables; each is one key."""


def sifted(
    values: Mapping[str, Any], otherwise: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Return the part of an untrusted file that applies, and the keys that do not.

    Args:
        values: The document.
        otherwise: The person's own document, whose bounds a project may only lower.
    """
    kept: dict[str, Any] = {}
    left_out: list[str] = []
    for section, table in values.items():
        if not isinstance(table, dict):
            left_out.append(section)
            continue
        own = otherwise.get(section)
        mine = own if isinstance(own, dict) else {}
        for key, value in table.items():
            if _holds(f"{section}.{key}", value, mine.get(key)):
                kept.setdefault(section, {})[key] = value
            else:
                left_out.append(f"{section}.{key}")
    return kept, left_out


def _holds(name: str, value: object, otherwise: object) -> bool:
    standing = TABLE.get(name)
    if isinstance(standing, Smaller):
        bound = otherwise if _is_number(otherwise) else standing.than
        return _is_number(value) and standing.least <= value <= bound  # type: ignore[operator]
    if not isinstance(standing, Harmless):
        return False
    return any(type(value) is type(one) and value == one for one in standing.values)


def _is_number(value: object) -> bool:
    """Return whether a value is a valid bound: a whole number, as all readers require."""
    return isinstance(value, int) and not isinstance(value, bool)


def merged(own: Mapping[str, Any], project: Mapping[str, Any]) -> dict[str, Any]:
    """Return the person's document overridden by a project's, key by key; receivers of both."""
    result = dict(own)
    for section, value in project.items():
        mine = result.get(section)
        if isinstance(mine, dict) and isinstance(value, dict):
            result[section] = {**mine, **value}
        elif isinstance(mine, list) and isinstance(value, list):
            result[section] = [*mine, *value]
        else:
            result[section] = value
    return result


def allowances(
    values: Mapping[str, Any], otherwise: Mapping[str, Any] = MappingProxyType({})
) -> list[str]:
    """Return what a file would allow once it is trusted, a line for each key that needs it.

    Each line is printable, whatever the file contains, and complete: only the password of an
    address is hidden, and a long run of blanks is replaced by its length in words.

    Args:
        values: The document.
        otherwise: The person's own document, whose bounds a project may only lower.
    """
    lines = []
    for name in sifted(values, otherwise)[1]:
        section, _, key = name.partition(".")
        text = _written(values[section][key] if key else values[section])
        if name in _ADDRESSES:
            text = _PASSWORD.sub(r"\1:…@", text)
        standing = TABLE.get(name)
        if isinstance(standing, NeedsTrust):
            lines.append(f"{name}: {standing.allows.replace('{}', text)}")
        elif isinstance(standing, Smaller):
            lines.append(f"{name}: {text}, which is no lower bound than what holds otherwise")
        else:
            lines.append(f"{_written(name)}: {text} (there is no such key)")
    return lines


def ignored(left_out: Sequence[str], path: object) -> str:
    """Say on one line which keys of a file are ignored, and what to do."""
    names = [name for name in left_out if name in TABLE]
    unknown = len(left_out) - len(names)
    if unknown:  # their names are a stranger's words, and this line may reach a model
        names.append(counted(unknown, "key that there is not", "keys that there are not"))
    return (
        f"{path} is not trusted, so this of it is ignored: {listed(names, most=6, what='')}. "
        "`agentforge trust` shows what it would allow, and allows it."
    )


def _written(value: object) -> str:
    """Format a value on one line without terminal control characters."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_written, value)) or "nothing"
    if isinstance(value, dict):
        return ", ".join(f"{_written(name)} = {_written(one)}" for name, one in value.items())
    try:
        text = str(value)
    except ValueError:
        text = "a number too long to be written"
    flat = "".join(one if one.isprintable() else "\ufffd" for one in text)
    return _BLANKS.sub(lambda found: f"[{len(found[0]):,} blanks]", flat)
