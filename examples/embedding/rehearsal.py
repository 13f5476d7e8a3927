"""A model that needs no network: it calls the tools as a model would that reads their reports."""

from __future__ import annotations

import json
from typing import Any

from agents.items import TResponseOutputItem
from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message, function_call

TURNS = 100


def rehearsal() -> ScriptedModel:
    """Make the model.

    The first message ends with the component to develop; later ones are answers to a session that
    asks one question, or make it go on.
    """
    return ScriptedModel(ModelStep.respond(_next) for _ in range(TURNS))


def _next(call: ModelCall) -> list[TResponseOutputItem]:
    items = [{"role": "user", "content": call.input}] if isinstance(call.input, str) else call.input
    last = items[-1]
    if last.get("role") == "user":
        return [_after_words(items, last["content"])]
    return [_after_tool(items, _name_of(items, last["call_id"]), last["output"])]


def _after_words(items: list[dict[str, Any]], words: str) -> TResponseOutputItem:
    session_id = _last_output(items, "begin_component")
    if session_id is None:
        return _call(items, "begin_component", component=words.rsplit(maxsplit=1)[-1])
    asked = _waiting_for(items)
    if asked is not None:
        return _call(items, "answer_questions", asked=asked, answers=[words])
    return _call(items, "run_session", session_id=session_id)


def _after_tool(items: list[dict[str, Any]], name: str, output: str) -> TResponseOutputItem:
    if name == "begin_component" and output.startswith("session_"):
        return _call(items, "run_session", session_id=output)
    if name == "answer_questions" and output == "given":
        return _call(items, "run_session", session_id=_last_output(items, "begin_component"))
    if name != "run_session" or not output.startswith("{"):
        return assistant_message(output)
    report = json.loads(output)
    if not report["questions"]:
        return assistant_message(f"{report['session_id']}: {report['reason'] or report['state']}")
    lines = []
    for question in report["questions"]:
        lines.append(question["prompt"])
        lines += [f"- {option['label']}: {option['description']}" for option in question["options"]]
    return assistant_message("\n".join(lines))


def _waiting_for(items: list[dict[str, Any]]) -> str | None:
    """Return what the session waits for, if a report of it is the last that a tool gave back."""
    outputs = (one for one in reversed(items) if one.get("type") == "function_call_output")
    last = next(outputs, None)
    if last is None or not last["output"].startswith("{"):
        return None
    asked: str | None = json.loads(last["output"])["waiting_for"]
    return asked


def _call(items: list[dict[str, Any]], name: str, **arguments: object) -> TResponseOutputItem:
    return function_call(name, arguments, call_id=f"call-{len(items)}")


def _name_of(items: list[dict[str, Any]], call_id: str) -> str:
    calls = (one for one in items if one.get("type") == "function_call")
    return next(str(one["name"]) for one in calls if one["call_id"] == call_id)


def _last_output(items: list[dict[str, Any]], name: str) -> str | None:
    outputs = (one for one in reversed(items) if one.get("type") == "function_call_output")
    named = (str(one["output"]) for one in outputs if _name_of(items, one["call_id"]) == name)
    return next(named, None)
