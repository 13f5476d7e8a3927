"""The documents' site, opened from the disk in a real Chromium."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.contrast import FAINT
from tests.support.documents import DOCS, built_site, menu


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_site(tmp_path_factory.mktemp("project"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_of_the_documents_has_enough_contrast(
    site: Path, chromium: Any, scheme: str
) -> None:
    page = chromium.new_context(color_scheme=scheme).new_page()
    faint = {}
    for one in menu():
        page.goto((site / one.relative_to(DOCS)).with_suffix(".html").as_uri())
        faint.update(page.evaluate(FAINT))
    page.context.close()
    assert faint == {}


def test_search_of_the_documents_works_from_the_disk_and_asks_no_server(
    site: Path, chromium: Any
) -> None:
    page = chromium.new_context().new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "index.html").as_uri())
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search").fill("bubblewrap")
    page.get_by_role("option", name="The jail").first.wait_for()
    page.context.close()
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
