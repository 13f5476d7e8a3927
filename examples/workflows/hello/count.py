"""Phase `count`: read the greeting of the phase before and count its words.

Exit codes: 0 when the count is written, 2 when there is no greeting.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

WORKSPACE = Path("/app")


def main() -> int:
    """Count what is in the greeting."""
    try:
        text = (WORKSPACE / "greeting.txt").read_text(encoding="utf-8")
    except FileNotFoundError:
        print("count    stopped: greeting.txt is missing")
        return 2
    counts = {"lines": len(text.splitlines()), "words": len(text.split())}
    (WORKSPACE / "counts.json").write_text(json.dumps(counts) + "\n", encoding="utf-8")
    print(f"count    {counts['words']} words in {counts['lines']} lines, written to counts.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
