"""`[[webhooks]]` of a project's configuration: the receivers of events."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import evolve, field, frozen

from ..reading.fields import Fields
from .declared_keys import READ, flag, number, read_keys, text

if TYPE_CHECKING:
    from urllib.parse import SplitResult

DEFAULT_EVENTS: Final = (
    "session.paused",
    "session.completed",
    "session.aborted",
    "session.budget.exceeded",
    "question.asked",
)
"""The events that a person who is away needs."""
DEFAULT_TIMEOUT_S: Final = 10.0
DEFAULT_KEPT_S: Final = 3 * 86_400.0
_MAX_TIMEOUT_S: Final = 60.0
_MAX_KEPT_S: Final = 30 * 86_400.0
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PATTERN: Final = re.compile(r"[a-z_.*]+")


def _name(table: Fields, key: str, _: Path) -> str:
    return table.text(key, judge=_no_webhook) or ""


def _no_webhook(said: str) -> str | None:
    fits = _NAME.fullmatch(said)
    return None if fits else "expected up to 64 letters, digits, dots, - and _"


def _events(table: Fields, key: str, _: Path) -> tuple[str, ...]:
    return table.texts(key, judge=_no_pattern) or DEFAULT_EVENTS


def _no_variable(said: str) -> str | None:
    fits = _VARIABLE.fullmatch(said)
    return None if fits else "expected the name of an environment variable, not its value"


def _no_pattern(value: str) -> str | None:
    if _PATTERN.fullmatch(value) is None:
        return f"{value[:60]!r} is no name of an event; * stands for any part of one"
    return None


@frozen(kw_only=True)
class Webhook:
    """One receiver of events.

    Attributes:
        name: Its unique name, in logs and commands.
        url: Its address, or None where a variable has it.
        url_env: The environment variable that has its address, or None.
        events: Names of the events it receives; `*` matches any part of a name.
        secret_env: The environment variable with the secret that signs deliveries, or None: they
            are not signed.
        timeout_s: The time limit of one delivery, in seconds.
        kept_s: How long an undeliverable event is stored and retried, in seconds.
        allow_http: Whether the address may be http beyond this machine.
    """

    name: str = field(metadata={READ: _name})
    url: str | None = text(repr=False)
    url_env: str | None = text(_no_variable)
    events: tuple[str, ...] = field(default=DEFAULT_EVENTS, metadata={READ: _events})
    secret_env: str | None = text(_no_variable)
    timeout_s: float = number(DEFAULT_TIMEOUT_S, most=_MAX_TIMEOUT_S)
    kept_s: float = number(DEFAULT_KEPT_S, most=_MAX_KEPT_S)
    allow_http: bool = flag()

    def address(self, environment: Mapping[str, str]) -> SplitResult:
        """Return the address of deliveries.

        Args:
            environment: The environment variables, which may contain it.

        Raises:
            ValueError: There is none, or it is not allowed; the text does not quote it.
        """
        url = self.url
        if self.url_env is not None:
            url = environment.get(self.url_env)
            if not url:
                raise ValueError(f"the variable {self.url_env} is not set")
        found, problem = judged_address(url or "", allow_http=self.allow_http)
        if found is None:
            raise ValueError(problem)
        return found

    def secrets(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        """Return the secrets that sign; more than one during a rotation.

        Raises:
            ValueError: The variable that has them is not set.
        """
        if self.secret_env is None:
            return ()
        found = tuple(environment.get(self.secret_env, "").split())
        if not found:
            raise ValueError(f"the variable {self.secret_env} is not set")
        return found


def judged_address(url: str, *, allow_http: bool) -> tuple[SplitResult | None, str]:
    """Return an address in its parts, or None and why it is not allowed, without quoting it."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None, "it is no address"
    if parts.scheme not in {"http", "https"} or not host or port == 0:
        return None, "expected an https address"
    if not url.isascii() or not url.isprintable() or " " in url:
        return None, "it holds characters that an address spells with %"
    if parts.username is not None or parts.password is not None:
        return None, "it holds a user or a password; name a variable by url_env instead"
    if parts.scheme == "http" and not allow_http and not is_loopback(host):
        return None, "http is for this machine alone; allow_http = true sends unencrypted"
    return parts, ""


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def webhooks_of(top: Fields) -> tuple[Webhook, ...]:
    """Read the receivers; their faults are added to the table's."""
    found: list[Webhook] = []
    for table in top.each("webhooks", expected="tables [[webhooks]]"):
        webhook = _webhook(table)
        if webhook is None:
            continue
        if any(one.name == webhook.name for one in found):
            table.fault("name", f"{webhook.name!r} is another one's; give each a name of its own")
        found.append(webhook)
    return tuple(found)


def _webhook(table: Fields) -> Webhook | None:
    found: Webhook = read_keys(Webhook, table, Path())
    parts = None
    if found.url is not None and table.has("url_env"):
        table.fault("url_env", "there is a url already")
    elif found.url is not None:
        parts, problem = judged_address(found.url, allow_http=found.allow_http)
        if parts is None:
            table.fault("url", problem)
    elif not table.has("url_env"):
        table.fault("url", "is missing; url_env names a variable that has it")
    if parts is None and found.url_env is None:
        return None
    host = "" if parts is None else parts.hostname or ""
    return evolve(found, name=found.name or (host if _NAME.fullmatch(host) else "webhook"))
