"""A session's process that runs nothing: it looks as long, and ends as, files in a folder say.

It is a program of its own: `python fake_child.py FOLDER`. For a session it makes `begun-ID`, waits
for `end-ID`, claims the session and answers what stands there; where that is `die`, it claims it
and ends, where it is `die-unclaimed`, it ends before. While there is a file `sick`, it does not
begin.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def main() -> None:
    folder = Path(sys.argv[1])
    with (folder / "started").open("a") as started:
        started.write(f"{os.getpid()}\n")
    if (folder / "sick").exists():
        os._exit(4)
    for line in sys.stdin:
        message = json.loads(line)
        if "run" in message:
            answer = look(folder, message["run"])
        elif "pause" in message:
            (folder / f"paused-{message['pause']}").write_text(message["reason"])
            answer = {"paused": True}
        else:
            answer = {"ready": True}
        print(json.dumps(answer), flush=True)


def look(folder: Path, session_id: str) -> dict[str, object]:
    with (folder / f"begun-{session_id}").open("a") as begun:
        begun.write(f"{os.getpid()}\n")
    end = folder / f"end-{session_id}"
    while not end.exists():
        time.sleep(0.005)
    text = end.read_text()
    if text != "die-unclaimed":
        print(json.dumps({"claimed": session_id}), flush=True)
    if text in {"die", "die-unclaimed"}:
        end.unlink()
        os._exit(3)
    given = {"reason": None, "cause": None, "tokens": 0, "phases": [], "retry": None}
    return {"look": {**given, **json.loads(text)}}


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        os._exit(0)
