"""Check the stored programs for `agentforge doctor`: of sandbox sessions, and of agent sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ....sandbox.guest_paths import PROGRAM_NAME, STATE_NAME
from ....sandbox.session_workspaces.session_directory import DEFAULT_ROOT
from ..output.text import counted_of, some_of
from .findings import Finding, ok, warn

if TYPE_CHECKING:
    from ....harness.session_ports import SessionRepository
    from ....sandbox import ProgramSnapshotRefused

_MOST_BYTES = 1 << 30


def check_programs(store: SessionRepository) -> Finding | None:
    """Check that stored programs can go on here; None without any."""
    count, found, why_unusable = 0, [], None
    for name, data in _programs(store):
        count += 1
        why_unusable = why_unusable or _judge()
        error = why_unusable(data)
        if error is not None:
            found.append((f"{name}: {error.reason}", error.remedy))
    if found:
        return warn(
            f"{len(found)} of {counted_of(count, 'stored program')} cannot go on here as it is: "
            f"{some_of([said for said, _ in found])}",
            f"{found[0][1].capitalize()}. agentforge prune repair moves damaged ones of sandbox "
            "sessions aside.",
        )
    return ok(f"{counted_of(count, 'stored program')} can go on here") if count else None


def _judge() -> Callable[[bytes], ProgramSnapshotRefused | None]:
    """Return what says why a program cannot go on here; it looks at the cache once."""
    # It needs the engine, which not every machine has.
    from ....sandbox.interpreters.runtime import cache_directory
    from ....sandbox.interpreters.template_file import template_digests
    from ....sandbox.live.stored_programs import why_unusable

    templates = {digest for _, digest in template_digests(cache_directory())}
    return partial(why_unusable, templates=templates)


def _programs(store: SessionRepository) -> Iterator[tuple[str, bytes]]:
    from ....base.files import OsFileSystem, read_regular_file

    for path in sorted(DEFAULT_ROOT.glob(f"*/{PROGRAM_NAME}/{STATE_NAME}")):
        data = read_regular_file(OsFileSystem(), str(path), path=path, max_bytes=_MOST_BYTES)
        if data is not None:
            yield path.parts[-3], data
    for session_id in store.list_sessions():
        for name in store.step_names(session_id):
            if Path(name).suffix == ".aflive":
                yield f"{session_id} ({name})", store.read_step(session_id, name) or b""
