"""Models behind HTTP as agents: endpoints that speak as OpenAI's or Anthropic's do.

`openai:MODEL` asks `https://api.openai.com/v1/chat/completions` and takes its key from
OPENAI_API_KEY; `anthropic:MODEL` asks `https://api.anthropic.com/v1/messages` and takes its key
from ANTHROPIC_API_KEY. `@URL` after the model names another endpoint (`openai:qwen3@http://
127.0.0.1:8000/v1`); a local one needs no key. Nothing but the standard library is used.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import random
import re
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from ...base.cancellation import cancellable_sleep, check_cancelled, on_cancel
from ...base.tracing import carried
from ...harness.views.briefing import most_tokens
from ...workflows.agents.port import (
    AgentAnswer,
    AgentCutOff,
    AgentFailed,
    AgentIdentity,
    AgentParameters,
    AgentRequest,
    AgentTimeout,
    AgentUnavailable,
)
from .connection import HangUpConnection
from .dialects import DIALECTS, Dialect, events_of, is_stream

CHECK_TIMEOUT_S: Final = 15.0
DEFAULT_TIMEOUT_S: Final = 600.0
DEFAULT_MAX_OUTPUT: Final = 16_000
MAX_BODY_BYTES: Final = 32 << 20
RETRIES: Final = 3
_LONGEST_PAUSE_S: Final = 30.0
_REFUSED_KEY: Final = frozenset({401, 403})
_BUSY: Final = frozenset({408, 409, 425, 429})
_SERVER_ERROR: Final = 500
_NOT_REACHED: Final = 0


class _Reply(NamedTuple):
    """What an endpoint replied; of one that is not reached, why."""

    status: int
    data: bytes
    kind: str | None = None
    pause: float | None = None

    @property
    def problem(self) -> str:
        excerpt = " ".join(self.data[:600].decode("utf-8", "replace").split())
        return excerpt if self.status == _NOT_REACHED else f"it answered {self.status}: {excerpt}"

    @property
    def may_pass(self) -> bool:
        return self.status == _NOT_REACHED or self.status >= _SERVER_ERROR or self.status in _BUSY


def make_agent(text: str, settings: AgentParameters) -> HttpAgent:
    """Make the agent that `DIALECT:MODEL[@URL]` names.

    Raises:
        ValueError: It is no such name.
    """
    name, _, rest = text.partition(":")
    model, _, url = rest.partition("@")
    if name not in DIALECTS or not model:
        raise ValueError(
            f"agent: {text!r} is not openai:MODEL or anthropic:MODEL, with @URL or not"
        )
    return HttpAgent(
        DIALECTS[name],
        model,
        base_url=url or None,
        timeout_s=settings.timeout_s or DEFAULT_TIMEOUT_S,
        max_output_tokens=settings.max_output or DEFAULT_MAX_OUTPUT,
    )


class HttpAgent:
    """Asks a model over HTTP.

    An endpoint that can't be reached or answers 408, 409, 425, 429 or 5xx is tried again up to
    three times, after the seconds that it names or a growing, random time, within the time limit.
    One that still has no answer then can't be asked now: no model has thought, so nothing is
    charged and no attempt is used up.
    """

    def __init__(
        self,
        dialect: Dialect,
        model: str,
        *,
        base_url: str | None = None,
        key: str | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        max_output_tokens: int = DEFAULT_MAX_OUTPUT,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = cancellable_sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Name the model; nothing is asked yet.

        Args:
            dialect: How the endpoint is spoken to; see `DIALECTS`.
            model: The model, as the endpoint names it.
            base_url: Where the endpoint is; the vendor's if None.
            key: The key; that of the dialect's environment variable if None.
            timeout_s: How long one answer may take, retries included, in seconds.
            max_output_tokens: The most tokens of an answer; less when the budget has less.
            monotonic: The clock of the time limit.
            sleep: How to wait before another try.
            chance: Gives numbers from 0 to 1, for the wait.

        Raises:
            ValueError: The address is no http or https one.
        """
        self._dialect = dialect
        self._model = model
        self._url = urlsplit((base_url or dialect.base_url).rstrip("/") + dialect.path)
        if self._url.scheme not in {"http", "https"} or not self._url.hostname:
            raise ValueError(f"base_url: {base_url!r} is no http or https address")
        try:
            port = self._url.port
        except ValueError as error:
            raise ValueError(f"base_url: {base_url!r}: {error}") from None
        if port == 0 or not re.fullmatch(r"[!-~]*", self._url.path):
            raise ValueError(f"base_url: {base_url!r} is no http or https address")
        self._key = key
        self._own = base_url is None
        self._timeout_s = timeout_s
        self._most = max_output_tokens
        self._monotonic = monotonic
        self._sleep = sleep
        self._chance = chance

    @property
    def description(self) -> str:
        """The model and the host."""
        return f"{self._model} at {self._url.hostname}"

    @property
    def identity(self) -> AgentIdentity:
        """The model, and the endpoint that it is asked for at."""
        return AgentIdentity(
            name=self._model,
            provider=self._dialect.name,
            operation="chat",
            model=self._model,
            host=self._url.hostname,
            port=self._url.port or (443 if self._url.scheme == "https" else 80),
        )

    def check(self) -> None:
        """See whether the endpoint is there and takes the key; no model is asked.

        The list of its models is asked for; an endpoint that has none is taken as it is.

        Raises:
            AgentUnavailable: There is no key, no server is reached, or the key is refused.
        """
        headers = self._dialect.headers(self._key_or_none())
        deadline = self._monotonic() + min(self._timeout_s, CHECK_TIMEOUT_S)
        path = self._url.path.removesuffix(self._dialect.path) + "/models"
        try:
            reply = self._send("GET", path, None, headers, deadline)
        except AgentFailed as error:
            raise self._unavailable(str(error)) from error
        if reply.status in _REFUSED_KEY or reply.status == _NOT_REACHED:
            raise self._unavailable(reply.problem)

    def _key_or_none(self) -> str | None:
        key = self._key if self._key is not None else os.environ.get(self._dialect.key_variable)
        if key is None and self._own:
            raise self._unavailable(f"{self._dialect.key_variable} is not set")
        return key

    def _unavailable(self, problem: str) -> AgentUnavailable:
        return AgentUnavailable(agent=self.description, problem=problem)

    def answer(self, request: AgentRequest) -> AgentAnswer:
        """Ask the model; a reply that is streamed is put together.

        Raises:
            AgentUnavailable: There is no key, the endpoint refuses the request, or it was busy or
                out of reach at every try.
            AgentTimeout: It took too long.
            AgentCutOff: Its answer did not fit into the tokens that it may have.
            AgentFailed: It answered with something else.
        """
        key = self._key_or_none()
        most = max(1, min(self._most, request.tokens_left - most_tokens(request.prompt)))
        body = json.dumps(self._dialect.body(self._model, request.prompt, most)).encode()
        headers = {"Content-Type": "application/json", **carried(), **self._dialect.headers(key)}
        deadline = self._monotonic() + self._timeout_s
        tries = 1
        while (
            reply := self._send("POST", self._url.path, body, headers, deadline)
        ).status != http.client.OK:
            if not reply.may_pass:
                raise self._unavailable(reply.problem)
            wait = reply.pause
            if wait is None:
                wait = min(2.0 ** (tries - 1) * (0.5 + self._chance()), _LONGEST_PAUSE_S)
            if tries > RETRIES or self._monotonic() + wait >= deadline:
                asks = "" if reply.pause is None else f"; it asks to wait {reply.pause:g} s"
                raise self._unavailable(f"{reply.problem} (at try {tries} of {RETRIES + 1}{asks})")
            self._sleep(wait)
            tries += 1
        return self._read(reply, most)

    def _send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        deadline: float,
    ) -> _Reply:
        left = deadline - self._monotonic()
        if left <= 0:
            raise AgentTimeout(agent=self.description, timeout_s=self._timeout_s)
        host, port = self._url.hostname or "", self._url.port
        secure = ssl.create_default_context() if self._url.scheme == "https" else None
        connection = HangUpConnection(host, port, timeout=left, secure=secure)
        try:
            with on_cancel(connection.hang_up):
                try:
                    connection.connect()
                except OSError as error:
                    said = f"it can't be reached: {error}".encode("utf-8", "replace")
                    return _Reply(_NOT_REACHED, said)
                connection.request(method, path, body=body, headers=dict(headers))
                response = connection.getresponse()
                kind, pause = map(response.getheader, ("Content-Type", "Retry-After"))
                data = self._all(response, deadline)
                return _Reply(response.status, data, kind, _seconds(pause))
        except TimeoutError as error:
            raise AgentTimeout(agent=self.description, timeout_s=self._timeout_s) from error
        except (OSError, http.client.HTTPException) as error:
            raise AgentFailed(
                f"the connection to the agent ({self.description}) broke off: "
                f"{str(error) or type(error).__name__}",
                agent=self.description,
            ) from error
        finally:
            connection.close()
            check_cancelled()  # whatever it ended with, it was hung up

    def _all(self, response: http.client.HTTPResponse, deadline: float) -> bytes:
        """Read the answer, however slowly it comes, within the time and size limits."""
        pieces = bytearray()
        while piece := response.read1(1 << 16):
            pieces += piece
            if len(pieces) > MAX_BODY_BYTES:
                raise AgentFailed(
                    f"the agent ({self.description}) answered with more than "
                    f"{MAX_BODY_BYTES:,} bytes",
                    agent=self.description,
                )
            if self._monotonic() >= deadline:
                raise AgentTimeout(agent=self.description, timeout_s=self._timeout_s)
        if response.length:
            raise http.client.IncompleteRead(bytes(pieces), response.length)
        return bytes(pieces)

    def _read(self, reply: _Reply, most: int) -> AgentAnswer:
        data = reply.data
        try:
            streamed = is_stream(reply.kind, data)
            answer = self._dialect.join(events_of(data)) if streamed else json.loads(data)
            text, usage, cut = self._dialect.read(answer)
            text.encode("utf-8", "surrogatepass")  # a text, and nothing else
        except (
            ValueError,
            KeyError,
            IndexError,
            TypeError,
            AttributeError,
            RecursionError,
        ) as error:
            raise AgentFailed(
                f"the agent ({self.description}) answered with something that is no answer of "
                f"{self._dialect.name}: {type(error).__name__}: {error}",
                agent=self.description,
                output=data[:2000].decode("utf-8", "replace"),
            ) from error
        if cut:
            raise AgentCutOff(
                agent=self.description,
                limit=most,
                by_budget=most < self._most,
                output=text[-2000:],
                usage=usage,
            )
        return AgentAnswer(text=text, usage=usage)


def _seconds(value: str | None) -> float | None:
    try:
        seconds = float(value) if value is not None else math.nan
    except ValueError:
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
