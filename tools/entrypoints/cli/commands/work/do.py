"""The command that does a task: an agent's change, a check that judges it, a result to apply."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import evolve, frozen

from ..... import harness
from .....harness.domain.session_data import SessionLabels
from .....repository.git.git_repositories import UserRepository
from .....wiring.bootstrap import open_snapshots, session_results
from .....workflows import InvalidWorkflow
from .....workflows.builtin import task_workflow
from .....workflows.errors import AttemptsExhausted
from .....workflows.job import MAX_SUBJECT_CHARS, AgentWork
from ...context import Cli
from ...options import Tokens, Yes, argument, flag, misuse, option
from ...output.errors import Declined
from ...output.text import shorten
from ...running.agent_options import AgentOptions
from ...running.run_session import run_agent, start_agent
from ...running.task_choices import (
    NO_CHECK,
    FoundCheck,
    TaskAgent,
    find_check,
    left_out,
    shown_folders,
)
from ...signatures import given
from .task_end import TaskEnd, withdraw

if TYPE_CHECKING:
    from .....workflows import RunOutcome, WorkflowRunner

_TITLE_CHARS: Final = 100
_LAST: Final = 200
"""How many of the last sessions are looked at for the last task of a repository."""


@frozen
class TaskOptions:
    """Options of a new task.

    Attributes:
        check: The command that judges each try, in a jail; the project's own tests by default, as
            far as they are known. none: the result is unchecked.
        check_timeout: Its time limit; 300 seconds by default.
        tests_first: Have a failing test written and judged first, which is fixed then.
        plan: Be asked first what only you can decide; then work by a plan.
        with_uncommitted: Begin with your checkout's uncommitted work, too.
    """

    check: str | None = option("--check COMMAND")
    check_timeout: float | None = option("--check-timeout SECONDS", min=0.001)
    tests_first: bool = flag("--tests-first")
    plan: bool = flag("--plan")
    with_uncommitted: bool = flag("--with-uncommitted")


def do(
    cli: Cli,
    *,
    task: str | None = argument("TASK", default=None),
    go_on: bool = flag("--continue"),
    new: TaskOptions,
    agent: TaskAgent,
    budget: Tokens,
    branch: str | None = option("--branch NAME"),
    yes: Yes,
) -> None:
    """Have an agent do a task in this repository; a check judges it, and you apply the result.

    The agent works in a checkout of its own; yours is as it is until you apply.

    Args:
        cli: The global options.
        task: What you want; with --continue the session's id, the last one by default.
        go_on: Go on with a task that stopped, whatever stopped it.
        new: The options of a new task.
        agent: The options of the agent.
        budget: The tokens allotted; with --continue, so many more.
        branch: Commit the result on this new branch.
        yes: Whether to apply without a question.
    """
    end = TaskEnd(yes=yes, branch=branch)
    if go_on:
        _go_on(cli, task, new, agent, budget, end)
        return
    text = (task or "").strip()
    if not text:
        raise misuse("TASK", 'is missing; say what you want, as in do "add a --verbose option"')
    if len(text) > MAX_SUBJECT_CHARS:
        raise misuse(
            "TASK",
            f"has {len(text):,} characters, {MAX_SUBJECT_CHARS:,} are allowed; name files of the "
            "project instead",
        )
    user = UserRepository.at(Path.cwd())
    commit = user.resolve("HEAD")
    end.require_branch(user)
    check = find_check(cli.configuration, user.work_tree, new.check, timeout_s=new.check_timeout)
    options = agent.options(cli)
    folders = shown_folders(cli.configuration, user.work_tree, check.mounts)
    cli = evolve(cli, configured=folders).without_jail(said=agent.no_jail)
    work = _work(cli, text, check, new, options)
    for sentence in left_out(user, commit, with_uncommitted=new.with_uncommitted):
        cli.output.remark(sentence)
    attachments = open_snapshots(cli.store()).attachments(
        user.work_tree, commit, with_uncommitted=new.with_uncommitted
    )
    cli = evolve(cli, labels=SessionLabels(title=shorten(text.splitlines()[0], _TITLE_CHARS)))
    try:
        start_agent(
            cli, work, options, budget=budget, attachments=attachments, special=end.special(cli)
        )
    except Declined:
        if end.view is not None and end.view.session_id is not None:
            withdraw(cli, end.view.session_id, "the check fails already")
        raise


def _work(
    cli: Cli, text: str, check: FoundCheck, new: TaskOptions, options: AgentOptions
) -> AgentWork:
    try:
        workflow = task_workflow(check.gate, plan=new.plan, tests_first=new.tests_first)
    except InvalidWorkflow as error:
        where = "--tests-first" if check.gate.command is None else "--check"
        raise misuse(where, "; ".join(error.faults)) from error
    if check.gate.command is None:
        cli.output.remark("Check: none; the result is unchecked.")
    else:
        because = "" if check.because is None else f" ({check.because})"
        cli.output.remark(f"Check: {check.gate.command}{because}")
    choice = options.choice(cli, workflow, optional=False)
    return AgentWork(
        workflow=workflow,
        name="task",
        subject=text,
        agent=choice,
        import_root=check.import_root,
    )


# --------------------------------------------------------------------------------- to go on


def _go_on(
    cli: Cli,
    shortened: str | None,
    new: TaskOptions,
    agent: TaskAgent,
    budget: int | None,
    end: TaskEnd,
) -> None:
    others = given(new)
    if others:
        raise misuse("--continue", f"the task has its check and its phases; leave out {others[0]}")
    session_id = _last_task(cli) if shortened is None else cli.own_id(shortened)
    manager, session = cli.load(session_id, manager=cli.keeping_manager())
    if session.workflow_type != "do":
        raise misuse("ID", f"{session_id} is no task; agentforge resume {session_id} goes on")
    if session.state is harness.SessionState.COMPLETED:
        end.of_session(cli, manager, session, again=True)
        return
    checkout = session_results(cli.store(), cli.objects_url).began_from(session_id)
    if checkout is not None:
        user = UserRepository.at(checkout)
        end.require_branch(user)
        top = user.work_tree
        mounts = find_check(cli.configuration, top, NO_CHECK).mounts
        cli = evolve(cli, configured=shown_folders(cli.configuration, top, mounts))
    if budget is not None:
        cli.change(session_id, lambda changed: changed.extend_budget(budget))
    cli = cli.without_jail(said=agent.no_jail)
    work = AgentWork.of_session(cli.store(), session_id)
    other = None
    if agent.agent is not None:
        options = agent.options(cli)
        choice = options.choice(cli, work.workflow, optional=False)
        other = options.made(cli, evolve(work, agent=choice))

    def act(runner: WorkflowRunner) -> RunOutcome:
        try:
            return runner.resume(session_id, other)
        except AttemptsExhausted:
            return runner.retry(session_id, "the person had it go on", other)

    run_agent(
        cli,
        act,
        wait=not agent.no_wait,
        special=end.special(cli),
    )


def _last_task(cli: Cli) -> str:
    """Return the last task of this repository that was not aborted.

    Raises:
        typer.BadParameter: There is none.
    """
    top = UserRepository.at(Path.cwd()).work_tree
    store = cli.store()
    found = store.page(harness.SessionFilter(workflow_type="do"), limit=_LAST)
    snapshots = open_snapshots(store)
    for one in found.sessions:
        session_id = one.session_id
        if one.head.state is harness.SessionState.ABORTED or not store.is_own(session_id):
            continue
        base = snapshots.base_of(session_id)
        if base is not None and Path(base.work_tree) == top:
            return session_id
    raise misuse(
        "--continue",
        "there is no task of this repository to go on with; agentforge list shows all sessions",
    )
