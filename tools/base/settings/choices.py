"""What a project's configuration and a workflow's file let one choose from, by name; pure."""

from __future__ import annotations

import re
from typing import Final

LANGUAGES: Final = ("python", "javascript", "rust", "go", "other")
"""The languages that a project can be told to be in."""
PACKAGE_MANAGERS: Final = ("pip", "uv", "poetry", "pdm", "npm", "pnpm", "yarn", "cargo", "go")
"""What installs its packages."""
AGENT_MODES: Final = ("answer", "edit")
"""How an agent gives its files: in its answer's text, or by changing them in place."""
ISOLATIONS: Final = ("sandbox", "jail")
"""Where a file may have its scripts run: Python in the WebAssembly sandbox, or any program in a
jail. An executor of a plugin is what a person names: nobody knows how sealed it is."""
EXECUTOR_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")
"""How executors are named."""
REPORTS: Final = ("junit", "tap", "exit-code")
"""What can be read of a command that runs tests."""
BRIEFING_PARTS: Final = ("title", "tags", "metadata", "workflow_state")
"""What of its user's data a briefing can show."""
DEFAULT_PARTS: Final = ("title", "tags")
"""What it shows of that by default: metadata and workflow state are for programs mostly."""
