"""Phase `collect`: put a few readings into the workspace."""

from __future__ import annotations

import json
import sys
from pathlib import Path

WORKSPACE = Path("/app")
READINGS = [12, 15, 11, 19, 13]


def main() -> int:
    """Write the readings."""
    (WORKSPACE / "readings.json").write_text(json.dumps(READINGS) + "\n", encoding="utf-8")
    print(f"collect    wrote readings.json: {len(READINGS)} readings")
    return 0


if __name__ == "__main__":
    sys.exit(main())
