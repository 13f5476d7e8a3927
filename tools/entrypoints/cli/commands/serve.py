"""Servers: `agentforge mcp` for AI clients, `agentforge ui` for people at a browser."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import frozen

from ....base.settings.trust_table import ignored
from ...mcp_server import EVERYTHING, Offer, ToolSet, UnknownToolSet, require_sdk
from ..asking import question_sessions
from ..context import BASE_VARIABLE, STORE_VARIABLE, Cli
from ..options import QuestionPlace, flag, misuse, option
from ..output.errors import Interrupted
from ..signatures import given

if TYPE_CHECKING:
    from ...mcp_server.transports.http_guard import HttpSettings

_DEFAULT_HOST: Final = "127.0.0.1"
_DEFAULT_PORT: Final = 8137


@frozen
class HttpOptions:
    """Options of a server over HTTP: its address and who may connect.

    Attributes:
        host: With --http: where to listen.
        port: With --http: the port; 0 takes a free one.
        allow_remote: Listen also where other machines can connect; needs --token-file.
        allowed_host: A further name that clients may use for this server; may be repeated.
        allowed_origin: An origin whose web pages may send requests; may be repeated.
        token_file: A file (mode 0600) with the bearer token that clients must send.
    """

    host: str | None = option("--host ADDRESS", show_default=_DEFAULT_HOST)
    port: int | None = option("--port PORT", min=0, max=65535, show_default=str(_DEFAULT_PORT))
    allow_remote: bool = flag("--allow-remote")
    allowed_host: list[str] | None = option("--allowed-host NAME[:PORT]")
    allowed_origin: list[str] | None = option("--allowed-origin ORIGIN")
    token_file: str | None = option("--token-file PATH")

    def settings(self) -> HttpSettings:
        """Return the server's settings, with the token read from its file."""
        from ...mcp_server.transports.http_guard import HttpSettings, read_token

        return HttpSettings(
            host=self.host if self.host is not None else _DEFAULT_HOST,
            port=self.port if self.port is not None else _DEFAULT_PORT,
            allow_remote=self.allow_remote,
            allowed_hosts=tuple(self.allowed_host or ()),
            allowed_origins=tuple(self.allowed_origin or ()),
            token=read_token(Path(self.token_file)) if self.token_file is not None else None,
        )


@frozen
class OfferOptions:
    """Options that choose the offered tools, for clients without our hooks.

    Attributes:
        every: Offer all tools, not only the four for agents whose program calls our hooks.
        tools: Offer only these sets of all tools: sessions, code, questions, workspaces.
        read_only: Offer only those of all tools that change nothing.
    """

    every: bool = flag("--all")
    tools: str | None = option("--tools SET[,SET]")
    read_only: bool = flag("--read-only")

    def offer(self) -> Offer:
        """Return the server's offer.

        Raises:
            typer.BadParameter: A set of tools does not exist.
        """
        try:
            sets = EVERYTHING.sets if self.tools is None else ToolSet.named(self.tools)
        except UnknownToolSet as error:
            raise misuse("--tools", str(error)) from None
        return Offer(sets=sets, read_only=self.read_only)


def mcp(
    cli: Cli,
    *,
    http: bool = flag("--http"),
    over_http: HttpOptions,
    offered: OfferOptions,
    questions: QuestionPlace,
) -> None:
    """Serve sessions, the sandbox and questions to AI clients.

    By default four tools, for agents whose program calls our hooks: session, checkpoint, ask, find.

    Args:
        http: Serve all tools to many clients over streamable HTTP, not to one at standard input.
    """
    only_http = given(over_http)
    if only_http and not http:
        raise misuse(only_http[0], "only --http has this")
    where, offer = questions.path, offered.offer()
    if not http:
        _say_who_is_expected(cli)
    if not (http or given(offered)):
        _serve_agent(cli, where)
        return
    require_sdk()
    from ...mcp_server.serving import McpPlaces, log_library_events, serve_http, serve_stdio

    log_library_events()
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
        ended_by = serve_stdio(places, offer, observers=cli.observers())
    else:
        from ...mcp_server.transports.http_guard import is_loopback

        settings = over_http.settings()
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
    _say_how_it_ended(ended_by)


def _say_who_is_expected(cli: Cli) -> None:
    if sys.stdin is not None and sys.stdin.isatty():
        cli.output.remark(
            "An AI client is expected at standard input, and this is a terminal. Name this "
            "command in the client's configuration (docs/inside-your-agent.md), or use --http. "
            "Ctrl-C ends it."
        )


def _serve_agent(cli: Cli, questions: Path | None) -> None:
    """Serve the four tools, without the SDK."""
    from ...mcp_server.agent.acts import Acts
    from ...mcp_server.agent.process import serve_agent

    named = {BASE_VARIABLE: str(cli.base)} if cli.base_given else {}
    if cli.store_given and cli.store_url is not None:
        named[STORE_VARIABLE] = cli.store_url
    acts = Acts({**os.environ, **named}, Path.cwd(), directory=questions, observers=cli.observers)
    _say_how_it_ended(serve_agent(acts))


def _say_how_it_ended(by: int | None) -> None:
    if by == signal.SIGINT:
        raise Interrupted("the server was stopped with Ctrl-C")


def ui(
    cli: Cli,
    *,
    port: int | None = option("--port N", min=0, max=65535),
    read_only: bool = flag("--read-only"),
    open_it: bool = flag("--open/--no-open"),
    questions: QuestionPlace,
) -> None:
    """Show all sessions in a browser on this machine, until Ctrl-C.

    Lists, shows, pauses, aborts, rewinds and forks sessions, answers their questions, shows what a
    prune would remove, and the workers and jobs of a fleet. Needs the extra `ui`. The address that
    it prints can be used once; Enter prints another. With --json each is written as JSON.

    Args:
        port: The port on 127.0.0.1, 0 for any free one; 8766 by default.
        read_only: Show everything, change and answer nothing.
        open_it: Open the page in a browser here; not by default.
    """
    from ...loopback import standard_input
    from ...ui import DEFAULT_PORT, UiPlaces, run_ui
    from ...ui.launch import in_browser

    places = UiPlaces(
        sessions=cli.base,
        store=cli.store_url,
        direct=cli.store_direct,
        objects=cli.objects_url,
        questions=questions.path,
        command=cli.command(),
    )
    question_sessions(cli, questions)  # prints a notice of questions that came with the repository

    def ready(url: str) -> None:
        cli.output.address("All sessions are", url)
        if open_it:
            opened.enter_context(in_browser(url))

    with ExitStack() as opened:
        run_ui(
            places,
            port=DEFAULT_PORT if port is None else port,
            read_only=read_only,
            observers=cli.observers(),
            asked_by=standard_input(),
            ready=ready,
        )
