"""Phase `calibrate`: fail at the first attempt, succeed at every later one.

It stands for work that depends on something that is not ready yet. The first attempt leaves
`calibration/requested.txt` and gives up; when that file is there, the work can be done.

Exit codes: 0 when the readings are calibrated, 1 at the first attempt.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

WORKSPACE = Path("/app")
REQUEST = WORKSPACE / "calibration" / "requested.txt"
OFFSET = -2


def main() -> int:
    """Ask for the calibration, or use it."""
    if not REQUEST.exists():
        REQUEST.parent.mkdir(exist_ok=True)
        REQUEST.write_text("offset requested\n", encoding="utf-8")
        print("calibrate  the offset is not there yet; retry this phase")
        return 1
    readings = json.loads((WORKSPACE / "readings.json").read_text(encoding="utf-8"))
    calibrated = [reading + OFFSET for reading in readings]
    (WORKSPACE / "calibrated.json").write_text(json.dumps(calibrated) + "\n", encoding="utf-8")
    print(f"calibrate  wrote calibrated.json: {len(calibrated)} readings, offset {OFFSET}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
