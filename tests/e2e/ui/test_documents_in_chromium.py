"""The documents' site, opened from the disk in a real Chromium."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.documents import DOCS, built_site, menu

_FAINT = """() => {
  const light = c => { const [r, g, b] = c.map(v => (v /= 255) <= .03928 ? v / 12.92
    : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b };
  const pen = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = s => { pen.clearRect(0, 0, 1, 1); pen.fillStyle = s; pen.fillRect(0, 0, 1, 1);
    const d = pen.getImageData(0, 0, 1, 1).data; return [d[0], d[1], d[2], d[3] / 255] };
  const over = (a, b) => [0, 1, 2].map(i => a[i] * a[3] + b[i] * (1 - a[3]));
  const behind = e => { const found = []; for (let n = e; n; n = n.parentElement) {
    const c = rgba(getComputedStyle(n).backgroundColor); found.push(c); if (c[3] === 1) break }
    return found.reverse().reduce((below, c) => over(c, below), [255, 255, 255]) };
  const faint = {}, texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const e = texts.currentNode.parentElement, style = getComputedStyle(e);
    if (!texts.currentNode.data.trim() || !e.getClientRects().length
        || style.visibility !== 'visible' || ['SCRIPT', 'STYLE'].includes(e.tagName)) continue;
    let seen = 1; for (let n = e; n; n = n.parentElement) seen *= getComputedStyle(n).opacity;
    if (seen < .1) continue;
    const back = behind(e), color = rgba(style.color); color[3] *= seen;
    const [a, b] = [light(over(color, back)), light(back)].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05), size = parseFloat(style.fontSize);
    if (ratio < (size >= 24 || (size >= 18.7 && style.fontWeight >= 700) ? 3 : 4.5))
      faint[`${e.tagName} ${e.className} ${style.color}`] = ratio.toFixed(2) }
  return faint }"""


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
        faint.update(page.evaluate(_FAINT))
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
