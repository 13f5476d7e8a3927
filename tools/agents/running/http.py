"""Models behind HTTP as agents: endpoints with OpenAI's or Anthropic's API.

`openai:MODEL` asks `https://api.openai.com/v1/chat/completions` and takes its key from
OPENAI_API_KEY; `anthropic:MODEL` asks `https://api.anthropic.com/v1/messages` and takes its key
from ANTHROPIC_API_KEY. `@URL` after the model names another endpoint (`openai:qwen3@http://
127.0.0.1:8000/v1`); a local one needs no key. Only the standard library is used.
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
    """An endpoint's reply, or why it could not be reached."""

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
    """Create the agent that `DIALECT:MODEL[@URL]` names.

    Raises:
        ValueError: The text does not have this form.
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
    """An agent that calls a model over HTTP.

    A request that can't be delivered or is answered with 408, 409, 425, 429 or 5xx is repeated up
    to three times within the time limit, after the seconds that the endpoint names or a growing,
    random time. If there is still no answer, the agent is unavailable: no model ran, so nothing is
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
        """Remember the model; no request is sent yet.

        Args:
            dialect: The endpoint's API; see `DIALECTS`.
            model: The model, as the endpoint names it.
            base_url: The endpoint's base address; the vendor's if None.
            key: The key; that of the dialect's environment variable if None.
            timeout_s: How long one answer may take, retries included, in seconds.
            max_output_tokens: The most tokens of an answer; less when the budget has less.
            monotonic: The clock of the time limit.
            sleep: Waits before another try.
            chance: Returns numbers from 0 to 1, for the wait.

        Raises:
            ValueError: The address is neither http nor https.
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
        """The model and its endpoint."""
        return AgentIdentity(
            name=self._model,
            provider=self._dialect.name,
            operation="chat",
            model=self._model,
            host=self._url.hostname,
            port=self._url.port or (443 if self._url.scheme == "https" else 80),
        )

    def check(self) -> None:
        """Check that the endpoint is reachable and accepts the key; no model is called.

        The check requests the endpoint's list of models; an endpoint without such a list passes.

        Raises:
            AgentUnavailable: There is no key, no server answers, or the key is refused.
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
        """Call the model; a streamed reply is joined into one answer.

        Raises:
            AgentUnavailable: There is no key, the endpoint refuses the request, or it was busy or
                unreachable at every try.
            AgentTimeout: It took too long.
            AgentCutOff: The answer did not fit into its limit of tokens.
            AgentFailed: The reply is not a valid answer.
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
                with connection.getresponse() as response:
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
            check_cancelled()  # if it was cancelled, that caused the error

    def _all(self, response: http.client.HTTPResponse, deadline: float) -> bytes:
        """Read the answer within the limits of time and size, however slowly it arrives."""
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
            text.encode("utf-8", "surrogatepass")  # raises unless it is a text
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
