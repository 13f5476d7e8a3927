"""`agentforge schema`: the published JSON Schemas, for programs that read what this one writes."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from ...context import cli_of
from ...options import AsJson, argument


class SchemaName(StrEnum):
    """What there is a schema of."""

    SESSION = "session"


def add_to(app: typer.Typer) -> None:
    """Add this command to the application."""
    app.command("schema", short_help="Show the JSON Schema of a session.")(schema)


def schema(
    context: typer.Context,
    name: Annotated[
        SchemaName, argument("session", "What to show the schema of.")
    ] = SchemaName.SESSION,
    as_json: AsJson = False,
) -> None:
    """Show the JSON Schema (draft 2020-12) of a session, as `show --json` writes it."""
    from .....harness import session_schema

    schemas = {SchemaName.SESSION: session_schema}
    cli = cli_of(context, json=as_json)
    cli.output.lines(json.dumps(schemas[name](), indent=2, ensure_ascii=False))
