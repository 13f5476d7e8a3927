"""JSON-RPC over two descriptors, as the Model Context Protocol has it, for calls of tools alone.

Each call of a tool has a thread of its own, so that a person who thinks about a question delays no
other message. A call that the client cancels, or whose client leaves, is cancelled where it waits.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ....base.cancellation import CancelToken, OperationCancelled, cancellable
from ....base.errors import AgentForgeError
from ....base.event_log import get_logger
from ..errors import InvalidArguments

if TYPE_CHECKING:
    from ....questions import Question
    from .acts import Acts

VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The protocol's versions that begin with `initialize`, oldest first."""
PROGRESS_INTERVAL_S: Final = 3.0
_STOP_S: Final = 10.0
"""How long calls may take to clean up when the server stops, in seconds."""
_DEFINED: Final = Path(__file__).with_name("tools.json")
_PARSE_ERROR, _INVALID_REQUEST, _NO_METHOD, _INVALID_PARAMS = -32700, -32600, -32601, -32602
_KINDS: Final[Mapping[str, tuple[type, str]]] = {
    "string": (str, "a text"),
    "boolean": (bool, "true or false"),
    "array": (list, "a list"),
}

_log = get_logger("agentforge.mcp")


class RunningCall:
    """One call of a tool, which runs on a thread of its own; see `acts.Call`.

    Attributes:
        token: Cancels it.
    """

    def __init__(self, server: AgentServer, progress_token: object) -> None:
        self.token = CancelToken()
        self._server = server
        self._progress_token = progress_token

    @contextmanager
    def reporting(self, what: str) -> Iterator[None]:
        """Report at once and every few seconds that the block still runs."""
        if self._progress_token is None:
            yield
            return
        over = threading.Event()

        def report() -> None:
            for number in itertools.count():
                waited = number * PROGRESS_INTERVAL_S
                said = {"progressToken": self._progress_token, "progress": waited}
                self._server.send(
                    {"method": "notifications/progress", "params": {**said, "message": what}}
                )
                if over.wait(PROGRESS_INTERVAL_S):
                    return

        reporter = threading.Thread(target=report, daemon=True)
        reporter.start()
        try:
            yield
        finally:
            over.set()
            reporter.join()

    @contextmanager
    def form(
        self, asked: Sequence[Question], take: Callable[[Mapping[str, Any]], None]
    ) -> Iterator[None]:
        """Make the program show the questions during the block, if it can; `take` its reply."""
        server = self._server
        if not server.shows_forms(several=any(one.multi_select for one in asked)):
            yield
            return
        from ..question_forms import DECLINES_UNASKED, form, message

        def replied(result: Mapping[str, Any]) -> None:
            if result.get("action") != "decline" or server.client not in DECLINES_UNASKED:
                take(result)

        params = {"message": message(asked), "requestedSchema": form(asked)}
        request_id = server.request("elicitation/create", params, replied)
        try:
            yield
        finally:
            server.withdraw(request_id)


class AgentServer:
    """The server of one client.

    Attributes:
        client: The client's name.
    """

    def __init__(self, acts: Acts, sink: int) -> None:
        """Create a server of some tools, whose messages go to the descriptor `sink`."""
        self.client = ""
        self._acts = acts
        self._sink = sink
        self._tools = {one["name"]: one for one in json.loads(_DEFINED.read_bytes())}
        self._protocol = VERSIONS[-1]
        self._capabilities: Mapping[str, Any] = {}
        self._writing = threading.Lock()
        self._calls: dict[str | int, tuple[RunningCall, threading.Thread]] = {}
        self._requests: dict[str, Callable[[Mapping[str, Any]], None]] = {}
        self._numbers = itertools.count(1)
        self._is_stopping = False

    # ------------------------------------------------------------------------------ messages

    def refuse_line(self, what: str) -> None:
        """Refuse a line that is no message."""
        self._refuse(None, _INVALID_REQUEST, what)

    def receive(self, line: bytes) -> None:
        """Act on one line of the client."""
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._refuse(None, _PARSE_ERROR, "this line is no JSON; it was not acted on")
            return
        given = message if isinstance(message, dict) else {}
        request_id, method = _id_of(given.get("id")), given.get("method")
        params = given.get("params", {})
        if given.get("jsonrpc") != "2.0" or not isinstance(params, dict):
            what = "this line is no JSON-RPC 2.0 message; it was not acted on"
            self._refuse(request_id, _INVALID_REQUEST, what)
        elif method is None and request_id is not None:
            self._replied(str(request_id), given.get("result"))
        elif not isinstance(method, str) or ("id" in given and request_id is None):
            what = "this line is no request of JSON-RPC 2.0; it was not acted on"
            self._refuse(request_id, _INVALID_REQUEST, what)
        elif request_id is not None:
            self._requested(request_id, method, params)
        elif method == "notifications/cancelled":
            cancelled = _id_of(params.get("requestId"))
            running = None if cancelled is None else self._calls.get(cancelled)
            if running is not None:
                running[0].token.cancel()

    def _requested(self, request_id: str | int, method: str, params: Mapping[str, Any]) -> None:
        if method == "initialize":
            self._initialize(request_id, params)
        elif method == "ping":
            self._answer(request_id, {})
        elif method == "tools/list":
            self._answer(request_id, {"tools": list(self._tools.values())})
        elif method == "tools/call":
            self._begin(request_id, params)
        else:
            self._refuse(request_id, _NO_METHOD, f"there is no method {method[:100]!r} here")

    def _initialize(self, request_id: str | int, params: Mapping[str, Any]) -> None:
        wanted, about = params.get("protocolVersion"), params.get("clientInfo")
        capabilities = params.get("capabilities")
        if wanted in VERSIONS:
            self._protocol = wanted
        self._capabilities = capabilities if isinstance(capabilities, dict) else {}
        self.client = str(about.get("name", "")) if isinstance(about, dict) else ""
        from ....base.release import __version__  # it reads the installed package's files

        self._answer(
            request_id,
            {
                "protocolVersion": self._protocol,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "agentforge", "version": __version__},
            },
        )

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message; a client that takes none any more is noticed by the reading thread."""
        data = memoryview(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        with self._writing:
            while data:
                try:
                    data = data[os.write(self._sink, data) :]
                except BlockingIOError:
                    select.select((), (self._sink,), ())
                except OSError as error:
                    _log.warning("mcp.client_left", how="takes no more output", reason=str(error))
                    return

    def _answer(self, request_id: str | int, result: Mapping[str, Any]) -> None:
        self.send({"id": request_id, "result": result})

    def _refuse(self, request_id: str | int | None, code: int, what: str) -> None:
        self.send({"id": request_id, "error": {"code": code, "message": what}})

    # --------------------------------------------------------------------------------- calls

    def _begin(self, request_id: str | int, params: Mapping[str, Any]) -> None:
        name, given = params.get("name"), params.get("arguments") or {}
        if name not in self._tools:
            known = ", ".join(self._tools)
            self._refuse(request_id, _INVALID_PARAMS, f"no tool {name!r:.100}; there are: {known}")
            return
        if request_id in self._calls:
            self._refuse(request_id, _INVALID_REQUEST, "a call of this id is running")
            return
        meta = params.get("_meta")
        call = RunningCall(self, meta.get("progressToken") if isinstance(meta, dict) else None)
        thread = threading.Thread(
            target=self._run, args=(request_id, str(name), given, call), daemon=True
        )
        self._calls[request_id] = (call, thread)
        thread.start()

    def _run(self, request_id: str | int, name: str, given: object, call: RunningCall) -> None:
        result: dict[str, Any] | None
        try:
            with cancellable(call.token):
                text, values = self._acts.call(name, self._checked(name, given), call)
            result = {} if values is None else {"structuredContent": values}
        except OperationCancelled:
            _log.info("mcp.call_cancelled", tool=name)
            text = "the server is stopping; a question that this call waited for is withdrawn"
            result = {"isError": True} if self._is_stopping else None
        except Exception as error:  # noqa: BLE001 (the boundary: no traceback reaches a model)
            if not isinstance(error, AgentForgeError | OSError):
                _log.exception("mcp.call_crashed", tool=name)
                text = f"unexpected {type(error).__name__}: a fault in agentforge itself"
            else:
                text = str(error)
            result = {"isError": True}
        del self._calls[request_id]
        if result is not None and (self._is_stopping or not call.token.cancelled):
            sound = text.encode("utf-8", "backslashreplace").decode()
            self._answer(request_id, {"content": [{"type": "text", "text": sound}], **result})

    def _checked(self, name: str, given: object) -> Mapping[str, Any]:
        """Return a call's arguments if they have the types of the tool's schema.

        Raises:
            InvalidArguments: Names every fault; nothing was done.
        """
        schema = self._tools[name]["inputSchema"]
        if not isinstance(given, dict):
            raise InvalidArguments(name, ["arguments: expected an object"])
        faults = [f"{one}: is missing" for one in schema.get("required", ()) if one not in given]
        for one, value in given.items():
            wanted = schema["properties"].get(one)
            if wanted is None:
                faults.append(f"{ascii(one)[1:-1]:.60}: is no argument")
                continue
            kind, meant = _KINDS[wanted["type"]]
            texts = not isinstance(value, list) or all(isinstance(each, str) for each in value)
            if not isinstance(value, kind) or not texts:
                faults.append(f"{one}: expected {meant if texts else 'a list of texts'}")
        if faults:
            raise InvalidArguments(name, faults)
        return given

    # ---------------------------------------------------------------------- our own requests

    def shows_forms(self, *, several: bool) -> bool:
        """Return whether the client can show a form, with lists to choose several of."""
        able = self._capabilities.get("elicitation")
        if not isinstance(able, dict) or ("url" in able and "form" not in able):
            return False
        from ..question_forms import SINCE_LISTS

        return not several or self._protocol >= SINCE_LISTS

    def request(
        self, method: str, params: Mapping[str, Any], then: Callable[[Mapping[str, Any]], None]
    ) -> str:
        """Send a request; `then` gets its result, on a thread of its own. Return the id."""
        request_id = f"agentforge-{next(self._numbers)}"
        self._requests[request_id] = then
        self.send({"id": request_id, "method": method, "params": params})
        return request_id

    def withdraw(self, request_id: str) -> None:
        """Cancel a request that is not answered yet."""
        if self._requests.pop(request_id, None) is not None:
            said = {"requestId": request_id, "reason": "it is over"}
            self.send({"method": "notifications/cancelled", "params": said})

    def _replied(self, request_id: str, result: object) -> None:
        then = self._requests.pop(request_id, None)
        if then is not None and isinstance(result, dict):
            threading.Thread(target=then, args=(result,), daemon=True).start()

    def close(self) -> None:
        """Cancel all calls, and wait until they have cleaned up."""
        self._is_stopping = True
        running = list(self._calls.values())
        for call, _ in running:
            call.token.cancel()
        for _, thread in running:
            thread.join(_STOP_S / len(running))


def _id_of(value: object) -> str | int | None:
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None
