"""Takes the pictures of a session's report: `python docs/pictures/report_page.py`.

A recorded agent develops a component in a temporary folder, `agentforge session report` writes the
page, and a real Chromium shows it. It needs the extra `dev` and Debian's `chromium`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page, sync_playwright

ROOT: Final = Path(__file__).resolve().parents[2]
IMAGES: Final = ROOT / "docs" / "images"
CHROMIUM: Final = "/usr/bin/chromium"
SPECIFICATION: Final = ROOT / "examples" / "specs" / "session-manager.yaml"
RECORDING: Final = ROOT / "examples" / "recordings" / "session_domain"
WIDE: Final = (1280, 1010)
NARROW: Final = (390, 844)


def main() -> None:
    """Take the pictures anew."""
    with tempfile.TemporaryDirectory() as place:
        report = write_report(Path(place))
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            take(browser, report, "report.png", scheme="light", size=WIDE)
            take(browser, report, "report-changes.png", scheme="dark", size=WIDE, at="#attempt-3")
            take(browser, report, "report-phone.png", scheme="light", size=NARROW, at="#attempt-3")
            browser.close()


def write_report(place: Path) -> Path:
    """Develop a component with the recorded agent, and write the page of that session."""
    words = ("run", "tdflow", str(SPECIFICATION), "--component", "session_domain")
    _agentforge(place, *words, "--agent", f"recorded:{RECORDING}", "--json")
    (session,) = json.loads(_agentforge(place, "list", "--json"))["sessions"]
    report = place / "report.html"
    _agentforge(place, "session", "report", session["session_id"], "--out", str(report))
    return report


def _agentforge(place: Path, *words: str) -> str:
    command = Path(sys.executable).with_name("agentforge")
    ended = subprocess.run(
        [command, *words], cwd=place, check=True, stdout=subprocess.PIPE, text=True
    )
    return ended.stdout


def take(
    browser: Browser,
    page: Path,
    name: str,
    *,
    scheme: str,
    size: tuple[int, int],
    at: str | None = None,
) -> None:
    """Take a picture of a page, beginning at an element or at its top."""
    shown: Page = browser.new_page(
        color_scheme="dark" if scheme == "dark" else "light",
        viewport={"width": size[0], "height": size[1]},
        reduced_motion="reduce",
    )
    shown.goto(page.as_uri())
    if at is not None:
        shown.locator(at).evaluate("one => one.scrollIntoView()")
    shown.screenshot(path=str(IMAGES / name))
    shown.close()


if __name__ == "__main__":
    main()
