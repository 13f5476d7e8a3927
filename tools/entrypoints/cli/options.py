"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from .conversions import SparingCommand

if TYPE_CHECKING:
    from pathlib import Path

QUESTIONS_OPTION: Final = "--questions"
"""Says where the question sessions are, in every command that has to do with them."""
_FORMER_OPTION: Final = "--dir"


def complete_session_ids(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Name the sessions whose ids begin with `incomplete`, for the shell."""
    from pathlib import Path

    from ...harness import SessionStore, SessionSummary

    given = context.find_root().params.get("base")
    found = []
    try:
        for one in SessionStore(Path(given) if given else None).summaries():
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
    typer.Argument(
        metavar="ID",
        help="The session's id, or a part of it that no other session's id has.",
        autocompletion=complete_session_ids,
        show_default=False,
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Write JSON for programs, errors too.", show_default=False)
]
Follow = Annotated[
    bool,
    typer.Option(
        "--follow",
        "-f",
        help="Stay and show each change until the session ends or you press Ctrl-C.",
        show_default=False,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.", show_default=False)]
QuestionsDirectory = Annotated[
    str | None,
    typer.Option(
        QUESTIONS_OPTION,
        metavar="DIR",
        help="Where the question sessions are; AGENTFORGE_QUESTIONS, the configuration's, else "
        "./.agentforge/questions.",
        show_default=False,
    ),
]


SHARED_OPTION: Final = "--shared"
SharedQuestions = Annotated[
    bool,
    typer.Option(
        SHARED_OPTION,
        help="Use the one queue that all projects and programs of yours share: AUQ_SESSION_DIR, "
        "else auq/sessions in your data directory.",
    ),
]


class QuestionsCommand(SparingCommand):
    """A command with `--questions`, which takes its former name `--dir` as well and hides it."""

    def make_parser(self, ctx: Any) -> Any:
        """Make the parser, and teach it the former name."""
        parser = super().make_parser(ctx)
        option: Any = next(one for one in self.params if QUESTIONS_OPTION in one.opts)
        parser.add_option(
            obj=option, opts=[_FORMER_OPTION], dest=option.name, action="store", nargs=1
        )
        return parser


def questions_directory(given: str | None, *, shared: bool = False) -> Path | None:
    """Return the directory that `--questions` or `--shared` names, or None if neither was given.

    Raises:
        typer.BadParameter: It is empty, or both were given.
    """
    from pathlib import Path

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
