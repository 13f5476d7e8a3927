"""A program with steps of every kind, killed at whatever instant: the worker's side, and the judge.

Run as a module, this file forks the workers: `tests.crash._forked_workers`.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from agentforge_sessions import Retry, Session, session
from agentforge_sessions.base.files import FileSystem, OsFileSystem
from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import LocalSessions, SessionContext, SessionState, SessionStore
from agentforge_sessions.harness.steps.entries import Amount, Kind, decode_head
from agentforge_sessions.harness.steps.errors import StepFailed, StillWaiting
from agentforge_sessions.harness.steps.program_sessions import program_session_id, send_signal
from agentforge_sessions.harness.steps.step_log import StepLog
from agentforge_sessions.questions import QuestionSessions, UserAnswer
from agentforge_sessions.wiring.phases.question_channel import QuestionSessionChannel
from tests.crash._forked_workers import KILLED, Workers, serve
from tests.support.mortal_filesystem import Killed, MortalFileSystem

SESSION_ID: Final = program_session_id("rivers")
PARTS: Final = 3
COST, SPENT_APART, ESTIMATE = 40, 7, 100
CALLS: Final = ("outline", *(f"part {number}" for number in range(PARTS)), "inner", "publish")
"""What is paid for, each once."""
TOKENS: Final = COST * len(CALLS) + SPENT_APART
BUDGET: Final = TOKENS - COST + ESTIMATE
"""The last call is refused if anything is charged twice, or still reserved by a dead process."""
SIGNAL: Final = "approved"
WAITS: Final = 3
"""The exit code of a worker that waits for the person."""
DEAD: Final = 9
NO_DEATH: Final = Path("none")
_DATABASE: Final = "database"


class Refused(Exception):
    """What one step ends with, for good."""


class Program:
    """The program, and what it pays.

    Args:
        place: Its folder; the paid calls are in its file `paid`.
    """

    def __init__(self, place: Path) -> None:
        self._place = place
        self._has_failed = False

    def pay(self, what: str) -> dict[str, Any]:
        file = os.open(self._place / "paid", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, f"{what}\n".encode())
        os.close(file)
        return {"text": f"<{what}>", "usage": {"input_tokens": COST, "output_tokens": 0}}

    def fail_once(self) -> str:
        """Fail at the first attempt of each process."""
        self._has_failed, failed_before = True, self._has_failed
        if not failed_before:
            raise OSError("not now")
        return "at last"

    @staticmethod
    def refuse() -> None:
        raise Refused("never")

    def run(self, s: Session) -> object:
        """Run it, or what of it is left."""

        def outer() -> str:
            inner: dict[str, Any] = s.step("inner", self.pay, "inner", spend=ESTIMATE)
            return f"({inner['text']})"

        texts = [s.step("outline", self.pay, "outline", spend=ESTIMATE)["text"]]
        items = [f"part {number}" for number in range(PARTS)]
        texts += [
            one["text"] for one in s.map("draft", self.pay, items, concurrency=2, spend=ESTIMATE)
        ]
        s.sleep(0.01)
        texts += [s.step("outer", outer), s.step("flaky", self.fail_once, retry=Retry(2, wait_s=0))]
        try:
            s.step("refused", self.refuse, final=(Refused,))
        except StepFailed as error:
            texts.append(error.reason)
        s.spend(SPENT_APART)
        s.phase("publish")
        texts += [s.ask("Publish?", options=["Yes", "No"]), s.wait_for(SIGNAL)]
        texts.append(s.step("publish", self.pay, "publish", spend=ESTIMATE)["text"])
        return texts


RESULT: Final = [
    *("<outline>", "<part 0>", "<part 1>", "<part 2>", "(<inner>)", "at last", "never"),
    *("Yes", {"by": "me"}, "<publish>"),
]


@contextmanager
def opened(place: Path, fs: FileSystem | None = None) -> Iterator[LocalSessions]:
    """Open the store of a place: files, or the database whose address is there."""
    address = place / _DATABASE
    if address.exists():
        with Database(address.read_text()) as database:
            yield PostgresStore(database, place / "sessions")
    else:
        yield SessionStore(place / "sessions", fs=fs or OsFileSystem())


def work(place: Path, death: Path) -> None:
    """Run the program as a worker; before the change of a file that `death` names, it dies."""
    code = run(place, int(death.name) if death.name.isdigit() else None)
    if code:
        os._exit(code)


def run(place: Path, death: int | None) -> int:
    """Run the program; return how it ended."""
    fs = MortalFileSystem(death)
    try:
        with opened(place, fs) as store:
            channel = QuestionSessionChannel(QuestionSessions(place / "questions", fs=fs))
            options: dict[str, Any] = {"budget": BUDGET, "wait_s": 30.0, "patience_s": 0.02}
            with session("story", key="rivers", store=store, channel=channel, **options) as s:
                if not s.finished:
                    s.finish(Program(place).run(s))
                assert s.result == RESULT, s.result
    except StillWaiting:
        return WAITS
    except Killed:
        return DEAD
    finally:
        (place / "changes").write_text(str(fs.changes))
    return 0


class Place:
    """Where one story takes place, as its judge sees it.

    Args:
        folder: The folder; made here.
        database: The address of its database; None for files.
    """

    def __init__(self, folder: Path, database: str | None = None) -> None:
        self.folder = folder
        folder.mkdir()
        if database is not None:
            (folder / _DATABASE).write_text(database)
        self._paid_when_recorded: Counter[str] = Counter()

    def paid(self) -> Counter[str]:
        """How often each call was paid."""
        file = self.folder / "paid"
        return Counter(file.read_text().splitlines() if file.exists() else ())

    def attend(self) -> None:
        """Do what the program waits for: answer its question, and approve."""
        questions = QuestionSessions(self.folder / "questions")
        for one in questions.pending():
            answer = UserAnswer(question_index=0, selected_option="Yes")
            questions.save_session_answers(one.session_id, [answer])
        with opened(self.folder) as store:
            if not StepLog(store, SESSION_ID).history.signals:
                send_signal(store, SESSION_ID, SIGNAL, {"by": "me"}, by="person")

    def judge(self) -> SessionContext | None:
        """Check what a worker left, of whatever it had come to; return the session."""
        with opened(self.folder) as store:
            found = store.load(SESSION_ID)
            if found is None:
                assert not self.paid()
                return None
            log = StepLog(store, SESSION_ID)
        heads = [decode_head(SESSION_ID, entry.head) for entry in log.history.entries]
        recorded = [read.fields[0] for read in heads if read.kind == Kind.STEP]
        twice = [path for path, count in Counter(recorded).items() if count > 1]
        assert not twice, f"recorded twice: {twice}"
        spent = sum(sum(_tokens(read.kind, read.fields)) for read in heads)
        assert found.token_budget.tokens_used == spent == log.history.sums.tokens
        assert log.history.sums.spent == Amount(spent)
        paid, names = self.paid(), _calls(recorded)
        again = {one: paid[one] for one in names & self._paid_when_recorded.keys()}
        assert again == {one: self._paid_when_recorded[one] for one in again}, "paid when recorded"
        self._paid_when_recorded = Counter({one: paid[one] for one in names})
        return found

    def judge_end(self) -> None:
        """Check that the story ended as it does without kills."""
        found = self.judge()
        assert found is not None
        assert found.state is SessionState.COMPLETED
        assert found.token_budget.tokens_used == TOKENS
        assert set(self.paid()) == set(CALLS)


def _tokens(kind: str, fields: Any) -> list[int]:
    at = {Kind.STEP: 4, Kind.FAILED: 3, Kind.CHARGE: 1}.get(Kind(kind))
    return [] if at is None else [fields[at]]


def _calls(paths: list[str]) -> set[str]:
    """Name the calls of recorded steps."""
    calls = {"outline#1": "outline", "outer#1/inner#1": "inner", "publish#1": "publish"}
    calls |= {f"draft#{number + 1}": f"part {number}" for number in range(PARTS)}
    return {calls[path] for path in paths if path in calls}


def run_to_the_end(workers: Workers, place: Place) -> None:
    """Run workers until the program has finished, and do what it waits for."""
    while (code := workers.run(place.folder, NO_DEATH)) == WAITS:
        place.attend()
    assert code == 0, code
    place.judge_end()


def kill_at_random(
    workers: Workers, places: Iterator[Place], rng: random.Random, least: int
) -> None:
    """Kill workers at random moments until each program has ended, at least so many in all."""
    times = []
    for _ in range(3):  # the first worker waits for the imports of all
        calm = next(places)
        began = time.monotonic()
        assert workers.run(calm.folder, NO_DEATH) == WAITS
        times.append(time.monotonic() - began)
    first_s = min(times)
    kills = stories = again = 0
    while kills < least:
        stories += 1
        place = next(places)
        own = 0
        while True:
            life_s = rng.uniform(0, first_s) * (1 + own / 20)
            code = workers.run(place.folder, NO_DEATH, life_s=life_s)
            assert code in {0, WAITS, KILLED}, code
            place.judge()
            if code == 0:
                break
            if code == WAITS:
                place.attend()
            else:
                own += 1
        place.judge_end()
        extra = (place.paid() - Counter(CALLS)).total()
        assert extra <= 2 * own
        kills, again = kills + own, again + extra
    print(f"{kills} kills in {stories} stories, {again} calls under way were paid again")


if __name__ == "__main__":
    with TemporaryDirectory() as warm:  # what is imported late is imported once
        run(Path(warm), None)
    serve(work)
