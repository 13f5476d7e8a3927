"""The observers in a project's configuration, built from the register of plugins."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from ...base.errors import AgentForgeError, ErrorKind
from ...base.event_log import get_logger
from ...base.plugins import Register

if TYPE_CHECKING:
    from ...base.settings.configuration import Configuration
    from ...harness import SessionObserver
    from ...harness.feed_port import SessionFeeds
    from .webhook_sender import WebhookSender

_DRAIN_S: Final = 5.0
_log = get_logger("agentforge.observers")


OBSERVERS: Final = Register(
    "observers",
    {
        "webhooks": f"{__name__}:webhook_observers",
        "notify": f"{__name__}:person_observers",
    },
)
"""Register of observer factories: called with `ObserverParameters`, each returns some
`SessionObserver`. One with a `close(timeout_s)` is closed when the command, server or worker ends.
"""


class UnknownWebhook(AgentForgeError, kind=ErrorKind.NOT_FOUND):
    """The configuration has no receiver of this name, or there is no saved state for one.

    Nothing was sent, and nothing discarded.
    """

    message = "{who} webhook {webhook!r}; there is {known:or none}. Nothing was done."
    webhook: str
    known: Sequence[str]
    who: str = "the configuration has no"


class WebhookUnreached(AgentForgeError, kind=ErrorKind.NOT_DONE, retryable=True):
    """A receiver did not accept a delivery."""

    message = "the webhook {webhook} was not reached: {problem}. {kept}"
    webhook: str
    problem: str
    kept: str
    """What is sent again, and when."""


@frozen(kw_only=True)
class ObserverParameters:
    """The arguments of an observer factory.

    Attributes:
        given: The keys of the `[[observers]]` table, for a plugin's own; not checked yet.
        configuration: The configuration that names the observers.
        sessions: Opens the sessions that they observe.
        environment: The environment variables.
    """

    given: Mapping[str, Any]
    configuration: Configuration
    sessions: Callable[[], SessionFeeds]
    environment: Mapping[str, str]


@frozen
class ConfiguredObservers:
    """The observers of a project's configuration.

    Attributes:
        observers: The observers, for managers; empty if the configuration names none.
    """

    observers: tuple[SessionObserver, ...] = ()

    def close(self) -> None:
        """Wait up to 5 seconds in all for pending deliveries; the rest are delivered later.

        A person's own command that is already running has 30 seconds, as for questions.
        """
        until = time.monotonic() + _DRAIN_S
        for one in self.observers:
            close = getattr(one, "close", None)
            if callable(close):
                close(max(0.0, until - time.monotonic()))


def configured_observers(
    configuration: Configuration, sessions: Callable[[], SessionFeeds]
) -> ConfiguredObservers:
    """Open the observers of a project's configuration.

    Nothing is loaded or started if it names none.

    Raises:
        InvalidConfiguration: It names an unknown event or observer.
        InvalidConfig: `[notify]` is not usable.
        PluginUnusable: The package that adds an observer is broken.
    """
    found: list[SessionObserver] = []
    for name, given in _named(configuration):
        plugin = OBSERVERS.find(name)
        if plugin is None:
            known = ", ".join(one.name for one in OBSERVERS.foreign()) or "none"
            fault = f"observers: there is no {name[:64]!r}; installed packages add {known}"
            _refuse(configuration, [fault])
            continue
        settings = ObserverParameters(
            given=given,
            configuration=configuration,
            sessions=sessions,
            environment=os.environ,
        )
        found += plugin.load()(settings)
    return ConfiguredObservers(tuple(found))


def _named(configuration: Configuration) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if configuration.webhooks:
        yield "webhooks", {}
    yield from configuration.observers
    if "notify" in configuration.given:
        yield "notify", {}


def webhook_observers(settings: ObserverParameters) -> list[SessionObserver]:
    """Return the observers of `[[webhooks]]`."""
    from .webhook_observer import WebhookObserver

    configuration = settings.configuration
    check_patterns(configuration)
    return [
        WebhookObserver(sender, log=_log)
        for sender in senders(configuration, settings.sessions(), settings.environment)
    ]


def senders(
    configuration: Configuration,
    sessions: SessionFeeds,
    environment: Mapping[str, str] = os.environ,
) -> Iterator[WebhookSender]:
    """Yield a sender for each webhook of a configuration, for the events of some sessions."""
    from .webhook_sender import WebhookSender

    for webhook in configuration.webhooks:
        yield WebhookSender(webhook, sessions, log=_log, environment=environment)


def check_patterns(configuration: Configuration) -> None:
    """Raise if a configuration's webhooks name unknown events.

    Raises:
        InvalidConfiguration: It names each of them.
    """
    named = [
        (f"webhooks[{index}].events", one.events)
        for index, one in enumerate(configuration.webhooks)
    ]
    _require_known(configuration, named)


def _require_known(
    configuration: Configuration, patterns: Iterable[tuple[str, Iterable[str]]]
) -> None:
    faults = [
        f"{key}: {problem}"
        for key, events in patterns
        for problem in map(unknown_pattern, events)
        if problem is not None
    ]
    _refuse(configuration, faults)


def _refuse(configuration: Configuration, faults: list[str]) -> None:
    if faults:
        from ...base.settings.configuration_file import InvalidConfiguration

        raise InvalidConfiguration(path=configuration.path or Path("config.toml"), faults=faults)


def person_observers(settings: ObserverParameters) -> list[SessionObserver]:
    """Return the observer of `[notify]`, if it asks for one."""
    from ...questions import load_config

    notify = load_config().notify
    if not notify.events or not (notify.desktop or notify.on_event):
        return []
    from ...base.person_notification import OrderedCommands
    from .person_observer import PersonObserver

    _require_known(settings.configuration, [("notify.events", notify.events)])
    commands = OrderedCommands(_log, "event.not_told", environment=settings.environment)
    return [
        PersonObserver(
            commands, events=notify.events, desktop=notify.desktop, on_event=notify.on_event
        )
    ]


def unknown_pattern(pattern: str) -> str | None:
    """Return what is wrong with a pattern that matches no event, or None."""
    import difflib  # only a configuration that names events needs these
    from fnmatch import fnmatchcase

    from ...harness.domain.session_observer import OBSERVED, WebhookTest

    names = [name for name in OBSERVED if name != WebhookTest.log_name]
    if any(fnmatchcase(name, pattern) for name in names):
        return None
    near = difflib.get_close_matches(pattern, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "docs/events.md lists them"
    return f"there is no event {pattern!r}; {hint}"
