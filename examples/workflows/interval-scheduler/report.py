"""Phase `report`: put the three reports together as a table, a text and a chart.

Writes `reports/summary.csv` (one row for each phase and criterion), `reports/summary.md` and
`reports/chart.png`.

Exit codes: 0 when all three are written, 2 when a report of an earlier phase is missing or broken.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

WORKSPACE = Path("/app")
SCRATCH = WORKSPACE / ".matplotlib"
os.environ["MPLCONFIGDIR"] = str(SCRATCH)
sys.path.insert(0, str(WORKSPACE / "kit"))

import tdkit  # noqa: E402

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

PHASE = "report"
PHASES = ["red", "green", "refactor"]
OUTCOMES = ["passed", "failed", "error"]
CSV = "reports/summary.csv"
MARKDOWN = "reports/summary.md"
CHART = "reports/chart.png"

# Colours of the Okabe-Ito palette, which people with any kind of colour vision can tell apart.
BARS = [
    ("passed", "example", "examples that pass", "#0072B2"),
    ("passed", "property", "properties that hold", "#56B4E9"),
    ("failed", "example", "examples that fail", "#D55E00"),
    ("failed", "property", "properties that fail", "#E69F00"),
]
BEFORE = "#999999"
AFTER = "#0072B2"
NEUTRAL = "#CC79A7"
INK = "#222222"
GRID = "#D9D9D9"


# --- tables --------------------------------------------------------------------------------


def tests_table(reports: dict[str, dict[str, Any]]) -> pd.DataFrame:
    """Return one row for each test and phase."""
    import pandas as pd

    frames = [pd.DataFrame(reports[phase]["tests"]).assign(phase=phase) for phase in PHASES]
    return pd.concat(frames, ignore_index=True)


def summary_table(tests: pd.DataFrame, criteria: list[dict[str, str]]) -> pd.DataFrame:
    """Return one row for each phase and criterion, in the order of the specification."""
    import pandas as pd

    titles = {criterion["id"]: criterion["title"] for criterion in criteria}
    order = list(titles)
    counts = pd.crosstab([tests["phase"], tests["criterion"]], tests["outcome"])
    counts = counts.reindex(columns=OUTCOMES, fill_value=0)
    counts.insert(0, "tests", counts.sum(axis=1))
    counts["duration_s"] = tests.groupby(["phase", "criterion"])["duration_s"].sum().round(6)
    table = counts.reset_index()
    table.columns.name = None
    table.insert(2, "title", table["criterion"].map(titles))
    position = table["phase"].map(PHASES.index) * len(order) + table["criterion"].map(order.index)
    return table.loc[position.sort_values().index].reset_index(drop=True)


def markdown_table(header: list[str], rows: list[list[str]], numbers_from: int) -> str:
    """Return a table in Markdown; the columns from `numbers_from` on are set right."""
    rule = ["---" if i < numbers_from else "---:" for i in range(len(header))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [header, rule, *rows])


def markdown(reports: dict[str, dict[str, Any]], summary: pd.DataFrame) -> str:
    """Return the summary for readers."""
    red = reports["red"]
    by_phase = []
    for phase in PHASES:
        counts = reports[phase]["counts"]
        by_phase.append(
            [
                phase,
                str(counts["collected"]),
                str(counts["passed"]),
                str(counts["failed"]),
                str(counts["errors"]),
                f"{reports[phase]['duration_s']:.3f}",
            ]
        )
    criteria = []
    for criterion in red["criteria"]:
        rows = summary[summary["criterion"] == criterion["id"]].set_index("phase")
        passed = [f"{rows.at[phase, 'passed']}/{rows.at[phase, 'tests']}" for phase in PHASES]
        times = [f"{rows.at[phase, 'duration_s'] * 1000:.1f}" for phase in PHASES[1:]]
        criteria.append([criterion["id"], criterion["title"], *passed, *times])
    speed = [
        [
            row["operation"],
            str(row["size"]),
            f"{row['green_s'] * 1000:.1f}",
            f"{row['refactor_s'] * 1000:.1f}",
            f"{row['ratio']:.1f}",
        ]
        for row in reports["refactor"]["speed"]
    ]
    lines = [
        f"# {red['component']}",
        "",
        "The component was developed test first: the tests were written from the specification "
        "and failed, a plain version passed them, and a faster one passed them again unchanged.",
        "",
        "![Outcomes, durations and speed](chart.png)",
        "",
        "## Phases",
        "",
        markdown_table(["Phase", "Tests", "Passed", "Failed", "Errors", "Seconds"], by_phase, 1),
        "",
        "## Tests passed for each criterion",
        "",
        markdown_table(
            ["Criterion", "What it asks for", *PHASES, "green, ms", "refactor, ms"], criteria, 2
        ),
        "",
        "## Speed on larger input",
        "",
        markdown_table(
            ["Operation", "Intervals", "green, ms", "refactor, ms", "Times as fast"], speed, 1
        ),
    ]
    return "\n".join(lines) + "\n"


# --- chart ---------------------------------------------------------------------------------


def plain(axes: Axes, title: str) -> None:
    """Give a panel its title and take away what does not inform."""
    axes.set_title(title, loc="left", fontsize=11.5, fontweight="bold", color=INK, pad=12)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(GRID)
    axes.tick_params(length=0, labelsize=10, labelcolor=INK)
    axes.set_axisbelow(True)


def draw_outcomes(axes: Axes, tests: pd.DataFrame) -> None:
    """Draw what became of the tests in each phase, stacked."""
    tests = tests.assign(outcome=tests["outcome"].replace("error", "failed"))
    counts = tests.groupby(["phase", "outcome", "kind"]).size()
    base = [0] * len(PHASES)
    for outcome, kind, label, colour in BARS:
        heights = [int(counts.get((phase, outcome, kind), 0)) for phase in PHASES]
        if not any(heights):
            continue
        axes.bar(PHASES, heights, 0.62, bottom=base, color=colour, edgecolor="white", label=label)
        for x, height in enumerate(heights):
            if height:
                axes.text(
                    x,
                    base[x] + height / 2,
                    str(height),
                    ha="center",
                    va="center",
                    fontsize=10,
                    color="white" if colour in ("#0072B2", "#D55E00") else INK,
                )
        base = [low + height for low, height in zip(base, heights, strict=True)]
    axes.set_ylim(0, max(base) * 1.02)
    axes.set_yticks([])
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.07),
        ncols=2,
        frameon=False,
        fontsize=9,
        labelcolor=INK,
        columnspacing=1.2,
        handlelength=1.0,
    )


def draw_durations(axes: Axes, reports: dict[str, dict[str, Any]]) -> None:
    """Draw how long the tests of each phase took."""
    times = [reports[phase]["duration_s"] * 1000 for phase in PHASES]
    bars = axes.barh(PHASES, times, 0.55, color=NEUTRAL)
    axes.bar_label(bars, [f"{t:,.0f} ms" for t in times], padding=5, fontsize=10, color=INK)
    axes.set_xlim(0, max(times) * 1.32)
    axes.set_xticks([])
    axes.invert_yaxis()


def draw_speed(axes: Axes, speed: list[dict[str, Any]]) -> None:
    """Draw the times of both versions on a logarithmic scale, and how they compare."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    places = range(len(speed))
    before = [row["green_s"] * 1000 for row in speed]
    after = [row["refactor_s"] * 1000 for row in speed]
    first = axes.barh([p - 0.19 for p in places], before, 0.34, color=BEFORE, label="plain version")
    second = axes.barh([p + 0.19 for p in places], after, 0.34, color=AFTER, label="faster version")
    gains = [
        f"{t:.1f} ms, {row['ratio']:.0f}\N{MULTIPLICATION SIGN} as fast"
        for t, row in zip(after, speed, strict=True)
    ]
    for bars, labels in ((first, [f"{t:.0f} ms" for t in before]), (second, gains)):
        for text in axes.bar_label(bars, labels, padding=6, fontsize=9.5, color=INK):
            text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1.5})
    axes.set_xscale("log")
    axes.set_xlim(min(after) * 0.45, max(before) * 6)
    axes.set_yticks(
        list(places), [row["operation"].replace("book and", "book and\n") for row in speed]
    )
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.grid(visible=True, color=GRID, linewidth=0.8)
    axes.set_xlabel("milliseconds, logarithmic scale", fontsize=9.5, color=INK)
    axes.tick_params(which="both", length=0)
    axes.invert_yaxis()
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=2,
        frameon=False,
        fontsize=9.5,
        labelcolor=INK,
        handlelength=1.0,
    )


def draw_chart(reports: dict[str, dict[str, Any]], tests: pd.DataFrame) -> None:
    """Draw the three panels and put the picture in place at once."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(11, 6.8), dpi=120, facecolor="white")
    grid = figure.add_gridspec(
        2, 2, width_ratios=[1, 1.45], height_ratios=[1, 1.9],
        left=0.045, right=0.965, top=0.8, bottom=0.17, wspace=0.24, hspace=0.5,
    )  # fmt: skip
    outcomes = figure.add_subplot(grid[:, 0])
    durations = figure.add_subplot(grid[0, 1])
    speed = figure.add_subplot(grid[1, 1])
    size = reports["refactor"]["speed"][0]["size"]
    plain(outcomes, "Tests in each phase")
    plain(durations, "Time to run the tests")
    plain(speed, f"Speed with {size} intervals")
    draw_outcomes(outcomes, tests)
    draw_durations(durations, reports)
    draw_speed(speed, reports["refactor"]["speed"])
    figure.text(
        0.045, 0.945, f"{reports['red']['component']}, developed test first",
        fontsize=16, fontweight="bold", color=INK,
    )  # fmt: skip
    figure.text(
        0.045, 0.903,
        "red: tests from the specification   ·   green: a plain version   ·   "
        "refactor: a faster one, same tests",
        fontsize=10.5, color="#555555",
    )  # fmt: skip
    part = WORKSPACE / "reports" / ".chart.png.part"
    figure.savefig(part, format="png", metadata={"Software": None})
    plt.close(figure)
    os.replace(part, WORKSPACE / CHART)


def main() -> int:
    """Read the reports, write the summary, draw the chart."""
    shutil.rmtree(SCRATCH, ignore_errors=True)
    try:
        reports = {phase: tdkit.read_report(phase) for phase in PHASES}
        if not reports["refactor"].get("speed"):
            raise tdkit.PhaseError("reports/refactor.json holds no comparison of speed")
    except tdkit.PhaseError as error:
        tdkit.say(PHASE, f"stopped: {error}")
        return 2
    for phase, report in reports.items():
        counts = report["counts"]
        tdkit.say(PHASE, f"{phase}: {counts['passed']} of {counts['collected']} tests passed")
    tests = tests_table(reports)
    summary = summary_table(tests, reports["red"]["criteria"])
    tdkit.write_text(CSV, summary.to_csv(index=False))
    tdkit.say(PHASE, f"wrote {CSV}: {len(summary)} rows")
    tdkit.write_text(MARKDOWN, markdown(reports, summary))
    tdkit.say(PHASE, f"wrote {MARKDOWN}")
    try:
        SCRATCH.mkdir()
        draw_chart(reports, tests)
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)
    tdkit.say(PHASE, f"drew {CHART}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
