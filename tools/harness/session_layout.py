"""File layout of sessions: where they are, the names in their directories, the locks; pure."""

from __future__ import annotations

from pathlib import Path
from typing import Final

KIND: Final = "agent"
"""The kind of these sessions, among all that can be pruned."""
DEFAULT_BASE_PATH: Final = Path(".agentforge/sessions")
SESSION_FILE: Final = "session.yaml"
MAX_FILE_BYTES: Final = 32 * 1024 * 1024
"""Largest session.yaml to write or read: some 200,000 entries of ordinary length."""
WORKSPACE: Final = "workspace"
STEPS: Final = "steps"
"""Directory of the steps of the session's runs."""
MAX_STEP_BYTES: Final = 48 << 20
STREAMS: Final = "streams"
"""Directory of the session's streams of entries."""
SNAPSHOTS: Final = "snapshots.git"
"""Repository of the workspace snapshots."""
AGENT_STATE: Final = "agent"
"""Directory of the states of the agent's program."""
WORKFLOW_FILE: Final = "workflow.yaml"
"""The attachment that a running workflow locks."""
AGENT_WORKFLOW_FILE: Final = "agent-workflow.yaml"
"""The attachment that the runner of an agent's workflow locks."""
PROGRAM_FILE: Final = "program.json"
"""The attachment that a program which leads its session locks."""
STEPS_KEY: Final = "steps"
"""The name in a session's workflow state under which it says what of its log of steps is in it."""
TRACE_FILE: Final = "agentforge-trace.json"
"""The attachment, and the step, through which another worker continues a session's trace."""
RUN_LOCKS: Final = (WORKFLOW_FILE, AGENT_WORKFLOW_FILE, PROGRAM_FILE)
"""The attachments that runners of all kinds lock."""
GUARDS: Final = (*RUN_LOCKS, WORKSPACE)
"""What the processes that work in a session's directory lock there."""
SCHEMA_VERSION: Final = 1
"""Major schema version; a file of a newer minor one (`"1.2"`) is read, and stays at it."""
OWN_DATA_MINOR: Final = 1
"""The minor version with title, tags, metadata, workflow state and parent; the newest known here.

Only a session that has one of them is written in this version. A program that knows only version 1
preserves them as fields of a newer minor version.
"""
