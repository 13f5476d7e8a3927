"""`python -m tools.cli`: the same as the command `agentforge`."""

from __future__ import annotations

from tools.cli.main import main

if __name__ == "__main__":
    main()
