"""A program whose types a checker has to infer; read by `test_typing`, never run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import assert_type

from agentforge_sessions import AsyncSession, Retry, Session, Spend, session


@dataclass
class Outline:
    """What a program plans."""

    parts: list[str]


class Writer:
    """Something with methods."""

    def __init__(self, name: str = "x") -> None:
        self.name = name

    def write(self, part: str) -> dict[str, int]:
        return {part: len(self.name)}


def outline(topic: str) -> Outline:
    return Outline([topic])


def draft(part: str, words: int = 100) -> bytes:
    return part.encode() * words


def pay(amount: int, *, idempotency_key: str = "") -> float:
    return amount + len(idempotency_key)


def publish() -> None: ...


async def outline_async(topic: str) -> Outline:
    return Outline([topic])


def program() -> None:
    with session("report", key="x", budget=20_000) as s:
        assert_type(s, Session)
        plan = s.step("outline", outline, "topic", retry=Retry(3), spend=Spend(100))
        assert_type(plan, Outline)
        assert_type(s.map("draft", draft, plan.parts, concurrency=4), list[bytes])
        assert_type(s.step("draft", draft, "part"), bytes)
        assert_type(s.step("draft", draft, "part", 3, timeout=5.0), bytes)
        assert_type(s.step("pay", pay, 3, final=(ValueError,)), float)
        assert_type(s.step("write", Writer().write, "part", budget=50), dict[str, int])
        assert_type(s.step("writer", Writer, "name"), Writer)
        assert_type(s.step("count", lambda: 3), int)
        assert_type(s.step("same", lambda one: one, "x"), str)
        assert_type(s.step("bound", partial(draft, "part")), bytes)
        assert_type(s.race("race", lambda: 1, lambda: 2), int)
        assert_type(s.ask("Publish?", options=["Yes", "No"]), str)
        assert_type(s.version("way", 2), int)
        s.step("publish", publish)
        with s.session("part", budget=10) as part:
            assert_type(part, Session)
        s.step("outline", outline, 3)  # type: ignore[arg-type] # pyright: ignore
        s.step("outline", outline)  # type: ignore[arg-type] # pyright: ignore
        s.step("outline", outline, "x", retries=3)  # type: ignore[call-arg] # pyright: ignore


async def program_async() -> None:
    async with session("report", key="x") as s:
        assert_type(s, AsyncSession)
        assert_type(await s.step("outline", outline_async, "topic"), Outline)
        assert_type(await s.step("outline", outline, "topic", retry=2), Outline)
        assert_type(await s.step("draft", draft, "part"), bytes)
        assert_type(await s.step("count", lambda: 3), int)
        assert_type(await s.map("m", outline_async, ["a"], concurrency=2), list[Outline])
        assert_type(await s.map("m", outline, ["a"]), list[Outline])
        assert_type(await s.race("race", partial(outline_async, "a")), Outline)
        assert_type(await s.ask("Publish?"), str)
        async with s.session("part", budget=10) as part:
            assert_type(part, AsyncSession)
        await s.step("outline", outline_async, 3)  # type: ignore[arg-type] # pyright: ignore


@session("report", budget=5)
def report(s: Session, topic: str, pages: int = 1) -> Outline:
    return s.step("outline", outline, topic * pages)


@session("report")
async def report_async(s: AsyncSession, topic: str) -> Outline:
    return await s.step("outline", outline_async, topic)


@session
def weekly(s: Session) -> int:
    return s.step("one", lambda: 1)


async def calls() -> None:
    assert_type(report("x", pages=2), Outline)
    assert_type(await report_async("x"), Outline)
    assert_type(weekly(), int)
    report(3)  # type: ignore[arg-type] # pyright: ignore
