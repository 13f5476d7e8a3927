"""Stand-ins for the agent programs' commands: small scripts in a folder that is all of the PATH."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path


def put_command(folder: Path, name: str, body: str) -> Path:
    """Write a command that runs a body in a shell; it has no program but the shell's own."""
    folder.mkdir(exist_ok=True)
    script = folder / name
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    return script


def put_codex(
    folder: Path, hooks: Sequence[Mapping[str, object]], *, version: str = "codex-cli 0.169.0"
) -> Path:
    """Write a Codex that says its version, and lists hooks in its app server."""
    answer = {"id": 2, "result": {"data": [{"cwd": "/", "hooks": list(hooks), "errors": []}]}}
    return put_codex_answering(folder, answer, version=version)


def put_codex_answering(
    folder: Path, answer: Mapping[str, object], *, version: str = "codex-cli 0.169.0"
) -> Path:
    """Write a Codex whose app server gives an answer to what it is asked; it ends with its input.

    Before that it asks something itself, with the same id; the real one says other things, too.
    What it was asked is in `codex-was-asked`.
    """
    said = shlex.quote(json.dumps({"id": 2, "method": "a question of the server", "params": {}}))
    asked = shlex.quote(str(folder / "codex-was-asked"))
    lines = (
        f'if [ "$1" = --version ]; then echo {shlex.quote(version)}; exit 0; fi',
        f": > {asked}",
        f"while read -r line; do printf '%s\\n' \"$line\" >> {asked}; case $line in",
        f"*hooks/list*) printf '%s\\n' {said} {shlex.quote(json.dumps(answer))};;",
        "esac; done",
    )
    return put_command(folder, "codex", "\n".join(lines))
