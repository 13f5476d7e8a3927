"""The templates of durable programs: the same bytes everywhere, found by them, and not removed."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agentforge_sessions.sandbox.compiled.compiled_module import making
from agentforge_sessions.sandbox.host.engine import native
from agentforge_sessions.sandbox.host.template import Template
from agentforge_sessions.sandbox.interpreters.live_template import live_template, template_of
from agentforge_sessions.sandbox.interpreters.template_file import (
    remove_unused_templates,
    template_digests,
)
from tests.support.live_guests import LiveGuest, live_runtime

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)

PROGRAM = """
import json, os, sys
from pathlib import Path
from agentforge_sessions.sandbox.interpreters.live_template import live_template, template_of
from agentforge_sessions.sandbox.interpreters.prepared_runtime import prepared_runtime

runtime = prepared_runtime(Path(sys.argv[1]))
if len(sys.argv) > 2:
    found = template_of(runtime, sys.argv[2])
else:
    found = live_template(runtime)
print(json.dumps([found.digest, os.readlink(f"/proc/self/fd/{found._fd}")]))
"""


def found_in(cache: Path, *digest: str, **environment: str) -> tuple[str, Path]:
    """The digest and the file of a template, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, cache, *digest],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    said, file = json.loads(done.stdout)
    return said, Path(file)


def test_another_cache_has_the_same_and_finds_what_an_earlier_release_left(
    cache: Path, tmp_path: Path
) -> None:
    digest, file = found_in(cache, PYTHONHASHSEED="1", TZ="Asia/Tokyo", HOME=str(tmp_path))
    assert file.parent == cache
    assert digest == live_template(live_runtime()).digest
    earlier = file.with_name(file.name.replace("-live.", "0-live."))
    file.rename(earlier)
    assert found_in(cache, digest) == (digest, earlier)
    assert not file.exists()
    assert found_in(cache) == (digest, file)


def test_it_is_found_by_its_bytes_and_no_other_is() -> None:
    runtime = live_runtime()
    template = live_template(runtime)
    science = live_template(runtime, science=True)
    assert template_of(runtime, template.digest) is template
    assert template_of(runtime, science.digest) is science
    assert template_of(runtime, "0" * 64) is None


def test_numpy_and_pandas_are_loaded_in_the_other_one() -> None:
    code = "import numpy, pandas, random\nprint(random.random(), numpy.random.rand())"
    drawn = []
    for _ in range(2):
        guest = LiveGuest.opened(science=True)
        turn = guest.run(code)
        assert turn.outcome.fuel_used is not None
        assert turn.outcome.fuel_used < 100_000_000  # importing them takes 4,000,000,000
        drawn.append(turn.printed.split())
        guest.machine.close()
    assert not {*drawn[0]} & {*drawn[1]}


def changed_pages(guest: LiveGuest, template: Template) -> int:
    memory = guest.machine.instance.memory
    memory.refresh()
    page, size = mmap.PAGESIZE, template.size
    written = native.own_pages(memory.base, memory.known)
    return sum(
        at >= size or not native.are_equal(memory.base + at, template._address + at, page)
        for at in range(0, memory.known, page)
        if written[at // page]
    )


def test_a_suspended_program_differs_from_it_in_few_pages() -> None:
    template = live_template(live_runtime())
    guest = LiveGuest.opened()
    assert guest.run("from agentforge import ask\nx = await ask('Deploy?')").asked == [(1, "ask")]
    assert changed_pages(guest, template) <= 200
    guest.machine.close()


def test_what_a_snapshot_needs_stays_when_unused_ones_are_removed(cache: Path) -> None:
    runtime = live_runtime()
    digest = live_template(runtime).digest
    (source,) = [name for name, one in template_digests(runtime.cache) if one == digest][-1:]
    assert runtime.cache is not None
    names = ["0123-aaaa-live.template", "0123-bbbb-live-science.template", "0123-cc-live.template"]
    for name in names:
        shutil.copyfile(runtime.cache / source, cache / name)
        (cache / name).chmod(0o600)
        (cache / f"{name}.checked").write_bytes(b"x")
    (cache / names[1]).write_bytes(b"no template")
    for name in names[:2]:
        for each in (cache / name, cache / f"{name}.checked"):
            os.utime(each, (0, 0))
    assert {one for _, one in template_digests(cache)} == {digest}

    def left() -> set[str]:
        return {name for name in os.listdir(cache) if name.startswith("0123-")}

    with making(cache):
        remove_unused_templates(cache, [digest])
    assert left() == {each for name in names[::2] for each in (name, f"{name}.checked")}
    with making(cache):
        remove_unused_templates(cache, [])
    assert left() == {names[2], f"{names[2]}.checked"}
