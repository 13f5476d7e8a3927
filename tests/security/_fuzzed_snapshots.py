"""Restore snapshots whose memory or index was changed by chance, and let their programs go on.

Prints how they ended, by how much this process grew at most, and how many descriptors it has more.
"""

from __future__ import annotations

import collections
import json
import os
import random
import resource
import sys
from pathlib import Path
from typing import Any, Final

from agentforge_sessions.sandbox.live.errors import ProgramSnapshotRefused
from agentforge_sessions.sandbox.live.snapshot_file import ProgramSnapshot
from agentforge_sessions.sandbox.live.state.pages import pack, unpack
from tests.support.live_machines import LiveMachine, loaded, runtime, saved
from tests.support.made_snapshots import HEAD, sealed

PROGRAM: Final = """
import os, sqlite3, random
file, temporary = open('a', 'w+'), open('/tmp/b', 'w+')
base = sqlite3.connect(':memory:'); base.execute('create table t(x)')
def steps():
    for i in range(1000): yield i
going, found = steps(), os.scandir('/app'); next(found); next(going)
"""
MORE: Final = """
file.write('x' * 100); file.seek(0); temporary.write('y'); print(next(going), file.read()[:3])
base.execute('insert into t values(1)'); print([*base.execute('select * from t')], [*found])
"""
WRONG: Final[tuple[Any, ...]] = (-1, 0, 1, 3, 2**31, 2**63, None, True, "", "..", "a/b", [], {})
PAGE: Final = 4096


def changed_memory(chance: random.Random, pages: bytes) -> bytes:
    """Memory with wrong bits, pages, pointers, or nothing right."""
    new = bytearray(pages)
    how = chance.randrange(5)
    count = 2 ** chance.randrange(8)
    for _ in range(count):
        at = chance.randrange(len(new) - 8)
        page = at // PAGE * PAGE
        if how == 0:
            new[at] ^= 1 << chance.randrange(8)
        elif how == 1:
            new[page : page + PAGE] = chance.randbytes(PAGE)
        elif how == 2:
            new[at // 4 * 4 : at // 4 * 4 + 4] = chance.randrange(40 << 20).to_bytes(4, "little")
        elif how == 3:
            other = chance.randrange(len(new) // PAGE) * PAGE
            new[page : page + PAGE] = new[other : other + PAGE]
    return chance.randbytes(len(new)) if how == 4 else bytes(new)


def change_somewhere(chance: random.Random, value: Any) -> Any:
    """JSON with another value at one place."""
    if isinstance(value, list) and value and chance.random() < 0.9:
        at = chance.randrange(len(value))
        return [*value[:at], change_somewhere(chance, value[at]), *value[at + 1 :]]
    if isinstance(value, dict) and value and chance.random() < 0.97:
        key = chance.choice(list(value))
        return {**value, key: change_somewhere(chance, value[key])}
    if isinstance(value, int) and chance.random() < 0.5:
        return value + chance.choice((-1, 1, 24, 4096))
    return chance.choice(WRONG)


def changed(chance: random.Random, snapshot: ProgramSnapshot) -> bytes:
    """The snapshot with something wrong in it; its lengths and digests are right."""
    found, data, template = snapshot.description, bytes(snapshot), runtime().template
    lengths = HEAD.unpack_from(data)[2:6]
    ends = [HEAD.size, *(HEAD.size + sum(lengths[: i + 1]) for i in range(4))]
    description, pages, files, attached = (data[ends[i] : ends[i + 1]] for i in range(4))
    which = chance.random()
    if which < 0.7:
        prefix = template.content(found.ranges)
        pages = pack(changed_memory(chance, unpack(pages, found.page_bytes, prefix)), prefix)
    elif which < 0.9:
        plain = unpack(files, found.index_bytes + found.content_bytes)
        index = json.loads(plain[: found.index_bytes])
        new = json.dumps(change_somewhere(chance, index)).encode()
        files = pack(new + plain[found.index_bytes :])
        said = {**json.loads(description), "index_bytes": len(new)}
        description = json.dumps(said).encode()
    else:
        description = json.dumps(change_somewhere(chance, json.loads(description))).encode()
    return sealed((description, pages, files, attached))


def main(workspace: Path, seed: int, count: int) -> None:
    chance = random.Random(seed)
    first = LiveMachine(workspace)
    first.run(PROGRAM)
    snapshot = saved(first.capture())
    first.close()
    ends: collections.Counter[str] = collections.Counter()
    opened = grown = 0
    for i in range(count + 1):  # the first shows what one of them needs
        live = LiveMachine(workspace)
        try:
            live.restore(
                loaded(ProgramSnapshot(changed(chance, snapshot) if i else bytes(snapshot)))
            )
            done = live.turn(MORE, seconds=0.3)
            ends["stopped" if done.stopped else f"exit {done.exit_code}"] += 1
        except ProgramSnapshotRefused:
            ends["refused"] += 1
        finally:
            live.close()
        if i == 0:
            opened = len(os.listdir("/proc/self/fd"))
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    more = len(os.listdir("/proc/self/fd")) - opened
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - grown
    print(json.dumps({"ends": ends, "descriptors": more, "grown_kib": grown}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
