from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.base.errors import AgentForgeError, ErrorKind
from agentforge_sessions.base.files import ReadError
from agentforge_sessions.entrypoints.cli.output.errors import ExitCode, exit_code_of
from agentforge_sessions.harness.disk_errors import SESSION_ERRORS, STORE_ERRORS

HERE = Path("x")


# Where an error of a class ends, unless the error says otherwise: programs rely on these numbers.
CODES = {
    1: {
        "integrations.observers.errors.WebhookUnreached",
        "base.plugins.PluginUnusable",
        "entrypoints.cli.output.errors.Declined",
        "questions.errors.SessionRejected",
        "repository.errors.GitUnavailable",
        "repository.apply.apply_errors.CommitRefused",
        "base.errors.ExtraMissing",
    },
    2: {
        "wiring.phases.executors.UnknownExecutor",
        "fleet.postgres.errors.InvalidStoreAddress",
        "fleet.postgres.errors.StorePooled",
        "entrypoints.mcp_server.errors.UnknownToolSet",
        "entrypoints.cli.output.errors.ConfirmationNeeded",
        "entrypoints.mcp_server.errors.NotLoopback",
        "entrypoints.mcp_server.errors.TokenRefused",
        "entrypoints.mcp_server.errors.TokenRequired",
        "entrypoints.loopback.AddressRefused",
        "entrypoints.ui.errors.InvalidForm",
        "entrypoints.ui.errors.UnfitAnswers",
        "entrypoints.terminal.errors.NoTerminal",
        "harness.domain.session_checks.ImmutableSessionId",
        "jail.errors.FolderForbidden",
        "jail.errors.InvalidJail",
        "harness.domain.session_checks.InvalidSession",
        "harness.domain.session_checks.InvalidSessionId",
        "harness.views.session_page.InvalidCursor",
        "base.settings.beginnings.scaffold.UnknownExample",
        "prune.errors.InvalidPolicy",
        "questions.errors.InvalidAnswers",
        "base.question.FaultyInput",
        "base.question.InvalidQuestions",
        "questions.errors.InvalidSessionId",
        "sandbox.errors.InvalidExecution",
        "sandbox.errors.InvalidPolicy",
        "sandbox.errors.InvalidSessionId",
        "base.search_words.InvalidSearch",
        "sandbox.errors.PathEscapesWorkspace",
        "sandbox.errors.ReservedSessionPath",
        "workflows.prompts.context.RulesTooLong",
        "workflows.errors.NoEarlierPhase",
        "workflows.documents.specification.UnknownComponent",
        "fleet.objects.errors.InvalidObjectStoreAddress",
    },
    3: {
        "integrations.observers.errors.UnknownWebhook",
        "entrypoints.mcp_server.resources.ArtifactNotFound",
        "entrypoints.cli.output.errors.NoSessionToPin",
        "entrypoints.cli.output.errors.NothingToTrust",
        "entrypoints.ui.errors.PageNotFound",
        "entrypoints.cli.output.errors.SandboxSessionNotFound",
        "entrypoints.cli.output.errors.WorkspaceFileMissing",
        "harness.errors.NoActiveSession",
        "harness.errors.SessionNotFound",
        "jail.errors.CommandMissing",
        "prune.errors.NotInTrash",
        "prune.errors.PruneRootMissing",
        "questions.errors.SessionNotFound",
        "repository.errors.UnknownRevision",
        "repository.snapshots.snapshot_repository.NoSnapshots",
        "repository.snapshots.snapshots.SnapshotMissing",
        "fleet.objects.errors.ObjectMissing",
    },
    4: {
        "base.plugins.PluginAmbiguous",
        "base.errors.AmbiguousId",
    },
    5: {
        "harness.errors.ChangedSinceShown",
        "integrations.bridges.errors.ForeignIdTaken",
        "entrypoints.mcp_server.errors.AddressUnavailable",
        "harness.errors.SessionAlreadyActive",
        "harness.errors.SessionConflict",
        "harness.errors.SessionFenced",
        "harness.errors.SessionIdTaken",
        "harness.errors.SessionInUse",
        "harness.errors.StreamMoved",
        "harness.store.session_copy.SessionDiffers",
        "harness.store.session_copy.SessionLed",
        "prune.errors.PruneBusy",
        "prune.errors.SessionInTheWay",
        "questions.disk_errors.SessionBusy",
        "sandbox.errors.WorkspaceBusy",
        "workflows.errors.AlreadyRunning",
        "repository.apply.apply_errors.CheckoutBusy",
        "repository.apply.apply_errors.CheckoutChanged",
        "fleet.workspaces.workspace_packs.WorkspaceMoved",
    },
    6: {
        "entrypoints.cli.output.errors.ChangedSinceTrusted",
        "repository.errors.NotARepository",
        "repository.apply.apply_errors.NoUnfinishedApply",
        "repository.apply.apply_errors.ApplyConflict",
        "integrations.bridges.errors.BridgeError",
        "fleet.postgres.errors.NotSubmitted",
        "fleet.postgres.errors.RoleUnbounded",
        "fleet.postgres.errors.StoreNotMigrated",
        "fleet.postgres.errors.StoreTooNew",
        "agents.setup.errors.SetupRefused",
        "entrypoints.cli.output.errors.WorkspaceFileRefused",
        "entrypoints.mcp_server.errors.OutsideProject",
        "harness.errors.BudgetExceeded",
        "harness.errors.HarnessError",
        "harness.errors.ChangesUnsaved",
        "harness.errors.NoPhaseExecutor",
        "harness.errors.NoQuestionChannel",
        "harness.errors.QuestionWaits",
        "harness.errors.SessionTooLarge",
        "jail.errors.MountPointUnusable",
        "harness.domain.session_states.InvalidStateForPhaseAdvance",
        "harness.domain.session_states.InvalidStateTransition",
        "base.settings.beginnings.scaffold.ScaffoldRefused",
        "questions.errors.CallIdMismatch",
        "questions.errors.NoAnswers",
        "base.question.QuestionError",
        "questions.errors.SessionEnded",
        "questions.errors.SessionExists",
        "harness.views.checkpoints.CheckpointNotFound",
        "harness.services.session_checkpoints.CheckpointNotKept",
        "harness.services.session_checkpoints.NoSnapshotKeeper",
        "harness.services.session_checkpoints.WorkspaceNotKept",
        "questions.errors.TooManySessions",
        "repository.errors.RepositoryError",
        "repository.errors.SnapshotRefused",
        "workflows.agents.port.AgentCrashed",
        "workflows.agents.port.AgentCutOff",
        "workflows.agents.port.AgentFailed",
        "workflows.agents.port.AgentTimeout",
        "workflows.agents.port.AgentUnavailable",
        "workflows.prompts.workspace_files.WorkspaceTooLarge",
        "workflows.errors.AttemptsExhausted",
        "workflows.errors.NoAgent",
        "workflows.submitted_work.AgentNotAllowed",
        "workflows.submitted_work.ExecutorNotAllowed",
        "workflows.submitted_work.NotAllowedHere",
        "workflows.submitted_work.RepositoryNotAllowed",
        "workflows.errors.NotAWorkflowSession",
        "workflows.errors.NothingToRetry",
        "workflows.errors.PhaseNotInWorkflow",
        "repository.apply.apply_errors.ApplyError",
        "repository.apply.apply_errors.ApplyRefused",
        "repository.apply.apply_errors.OperationUnderWay",
        "repository.apply.apply_errors.CheckoutUnsupported",
        "repository.apply.apply_errors.UnfinishedApply",
        "repository.apply.apply_errors.ApplyDiverged",
        "repository.apply.apply_errors.NoIdentity",
        "repository.apply.apply_errors.BranchRefused",
        "repository.apply.result_merge.ObjectsMissing",
        "repository.snapshots.snapshot_repository.SnapshotsChanged",
        "fleet.workspaces.workspace_packs.WorkspaceElsewhere",
    },
    7: {
        "integrations.bridges.errors.ForeignEntryUnreadable",
        "integrations.bridges.errors.UnreadableEntry",
        "harness.disk_errors.SessionUnreadable",
        "harness.errors.SessionCorrupted",
        "harness.errors.UnsupportedSchema",
        "base.settings.configuration_file.InvalidConfiguration",
        "prune.errors.InvalidArchive",
        "questions.errors.InvalidConfig",
        "questions.disk_errors.SessionCorrupted",
        "workflows.errors.InvalidWorkflow",
        "workflows.documents.specification.InvalidSpecification",
        "repository.apply.apply_errors.JournalDamaged",
    },
    8: {
        "questions.errors.QuestionStoreError",
        "questions.errors.QuestionsUnavailable",
        "fleet.workers.errors.FleetStopped",
        "fleet.postgres.errors.StoreError",
        "fleet.postgres.errors.StoreForbidden",
        "fleet.postgres.errors.StoreFull",
        "fleet.postgres.errors.StoreRefused",
        "fleet.postgres.errors.StoreUnavailable",
        "base.files.errors.DurableError",
        "base.files.errors.LockTimeout",
        "base.files.errors.ReadError",
        "base.files.errors.RemovalError",
        "base.files.errors.WriteError",
        "entrypoints.cli.output.errors.OutputLost",
        "harness.disk_errors.LockTimeout",
        "harness.disk_errors.ReadError",
        "harness.disk_errors.RemovalError",
        "harness.disk_errors.WriteError",
        "prune.errors.PruneRootUnusable",
        "questions.disk_errors.AtomicReadError",
        "questions.disk_errors.AtomicWriteError",
        "repository.base.BaseUnavailable",
        "repository.errors.GitFailed",
        "repository.errors.GitOutputTooLarge",
        "repository.snapshots.snapshot_restore.RestoreFailed",
        "repository.apply.apply_errors.ApplyFailed",
        "fleet.objects.errors.ObjectDamaged",
        "fleet.objects.errors.ObjectStoreError",
        "fleet.objects.errors.ObjectStoreFull",
        "fleet.objects.errors.ObjectStoreRefused",
        "fleet.objects.errors.ObjectStoreUnavailable",
        "questions.errors.QuestionsRefused",
    },
    9: {
        "jail.errors.JailError",
        "wiring.gates.pure_package.PackageUnusable",
        "jail.errors.JailNotEnded",
        "jail.errors.JailUnavailable",
        "sandbox.errors.InputFileError",
        "sandbox.errors.SandboxClosed",
        "sandbox.errors.SandboxError",
        "sandbox.errors.SandboxUnavailable",
        "sandbox.errors.WorkspaceError",
        "sandbox.executor.UnsupportedRuntime",
        "sandbox.errors.SessionWorkspaceMissing",
        "sandbox.errors.CorruptedMetadata",
        "sandbox.errors.UnreadableMetadata",
        "workflows.gate_port.GateUnavailable",
    },
    10: {
        "harness.errors.SessionNotAdopted",
        "questions.errors.QuestionNotAdopted",
        "workflows.errors.TestsContested",
    },
    11: {
        "workflows.errors.BudgetTooSmall",
    },
    70: {
        "entrypoints.mcp_server.errors.InvalidArguments",
        "entrypoints.mcp_server.transports.http_times.BodyTooSlow",
        "entrypoints.mcp_server.server.ServerStopping",
        "entrypoints.terminal.drafts.draft_store.DraftUnreadable",
        "entrypoints.terminal.errors.TerminalFailed",
        "base.errors.AgentForgeError",
        "base.identifiers.InvalidIdentifier",
        "prune.errors.PruneError",
        "entrypoints.mcp_server.errors.CallCancelled",
    },
    124: {
        "questions.errors.AnswersTimeout",
        "repository.errors.GitTimedOut",
    },
    130: {
        "entrypoints.cli.output.errors.Interrupted",
    },
}


def test_each_class_of_error_leads_to_its_code() -> None:
    found: dict[int, set[str]] = {code: set() for code in CODES}
    for kind in public_exceptions():
        if issubclass(kind, AgentForgeError):
            bare = kind.__new__(kind)
            name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("agentforge_sessions.")
            found[exit_code_of(bare)].add(name)
    assert found == CODES


def test_each_kind_of_error_has_a_code_of_its_own() -> None:
    codes = {exit_code_of(of_kind(kind)) for kind in ErrorKind}
    assert len(codes) == len(ErrorKind)
    assert set(ExitCode) - codes == {ExitCode.OK}


def of_kind(kind: ErrorKind) -> AgentForgeError:
    error = AgentForgeError("it happened")
    error.kind = kind
    return error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ReadError(path=HERE, reason="it is not a regular file"), 7),
        (ReadError(path=HERE, cause=OSError(40, "loop")), 7),
        (ReadError(path=HERE, cause=PermissionError(13, "no")), 8),
        (STORE_ERRORS.of(ReadError(path=HERE, reason="it is no file")), 7),
        (STORE_ERRORS.of(ReadError(path=HERE, cause=PermissionError(13, "no"))), 8),
        (SESSION_ERRORS.of(ReadError(path=HERE, reason="it is no file"), "x"), 7),
        (SESSION_ERRORS.of(ReadError(path=HERE, cause=PermissionError(13, "no")), "x"), 8),
        (AgentForgeError("x"), 70),
        (OSError(28, "full"), 8),
        (ZeroDivisionError("x"), 70),
    ],
)
def test_what_an_error_says_of_itself_goes_before_its_class(error: Exception, code: int) -> None:
    assert exit_code_of(error) == code


def test_every_code_has_a_meaning() -> None:
    assert len({code.meaning for code in ExitCode}) == len(ExitCode)
