"""`agentforge schema`: the published JSON Schemas, for programs that read what this one writes."""

from __future__ import annotations

import json
from enum import StrEnum

from ..... import harness
from ...context import Cli
from ...options import argument


class SchemaName(StrEnum):
    """What there is a schema of."""

    SESSION = "session"


def schema(
    cli: Cli,
    name: SchemaName = argument("session", "What to show the schema of.", SchemaName.SESSION),
) -> None:
    """Show the JSON Schema (draft 2020-12) of a session, as `show --json` writes it."""
    schemas = {SchemaName.SESSION: harness.session_schema}
    cli.output.lines(json.dumps(schemas[name](), indent=2, ensure_ascii=False))
