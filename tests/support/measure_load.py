"""Load one session in a process of its own; print what came of it and what it cost, as JSON.

Usage: python -m tests.support.measure_load BASE SESSION_ID
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from pathlib import Path

from agentforge_sessions.harness import SessionCorrupted, SessionStore, SessionUnreadable
from agentforge_sessions.harness.errors import UnsupportedSchema
from agentforge_sessions.harness.format.session_codec import decode_session
from tests.corpus.build import VALID


def peak_mib() -> float:
    """Return the most memory that this process had at any time since the last reset."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("the kernel does not tell VmHWM")


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def reference_s() -> float:
    """Return how long this processor takes, now, for work that no load can be quicker than.

    10 MB are built, encoded, decoded and searched: a quarter of a second where nothing is slow.
    """
    began = time.process_time()
    text = ("- word: 123456789\n" * 600_000).encode().decode()
    assert sum(1 for _ in re.finditer(r"\d+", text)) == 600_000
    return time.process_time() - began


def main() -> None:
    base, session_id = Path(sys.argv[1]), sys.argv[2]
    # Whatever is loaded or built at the first use is no cost of the file.
    decode_session(VALID.encode(), path=base)
    with tempfile.TemporaryDirectory() as empty:
        SessionStore(empty).load(session_id)
    store = SessionStore(base)
    kind, path, said = "none", "", ""
    reset_peak()
    before, began = peak_mib(), time.process_time()
    try:
        store.load(session_id)
    except UnsupportedSchema as error:
        kind, path, said = "schema", str(error.path), str(error)
    except SessionUnreadable as error:
        kind, path, said = "read", str(error.path), str(error)
    except SessionCorrupted as error:
        kind, path, said = "corrupted", str(error.path), str(error)
    seconds = time.process_time() - began
    loaded = peak_mib() - before
    reset_peak()
    began = time.process_time()
    listed = [type(one).__name__ for one in store.summaries()]
    listing = time.process_time() - began
    print(
        json.dumps(
            {
                "kind": kind,
                "path": path,
                "said": said[:2_000],
                "said_chars": len(said),
                "seconds": seconds,
                "mib": loaded,
                "listed": listed,
                "listing_seconds": listing,
                "reference_seconds": reference_s() if max(seconds, listing) > 0.9 else 0.0,
            }
        )
    )


if __name__ == "__main__":
    main()
