"""Phase `greet`: write a greeting into the workspace."""

from __future__ import annotations

import sys
from pathlib import Path

WORKSPACE = Path("/app")
GREETING = "Hello from a sealed session.\nWhat one phase writes, the next one reads.\n"


def main() -> int:
    """Write the greeting."""
    (WORKSPACE / "greeting.txt").write_text(GREETING, encoding="utf-8")
    print("greet    wrote greeting.txt")
    return 0


if __name__ == "__main__":
    sys.exit(main())
