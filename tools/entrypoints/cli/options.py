"""Arguments and options that several commands share, and how their values are read."""

from __future__ import annotations

import re
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import typer

QUESTIONS_OPTION: Final = "--questions"
"""The option of every command that works with question sessions."""
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_PART: Final = r"(?:\d{1,12}(?:\.\d{1,6})?)[smhdw]"
_SIZE: Final = re.compile(r"(?i)(\d{1,15})\s*(?:(k|m|g|t)(i?)b?|b)?")
_POWERS: Final = {"k": 1, "m": 2, "g": 3, "t": 4}


def option(usage: str, text: str, **more: Any) -> Any:
    """Return an option whose default its help does not show.

    Args:
        usage: Its names and what it takes, as in `-r, --reason TEXT`.
        text: Its help.
        more: Further settings of `typer.Option`.
    """
    words = usage.replace(",", "").split()
    names = [word for word in words if word.startswith("-")]
    if names != words:
        more["metavar"] = words[-1]
    return typer.Option(*names, help=text, show_default=False, **more)


def argument(metavar: str, text: str, **more: Any) -> Any:
    """Return an argument whose default its help does not show.

    Args:
        metavar: Its name in the help.
        text: Its help.
        more: Further settings of `typer.Argument`.
    """
    return typer.Argument(metavar=metavar, help=text, show_default=False, **more)


def complete_session_ids(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the sessions whose ids begin with `incomplete`, for completion."""
    from ...harness import SessionSummary
    from .default_sessions import sessions_being_typed

    found = []
    try:
        with closing(sessions_being_typed(context)) as store:
            for one in store.summaries():
                if not one.session_id.startswith(incomplete):
                    continue
                if isinstance(one, SessionSummary):
                    about = f"{one.head.state.value} {one.head.workflow_type or ''}".strip()
                else:
                    about = "unreadable"
                found.append((one.session_id, about if about.isascii() else ""))
    except Exception:  # noqa: BLE001 (a shell that is being typed in must see no error)
        return []
    return found


SessionId = Annotated[
    str,
    argument(
        "ID", "The session's id, or an unambiguous part of it.", autocompletion=complete_session_ids
    ),
]
AsJson = Annotated[bool, option("--json", "Write JSON for programs, including errors.")]
Follow = Annotated[
    bool, option("--follow, -f", "Show each change until the session ends or you press Ctrl-C.")
]
Yes = Annotated[bool, option("--yes, -y", "Do not ask.")]
QuestionsDirectory = Annotated[
    str | None,
    option(
        f"{QUESTIONS_OPTION} DIR",
        "Directory of the question sessions; AGENTFORGE_QUESTIONS, the configuration's or "
        "./.agentforge/questions by default.",
    ),
]
SHARED_OPTION: Final = "--shared"
SharedQuestions = Annotated[
    bool,
    typer.Option(
        SHARED_OPTION,
        help="Use the queue that all your projects and programs share: AUQ_SESSION_DIR, "
        "or auq/sessions in your data directory by default.",
    ),
]


def questions_directory(given: str | None, *, shared: bool = False) -> Path | None:
    """Return the directory that `--questions` or `--shared` names, or None if neither was given.

    Raises:
        typer.BadParameter: It is empty, or both were given.
    """
    if shared:
        from ...questions import shared_directory

        if given is not None:
            raise typer.BadParameter(
                f"{QUESTIONS_OPTION} names another place", param_hint=SHARED_OPTION
            )
        return shared_directory()
    if given == "":
        raise typer.BadParameter("the path is empty", param_hint=QUESTIONS_OPTION)
    return None if given is None else Path(given)


# --------------------------------------------------------------------------------- durations, sizes


class InvalidDuration(typer.BadParameter):
    """A text that is no duration."""

    def __init__(self, given: str, reason: str) -> None:
        super().__init__(
            f"{given[:60]!r} {reason}. Write a number and a unit, as in 90m, 24h, 7d or 1h30m "
            "(s seconds, m minutes, h hours, d days, w weeks)."
        )
        self.given = given


def parse_duration(text: str) -> timedelta:
    """Read a duration.

    Args:
        text: One or more numbers, each with a unit of s, m, h, d or w, the larger units first.

    Raises:
        InvalidDuration: It is none.
    """
    compact = text.strip().lower()
    if not compact.isascii() or not re.fullmatch(f"(?:{_PART})+", compact):
        raise InvalidDuration(text, "is not a duration")
    parts = [(float(part[:-1]), part[-1]) for part in re.findall(_PART, compact)]
    sizes = [_UNITS[unit] for _, unit in parts]
    if sizes != sorted(set(sizes), reverse=True):
        raise InvalidDuration(text, "names a unit twice or a smaller one before a larger one")
    try:
        return timedelta(seconds=sum(number * _UNITS[unit] for number, unit in parts))
    except OverflowError:
        raise InvalidDuration(text, "is too long") from None


def parse_size(text: str, option: str) -> int:
    """Read a number of bytes: a KB is 1,000 of them, a KiB 1,024.

    Args:
        text: A whole number, with a unit or without.
        option: The option that it was given to, for the message.

    Raises:
        typer.BadParameter: It is none.
    """
    found = _SIZE.fullmatch(text.strip()) if text.isascii() else None
    if found is None:
        raise typer.BadParameter(
            f"{text[:60]!r} is no size. Write a whole number and a unit, as in 512MB or 1GiB",
            param_hint=option,
        )
    number, unit, binary = found.groups()
    base = 1024 if binary else 1000
    size: int = int(number) * base ** _POWERS.get((unit or "").lower(), 0)
    return size


# ------------------------------------------------------------------------------------------- agents


AgentName = Annotated[
    str | None,
    option(
        "--agent AGENT",
        "The agent: a command line (prompt on standard input, answer on standard "
        "output), recorded:DIR, openai:MODEL[@URL] or anthropic:MODEL[@URL]; the "
        "configuration's by default.",
    ),
]
AgentTimeout = Annotated[
    float | None,
    option(
        "--agent-timeout SECONDS",
        "Time limit of one answer; 1800 seconds by default, 600 for an endpoint.",
        min=0.001,
    ),
]
AgentMode = Annotated[
    str | None,
    option(
        "--agent-mode MODE",
        "answer: the agent gives files in its answer (default). edit: its program changes them in "
        "place, in a jail.",
    ),
]
AgentNetwork = Annotated[
    bool | None,
    option(
        "--agent-network/--no-agent-network",
        "Whether an agent that edits in place has the network; not sealed if so.",
    ),
]
AgentEnvironment = Annotated[
    list[str] | None,
    option(
        "--agent-env NAME",
        "Give an agent that edits in place this environment variable; may be repeated.",
    ),
]
MaxOutput = Annotated[
    int | None,
    option(
        "--max-output TOKENS", "Maximum tokens of an endpoint's answer; 16000 by default.", min=1
    ),
]
Record = Annotated[
    Path | None, option("--record DIR", "Record the agent's answers in this directory.")
]
Tokens = Annotated[
    int | None, option("--budget TOKENS", "Tokens allotted; the workflow's own by default.", min=1)
]
Component = Annotated[
    str | None,
    option("--component, -c NAME", "The component of the specification; the only one by default."),
]
ContextFiles = Annotated[
    list[str] | None,
    option(
        "--context GLOB",
        "Show the agent these files of the project too, as 'src/**/*.py'; may be repeated.",
    ),
]
Rules = Annotated[
    Path | None,
    option("--rules FILE", "A file with rules that hold for the work; the agent is shown it."),
]
Role = Annotated[
    str | None,
    option("--role TEXT", "Who the agent is asked to be, instead of the workflow's role."),
]
OnlyShown = Annotated[
    bool,
    option(
        "--dry-run",
        "Only show what would be sent to the agent, and how many tokens it takes; begin nothing.",
    ),
]
NoWait = Annotated[
    bool, option("--no-wait", "Pause for questions instead of waiting for their answers.")
]
About = Annotated[str | None, option("--about TEXT", "Description of what is wanted.")]
OtherAgent = Annotated[
    str | None,
    option("--agent AGENT", "Use this agent instead of the one that an agent's session names."),
]


# ------------------------------------------------------------------------------------------ labels

Title = Annotated[str | None, option("--title TEXT", "What people call the session: one line.")]
Tags = Annotated[
    list[str] | None, option("--tag NAME", "A word to find the session by; may be repeated.")
]
Metadata = Annotated[
    list[str] | None,
    option(
        "--metadata KEY=JSON",
        "What to keep with the session under a name; a value that is no JSON is a text. May be "
        "repeated.",
    ),
]


def parse_metadata(given: list[str] | None) -> dict[str, Any]:
    """Read the fields that `--metadata` names, the later ones of a name last.

    Raises:
        typer.BadParameter: One has no name.
    """
    import json

    found: dict[str, Any] = {}
    for one in given or ():
        name, separator, value = one.partition("=")
        if not separator or not name:
            raise typer.BadParameter(
                f"{one[:60]!r} names no field; write KEY=JSON, as in ticket=4711",
                param_hint="--metadata",
            )
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def labels_of(title: str | None, tags: list[str] | None, metadata: list[str] | None) -> Any:
    """Return the labels that a session is to be begun with.

    Raises:
        typer.BadParameter: One of the metadata has no name.
    """
    from ...harness.domain.session_data import SessionLabels

    return SessionLabels(title=title, tags=tags or (), metadata=parse_metadata(metadata))


# ------------------------------------------------------------------------------------ repositories

DEFAULT_REVISION: Final = "HEAD"

Repo = Annotated[
    Path | None,
    option(
        "--repo PATH",
        "Work on this git repository: the workspace is a checkout of a commit of it. Your own "
        "checkout is not changed. The configuration's by default; none: without one.",
    ),
]
BaseRevision = Annotated[
    str, option("--base REF", "The commit of the repository to begin from; HEAD by default.")
]
WithUncommitted = Annotated[
    bool, option("--with-uncommitted", "Begin with your checkout's uncommitted work, too.")
]
