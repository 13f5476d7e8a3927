"""Contrast of colours as WCAG 2.2 computes it: level AA takes 4.5 for text, 3 for what is drawn."""

from __future__ import annotations

from typing import Final

FAINT: Final = """() => {
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
"""For a browser: the texts of a page that have too little contrast, with what they have."""


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours such as `#ffffff`."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
