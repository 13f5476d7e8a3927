"""`python -m agentforge_sessions.entrypoints.cli`: the same as the command `agentforge`."""

from __future__ import annotations

from .main import main

if __name__ == "__main__":
    main()
