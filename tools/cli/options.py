"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer


def complete_session_ids(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Name the sessions whose ids begin with `incomplete`, for the shell."""
    from pathlib import Path

    from tools.harness import SessionStore, SessionSummary

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
