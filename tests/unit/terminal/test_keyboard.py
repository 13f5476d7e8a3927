"""What a terminal sends, byte by byte and moment by moment, and which keys come of it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from agentforge_sessions.entrypoints.terminal.app import QuestionsApp
from agentforge_sessions.entrypoints.terminal.drafts.draft_store import DraftStore
from agentforge_sessions.entrypoints.terminal.keyboard import (
    EscapeFirstDriver,
    EscapeFirstParser,
    escape_first,
)
from tests.support.question_queue import FakeQueue

ESC = "\x1b"


@define
class Keyboard:
    """A terminal that sends what is typed, at times that the test sets."""

    now: float = 100.0
    parser: EscapeFirstParser = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.parser = EscapeFirstParser(now=lambda: self.now)

    def sends(self, *chunks: str) -> list[str]:
        """Send chunks one after the other, and return the keys that came of them."""
        keys = []
        for chunk in chunks:
            keys += names([*self.parser.feed(chunk), *self.parser.tick()])
        return keys

    def waits(self, seconds: float) -> list[str]:
        self.now += seconds
        return names(self.parser.tick())


def names(messages: object) -> list[str]:
    assert not isinstance(messages, Message)
    return [
        one.key if isinstance(one, events.Key) else type(one).__name__
        for one in messages  # type: ignore[attr-defined]
    ]


@pytest.mark.parametrize(
    ("key", "name"),
    [
        *[(one, one) for one in "acdefghijklmnopqrstuvwxyz0123456789"],
        ("b", "b"),
        ("\r", "enter"),
        ("\t", "tab"),
        (" ", "space"),
        ("?", "question_mark"),
        ("-", "minus"),
        ("\x7f", "backspace"),
        ("\x11", "ctrl+q"),
        ("é", "é"),
        ("§", "§"),
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_escape_and_a_key_are_two_keys_however_soon_it_follows(
    key: str, name: str, together: bool
) -> None:
    keyboard = Keyboard()
    chunks = [ESC + key] if together else [ESC, key]
    keys = keyboard.sends(*chunks)
    assert keys[0] == "escape"
    assert keys[1:] == Keyboard().sends(key)
    assert keys[1:] == [name] or len(name) == 1
    assert keyboard.waits(1) == []


def test_escape_alone_is_a_key_as_soon_as_no_sequence_can_follow() -> None:
    keyboard = Keyboard()
    assert keyboard.sends(ESC) == []
    assert keyboard.waits(0.05) == []
    assert keyboard.waits(0.06) == ["escape"]
    assert keyboard.sends(ESC, ESC, ESC) == ["escape", "escape"]
    assert keyboard.waits(0.2) == ["escape"]


@pytest.mark.parametrize(
    ("sequence", "name"),
    [
        ("[A", "up"),
        ("OA", "up"),
        ("[B", "down"),
        ("[5~", "pageup"),
        ("[1;3A", "alt+up"),
        ("[H", "home"),
        ("[Z", "shift+tab"),
        ("OP", "f1"),
        ("[[A", "f1"),
        ("[115;3u", "alt+s"),
        ("[27u", "escape"),
    ],
)
def test_sequences_are_one_key_also_in_pieces_and_after_escape(sequence: str, name: str) -> None:
    whole = ESC + sequence
    assert Keyboard().sends(whole) == [name]
    assert Keyboard().sends(*whole) == [name]
    assert Keyboard().sends(ESC + whole + "s") == ["escape", name, "s"]
    assert Keyboard().sends("s" + ESC, whole[:2], whole[2:] + ESC + "s") == [
        "s",
        "escape",
        name,
        "escape",
        "s",
    ]


@pytest.mark.parametrize(("key", "name"), [("[", "left_square_bracket"), ("O", "O")])
def test_keys_that_might_begin_a_sequence_are_keys_when_none_comes(key: str, name: str) -> None:
    keyboard = Keyboard()
    assert keyboard.sends(ESC + key) == []
    assert keyboard.waits(0.11) == ["escape", name]
    assert keyboard.sends("s") == ["s"]


def test_what_is_typed_after_escape_and_a_capital_o_is_not_lost() -> None:
    keyboard = Keyboard()
    assert keyboard.sends(f"{ESC}Oi") == []
    assert keyboard.sends("n") == ["escape", "O", "i", "n"]


@pytest.mark.parametrize("sequence", ["[?99~", "[?61;4c", "[>1;2;3c", "[200;", "[1;"])
def test_sequences_that_are_torn_or_unknown_are_no_keys(sequence: str) -> None:
    """As keys they would choose options by their numbers."""
    keyboard = Keyboard()
    assert keyboard.sends(ESC + sequence) == []
    assert keyboard.waits(0.11) == []
    assert keyboard.sends("s") == ["s"]


def test_an_unknown_sequence_takes_nothing_of_what_is_typed_after_it() -> None:
    assert Keyboard().sends(f"{ESC}[?99~s{ESC}s") == ["s", "escape", "s"]


def test_a_paste_is_a_paste_whatever_is_in_it() -> None:
    keyboard = Keyboard()
    assert keyboard.sends(f"{ESC}[200~a s\n{ESC}[201~s") == ["Paste", "s"]
    pieces = keyboard.sends(*f"{ESC}[200~as{ESC}[201~{ESC}s")
    assert pieces == ["Paste", "escape", "s"]


def test_a_mouse_is_a_mouse() -> None:
    assert Keyboard().sends(f"{ESC}[<0;3;4M{ESC}[<0;3;4ms") == ["MouseDown", "MouseUp", "s"]
    assert Keyboard().sends(f"{ESC}[I{ESC}[O") == ["AppFocus", "AppBlur"]


@given(st.text(alphabet=[ESC, *"sabfq1O[A~;5\r\x7f"], max_size=12), st.data())
def test_no_bytes_at_no_times_make_alt_of_escape(text: str, data: st.DataObject) -> None:
    keyboard = Keyboard()
    keys: list[str] = []
    for character in text:
        keys += keyboard.sends(character)
        keys += keyboard.waits(data.draw(st.sampled_from([0, 0.03, 0.2])))
    keys += keyboard.waits(1)
    assert not [key for key in keys if key.startswith("alt+") and ";" not in text]
    sequences = text.count(f"{ESC}[") + text.count(f"{ESC}O")
    assert text.count(ESC) - sequences <= keys.count("escape") <= text.count(ESC)
    assert keyboard.sends("s") == ["s"]


def test_the_application_reads_keys_so_in_a_terminal(tmp_path: Path) -> None:
    assert escape_first(LinuxDriver) is EscapeFirstDriver
    assert QuestionsApp(FakeQueue(), DraftStore(tmp_path)).driver_class is EscapeFirstDriver


PROGRAM = """
import sys
from textual.app import App
from agentforge_sessions.entrypoints.terminal.keyboard import EscapeFirstDriver

class Shown(App):
    def on_mount(self): self.keys = []
    def on_ready(self): print("ready", file=sys.__stdout__, flush=True)
    def on_key(self, event):
        self.keys.append(event.key)
        if event.key == "end":
            self.exit(self.keys)

print(Shown(driver_class=EscapeFirstDriver).run(), file=sys.__stdout__)
"""


def test_a_driver_at_a_pseudo_terminal_keeps_them_apart() -> None:
    """All in one write: the driver finds Esc and the key after it in its buffer at once."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=follower,
        stdout=subprocess.PIPE,
        stderr=follower,
        env={**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(Path(__file__).parents[3])},
        text=True,
    )
    os.close(follower)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.write(leader, b"\x1bs\x1b\r\x1bf\xff\x1b[F")
        told = process.stdout.readline()
        assert told.startswith("['escape', 's', 'escape', 'enter', 'escape', 'f', '")
        assert process.wait(30) == 0
    finally:
        os.close(leader)
        process.kill()
        process.communicate()
