"""Random programs of several kinds of objects and effects, with questions between their parts."""

from __future__ import annotations

import random
import textwrap
from collections.abc import Sequence
from typing import Final, Literal

from attrs import frozen

from tests.property.sandbox.live._kinds import Kind
from tests.property.sandbox.live._kinds_of_files import FILES
from tests.property.sandbox.live._kinds_of_library import LIBRARY
from tests.property.sandbox.live._kinds_of_objects import OBJECTS
from tests.property.sandbox.live._kinds_of_waiting import WAITING

KINDS: Final = {kind.name: kind for kind in (*OBJECTS, *LIBRARY, *FILES, *WAITING)}

Style = Literal["awaited", "run", "plain", "called", "typed"]
STYLES: Final[tuple[Style, ...]] = ("awaited", "run", "plain", "called", "typed")
"""Where questions are asked: in awaits at the top, in a coroutine that `asyncio.run` runs, in plain
code at the top, in functions that functions call, and by `input()` in a function."""

COROUTINES: Final = ("awaited", "run")


@frozen
class Program:
    """A program: kinds, a style, and at which of its questions two are asked at once."""

    kinds: tuple[Kind, ...]
    style: Style
    questions: int
    pairs: frozenset[int] = frozenset()

    @property
    def name(self) -> str:
        """What it is called in a list of tests."""
        return f"{self.style}, {self.questions}: " + ", ".join(kind.name for kind in self.kinds)

    def source(self) -> str:
        """Return its code; `agentforge` is imported from it."""
        body, indent = "", ""
        numbered = list(enumerate(sorted(self.kinds, key=lambda kind: not kind.leads)))
        for number, kind in numbered:
            body += kind.text("setup", number) + "\n"
        for number, kind in numbered:
            if kind.around:
                body += textwrap.indent(kind.text("around", number) + "\n", indent)
                indent += "    "
        for one in range(1, self.questions + 1):
            part = self._question(one) + "\n"
            part += "".join(kind.text("use", number, one) + "\n" for number, kind in numbered)
            body += textwrap.indent(part, indent)
        for number, kind in reversed(numbered):
            indent = indent[4:] if kind.around else indent
            if kind.after:
                body += textwrap.indent(kind.text("after", number) + "\n", indent)
        prelude = "".join(kind.text("prelude", number) + "\n" for number, kind in numbered)
        prelude = f"import asyncio\nfrom agentforge import ask\n{prelude}"
        return f"{prelude}{self._placed(body)}\nprint('end')\n"

    def _question(self, number: int) -> str:
        word = "await " if self.style in COROUTINES else ""
        if self.style == "typed":
            return f"print('answer', typed({number}))"
        if self.style == "called":
            return f"print('answer', outer({number}))"
        if number in self.pairs and word:
            return f"print(await asyncio.gather(ask('{number}, left'), ask('{number}, right')))"
        return f"print('answer', {word}ask('{number}'))"

    def _placed(self, body: str) -> str:
        inside = textwrap.indent(body, "    ")
        match self.style:
            case "run":
                return f"async def main():\n{inside}\nasyncio.run(main())"
            case "called":
                inner = "def inner(number): return [ask(str(n)) for n in (number,)][0]\n"
                return (
                    f"{inner}def outer(number): return inner(number)\ndef main():\n{inside}\nmain()"
                )
            case "typed":
                return f"def typed(number): return input()\ndef main():\n{inside}\nmain()"
            case _:
                return body


def answer_to(question: str | None) -> str:
    """Return what a question is answered; of `input()`, which has none, always the same."""
    return f"answer to {question}" if question else "typed in"


def programs_of(kinds: Sequence[Kind], *, size: int) -> list[Program]:
    """Return programs of these kinds in this order, each of which occurs once; of all styles."""
    waiting = [kind for kind in kinds if kind.awaits]
    others = [kind for kind in kinds if not kind.awaits]
    made: list[Program] = []
    while waiting or others:
        style = STYLES[len(made) % len(STYLES)]
        parts = [waiting.pop() for _ in range(2) if waiting and style in COROUTINES]
        parts += [others.pop() for _ in range(size - len(parts)) if others]
        if parts:
            questions = len(made) % 3 + 1
            made.append(Program(tuple(parts), style, questions, frozenset({questions})))
        elif not others:
            made.append(Program((waiting.pop(),), "awaited", 2))
    return made


def random_program(seed: int) -> Program:
    """Return the program of a number."""
    chance = random.Random(seed)
    style = STYLES[seed % len(STYLES)]
    kinds: list[Kind] = [
        one for one in KINDS.values() if style in {"awaited", "run"} or not one.awaits
    ]
    questions = chance.randint(1, 3)
    pairs = frozenset(one for one in range(1, questions + 1) if chance.random() < 0.3)
    return Program(tuple(chance.sample(kinds, chance.randint(3, 6))), style, questions, pairs)


STUB: Final = """
import asyncio, builtins, sys
def _answer(question):
    return f'answer to {question}' if question else 'typed in'
async def _later(question):
    for _ in range(30): await asyncio.sleep(0)
    return _answer(question)
def ask(question):
    return _later(question) if sys._getframe(1).f_code.co_flags & 0x280 else _answer(question)
builtins.input = lambda prompt='': print(prompt, end='') or _answer(None)
"""
"""A module `agentforge` whose questions are answered at once: a program that nothing interrupts."""
