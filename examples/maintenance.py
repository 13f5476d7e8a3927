"""Nightly clean-up from Python: archive what is older than a week, then keep the disk in bounds.

    python examples/maintenance.py --workspace-root workspace --archive archive

Exits with 1 when something that was to go is still there, or a directory was refused.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from agentforge_sessions.harness import SessionManager
from agentforge_sessions.prune import PruneError, PruneResult, RetentionPolicy
from agentforge_sessions.sandbox import prune_sessions
from agentforge_sessions.sandbox.prune_target import archive_sessions

Step = Callable[[], PruneResult | list[str]]


def main() -> int:
    """Clean up once; say what was done."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workspace-root", type=Path, default=Path("workspace"))
    parser.add_argument("--archive", type=Path, required=True)
    parser.add_argument("--keep-last", type=int, default=1000, help="workspaces that stay")
    parser.add_argument("--keep", type=int, dest="keep_last", help=argparse.SUPPRESS)
    parser.add_argument("--min-age-hours", type=float, default=24, help="what is younger stays")
    parser.add_argument("--older-than-days", type=float, default=30, help="ended agent sessions")
    parser.add_argument("--ended-days", type=float, dest="older_than_days", help=argparse.SUPPRESS)
    parser.add_argument("--dry-run", action="store_true")
    given = parser.parse_args()

    root = given.workspace_root
    bounds = RetentionPolicy(
        max_sessions=given.keep_last, min_free_space_gb=5, min_age_hours=given.min_age_hours
    )
    steps: tuple[Step, ...] = (
        lambda: archive_sessions(7 * 24, given.archive, root, dry_run=given.dry_run),
        lambda: prune_sessions(workspace_root=root, dry_run=given.dry_run, policy=bounds),
        lambda: SessionManager().cleanup_old_sessions(given.older_than_days, dry_run=given.dry_run),
    )
    return 1 if [step for step in steps if not done(step)] else 0


def done(step: Step) -> bool:
    """Do one step and say what came of it; one that is refused keeps no other from being done."""
    try:
        result = step()
    except PruneError as error:
        print(error, file=sys.stderr)
        return False
    if not isinstance(result, PruneResult):
        print(f"{len(result)} agent sessions that ended long ago")
        return True
    print(result)
    for session_id, why in result.errors.items():
        print(f"{session_id}: {why}", file=sys.stderr)
    return not result.errors


if __name__ == "__main__":
    sys.exit(main())
