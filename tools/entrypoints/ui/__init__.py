"""All sessions in a browser of this machine: `agentforge ui`; see docs/ui.md.

Importing this package loads no server: `run_ui` does, and says what to install where it is missing.
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
