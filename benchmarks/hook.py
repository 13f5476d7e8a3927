"""Measure what an agent waits for at each event: the wall time of `agentforge-hook`.

    python -m benchmarks.hook [--runs N] [--entries N] [--json]

Each event is a process of its own, as the agent programs start it, on a session with a history;
beside it runs `python -c pass`, in turn, so that a busy machine slows both. benchmarks/README.md
says what the rows are.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from agentforge_sessions.harness import SessionManager, SessionStore

PROGRAM = "from agentforge_sessions.entrypoints.hook.main import main; main()"
HOOK = (sys.executable, "-c", PROGRAM, "claude-code")
NAME = "conversation"
FILES = 50
"""The files in the repository that the conversation is about."""


class Conversation:
    """A conversation of Claude Code on a session, as its hooks and its transcript show it."""

    def __init__(self, folder: Path, entries: int) -> None:
        self.folder = folder / "project"
        (self.folder / ".agentforge").mkdir(parents=True)
        subprocess.run(["git", "init", "-q", str(self.folder)], check=True)
        for number in range(FILES):
            (self.folder / f"file-{number}.py").write_text("made = True\n" * 50)
        store = SessionStore(self.folder / ".agentforge" / "sessions")
        manager = SessionManager(store)
        session = manager.create(token_budget=10**9, goal="Measure the hook")
        for number in range(entries):
            session.add_history("noted", details=f"step {number} of the work is done")
        manager.save()
        self.transcript = folder / f"{NAME}.jsonl"
        self._numbers = itertools.count()
        self._session = store.session_path(session.session_id)

    def payload(self, event: str, **fields: object) -> bytes:
        """Return what an event says."""
        return json.dumps(
            {
                "session_id": NAME,
                "transcript_path": str(self.transcript),
                "cwd": str(self.folder),
                "hook_event_name": event,
                **fields,
            }
        ).encode()

    def start(self) -> bytes:
        """Begin a context again."""
        return self.payload("SessionStart", source="resume")

    def prompt(self) -> bytes:
        """Give a prompt."""
        return self.payload("UserPromptSubmit", prompt="Go on with the next step")

    def tool(self) -> bytes:
        """Use a tool, with nothing new since the last time."""
        return self.payload("PreToolUse", tool_name="Bash", tool_input={"command": "true"})

    def age(self) -> None:
        """Have the session saved a minute ago, so that what is new is recorded now."""
        minute_ago = time.time() - 60.0
        os.utime(self._session, (minute_ago, minute_ago))

    def charged(self) -> bytes:
        """Use a tool after the model has answered, long after the session was saved."""
        self.age()
        return self.tool_after_usage()

    def tool_after_usage(self) -> bytes:
        """Use a tool after the model has answered."""
        usage = {"input_tokens": 900, "output_tokens": 100}
        message = {"id": f"msg_{next(self._numbers)}", "model": "m", "usage": usage}
        with self.transcript.open("a") as file:
            file.write(json.dumps({"type": "assistant", "message": message}) + "\n")
        return self.tool()

    def edited(self) -> bytes:
        """Write a file."""
        path = self.folder / "made.py"
        path.write_text("made = True\n")
        given = {"file_path": str(path)}
        return self.payload("PostToolUse", tool_name="Write", tool_input=given, tool_response={})

    def end_of_turn(self) -> bytes:
        """End a turn in which a file was written."""
        (self.folder / "made.py").write_text(f"made = {next(self._numbers)}\n")
        return self.payload("Stop", last_assistant_message="The step is done.")


def times_ms(command: tuple[str, ...], data: bytes) -> tuple[float, float]:
    """Return how long a process takes, on the wall and of the processor, in milliseconds."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AGENTFORGE_")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(command, input=data, capture_output=True, check=True, env=environment)
    wall = time.perf_counter() - began
    if done.stderr:
        raise SystemExit(done.stderr.decode())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    worked = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return wall * 1_000, worked * 1_000


def measure(runs: int, entries: int) -> list[dict[str, float | str]]:
    """Return for each event its least times, and their ratios to those of Python alone."""
    rows: list[dict[str, float | str]] = []
    with tempfile.TemporaryDirectory() as folder:
        talk = Conversation(Path(folder), entries)
        events: dict[str, Callable[[], bytes]] = {
            "start: briefing": talk.start,
            "tool, nothing new": talk.tool,
            "tool, usage found": talk.tool_after_usage,
            "tool, usage charged": talk.charged,
            "prompt recorded": talk.prompt,
            "tool, file noted": talk.edited,
            "end of turn recorded": talk.end_of_turn,
        }
        for name, payload in events.items():
            times_ms(HOOK, payload())
            hook, alone = [], []
            for _ in range(runs):
                data = payload()
                alone.append(times_ms((sys.executable, "-c", "pass"), b""))
                hook.append(times_ms(HOOK, data))
            rows.append(
                {
                    "event": name,
                    "wall_ms": round(min(wall for wall, _ in hook), 1),
                    "wall_ratio": round(_ratio(hook, alone, 0), 2),
                    "cpu_ms": round(min(cpu for _, cpu in hook), 1),
                    "cpu_ratio": round(_ratio(hook, alone, 1), 2),
                }
            )
    return rows


def _ratio(hook: list[tuple[float, float]], alone: list[tuple[float, float]], which: int) -> float:
    """Return the median of the hook's times over the median of Python's alone."""
    first = statistics.median(one[which] for one in hook)
    return first / statistics.median(one[which] for one in alone)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=21)
    parser.add_argument("--entries", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = measure(given.runs, given.entries)
    if given.json:
        print(json.dumps(rows, indent=1))
        return
    print(f"{'event':22} {'wall':>9} {'ratio':>6} {'cpu':>9} {'ratio':>6}")
    for one in rows:
        print(
            f"{one['event']:22} {one['wall_ms']:6} ms {one['wall_ratio']:6} "
            f"{one['cpu_ms']:6} ms {one['cpu_ratio']:6}"
        )


if __name__ == "__main__":
    main()
