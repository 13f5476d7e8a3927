#!/usr/bin/env python3
"""An agent without a model that edits the files it stands in, as a plan says; the same each time.

    agentforge run tdflow spec.yaml --agent-mode edit --agent "python3 $PWD/editing_agent.py $PWD/plan.json"

The prompt is on standard input and the folder to work in is the current one, as for any agent that
edits in place. The plan is a JSON object: for `red-1`, the first time that the phase is worked at
in the session, `red-2`, and so on, or for `red`, any time, a list of steps:

    {"write": PATH, "text": TEXT}          the whole file
    {"append": PATH, "text": TEXT}
    {"replace": PATH, "old": TEXT, "new": TEXT}     `old` has to stand in it exactly once
    {"delete": PATH}                       a file, or a folder with all that is in it
    {"mode": PATH, "to": "755"}            its permissions, octal
    {"link": PATH, "to": TARGET}           a symbolic link
    {"run": [PROGRAM, ARGUMENT, ...]}      has to end with 0; what it prints goes to standard error
    {"expect": TEXT}                       has to stand in the prompt
    {"say": TEXT}                          on standard output; questions and usage are said so, too
    {"end": CODE}                          at once, with this exit code

Steps that go wrong end it with exit code 3 and a line on standard error. A phase without steps
changes nothing. It needs nothing but Python 3.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any


class PlanFailed(Exception):
    """A step of the plan can't be taken."""


def main(arguments: list[str]) -> int:
    """Take the steps of the phase that the environment names."""
    if len(arguments) != 1:
        print("usage: editing_agent.py PLAN.json", file=sys.stderr)
        return 2
    prompt = sys.stdin.buffer.read().decode("utf-8", "replace")
    phase = os.environ.get("AGENTFORGE_PHASE", "")
    turn = os.environ.get("AGENTFORGE_TURN", os.environ.get("AGENTFORGE_ATTEMPT", "1"))
    call = os.environ.get("AGENTFORGE_CALL", "1")
    try:
        with open(arguments[0], encoding="utf-8") as file:
            plan: dict[str, list[dict[str, Any]]] = json.load(file)
        steps = plan.get(f"{phase}-{turn}-{call}")
        if steps is None:
            steps = plan.get(f"{phase}-{turn}", plan.get(phase, []))
        for step in steps:
            if "end" in step:
                return int(step["end"])
            take(step, prompt)
    except (PlanFailed, OSError, ValueError, KeyError) as error:
        print(f"editing_agent: {phase}-{turn}: {error}", file=sys.stderr)
        return 3
    return 0


def take(step: dict[str, Any], prompt: str) -> None:
    """Take one step."""
    if "write" in step or "append" in step:
        path = Path(step.get("write") or step["append"])
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w" if "write" in step else "a", encoding="utf-8", newline="") as file:
            file.write(step["text"])
    elif "replace" in step:
        path = Path(step["replace"])
        text = path.read_bytes().decode("utf-8")
        if text.count(step["old"]) != 1:
            raise PlanFailed(f"{path}: the text to replace stands in it {text.count(step['old'])}x")
        path.write_bytes(text.replace(step["old"], step["new"]).encode("utf-8"))
    elif "delete" in step:
        path = Path(step["delete"])
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    elif "mode" in step:
        os.chmod(step["mode"], int(step["to"], 8))
    elif "link" in step:
        os.symlink(step["to"], step["link"])
    elif "run" in step:
        done = subprocess.run(step["run"], stdout=sys.stderr, stdin=subprocess.DEVNULL, check=False)
        if done.returncode:
            raise PlanFailed(f"{step['run']} ended with {done.returncode}")
    elif "expect" in step:
        if step["expect"] not in prompt:
            raise PlanFailed(f"the prompt does not say {step['expect']!r}")
    elif "say" in step:
        print(step["say"])
    else:
        raise PlanFailed(f"there is no such step: {sorted(step)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
