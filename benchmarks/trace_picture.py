"""Draw the trace of a session that one worker began and another one finished.

    python -m benchmarks.trace_picture [--to docs/images/trace.svg]

The first worker develops a component (`make run` does the same, with recorded answers) and is
killed in the second phase; the second worker resumes the session. Both send what they trace to a
receiver on this machine, and the picture is made of what has arrived: a span that was open when its
worker was killed never arrives, and is drawn dashed where others name it as their parent.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

from tests.support.promptness import wait_until
from tests.support.tracing import Receiver, values_of

ROOT: Final = Path(__file__).resolve().parents[1]
WORK: Final = (
    *("run", "tdflow", "examples/specs/session-manager.yaml", "--component", "session_domain"),
    *("--agent", "recorded:examples/recordings/session_domain"),
)
PATIENCE_S: Final = 600.0
ROW: Final = 20
LEFT: Final = 268
WIDTH: Final = 1000
TOP: Final = 64
STYLE: Final = """
svg { background: #ffffff; font: 12px ui-sans-serif, system-ui, sans-serif }
text { fill: #1f2430 } .dim { fill: #5b6270 } .grid { stroke: #e3e6eb }
.w1 { fill: #3b6fb6 } .w2 { fill: #b5651d } .w1s { stroke: #3b6fb6 } .w2s { stroke: #b5651d }
.lost { fill: none; stroke-dasharray: 4 3 } .save { fill: #1f2430 }
.link { fill: none; stroke: #7a3fa0; stroke-width: 1.5 } .tip { fill: #7a3fa0 }
@media (prefers-color-scheme: dark) {
  svg { background: #14171d } text { fill: #e6e8ec } .dim { fill: #a3a9b5 }
  .grid { stroke: #2b303a } .save { fill: #e6e8ec }
  .w1 { fill: #6f9fe0 } .w2 { fill: #e09a55 } .w1s { stroke: #6f9fe0 } .w2s { stroke: #e09a55 }
  .link { stroke: #c08be6 } .tip { fill: #c08be6 }
}
"""


@frozen(kw_only=True)
class Bar:
    """A span as it is drawn.

    Attributes:
        id: Its id.
        parent: Its parent's, empty if none.
        name: Its name.
        worker: Which worker's it is, from 1.
        begin: When it began, in seconds since the trace did.
        end: When it ended.
        note: What to say beside it.
        links: The spans that it is linked to.
        lost: Whether it never arrived.
    """

    id: bytes
    parent: bytes
    name: str
    worker: int
    begin: float
    end: float
    note: str = ""
    links: Sequence[bytes] = field(factory=tuple)
    lost: bool = False


def traced_change_of_worker(folder: Path) -> list[tuple[dict[str, Any], Any]]:
    """Run the work with a change of worker; return the spans, each with its process."""
    with Receiver() as receiver:
        kept = {name: one for name, one in os.environ.items() if not name.startswith("OTEL_")}
        environment = {
            **kept,
            "NO_PROXY": "127.0.0.1",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{receiver.endpoint}/v1/traces",
            "OTEL_BSP_SCHEDULE_DELAY": "20",
        }

        def worker(*words: str) -> subprocess.Popen[bytes]:
            program = [sys.executable, "-m", "agentforge_sessions.entrypoints.cli"]
            return subprocess.Popen(
                [*program, "--base", str(folder), *words],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.DEVNULL,
            )

        def arrived(name: str) -> bool:
            return any(span.name == name for _, span in receiver.spans)

        first = worker(*WORK)
        wait_until(
            lambda: arrived("invoke_agent recorded") and arrived("phase red"), patience_s=PATIENCE_S
        )
        begun = len([1 for _, span in receiver.spans if span.name == "save_session"])
        wait_until(
            lambda: len([1 for _, one in receiver.spans if one.name == "save_session"]) > begun,
            patience_s=PATIENCE_S,
        )
        first.kill()
        first.wait()
        (session,) = [path.name for path in folder.iterdir() if path.name.startswith("session_")]
        assert worker("resume", session).wait() == 0
        return receiver.spans


def bars_of(spans: Sequence[tuple[dict[str, Any], Any]]) -> list[Bar]:
    """Return what is drawn: the spans that arrived, and those that others name as their parent."""
    begin = spans[0][1].start_time_unix_nano
    workers: dict[int, int] = {}
    bars = [
        Bar(
            id=span.span_id,
            parent=span.parent_span_id,
            name=span.name,
            worker=workers.setdefault(process["process.pid"], len(workers) + 1),
            begin=(span.start_time_unix_nano - begin) / 1e9,
            end=(span.end_time_unix_nano - begin) / 1e9,
            note=_note(values_of(span.attributes)),
            links=[link.span_id for link in span.links],
        )
        for process, span in spans
    ]
    return [*bars, *_lost(bars)]


def _note(attributes: Mapping[str, Any]) -> str:
    tokens = [
        f"{attributes[name]:,}"
        for name in ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens")
        if name in attributes
    ]
    if tokens:
        return f"{' + '.join(tokens)} tokens"
    outcome = attributes.get("agentforge.outcome") or attributes.get("agentforge.session.state")
    return "" if outcome == "passed" else str(outcome or "")


def _lost(bars: Sequence[Bar]) -> Iterator[Bar]:
    """Make bars of what was open when its worker was killed, as far as it is known."""
    known = {one.id for one in bars}
    created = next(one.id for one in bars if not one.parent)
    linked = {link for one in bars for link in one.links}
    for lost in {one.parent for one in bars if one.parent and one.parent not in known}:
        children = [one for one in bars if one.parent == lost]
        is_run = lost in linked
        yield Bar(
            id=lost,
            parent=created if is_run else next(iter(linked)),
            name="invoke_workflow tdflow" if is_run else _name_of_lost(children),
            worker=children[0].worker,
            begin=min(one.begin for one in children),
            end=max(one.end for one in bars if one.worker == children[0].worker),
            note="killed",
            lost=True,
        )


def _name_of_lost(children: Sequence[Bar]) -> str:
    agents = any(one.name.startswith("invoke_agent") for one in children)
    return "attempt green" if agents else "phase green"


def rows_of(bars: Sequence[Bar]) -> list[tuple[int, Bar]]:
    """Return the bars in the order of their rows, each with its depth; saves have no rows."""
    children: dict[bytes, list[Bar]] = {}
    for one in sorted(bars, key=lambda bar: bar.begin):
        if one.name != "save_session":
            children.setdefault(one.parent, []).append(one)

    def below(parent: bytes, depth: int) -> Iterator[tuple[int, Bar]]:
        for one in children.get(parent, []):
            yield depth, one
            yield from below(one.id, depth + 1)

    return list(below(b"", 0))


def svg_of(bars: Sequence[Bar]) -> str:
    """Draw the trace."""
    rows = rows_of(bars)
    until = max(one.end for one in bars)
    scale = (WIDTH - LEFT - 150) / until
    height = TOP + ROW * len(rows) + 16
    position = {one.id: TOP + ROW * number for number, (_, one) in enumerate(rows)}

    def x(seconds: float) -> float:
        return round(LEFT + seconds * scale, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'aria-labelledby="title">',
        "<title id='title'>The trace of one session: a worker begins it and is killed, another "
        "one finishes it; the second run is linked to the first.</title>",
        f"<style>{STYLE}</style>",
        '<circle class="w1" cx="14" cy="18" r="5"/><text x="26" y="22">the first worker, killed in '
        'phase green</text><circle class="w2" cx="294" cy="18" r="5"/><text x="306" y="22">the '
        'second worker, which resumes the session</text><text class="dim" x="620" y="22">dashed: '
        "open when it was killed, so never sent; ticks: saves</text>",
    ]
    step = next(one for one in (0.5, 1, 2, 5, 10, 20, 60) if until / one <= 10)
    for mark in range(int(until / step) + 1):
        at = x(mark * step)
        parts.append(
            f'<line class="grid" x1="{at}" x2="{at}" y1="{TOP - 12}" y2="{height - 12}"/>'
            f'<text class="dim" x="{at + 3}" y="{TOP - 14}">{mark * step:g} s</text>'
        )
    for depth, one in rows:
        y = position[one.id]
        width = max(1.5, round((one.end - one.begin) * scale, 1))
        looks = f"lost w{one.worker}s" if one.lost else f"w{one.worker}"
        parts.append(
            f'<text x="{8 + 13 * depth}" y="{y + 14}">{escape(one.name)}</text>'
            f'<rect class="{looks}" x="{x(one.begin)}" y="{y + 4}" width="{width}" height="12" '
            f'rx="2"/><text class="dim" x="{x(one.begin) + width + 6}" y="{y + 14}">'
            f"{escape(one.note)}</text>"
        )
    for one in bars:
        if one.name == "save_session" and one.parent in position:
            y = position[one.parent]
            parts.append(
                f'<rect class="save" x="{x(one.begin)}" y="{y + 2}" width="1.2" height="16"/>'
            )
        for link in one.links:
            if link in position:
                start, end = position[link] + 10, position[one.id] + 10
                at, to = x(next(bar.end for bar in bars if bar.id == link)), x(one.begin)
                parts.append(
                    f'<path class="link" d="M{at} {start} C{at + 40} {start} {to - 40} {end} '
                    f'{to - 6} {end}"/><path class="tip" d="M{to} {end} l-8 -4 v8 z"/>'
                    f'<text x="{to - 16}" y="{end + 4}" text-anchor="end">link</text>'
                )
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    """Run the work, and write the picture."""
    parser = argparse.ArgumentParser(description="Draw the trace of a change of worker.")
    parser.add_argument("--to", type=Path, default=ROOT / "docs/images/trace.svg")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spans = traced_change_of_worker(Path(folder))
    traces = {span.trace_id.hex() for _, span in spans}
    assert len(traces) == 1, traces
    options.to.write_text(svg_of(bars_of(spans)), encoding="utf-8")
    print(f"{options.to}: {len(spans)} spans of one trace, {traces.pop()}")


if __name__ == "__main__":
    main()
