"""The observers that a project's configuration names, found in the register of plugins."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

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
"""What makes observers: called with `ObserverParameters`, it returns some `SessionObserver`. One
that has a `close(timeout_s)` is closed when the command, server or worker ends."""


@frozen(kw_only=True)
class ObserverParameters:
    """What observers are made with.

    Attributes:
        given: The keys of their `[[observers]]` table, for those of a plugin; not judged yet.
        configuration: The configuration that names them.
        sessions: Opens the sessions of which they are told.
        environment: Where the variables are that the configuration names.
    """

    given: Mapping[str, Any]
    configuration: Configuration
    sessions: Callable[[], SessionFeeds]
    environment: Mapping[str, str]


@frozen
class ConfiguredObservers:
    """What a project's configuration tells others by.

    Attributes:
        observers: The observers, for managers; none where it names none.
    """

    observers: tuple[SessionObserver, ...] = ()

    def close(self) -> None:
        """Wait, for 5 seconds in all, until what happened is told; the rest is told later.

        A person's own command that is under way has 30 seconds, as it has for questions.
        """
        until = time.monotonic() + _DRAIN_S
        for one in self.observers:
            close = getattr(one, "close", None)
            if callable(close):
                close(max(0.0, until - time.monotonic()))


def configured_observers(
    configuration: Configuration, sessions: Callable[[], SessionFeeds]
) -> ConfiguredObservers:
    """Open what a project's configuration tells others by.

    Nothing is loaded or started where it names nothing.

    Raises:
        InvalidConfiguration: It names an event, or an observer, that there is not.
        InvalidConfig: `[notify]` can't be used.
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
    """Make the observers of `[[webhooks]]`."""
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
    """Return what delivers to each receiver of a configuration what happens to some sessions."""
    from .webhook_sender import WebhookSender

    for webhook in configuration.webhooks:
        yield WebhookSender(webhook, sessions, log=_log, environment=environment)


def check_patterns(configuration: Configuration) -> None:
    """Refuse a configuration whose webhooks name events that there are not.

    Raises:
        InvalidConfiguration: With each of them.
    """
    named = [
        (f"webhooks[{index}].events", one.events)
        for index, one in enumerate(configuration.webhooks)
    ]
    _require_known(configuration, named)


def _require_known(
    configuration: Configuration, patterns: Iterable[tuple[str, Iterable[str]]]
) -> None:
    from .event_patterns import unknown_pattern

    faults = [
        f"{key}: {problem}"
        for key, events in patterns
        for problem in map(unknown_pattern, events)
        if problem is not None
    ]
    _refuse(configuration, faults)


def _refuse(configuration: Configuration, faults: list[str]) -> None:
    if faults:
        from ...base.settings.errors import InvalidConfiguration

        raise InvalidConfiguration(path=configuration.path or Path("config.toml"), faults=faults)


def person_observers(settings: ObserverParameters) -> list[SessionObserver]:
    """Make the observer of `[notify]`, where it asks for one."""
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
