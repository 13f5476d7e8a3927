"""The choices by name in a project's configuration and a workflow's file; pure."""

from __future__ import annotations

import re
from typing import Final

LANGUAGES: Final = ("python", "javascript", "rust", "go", "other")
"""The languages that a project's configuration can name."""
PACKAGE_MANAGERS: Final = ("pip", "uv", "poetry", "pdm", "npm", "pnpm", "yarn", "cargo", "go")
"""The programs that install its packages."""
AGENT_MODES: Final = ("answer", "edit")
"""How an agent delivers files: in its answer's text, or by changing them in place."""
ISOLATIONS: Final = ("sandbox", "jail")
"""Where a workflow's file may have its scripts run: Python in the WebAssembly sandbox, or any
program in a jail. Only a person names a plugin's executor, since its isolation is unknown."""
EXECUTOR_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")
"""The form of executors' names."""
REPORTS: Final = ("junit", "tap", "exit-code")
"""How the result of a test command can be read."""
BRIEFING_PARTS: Final = ("title", "tags", "metadata", "workflow_state")
"""The parts of a session's user data that a briefing can show."""
DEFAULT_PARTS: Final = ("title", "tags")
"""The parts that it shows by default: metadata and workflow state are mostly for programs."""
TRANSCRIPTS: Final = ("none", "references", "masked")
"""What a session has of the transcripts of agents' conversations, strictest first."""
DEFAULT_AGENT_BUDGET: Final = 1_000_000
"""The budget of a session that a prompt in an agent program creates, in tokens."""
