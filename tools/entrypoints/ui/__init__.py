"""Web interface to all sessions for a browser on this machine: `agentforge ui`; see docs/ui.md.

Importing this package does not import a web server; `run_ui` does, and names the missing package if
it can't.
"""

from .errors import InvalidForm, PageNotFound
from .launch import DEFAULT_PORT, run_ui
from .places import UiPlaces

__all__ = [
    "DEFAULT_PORT",
    "InvalidForm",
    "PageNotFound",
    "UiPlaces",
    "run_ui",
]
