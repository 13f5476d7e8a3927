"""Snapshots of programs, made by hand: any field may be wrong; lengths and digests are right."""

from __future__ import annotations

import hashlib
import json
import random
import struct
from typing import Any, Final

from agentforge_sessions.sandbox import ExecutionPolicy
from agentforge_sessions.sandbox.host.template import Template, TemplateImage
from agentforge_sessions.sandbox.live.capture import MachineState
from agentforge_sessions.sandbox.live.snapshot_file import FORM, MAGIC, Interpreter, ProgramSnapshot
from agentforge_sessions.sandbox.live.state.pages import pack
from tests.support.wasm_probe import PAGE, Probe

INTERPRETER: Final = Interpreter("a" * 64, "b" * 64)
POLICY: Final = ExecutionPolicy(
    memory_bytes=64 << 20,
    open_files=16,
    temporary_bytes=1 << 20,
    host_bytes=4 << 20,
    workspace_files=20,
)
MEMORY: Final = 40 * PAGE
UNIT: Final = 4096
HEAD: Final = struct.Struct("<8sIQQQQ32s")


def small_template() -> Template:
    """The memory of a small module, with chance in it."""
    probe = Probe()
    probe.put(random.Random(1).randbytes(31 * PAGE), 0)
    template = Template(TemplateImage.of(probe.instance))
    probe.close()
    return template


def description_of(template: Template) -> dict[str, Any]:
    """A valid description: two ranges, one of them past the template."""
    return {
        "module": INTERPRETER.module,
        "library": INTERPRETER.library,
        "template": template.digest,
        "memory_size": MEMORY,
        "ranges": [3, 2, 7 + (template.size // UNIT), 1],
        "monotonic_ns": 5,
        "wall_ns": 1_790_000_000_000_000_000,
        "said": {"state": "idle"},
    }


def index() -> dict[str, Any]:
    """A valid index: a file with two names, a link, a directory, a file without a name."""
    return {
        "opened": [
            [8, 4, "app/file", None, 3, "a" * 16, 77, 1, 0, True, True, 0, 0, None],
            [9, 4, None, 4, 0, None, 0, 2, 1, True, True, 6, 0, None],
            [11, 3, "app", None, 0, None, 78, 0, 0, True, False, 0, 2, 24],
            [12, 4, None, None, 0, None, 0, 0, 0, True, False, 0, 0, None],
        ],
        "preopened": [[3, 0, 0, 0, 0, None], [4, 0, 0, 0, 0, 24]],
        "free": [10],
        "following": 13,
        "nodes": [
            [3, 1, 1, 2, 3, False, ""],
            [4, 2, 1, 2, 3, True, 5],
            [7, 3, 1, 2, 3, True, "below/twin"],
            [3, 4, 1, 2, 3, True, ""],
            [4, 9, 1, 2, 3, True, 2],
        ],
        "names": [[0, "file", 1], [0, "below", 3], [3, "twin", 1], [0, "link", 2]],
        "inodes": 9,
    }


CONTENT: Final = b"12345" + b"67" + bytes(48)


def made(
    template: Template,
    description: dict[str, Any] | None = None,
    listed: dict[str, Any] | None = None,
    content: bytes = CONTENT,
    pages: bytes | None = None,
    form: int = FORM,
    attached: bytes = b"",
) -> bytes:
    """The bytes of a snapshot that says this."""
    description = dict(description or description_of(template))
    index_bytes = json.dumps(listed or index()).encode()
    description.setdefault("index_bytes", len(index_bytes))
    description.setdefault("content_bytes", len(content))
    description.setdefault("attached_bytes", len(attached))
    said = json.dumps(description).encode()
    if pages is None:
        pages = pack(bytes(3 * UNIT), template.content([(3 * UNIT, 2 * UNIT)]))
    parts = said, pages, pack(index_bytes + content), pack(attached)
    return sealed(parts, form=form)


def sealed(parts: tuple[bytes, ...], *, form: int = FORM, magic: bytes = MAGIC) -> bytes:
    """Parts under a head whose digest is right."""
    head = HEAD.pack(magic, form, *map(len, parts), bytes(32))[:-32]
    return head + hashlib.sha256(b"".join((head, *parts))).digest() + b"".join(parts)


def state_of(data: bytes, template: Template, policy: ExecutionPolicy = POLICY) -> MachineState:
    """Its state, all of it checked."""
    return ProgramSnapshot(data).state(
        interpreter=INTERPRETER,
        template_of=lambda digest: template if digest == template.digest else None,
        limits=policy,
    )
