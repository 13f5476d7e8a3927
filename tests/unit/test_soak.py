"""What is tried less in the quick run is tried in full somewhere."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_make_soak_runs_every_file_that_tries_more_in_a_soak() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"^soak:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    run = [ROOT / path for path in re.findall(r"tests/[\w/.]+", recipe)]
    assert [path for path in run if not path.exists()] == []
    missed = [
        str(file.relative_to(ROOT))
        for file in (ROOT / "tests").rglob("*.py")
        if re.search(r"^from tests\.support\.soak import", file.read_text("utf-8"), re.MULTILINE)
        and not file.is_relative_to(ROOT / "tests" / "support")
        and file != ROOT / "tests" / "conftest.py"
        and not any(file.is_relative_to(path) for path in run)
    ]
    assert missed == []
