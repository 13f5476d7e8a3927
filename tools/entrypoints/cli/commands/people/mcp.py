"""`agentforge mcp`: the harness and its questions as tools for AI clients."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from ...context import cli_of
from ...options import AsJson, QuestionsDirectory, SharedQuestions, option, questions_directory
from ...output.errors import Interrupted

_DEFAULT_HOST: Final = "127.0.0.1"
_DEFAULT_PORT: Final = 8137


def add_to(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("mcp")(mcp)


def mcp(
    context: typer.Context,
    http: Annotated[
        bool,
        option(
            "--http",
            "Serve many clients over streamable HTTP instead of one over standard input.",
        ),
    ] = False,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="With --http: where to listen.", show_default=_DEFAULT_HOST
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="With --http: the port; 0 takes a free one.",
            show_default=str(_DEFAULT_PORT),
        ),
    ] = None,
    allow_remote: Annotated[
        bool,
        option(
            "--allow-remote",
            "Listen also where other machines can connect; needs --token-file.",
        ),
    ] = False,
    allowed_host: Annotated[
        list[str] | None,
        option(
            "--allowed-host NAME[:PORT]",
            "A further name that clients may use for this server; may be repeated.",
        ),
    ] = None,
    allowed_origin: Annotated[
        list[str] | None,
        option(
            "--allowed-origin ORIGIN",
            "An origin whose web pages may send requests; may be repeated.",
        ),
    ] = None,
    token_file: Annotated[
        str | None,
        option(
            "--token-file PATH",
            "A file (mode 0600) with the bearer token that clients must send.",
        ),
    ] = None,
    tools: Annotated[
        str | None,
        typer.Option(
            metavar="SET[,SET]",
            help="Offer only these sets of tools: sessions, code, questions, workspaces.",
            show_default="all",
        ),
    ] = None,
    read_only: Annotated[
        bool, option("--read-only", "Offer only tools that change nothing.")
    ] = False,
    questions: QuestionsDirectory = None,
    shared: SharedQuestions = False,
    as_json: AsJson = False,
) -> None:
    """Serve sessions, the sandbox and questions to AI clients."""
    from ....mcp_server import EVERYTHING, Offer, ToolSet, UnknownToolSet, require_sdk

    cli = cli_of(context, json=as_json)
    only_http = {
        "--host": host is not None,
        "--port": port is not None,
        "--allow-remote": allow_remote,
        "--allowed-host": allowed_host,
        "--allowed-origin": allowed_origin,
        "--token-file": token_file,
    }
    if not http:
        for name, given in only_http.items():
            if given:
                raise typer.BadParameter("only --http has this", param_hint=name)
    where = questions_directory(questions, shared=shared)
    try:
        sets = ToolSet.named(tools) if tools is not None else EVERYTHING.sets
    except UnknownToolSet as error:
        raise typer.BadParameter(str(error), param_hint="--tools") from None
    offer = Offer(sets=sets, read_only=read_only)
    require_sdk()
    from ....mcp_server.serving import McpPlaces, log_library_events, serve_http, serve_stdio

    log_library_events()
    from .....base.settings.trust_table import ignored

    told = cli.configuration
    places = McpPlaces(
        sessions=cli.base,
        store=cli.store_url,
        direct=cli.store_direct,
        objects=cli.objects_url,
        questions=where,
        project=cli.configuration.root,
        repository=cli.configuration.repository,
        briefing_shows=cli.briefing_shows,
        notice=ignored(told.left_out, told.path) if told.left_out else None,
    )
    if not http:
        if sys.stdin is not None and sys.stdin.isatty():
            cli.output.remark(
                "An AI client is expected at standard input, and this is a terminal. Name this "
                "command in the client's configuration (docs/mcp.md), or use --http. Ctrl-C ends "
                "it."
            )
        ended_by = serve_stdio(places, offer, observers=cli.observers())
    else:
        from ....mcp_server.transports.http_guard import HttpSettings, is_loopback, read_token

        settings = HttpSettings(
            host=host if host is not None else _DEFAULT_HOST,
            port=port if port is not None else _DEFAULT_PORT,
            allow_remote=allow_remote,
            allowed_hosts=tuple(allowed_host or ()),
            allowed_origins=tuple(allowed_origin or ()),
            token=read_token(Path(token_file)) if token_file is not None else None,
        )
        if not is_loopback(settings.host):
            cli.output.remark(
                f"warning: other machines can reach this server at {settings.host}. Clients that "
                "have the token can read the sessions and run code in the sandbox, and nothing is "
                "encrypted."
            )

        def announce(url: str) -> None:
            if cli.output.json:
                cli.output.json_line({"url": url})
            else:
                cli.output.line(f"Serving MCP at {url} (Ctrl-C stops it).")

        ended_by = serve_http(
            places,
            settings,
            announce=announce,
            offer=offer,
            terminal=sys.stderr,
            observers=cli.observers(),
        )
    if ended_by == signal.SIGINT:
        raise Interrupted("the server was stopped with Ctrl-C")
