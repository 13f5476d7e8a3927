"""Who asked, and from which folder, as it is said in the queue and above a question."""

from __future__ import annotations

from ...identifiers import is_session_id
from ...questions import Asker
from .question_queue import Waiting
from .text import folder_name


def asker_name(asker: Asker) -> str:
    """Name who asks: the agent session by the end of its id, else the process.

    `agentforge show` and its like take the end of an id for the whole. A directory that is not
    named as one of an agent session gives no id.
    """
    if asker.session is None:
        return f"process {asker.process.pid}"
    name = asker.session.name
    return f"agent session {name.split('_', 2)[2]}" if is_session_id(name) else "an agent session"


def asked_text(waiting: Waiting, limit: int) -> str:
    """Write who asked and from where, as the end of a line; "" if nobody wrote that down.

    Past `limit` characters the beginning of the folder's path is left out.
    """
    if waiting.asker is None and not waiting.folder:
        return ""
    text = f"asked by {asker_name(waiting.asker)}" if waiting.asker is not None else "asked"
    if not waiting.folder:
        return text
    return f"{text} from {folder_name(waiting.folder, max(limit - len(text) - 6, 1))}"
