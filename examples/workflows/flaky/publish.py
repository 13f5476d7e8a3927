"""Phase `publish`: write the mean of the calibrated readings."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import fmean

WORKSPACE = Path("/app")


def main() -> int:
    """Write the result."""
    readings = json.loads((WORKSPACE / "calibrated.json").read_text(encoding="utf-8"))
    result = {"readings": len(readings), "mean": fmean(readings)}
    (WORKSPACE / "result.json").write_text(json.dumps(result) + "\n", encoding="utf-8")
    print(f"publish    mean of {result['readings']} readings: {result['mean']:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
