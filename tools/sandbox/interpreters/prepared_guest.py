"""What every prepared interpreter gets, and the name of its memory's file.

The name is a digest of everything the memory depends on, so a stale file is never found.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ..compiled.private_cache import is_usable
from ..guest.guest_code import COMPILATION, GUEST_WORKSPACE, HOME_ENVIRONMENT, LIBRARY, TEMPORARY
from ..installed.interpreter_files import LIBRARY_ARCHIVE, MODULE, installed_version
from ..policy import DEFAULT_ENVIRONMENT, ExecutionPolicy

ENVIRONMENT: Final = {
    "TMPDIR": TEMPORARY,
    "PYTHONTZPATH": "",
    **HOME_ENVIRONMENT,
    **DEFAULT_ENVIRONMENT,
}

_FORM: Final = 2
"""The version of the file's format; raise it with every change of the format."""

PLAIN: Final = "plain"
SCIENCE: Final = "science"
LIVE: Final = "live"
LIVE_SCIENCE: Final = "live-science"
"""The kinds of templates; durable programs start from the last two."""

SCIENCE_MODULES: Final = ("numpy", "pandas", "scipy", "sklearn", "matplotlib")
"""Scripts that import these start from the template with numpy and pandas."""


def template_name(kind: str, digests: Mapping[str, str], turns: Sequence[str] = ()) -> str | None:
    """Return the name of a template's file, or None without the interpreter's files.

    Args:
        kind: Which template.
        digests: The listed digests of the interpreter's files.
        turns: What was run in it beyond the common preparation.
    """
    module, archive = digests.get(MODULE), digests.get(LIBRARY_ARCHIVE)
    if module is None or archive is None:
        return None
    policy = ExecutionPolicy()
    depends_on = [
        _FORM,
        kind,
        module,
        archive,
        installed_version("wasmtime"),
        installed_version("agentforge-sessions"),
        COMPILATION,
        list(turns),
        _digest_of_the_host(),
        [LIBRARY, GUEST_WORKSPACE, TEMPORARY],
        sorted(ENVIRONMENT.items()),
        [policy.memory_bytes, policy.open_files, policy.file_calls],
    ]
    digest = hashlib.sha256(json.dumps(depends_on).encode("ascii")).hexdigest()
    return f"{module[:16]}-{digest[:32]}-{kind}.template"


@functools.cache
def _digest_of_the_host() -> str:
    """Return a digest of the host's code: an installed release may be edited."""
    digest = hashlib.sha256()
    above = os.path.dirname(os.path.dirname(__file__))
    for folder in ("host", "host/engine", "host/files", "host/preview1"):
        place = os.path.join(above, folder)
        for name in sorted(os.listdir(place)):
            if name.endswith(".py"):
                with open(os.path.join(place, name), "rb", buffering=0) as file:
                    digest.update(file.read())
    return digest.hexdigest()


def usable_template(cache: Path | None, digests: Mapping[str, str]) -> Path | None:
    """Return the file of the plain template if it is usable, else None."""
    name = template_name(PLAIN, digests)
    if cache is None or name is None or not is_usable(cache / name):
        return None
    return cache / name
