"""Nightly clean-up from Python: archive what is older than a week, then keep the disk in bounds.

    python examples/maintenance.py --workspace-root workspace --archive archive

Exits with 1 when something that was to go is still there.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.harness import SessionManager
from tools.sandbox import RetentionPolicy, archive_sessions, prune_sessions


def main() -> int:
    """Clean up once; say what was done."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workspace-root", type=Path, default=Path("workspace"))
    parser.add_argument("--archive", type=Path, required=True)
    parser.add_argument("--keep", type=int, default=1000, help="the most workspaces that stay")
    parser.add_argument("--ended-days", type=float, default=30)
    parser.add_argument("--dry-run", action="store_true")
    given = parser.parse_args()

    results = [
        archive_sessions(7 * 24, given.archive, given.workspace_root, dry_run=given.dry_run),
        prune_sessions(
            workspace_root=given.workspace_root,
            dry_run=given.dry_run,
            policy=RetentionPolicy(max_sessions=given.keep, min_free_space_gb=5),
        ),
    ]
    for result in results:
        print(result)
        for session_id, error in result.errors.items():
            print(f"{session_id}: {error}", file=sys.stderr)
    gone = SessionManager().cleanup_old_sessions(given.ended_days, dry_run=given.dry_run)
    print(f"{len(gone)} agent sessions that ended long ago")
    return 1 if any(result.errors for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
