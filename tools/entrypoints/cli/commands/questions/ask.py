"""`agentforge questions ask`: ask a person and wait for the answer."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

import typer
from attrs import frozen

from ..... import questions
from ...asking import question_sessions, read_json, session_document
from ...context import Cli
from ...options import QuestionPlace, argument, flag, misuse, option
from ...output.errors import ExitCode
from ...output.text import shorten
from ...signatures import given


@frozen
class Asked:
    """Options that define the questions to ask.

    Attributes:
        prompt: The question.
        options: An answer to choose from; may be repeated.
        title: Short title for lists; the beginning of the prompt by default.
        multi: Allow several options to be chosen.
        file: Questions as JSON: a list, or an object with "questions"; - is standard input.
        call_id: A call id to keep with the session.
    """

    prompt: str | None = argument("PROMPT", default=None)
    options: list[str] | None = option("--option, -o LABEL[=DESCRIPTION]")
    title: str | None = option("--title TEXT")
    multi: bool = flag("--multi")
    file: str | None = option("--file, -f FILE")
    call_id: str | None = option("--call-id TEXT")

    def made(self) -> tuple[questions.Question, ...]:
        """Return the questions.

        Raises:
            typer.BadParameter: The options do not define a question.
            InvalidQuestion: A question in the file is invalid.
        """
        if self.prompt is None:
            if self.options or self.title is not None or self.multi:
                raise misuse("PROMPT", "these options need a prompt")
            if self.file is None and sys.stdin.isatty():
                raise misuse("PROMPT", "give a prompt, or --file")
            document = read_json(self.file if self.file is not None else "-")
            if isinstance(document, dict):
                document = document.get("questions")
            return questions.parse_questions(document)
        if self.file is not None:
            raise misuse("--file", "a prompt and a file are two ways to ask")
        made = []
        for one in self.options or ():
            label, _, description = one.partition("=")
            made.append(
                questions.Option(label=label.strip(), description=description.strip() or None)
            )
        beginning = shorten(" ".join(self.prompt.split()), 24)
        return (
            questions.Question(
                prompt=self.prompt,
                title=beginning if self.title is None else self.title,
                options=tuple(made),
                multi_select=self.multi,
            ),
        )


def ask(
    cli: Cli,
    *,
    asked: Asked,
    wait_for: str | None = option("--wait-for ID"),
    wait: bool = flag("--wait/--no-wait", default=True, show_default=True),
    timeout: timedelta | None = option("--timeout DURATION"),
    keep: bool = flag("--keep"),
    place: QuestionPlace,
) -> None:
    """Ask a person and wait for the answer.

    The exit code is 0 for an answer, 1 for a rejection (its reason is on standard output) and 124
    if there was no answer in time. The question is withdrawn at Ctrl-C, when the command is
    terminated and when the time is over, unless --keep is given.

    Args:
        wait_for: Ask nothing; wait for an existing question session.
        wait: Wait for the answer, or only write the id.
        timeout: Maximum wait, as in 10m.
        keep: Keep the question open when the wait ends without an answer.
    """
    if timeout is not None and not wait:
        raise misuse(
            "--timeout", "--no-wait waits for nothing, so nothing would end after this time"
        )
    sessions = question_sessions(cli, place)
    if wait_for is not None:
        if given(asked) or not wait:
            text = "asks nothing, so it takes no question"
            raise misuse("--wait-for", text if wait else "waits, so it takes no --no-wait")
        session_id, keep = sessions.resolve_id(wait_for), True
    else:
        session_id = sessions.create_session(
            asked.made(),
            call_id=asked.call_id,
            working_directory=questions.current_directory(),
            asker=questions.Asker.current() if wait and not keep else None,
        )
    try:
        if wait_for is None:
            _notify_person(sessions, session_id)
        if wait:
            with _ended_by_signals():
                _wait_and_report(cli, sessions, session_id, timeout, keep=keep)
            if wait_for is not None:
                with suppress(questions.QuestionError):  # the answer is reported already
                    sessions.mark_answers_read(session_id)
        else:
            cli.output.outcome({"session_id": session_id, "status": "pending"}, session_id)
    except (KeyboardInterrupt, _Terminated) as ended:
        number = ended.number if isinstance(ended, _Terminated) else None
        if not keep:
            how = "interrupted" if number is None else "terminated"
            _withdraw(cli, sessions, session_id, f"the one who asked was {how}")
        if number is None:
            raise
        _end_by(number)


def _withdraw(cli: Cli, sessions: questions.QuestionSessions, session_id: str, why: str) -> None:
    try:
        sessions.abandon_session(session_id, why)
    except (questions.SessionEnded, questions.SessionNotFound):
        pass  # it ended or was removed meanwhile
    except questions.QuestionError as error:
        cli.output.remark(f"The question {session_id} was not withdrawn, and still waits: {error}")


def _wait_and_report(
    cli: Cli,
    sessions: questions.QuestionSessions,
    session_id: str,
    timeout: timedelta | None,
    *,
    keep: bool,
) -> None:
    if not cli.output.json:
        short = sessions.short_ids().get(session_id, session_id)
        cli.output.remark(f"Waiting for an answer to {session_id}: agentforge answer {short}")
    try:
        answers = sessions.wait_for_answers(
            session_id,
            timeout.total_seconds() if timeout is not None else None,
            on_timeout="leave" if keep else "end",
        )
    except questions.SessionRejected as error:
        if cli.output.json:
            raise
        cli.output.lines(questions.format_rejection(error.reason).rstrip("\n"))
        raise typer.Exit(ExitCode.NOT_DONE) from error
    session = sessions.get(session_id)
    text = questions.format_user_response(answers, session.questions)
    if not cli.output.wrote({**session_document(sessions, session), "text": text}):
        cli.output.lines(text)


def _notify_person(sessions: questions.QuestionSessions, session_id: str) -> None:
    with suppress(questions.QuestionError):
        sessions.pending()  # ends sessions whose asker is dead

    questions.Notifier(questions.load_config().notify, sessions.where, terminal=sys.stderr).notify(
        sessions.get(session_id)
    )


class _Terminated(BaseException):
    """A signal requested the end of this process.

    Attributes:
        number: The signal's number.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Run the block; SIGTERM and SIGHUP end it with `_Terminated`.

    A signal that already has a handler or is ignored (nohup) is left alone. Outside the main
    thread, where Python runs no handlers, all are left alone.
    """

    def end(number: int, _: object) -> None:
        raise _Terminated(number)

    former = {}
    if threading.current_thread() is threading.main_thread():
        for one in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(one) is signal.SIG_DFL:
                former[one] = signal.signal(one, end)
    try:
        yield
    finally:
        for one, handler in former.items():
            signal.signal(one, handler)


def _end_by(number: int) -> None:
    """End this process as the signal would have."""
    sys.stdout.flush()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
