"""Where files keep sessions, the names in their directories, and which are locked; pure."""

from __future__ import annotations

from pathlib import Path
from typing import Final

KIND: Final = "harness"
"""The kind of sessions that these are, among all that can be pruned."""
DEFAULT_BASE_PATH: Final = Path(".agentforge/sessions")
SESSION_FILE: Final = "session.yaml"
MAX_FILE_BYTES: Final = 32 * 1024 * 1024
"""Largest session.yaml that is written or read: some 200,000 entries of ordinary length."""
WORKSPACE: Final = "workspace"
STEPS: Final = "steps"
"""Where the steps of the session's runs are."""
MAX_STEP_BYTES: Final = 48 << 20
STREAMS: Final = "streams"
"""Where the session's streams of entries are."""
SNAPSHOTS: Final = "snapshots.git"
"""Where the snapshots of the workspace are kept."""
AGENT_STATE: Final = "agent"
"""Where the states of the agent's program are."""
WORKFLOW_FILE: Final = "workflow.yaml"
"""The attachment that a running workflow holds a lock on."""
AGENT_WORKFLOW_FILE: Final = "agent-workflow.yaml"
"""The attachment that the runner of an agent's workflow holds a lock on."""
TRACE_FILE: Final = "agentforge-trace.json"
"""The attachment, and the step, by which a session's trace goes on with another worker."""
RUN_LOCKS: Final = (WORKFLOW_FILE, AGENT_WORKFLOW_FILE)
"""The attachments that a runner, of whichever kind, holds a lock on."""
GUARDS: Final = (*RUN_LOCKS, WORKSPACE)
"""What in a session's directory is locked by what works in it."""
SCHEMA_VERSION: Final = 1
"""The major version of the form; a file of a newer minor one (`"1.2"`) is read, and kept so."""
OWN_DATA_MINOR: Final = 1
"""The minor version with title, tags, metadata, workflow state and parent; the newest known here.

Only a session that has one of them is written as it. A program that knows version 1 alone keeps
them as those of a newer minor version.
"""
