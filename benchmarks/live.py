"""Measure programs that go on in another process, beside other ways to save Python's state.

    python -m benchmarks.live [--quick] [--json] [--check] [--peers DIRECTORY] [--dir DIRECTORY]

What is judged are times and sizes against limits, and turns with a journal against the same turns
without one. Each peer has an environment and a process of its own. The last table says what each
way loses of the kinds of objects in `tests/property/sandbox/live`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from agentforge_sessions.sandbox import ProgramSnapshot, Sandbox, create_sandbox, prepare
from benchmarks._live_peer import write_raw
from benchmarks._sandbox_peers import PEERS, DriverProcess, Peer, Unavailable, install
from benchmarks.measure import Candidate, Row, Timed, compare, row, table
from benchmarks.sessions import facts, place_in
from tests.property.sandbox.live._kinds import Kind
from tests.property.sandbox.live._programs import KINDS, answer_to

OURS: Final = "durable sandbox"
RAW: Final = "raw write + fsync"
SAVE_MS = 8.0
RESTORE_MS = 4.0
FORK_MS = 0.6
PLAIN_BYTES = 20_000
PANDAS_BYTES = 40_000
COMPUTING_TARGET = 1.02
PRINTING_TARGET = 1.1
PROGRAMS = 300
FORKS = 100

OTHERS: Final = (
    *(peer for peer in PEERS if peer.kind == "eryx"),
    Peer("cloudpickle", ("cloudpickle==3.1.2",)),
    Peer("dill", ("dill==0.4.1",)),
)
"""What else saves the state of Python code; none of them suspends the code itself."""

FEW: Final = "values = [1, 2, 3]\nnames = {'a': values}\ndef more(n): return n + len(values)\n"
ASKS: Final = f"from agentforge import ask\n{FEW}print(more(int(await ask('How many?'))))\n"
PANDAS: Final = (
    "import pandas\nfrom agentforge import ask\n"
    "frame = pandas.DataFrame({'a': range(100), 'b': [n / 3 for n in range(100)]})\n"
    "print(frame.a.sum() + int(await ask('How many?')))\n"
)
COMPUTES: Final = "total = 0\nfor n in range(400_000): total += n * n % 7\nprint(total)\n"
PRINTS: Final = "for n in range(30_000): print('line', n, flush=True)\n"
TURN: Final = (
    "import json\nwith open('report.json', 'w') as file: json.dump(list(range(200)), file)\n"
    "print(open('report.json').read()[:20])\n"
)
"""A turn as code of an agent is: it imports, writes a file and reads it."""


@dataclass
class Bench:
    """The rows so far, and where all of it takes place.

    Attributes:
        place: A directory of its own, on the disk that is measured.
        quick: Whether fewer rounds are made.
        best: Whether only the best fifth of the times counts.
        rows: What was measured.
        losses: By way and outcome, the kinds of objects.
    """

    place: Path
    quick: bool
    best: bool
    rows: list[Row] = field(default_factory=list)
    losses: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def folder(self) -> Path:
        """Return a path in it that nothing has used."""
        return self.place / str(next(self._numbers))

    def sandbox(self, **options: Any) -> Sandbox:
        """Open a stateful sandbox over a new workspace; durable in memory if not otherwise said."""
        options = {"durable": True, **options}
        return create_sandbox(workspace=self.folder(), stateful=True, **options)

    def counted(self, timed: Timed) -> Timed:
        """Return the times that count."""
        count = max(1, len(timed.samples) // 5)
        return Timed(sorted(timed.samples)[:count]) if self.best else timed

    def row(
        self,
        group: str,
        size: int,
        what: str,
        timed: Timed,
        *,
        reference: tuple[str, Timed] | None = None,
        **more: Any,
    ) -> Row:
        """Make a row of the times that count."""
        if reference is not None:
            reference = (reference[0], self.counted(reference[1]))
        return row(group, size, what, self.counted(timed), reference=reference, **more)

    def against(self, group: str, size: int, what: str, timed: Timed, limit_ms: float) -> None:
        """Add a row that is judged against a time."""
        limit = (f"{limit_ms:g} ms", Timed([limit_ms / 1e3]))
        self.rows.append(self.row(group, size, what, timed, reference=limit, target=1.0))

    def bytes_of(self, what: str, size: int, most: int | None = None) -> None:
        """Add a row about a size."""
        made = Row("bytes", size, what, 1, 0.0, 0.0)
        if most is not None:
            made.reference, made.ratio, made.target = f"{most:,} bytes", size / most, 1.0
        self.rows.append(made)

    # ------------------------------------------------------------------ ours

    def snapshots(self) -> None:
        """Save and restore suspended programs, with and without pandas."""
        rounds = 20 if self.quick else 100
        with ExitStack() as stack:
            for what, code, printed, most in (
                ("suspended at a question", ASKS, "6\n", PLAIN_BYTES),
                ("suspended, with a DataFrame", PANDAS, "4953\n", PANDAS_BYTES),
            ):
                sandbox, path = self._suspended(stack, code), self.folder()
                sandbox.snapshot().save(path)
                content, beside = path.read_bytes(), self.folder()
                timed = compare(
                    {
                        "save": Candidate(lambda s=sandbox, p=path: s.snapshot().save(p)),
                        RAW: Candidate(lambda c=content, p=beside: write_raw(p, c)),
                    },
                    rounds=rounds,
                    budget_s=10,
                )
                self.against("save with fsync", len(content), what, timed["save"], SAVE_MS)
                raw = ("save with fsync", timed["save"])
                self.rows.append(
                    self.row("same bytes", len(content), RAW, timed[RAW], reference=raw)
                )
                self.bytes_of(what, len(content), most)
                restored, answered = self._restores(path, sandbox.workspace, code, printed, rounds)
                self.against(
                    "restore", len(content), f"{what}, without its answer", restored, RESTORE_MS
                )
                self.rows.append(self.row("restore and answer", len(content), what, answered))

    def _suspended(self, stack: ExitStack, code: str) -> Sandbox:
        sandbox = stack.enter_context(self.sandbox())
        result = sandbox.execute(code)
        assert result.suspended is not None, result
        return sandbox

    def _restores(
        self, path: Path, workspace: Path, code: str, printed: str, rounds: int
    ) -> tuple[Timed, Timed]:
        """Time restoring a program, which is done when it is first answered.

        Returns:
            That less the median of answering one whose interpreter is there, and the whole of it.
        """
        answered, alone = Timed(), Timed()
        for _ in range(rounds):
            with self.sandbox() as here:
                assert here.execute(code).suspended is not None
                began = time.perf_counter()
                assert here.resume({1: "3"}).stdout == printed
                alone.samples.append(time.perf_counter() - began)
            began = time.perf_counter()
            snapshot = ProgramSnapshot.load(path)
            assert snapshot is not None
            with Sandbox.restore(snapshot, workspace=workspace) as sandbox:
                result = sandbox.resume({1: "3"})
                answered.samples.append(time.perf_counter() - began)
                assert result.stdout == printed, result
        less = self.counted(alone).percentile(50) / 1e3
        return Timed([max(0.0, one - less) for one in answered.samples]), answered

    def forks(self) -> None:
        """Fork a suspended program a hundred times."""
        with self.sandbox() as sandbox:
            assert sandbox.execute(ASKS).suspended is not None
            timed = Timed()
            for _ in range(2 if self.quick else 5):
                places = [self.folder() for _ in range(FORKS)]
                began = time.perf_counter()
                forked = sandbox.fork(FORKS, places)
                timed.samples.append((time.perf_counter() - began) / FORKS)
                for one in forked:
                    one.close()
            self.against("fork", FORKS, "one of a suspended program", timed, FORK_MS)

    def journals(self) -> None:
        """Run turns with and without a journal on the disk."""
        with self.sandbox(durable=False) as plain, self.sandbox(durable=self.folder()) as durable:
            for group, code, target in (
                ("computing", COMPUTES, COMPUTING_TARGET),
                ("30,000 prints", PRINTS, PRINTING_TARGET),
                ("turn of an agent", TURN, None),
            ):
                candidates = {
                    "stateful": Candidate(lambda code=code: plain.execute(code)),
                    "durable, with its journal": Candidate(lambda code=code: durable.execute(code)),
                }
                timed = compare(candidates, rounds=5 if self.quick else 25, budget_s=60)
                reference = ("stateful", timed["stateful"])
                for name, found in timed.items():
                    with_target = {} if name == "stateful" else {"target": target}
                    self.rows.append(
                        self.row(group, 1, name, found, reference=reference, **with_target)  # type: ignore[arg-type]
                    )

    def many(self) -> None:
        """Suspend hundreds of programs, each on the disk, and resume each in another sandbox."""
        suspended, resumed, kept = Timed(), Timed(), []
        for _ in range(30 if self.quick else PROGRAMS):
            began = time.perf_counter()
            workspace, directory = self.folder(), self.folder()
            with create_sandbox(workspace=workspace, stateful=True, durable=directory) as sandbox:
                assert sandbox.execute(ASKS).suspended is not None
            suspended.samples.append(time.perf_counter() - began)
            kept.append((workspace, directory))
        for workspace, directory in kept:
            began = time.perf_counter()
            with create_sandbox(workspace=workspace, stateful=True, durable=directory) as sandbox:
                assert sandbox.resume({1: "3"}).stdout == "6\n"
            resumed.samples.append(time.perf_counter() - began)
        for what, timed in (("started and suspended", suspended), ("resumed and ended", resumed)):
            rate = f"{len(kept) / sum(timed.samples):,.0f} a second"
            self.rows.append(self.row("programs on the disk", len(kept), what, timed, note=rate))
        held = [path.stat().st_size for _, one in kept for path in one.rglob("*") if path.is_file()]
        self.bytes_of("a program that ended, on the disk", sum(held) // len(kept))

    # ------------------------------------------------------------- beside others

    def others(self, drivers: Mapping[str, DriverProcess]) -> None:
        """Save and restore a few variables as the others do."""
        rounds = 5 if self.quick else 25
        with ExitStack() as stack:
            sandbox, path = self._suspended(stack, ASKS), self.folder()
            ours = {"save": Timed(), "restore": Timed()}
            save = {"save": Candidate(lambda: sandbox.snapshot().save(path))}
            ours["save"] = compare(save, rounds=rounds, budget_s=10)["save"]
            ours["restore"] = self._restores(path, sandbox.workspace, ASKS, "6\n", rounds)[0]
        for kind, driver in drivers.items():
            told = driver.ask(do="times", setup=FEW, rounds=rounds)
            for what in ("save", "restore"):
                timed = Timed(told[what])
                name = f"{kind}: {what}"
                self.rows.append(
                    self.row(
                        "few variables", told["bytes"], name, timed, reference=(OURS, ours[what])
                    )
                )
                first = Timed(told[what][:1])
                self.rows.append(self.row("few variables", told["bytes"], f"{name}, first", first))

    def lose(self, drivers: Mapping[str, DriverProcess]) -> None:
        """Find what each way loses of the kinds of objects, by what the code says afterwards."""
        kinds = [kind for kind in KINDS.values() if not kind.around and not kind.awaits]
        ways: dict[str, Callable[[int, Kind], str]] = {OURS: self._goes_on}
        for name, driver in drivers.items():
            ways[name] = lambda number, kind, asked=driver: str(
                asked.ask(do="continues", number=number, **_parts(kind))["outcome"]
            )
        for name, way in ways.items():
            outcomes: dict[str, list[str]] = {}
            for number, kind in enumerate(kinds[:: 6 if self.quick else 1]):
                outcomes.setdefault(way(number, kind), []).append(kind.name)
            self.losses[name] = outcomes

    def _goes_on(self, _: int, kind: Kind) -> str:
        """Say how a kind goes on in ours: asked in between, closed, and restored from the disk."""
        parts = _parts(kind)
        asks = f"from agentforge import ask\n{parts['setup']}\nask('now')\n{parts['use']}"
        with self.sandbox(durable=False) as sandbox:
            before = sandbox.execute(parts["setup"]).stdout
            whole = before + sandbox.execute(parts["use"]).stdout
        workspace, directory = self.folder(), self.folder()
        with create_sandbox(workspace=workspace, stateful=True, durable=directory) as sandbox:
            first = sandbox.execute(asks)
        with create_sandbox(workspace=workspace, stateful=True, durable=directory) as sandbox:
            rest = sandbox.resume({1: answer_to("now")})
        said = first.stdout + rest.stdout
        shutil.rmtree(workspace, ignore_errors=True)
        return "goes on" if said == whole and whole.endswith("end\n") else "loses"


def _parts(kind: Kind) -> dict[str, str]:
    """A kind's code before and after it is saved."""
    setup = [kind.text("prelude", 0), kind.text("setup", 0)]
    use = [kind.text("use", 0, 1), kind.text("use", 0, 2), kind.text("after", 0), "print('end')"]
    return {"setup": "\n".join(setup), "use": "\n".join(use)}


def losses_table(losses: Mapping[str, Mapping[str, list[str]]]) -> str:
    """Write as Markdown what each way lost."""
    outcomes = ("goes on", "refuses", "loses", "does not run")
    lines = [["", *outcomes], ["---", *("--:" for _ in outcomes)]]
    lines += [
        [name, *(str(len(found.get(one, ()))) for one in outcomes)]
        for name, found in losses.items()
    ]
    written = ["| " + " | ".join(line) + " |" for line in lines]
    written += [
        f"{name} {outcome}: {', '.join(found[outcome])}"
        for name, found in losses.items()
        for outcome in ("refuses", "loses")
        if found.get(outcome)
    ]
    return "\n".join(written)


def _drivers(
    stack: ExitStack, peers: Path, place: Path, python: Path | None, skipped: dict[str, str]
) -> dict[str, DriverProcess]:
    found: dict[str, DriverProcess] = {}
    for peer in OTHERS:
        try:
            program = install(peer, peers, python)
            driver = Path(__file__).with_name("_live_peer.py")
            found[peer.kind] = DriverProcess(peer.kind, program, place, None, driver)
        except Unavailable as error:
            skipped[peer.kind] = str(error)
        else:
            stack.callback(found[peer.kind].close)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and with --check judge."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and kinds")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    parser.add_argument("--peers", type=Path, help="where the peers' environments are kept")
    parser.add_argument("--peer-python", type=Path, help="a Python 3.12 or later, for pyeryx")
    parser.add_argument(
        "--best",
        action="store_true",
        help="count the best fifth of the times, on a machine that does other work",
    )
    parser.add_argument("--only", default="", help="the parts to measure, with commas between")
    parser.add_argument("--dir", type=Path, default=Path(".benchmarks"), help="where to write")
    given = parser.parse_args(arguments)
    prepare(lambda line: print(line, file=sys.stderr))
    skipped: dict[str, str] = {}
    parts = given.only.split(",") if given.only else ["snapshots", "forks", "journals", "many"]
    with ExitStack() as stack:
        place = stack.enter_context(place_in(given.dir)).resolve()
        apart = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="agentforge-bench-")))
        peers = given.peers.resolve() if given.peers is not None else apart / "peers"
        peers.mkdir(parents=True, exist_ok=True)
        machine = facts(place)
        del machine["pyyaml"]
        bench = Bench(place, given.quick, given.best)
        began = time.monotonic()
        for part in parts:
            if part not in {"others", "lose"}:
                getattr(bench, part)()
        if not given.only or {"others", "lose"} & {*parts}:
            drivers = _drivers(stack, peers, apart, given.peer_python, skipped)
            for part in ("others", "lose") if not given.only else parts:
                getattr(bench, part)(drivers)
        machine["took_s"] = round(time.monotonic() - began)
    missed = [one for one in bench.rows if one.met is False]
    if given.json:
        rows = [one.as_fields() for one in bench.rows]
        told = {"machine": machine, "skipped": skipped, "rows": rows, "losses": bench.losses}
        print(json.dumps(told, indent=1))
    else:
        print(", ".join(f"{name} {value}" for name, value in machine.items()))
        print(table(bench.rows))
        print(losses_table(bench.losses))
        for name, reason in skipped.items():
            print(f"not measured: {name}: {reason}")
        judged = Counter(one.met for one in bench.rows)
        print(f"{judged[True]} of {judged[True] + judged[False]} targets met")
    return 1 if given.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
