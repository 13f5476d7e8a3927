"""Agents of Pydantic AI whose model requests and tool calls are steps of a durable session.

    from agentforge_sessions import session
    from agentforge_sessions.integrations.bridges.pydantic_ai import SessionDurability, agent_steps

    agent = Agent("openai:gpt-5", name="writer", capabilities=[SessionDurability()])

    async with session("report", key=topic, budget=20_000) as s:
        with agent_steps(s):
            result = await agent.run(topic)

It is an engine of Pydantic AI's durable execution, as those for Temporal and DBOS are: it decides
what is done once, and what is recorded of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any, Final, Literal, NamedTuple, Protocol

from ...base.errors import ExtraMissing

try:
    from pydantic_ai.agent import EventStreamHandler
    from pydantic_ai.durable_exec import (
        JSON_CODEC,
        BaseDurabilityCapability,
        DurabilityEngineSpec,
        DurableOperationBackend,
        DurableOperationId,
        JournalCallableOperationBackend,
        RoleBasedOperationConfig,
        conversation_id_from_run_id,
        record_durable_unit,
        replay_scope,
    )
    from pydantic_ai.models import Model
    from pydantic_ai.tools import AgentDepsT
except ModuleNotFoundError as error:
    raise ExtraMissing("this bridge", "an SDK", "pydantic-ai") from error

StepSettings = Mapping[str, Any]
"""Options of `AsyncSession.step`: `retry`, `timeout`, `spend`, `budget`."""
_NONE: Final[StepSettings] = {}
_METADATA: Final = "agentforge"
_MOST_NAME_CHARS: Final = 200
_NOT_IN_NAMES: Final = str.maketrans('/#"\\', "____")


class SessionSteps(Protocol):
    """A durable session of an asynchronous program: `agentforge_sessions.AsyncSession`."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def step(self) -> Callable[..., Awaitable[Any]]:
        """Runs a function once in its life."""
        ...


class _Running(NamedTuple):
    """The session that agents run in, and the numbers of their runs."""

    session: SessionSteps
    numbers: Iterator[int]


_running: Final[ContextVar[_Running | None]] = ContextVar("agentforge_agent_steps", default=None)


@contextmanager
def agent_steps(session: SessionSteps) -> Iterator[None]:
    """Make what durable agents do within the block steps of a session.

    Agents that run at the same time may come to their steps in another order at the next start,
    which is refused; give each a part of the session, or a block in a step of its own.

    Raises:
        TypeError: It is not a session of `async with`.
    """
    if not inspect.iscoroutinefunction(getattr(session, "finish", None)):
        raise TypeError("agent_steps: expected the session of an `async with session(...)`")
    former = _running.set(_Running(session, count(1)))
    try:
        with replay_scope():
            yield
    finally:
        _running.reset(former)


class SessionDurability(BaseDurabilityCapability[AgentDepsT]):
    """Makes the model requests and tool calls of an agent steps of the session of `agent_steps`.

    Guarantees: a request whose response is recorded is not made again at the next start, nor is a
    tool called again whose result is; what a request used is charged with its step. A streamed
    request is recorded when it is complete. The tool calls of one response run one after another,
    so that each start comes to them in the same order. Outside of `agent_steps` the agent runs as
    without it.

    A request or a tool call that is interrupted is made again: at least once while it runs, exactly
    once recorded. Results of tools are recorded as JSON. The metadata `{"agentforge": False}` of a
    tool leaves it out; a dictionary there has options of its steps.

    Args:
        name: The agent's name in the names of the steps; by default the agent's own.
        models: Further models by id, for runs that name one.
        event_stream_handler: Called with the events of a run; those of a tool in a step each.
        model_steps: Options of the steps of model requests, as `AsyncSession.step` takes them.
        tool_steps: Options of the steps of tool calls.
    """

    engine_spec = DurabilityEngineSpec(
        engine_name="AgentForge",
        durable_unit_noun="step",
        durable_container_noun="session",
        codec=JSON_CODEC,
        sequential_tools_in_durable_context=True,
        unsupported_runtime_toolset_kinds=frozenset({"function", "mcp", "dynamic"}),
        toolset_lifecycles={
            "function": "enter-always",
            "mcp": "enter-in-durable-unit",
            "dynamic": "enter-never",
        },
        tool_config_key=_METADATA,
    )

    def __init__(
        self,
        *,
        name: str | None = None,
        models: Mapping[str, Model] | None = None,
        event_stream_handler: EventStreamHandler[AgentDepsT] | None = None,
        model_steps: StepSettings = _NONE,
        tool_steps: StepSettings = _NONE,
    ) -> None:
        super().__init__(name=name, models=models, event_stream_handler=event_stream_handler)
        self._model_steps = model_steps
        self._tool_steps = tool_steps

    @property
    def in_durable_context(self) -> bool:
        """Whether a run is within `agent_steps`."""
        return _running.get() is not None

    def get_default_run_id(self) -> str | None:
        """Return the id of the next run: the same at each start."""
        running = _running.get()
        return None if running is None else f"{running.session.id}:{next(running.numbers)}"

    def get_default_conversation_id(self, run_id: str) -> str | None:
        """Return the id of a run's conversation: the same at each start."""
        return conversation_id_from_run_id(run_id) if self.in_durable_context else None

    def get_durable_operation_backend(self) -> DurableOperationBackend[StepSettings]:
        """Return what runs an operation as a step."""
        options = RoleBasedOperationConfig[StepSettings](
            model=self._model_steps,
            event=_NONE,
            capability=_NONE,
            tool=self._tool_steps,
            resolve_tool=self._options_of_tool,
        )
        return _StepBackend(
            agent_name=self.name, default_model_id=self.default_model_id, config=options
        )

    def _options_of_tool(
        self, _: DurableOperationId, tool: object | None, __: str
    ) -> StepSettings | Literal[False]:
        metadata = getattr(getattr(tool, "tool_def", None), "metadata", None) or {}
        own = metadata.get(_METADATA, _NONE)
        return False if own is False else {**self._tool_steps, **own}


class _StepBackend(JournalCallableOperationBackend[StepSettings]):
    """Runs each operation as a step of the session of `agent_steps`."""

    async def execute(
        self,
        *,
        operation_id: DurableOperationId,  # noqa: ARG002 (Pydantic AI's signature)
        name: str,
        body: Callable[[], Awaitable[object]],
        cache_key: tuple[object, ...],  # noqa: ARG002 (Pydantic AI's signature)
        config: StepSettings,
    ) -> object:
        """Run a body as a step; its name is part of what is recorded."""
        running = _running.get()
        if running is None:  # the block of `agent_steps` has ended
            return await body()
        executed = False

        async def run() -> object:
            nonlocal executed
            executed = True
            return await body()

        found: object = await running.session.step(_step_name(name), run, **config)
        record_durable_unit(executed=executed)
        return found


def _step_name(name: str) -> str:
    """Return the name of a step for any name of an operation."""
    shown = "".join(one if one.isprintable() else "_" for one in name.translate(_NOT_IN_NAMES))
    return shown[-_MOST_NAME_CHARS:]
