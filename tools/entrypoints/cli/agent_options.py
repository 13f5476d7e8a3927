"""Options that several commands by which an agent works share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AgentName = Annotated[
    str,
    typer.Option(
        "--agent",
        metavar="AGENT",
        help="Who does the work: a command line (prompt on standard input, answer on standard "
        "output), recorded:DIR, openai:MODEL[@URL] or anthropic:MODEL[@URL].",
        show_default=False,
    ),
]
AgentTimeout = Annotated[
    float | None,
    typer.Option(
        "--agent-timeout",
        metavar="SECONDS",
        min=0.001,
        help="How long one answer may take; by default 1800 seconds, 600 of an endpoint.",
        show_default=False,
    ),
]
MaxOutput = Annotated[
    int | None,
    typer.Option(
        "--max-output",
        metavar="TOKENS",
        min=1,
        help="The most tokens of an endpoint's answer; 16000 by default.",
        show_default=False,
    ),
]
Record = Annotated[
    Path | None,
    typer.Option(
        "--record",
        metavar="DIR",
        help="Keep the agent's answers as recordings.",
        show_default=False,
    ),
]
Tokens = Annotated[
    int | None,
    typer.Option(
        "--budget",
        metavar="TOKENS",
        min=1,
        help="Tokens allotted; the workflow's own by default.",
        show_default=False,
    ),
]
Component = Annotated[
    str | None,
    typer.Option(
        "--component",
        "-c",
        metavar="NAME",
        help="The component of the specification; the only one by default.",
        show_default=False,
    ),
]
NoWait = Annotated[
    bool,
    typer.Option(
        "--no-wait",
        help="Pause for questions instead of waiting for their answers.",
        show_default=False,
    ),
]
About = Annotated[
    str | None,
    typer.Option(
        "--about", metavar="TEXT", help="What is wanted, in your words.", show_default=False
    ),
]
OtherAgent = Annotated[
    str | None,
    typer.Option(
        "--agent",
        metavar="AGENT",
        help="Another agent than the one that an agent's session names.",
        show_default=False,
    ),
]
