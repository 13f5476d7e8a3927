"""Find the command that develops a component of a specification that a session wrote."""

from __future__ import annotations

import os
from pathlib import Path

from attrs import frozen

from .... import harness
from ..context import Cli


@frozen
class WrittenSpecification:
    """Approved specification in a session's workspace.

    Attributes:
        path: Its file.
        components: The ids of its components.
    """

    path: Path
    components: tuple[str, ...]


def written_specification(cli: Cli, session: harness.SessionContext) -> WrittenSpecification | None:
    """Return the specification that a SPEC session wrote, or None."""
    from ....workflows.builtin import SPEC
    from ....workflows.documents.specification import InvalidSpecification
    from ....workflows.documents.specification_document import load_specification

    if session.workflow_type != SPEC.workflow_type:
        return None
    workspace = cli.store().workspace_path(session.session_id)
    for path in reversed([one.path for one in session.artifacts]):
        if not path.startswith("specs/"):
            continue
        try:
            found = load_specification(workspace / path)
        except InvalidSpecification:
            continue
        return WrittenSpecification(
            workspace / path, tuple(one.component_id for one in found.components)
        )
    return None


def command_of_component(cli: Cli, session: harness.SessionContext) -> str | None:
    """Return the command that develops a component of a session's specification, or None.

    It names the session's agent and repository if the configuration does not.
    """
    from ....wiring.bootstrap import session_results
    from ....workflows.job import AgentWork

    written = written_specification(cli, session)
    if written is None:
        return None
    path = written.path
    here = Path(os.path.relpath(path))
    words = ["tdflow", str(path if ".." in here.parts else here)]
    if len(written.components) > 1:
        words += ["--component", written.components[0]]
    try:
        agent = AgentWork.of_session(cli.store(), session.session_id).agent
    except harness.HarnessError:
        agent = None
    if agent is not None and agent.value != cli.configuration.run.agent:
        words += ["--agent", agent.text]
    base = session_results(cli.store(), cli.objects_url).snapshots.base_of(session.session_id)
    if base is not None and not cli.configuration.repository.use:
        words += ["--repo", base.work_tree]
    return cli.command(*words)
