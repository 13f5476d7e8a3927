"""Run as `python -m agentforge_sessions.entrypoints.worker`."""

from .process import main

if __name__ == "__main__":
    main()
