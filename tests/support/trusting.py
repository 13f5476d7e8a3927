"""The person of a test trusts what it wrote into a project."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from agentforge_sessions.base.settings.configuration_file import document_of
from agentforge_sessions.entrypoints.cli.trusting import named_files, trust_file
from tests.support.person import persons_folders

PERSON: Final = persons_folders()
"""Where the person of these tests has what they said; tests/conftest.py makes it."""


def trusted(
    path: Path, text: str | bytes | None = None, *, environment: Mapping[str, str] = os.environ
) -> Path:
    """Write a project's configuration file, unless it is there, and trust it as it is.

    Args:
        path: The file, or the project's folder.
        text: What it holds; what it holds already if None.
        environment: Says where the person keeps what they trust.
    """
    file = path if path.suffix == ".toml" else path / ".agentforge" / "config.toml"
    if text is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
    data = file.read_bytes()
    values, _ = document_of(data)
    named = named_files(values, file.parent.parent)
    trust_file(file, data, named, now=datetime.now(UTC), environment=environment)
    return file
