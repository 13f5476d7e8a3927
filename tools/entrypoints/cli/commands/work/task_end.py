"""The end of a task: what changed, what it cost, and what becomes of it."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field

from ..... import harness
from .....harness.domain.history_events import PhaseSucceeded
from .....repository.apply.apply import continue_apply
from .....repository.apply.apply_commit import require_new_branch
from .....repository.apply.apply_errors import UnfinishedApply
from .....repository.apply.apply_plan import ApplyOptions
from .....wiring.bootstrap import session_results
from .....workflows.job import Job
from .....workflows.ports import StopCause
from .....workflows.run.progress import phases_passed, time_spent
from .....workflows.workflow import Gate, Workflow
from ...context import Cli
from ...output.documents import selected, state_document
from ...output.errors import CheckUnusable, Declined
from ...output.text import counted_of, duration_text, some_of
from ...running.run_session import Special
from ...running.running import run_details, write_failure
from ..prune.group import KindOptions
from ..prune.upkeep import pin
from ..session.bring_home import applied_document, colored, show_applied, show_stat

if TYPE_CHECKING:
    from .....base.files.trees import TreeChanges
    from .....repository.apply.applied import Applied
    from .....repository.git.git_repositories import UserRepository
    from .....workflows import RunOutcome
    from ...output.output import Output
    from ...output.progress import RunView

CONTINUE: Final = ("do", "--continue")
"""The words of the command that goes on with a task."""
_QUESTION: Final = "Apply? [y]es, [n]o, [d]iff, [k]eep for later:"
_STEERS_CHECKS: Final = re.compile(
    r"(.*/)?((GNUm|[Mm])akefile|package\.json|\.npmrc|\.mocharc\..*|(jest|vitest?|ava)\.config\..*|"
    r"(conftest|sitecustomize)\.py|\.?pytest\.ini|tox\.ini|setup\.cfg|pyproject\.toml|"
    r"Cargo\.toml|build\.rs|\.cargo/config(\.toml)?)"
)
"""Files that usual commands of tests read and that can make them pass."""
_WORD: Final = re.compile(r"[^\s'\"=;&|()<>]+")


@define(kw_only=True)
class TaskEnd:
    """Shows what a task came to, and applies it if the person says so.

    Attributes:
        yes: Whether to apply it without a question.
        branch: The new branch to commit it on, or None.
        view: The view of the run, once there is one.
    """

    yes: bool
    branch: str | None
    view: RunView | None = field(default=None, init=False)

    def require_branch(self, user: UserRepository) -> None:
        """Refuse a branch that can't be made, before anything is done for it.

        Raises:
            BranchRefused: It has no valid name, or is there already.
        """
        if self.branch is not None:
            require_new_branch(user, self.branch)

    def special(self, cli: Cli) -> Special:
        """Return what the command does in its own way: its end, and a check that fails already."""

        def begin(view: RunView) -> None:
            self.view, view.resume = view, CONTINUE
            view.on_failing_base = lambda said: self._ask(cli.output, view, said)

        return Special(begin, self.of_run)

    def _ask(self, output: Output, view: RunView, said: str) -> None:
        """Ask whether the task goes on although the check fails already.

        Raises:
            Declined: It does not.
        """
        if self.yes or not output.can_ask():
            output.remark(f"The check fails already, and the task goes on. {said}")
            return
        with view.aside():
            output.remark(said)
            if output.choose("The check fails already. Go on? [y]es, [n]o:", "yn") == "n":
                raise Declined

    def of_run(
        self, cli: Cli, manager: harness.SessionManager, view: RunView, outcome: RunOutcome
    ) -> None:
        """Show the end of a run, and apply the result of one that is complete."""
        session = manager.current_session
        assert session is not None  # noqa: S101 (a run that returned had one)
        if outcome.state is harness.SessionState.COMPLETED:
            self.of_session(cli, manager, session, run_details(view, outcome))
            return
        if outcome.cause is StopCause.FAILED and not view.verdicts:
            withdraw(cli, session.session_id, str(outcome.reason))
            raise CheckUnusable(str(outcome.reason))
        following = _next(cli, view, outcome)
        document = _document(cli, session, run_details(view, outcome))
        if cli.output.wrote({**document, "reason": outcome.reason, "next": following}):
            return
        write_failure(cli.output, session, view)
        line = cli.output.line
        line()
        line(f"Not done: {outcome.reason}")
        line(f"Nothing of yours was changed. {_cost(session)}")
        line(f"What is there: {cli.command('diff', session.session_id)}")
        line(f"To go on: {following}")

    def of_session(
        self,
        cli: Cli,
        manager: harness.SessionManager,
        session: harness.SessionContext,
        details: dict[str, Any] | None = None,
        *,
        again: bool = False,
    ) -> None:
        """Show the result of a complete session, and apply it if the person says so.

        Args:
            cli: The global options.
            manager: The session's manager.
            session: The session.
            details: More fields for a program.
            again: Whether an earlier command may have applied it.
        """
        found = manager.diff(None, None, patch=False)
        applied = _applied_before(cli, session) if again else None
        gate = _workflow_of(cli, session).phases[-1].agents_gate
        still_failing = _still_failing(session)
        passed = gate.command is not None and not still_failing
        changed = _check_changed(gate, found)
        unasked = self.branch is not None or (self.yes and passed and not changed)
        wants = found.files and unasked and applied is None
        if not cli.output.json:
            cli.output.line()
            show_stat(cli, found)
            judged = _judged(gate, session, still_failing=still_failing)
            cli.output.line(f"{judged} {_cost(session)}")
            if changed:
                cli.output.line(f"The agent changed what the check runs: {some_of(changed)}.")
        if wants:
            applied = self._apply(cli, session)
        elif found.files and applied is None and cli.output.can_ask():
            applied = self._asked(cli, manager, session)
        apply = cli.command("apply", session.session_id)
        document = {
            **_document(cli, session, details or {}),
            "files": [selected(one, "path kind insertions deletions") for one in found.files],
            "check_changed": changed,
            "applied": None if applied is None else applied_document(applied),
            "next": apply if applied is None and found.files else None,
        }
        if cli.output.wrote(document) or not found.files:
            return
        if applied is not None:
            show_applied(cli, applied, session.session_id)
            return
        cli.output.line("Not applied; the session has it, and your checkout is as it was.")
        cli.output.line(f"To see it: {cli.command('diff', session.session_id)}")
        cli.output.line(f"To apply it: {apply}")

    def _asked(
        self, cli: Cli, manager: harness.SessionManager, session: harness.SessionContext
    ) -> Applied | None:
        """Ask what becomes of the result; None if it is not applied."""
        while True:
            match cli.output.choose(_QUESTION, "yndk"):
                case "y":
                    return self._apply(cli, session)
                case "d":
                    patch = manager.diff(None, None, patch=True).patch
                    cli.output.show(colored(patch.decode("utf-8", "backslashreplace")))
                case "k":
                    pin(cli, session.session_id, KindOptions("agent", None, None))
                    return None
                case _:
                    return None

    def _apply(self, cli: Cli, session: harness.SessionContext) -> Applied:
        results = session_results(cli.store(), cli.objects_url)
        return results.apply(session, ApplyOptions(branch=self.branch))


def _applied_before(cli: Cli, session: harness.SessionContext) -> Applied | None:
    """Return what an earlier command applied of a result, finishing it if it was interrupted."""
    results = session_results(cli.store(), cli.objects_url)
    try:
        found = results.apply(session, ApplyOptions(), dry_run=True)
    except UnfinishedApply as error:
        checkout = results.began_from(session.session_id)
        if checkout is None or session.session_id not in error.label:
            raise
        return continue_apply(checkout)
    return found if found.nothing_to_do else None


def withdraw(cli: Cli, session_id: str, reason: str) -> None:
    """Abort a task's session for which no agent was asked."""
    cli.change(session_id, lambda manager: manager.abort(reason))


def _workflow_of(cli: Cli, session: harness.SessionContext) -> Workflow:
    """Return a task's workflow; the gate of its last phase judges the result."""
    return Job.of_session(cli.store(), session.session_id).workflow


def _check_changed(gate: Gate, found: TreeChanges) -> list[str]:
    """Return the changed files that a check's command names, or that steer usual commands."""
    words = {os.path.normpath(one) for one in _WORD.findall(gate.command or "")}
    return [
        one.path
        for one in found.files
        if gate.command is not None
        and ((one.path in words and one.kind != "added") or _STEERS_CHECKS.fullmatch(one.path))
    ]


def _judged(gate: Gate, session: harness.SessionContext, *, still_failing: int) -> str:
    """Return what judged a complete session's result, in a sentence."""
    tries = counted_of(session.attempt_number, "try", "tries")
    if gate.command is None:
        return f"Unchecked: no command judged it ({tries})."
    but = f", but {counted_of(still_failing, 'test')} failed as before" if still_failing else ""
    return f"The check passed after {tries}{but}: {gate.command}."


def _still_failing(session: harness.SessionContext) -> int:
    """Return how many tests failed when the result was judged, as they had on the base."""
    for entry in reversed(session.history):
        if isinstance(event := entry.event, PhaseSucceeded):
            return 0 if event.verdict is None else event.verdict.counts.get("failed", 0)
    return 0


def _cost(session: harness.SessionContext) -> str:
    budget, spent = session.token_budget, time_spent(session.history)
    return (
        f"It cost {budget.tokens_used:,} of {budget.total_budget:,} tokens; the agent took "
        f"{duration_text(spent.agent)}, the check {duration_text(spent.gate)}."
    )


def _document(cli: Cli, session: harness.SessionContext, details: dict[str, Any]) -> dict[str, Any]:
    workflow, passed = _workflow_of(cli, session), phases_passed(session)
    gate = workflow.phases[-1].agents_gate
    done = session.state is harness.SessionState.COMPLETED
    return {
        **state_document(session, cli.store()),
        "phases_done": [name for name in workflow.names if name in passed],
        **details,
        "check": gate.command,
        "checked": done and gate.command is not None,
    }


def _next(cli: Cli, view: RunView, outcome: RunOutcome) -> str:
    """Return the command that goes on with a task that stopped."""
    if outcome.waiting_for is not None:
        return view.answer_command(outcome.waiting_for)
    more: list[str] = []
    if outcome.stop is not None and outcome.stop.missing_tokens:
        more = ["--budget", str(outcome.stop.missing_tokens)]
    return cli.command(*CONTINUE, outcome.session_id, *more)
