"""Pieces of an HTML page that loads and runs nothing: its frame, tables, drawings, texts."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

WIDTH: Final = 960
"""The width of drawings."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of texts; words that say so where it has no rows."""
    lines = [
        "<tr>" + "".join(f"<td>{escaped(cell)}</td>" for cell in row) + "</tr>" for row in rows
    ]
    if not lines:
        return "<p>None.</p>"
    top = "".join(f"<th>{escaped(cell)}</th>" for cell in head)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def drawing(body: str, height: int, label: str) -> str:
    """Return a drawing in SVG, with what it shows in words."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escaped(label)}">{body}</svg>'
        f"<p class=note>{escaped(label)}</p>"
    )


def shown_moment(moment: datetime) -> str:
    """Return a moment in UTC, to the second."""
    return f"{moment:%Y-%m-%d %H:%M:%S}Z"


def escaped(text: str) -> str:
    """Escape, and spell out what is no character of a page."""
    shown = "".join(
        one if one.isprintable() or one in "\n\t" else f"\\x{ord(one):02x}" for one in text
    )
    return html.escape(shown.encode("utf-8", "backslashreplace").decode(), quote=True)


def whole_page(*, title: str, body: str) -> str:
    """Return a page of escaped parts; its policy forbids it to load or run anything."""
    return _PAGE.replace("@TITLE@", title).replace("@BODY@", body)


_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>@TITLE@</title>
<style>
:root { color-scheme: light dark; --line: #8884; --good: #1b7f5c; --bad: #b3402a; --open: #8a8a8a; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere } h2 { font-size: 1.1rem; margin-top: 2rem }
.lead { opacity: .8 } .note { font-size: .85rem; opacity: .75; margin: .2rem 0 }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem } dt { opacity: .7 }
dd { margin: 0 }
table { border-collapse: collapse; width: 100% } th { text-align: left; font-weight: 600 }
td, th { border-bottom: 1px solid var(--line); padding: .3rem .6rem .3rem 0; vertical-align: top;
  white-space: pre-wrap; overflow-wrap: break-word }
svg { width: 100%; height: auto; font-size: 13px } svg text { fill: currentColor }
.passed { fill: var(--good) } .failed { fill: var(--bad) } .open { fill: var(--open) }
.left { fill: none; stroke: var(--good); stroke-width: 2 }
.warning { stroke: var(--bad); stroke-dasharray: 4 4 } .empty { stroke: var(--line) }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #8881; padding: .6rem;
  border-radius: 4px; max-height: 30rem; overflow: auto; font-size: 13px }
ol { padding-left: 1.4rem } time { opacity: .6 } summary { cursor: pointer; padding: .2rem 0 }
</style>
</head>
<body>
@BODY@
</body>
</html>
"""
