"""Trust in a project's configuration, and in the workflow and rules that it names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from ...base.files import OsFileSystem, read_regular_file
from ...base.settings.configuration_file import (
    DEFAULT_PATH,
    MAX_BYTES,
    RULES_KEY,
    WORKFLOW_KEY,
    document_of,
    own_document,
    rules_path,
)
from ...base.settings.trust_records import TrustRecord, TrustRecords, digest_of
from ...base.settings.trust_table import merged
from .output.errors import ChangedSinceTrusted

if TYPE_CHECKING:
    from ...base.settings.beginnings.scaffold import PlannedFile
    from ...base.settings.configuration import Configuration
    from ...workflows.workflow import Workflow


@frozen
class NamedFile:
    """File that a configuration names, used without being named by the person.

    Attributes:
        path: The file.
        content: What is trusted: the workflow with every script in it, or the rules.
    """

    path: Path
    content: bytes = field(repr=False)


def named_files(values: Mapping[str, Any], root: Path) -> dict[str, NamedFile]:
    """Read the files that a configuration names, by key, for a person to review and trust.

    Raises:
        ReadError: A file can't be read.
        InvalidWorkflow: The file is not a workflow.
    """
    found = {}
    workflow, rules = workflow_path(values, root), rules_path(values, root)
    if workflow is not None and workflow.exists():
        found[WORKFLOW_KEY] = NamedFile(workflow, _workflow_in(workflow, values))
    if rules is not None and rules.exists():
        data = read_regular_file(OsFileSystem(), str(rules), path=rules, max_bytes=MAX_BYTES)
        found[RULES_KEY] = NamedFile(rules, data or b"")
    return found


def trust_file(
    path: Path,
    data: bytes,
    named: Mapping[str, NamedFile],
    *,
    now: datetime,
    environment: Mapping[str, str] = os.environ,
) -> TrustRecord:
    """Record trust in a configuration file with this content, and in the files as read.

    Raises:
        ReadError: The file is reached through a link.
        WriteError: The record can't be saved.
    """
    digests = {key: digest_of(one.content) for key, one in named.items()}
    return TrustRecords(environment).add(path, data, now=now, named=digests)


def trust_scaffold(folder: Path, files: Iterable[PlannedFile], *, now: datetime) -> None:
    """Record trust in the configuration that `init` has just written, and in nothing else.

    Raises:
        WriteError: The record can't be saved.
    """
    for one in files:
        if one.is_written and one.path == str(DEFAULT_PATH):
            values, _ = document_of(one.content)
            named = named_files(values, folder)
            trust_file(folder / one.path, one.content, named, now=now)


def workflow_path(values: Mapping[str, Any], root: Path) -> Path | None:
    """Return the path of the workflow that a document names, or None."""
    run = values.get("run")
    named = run.get("workflow") if isinstance(run, dict) else None
    return root / named if isinstance(named, str) and named.strip() else None


def require_trusted(configuration: Configuration, workflow: Workflow) -> None:
    """Raise if a trusted file's workflow differs from the one that was trusted.

    Compares the loaded workflow with every script in it, so later changes on disk don't matter.

    Raises:
        ChangedSinceTrusted: It differs.
    """
    wanted = configuration.trusted_workflow
    if wanted is not None and wanted != _digest(workflow):
        raise ChangedSinceTrusted(
            configuration.run.workflow or Path(), configuration.path or Path()
        )


def require_trusted_rules(configuration: Configuration, path: Path, data: bytes) -> None:
    """Raise if a trusted file's rules differ from those that were trusted.

    Raises:
        ChangedSinceTrusted: They differ.
    """
    wanted = configuration.trusted_rules
    if wanted is not None and path == configuration.context.rules and wanted != digest_of(data):
        raise ChangedSinceTrusted(path, configuration.path or Path())


def _workflow_in(path: Path, values: Mapping[str, Any]) -> bytes:
    from ...workflows import load_workflow
    from ...workflows.documents.workflow_snapshot import snapshot_of

    isolation = merged(own_document(), values)["run"].get("isolation", "sandbox")
    return snapshot_of(load_workflow(path, isolation=str(isolation)))


def _digest(workflow: Workflow) -> str:
    from ...workflows.documents.workflow_snapshot import snapshot_of

    return digest_of(snapshot_of(workflow))
