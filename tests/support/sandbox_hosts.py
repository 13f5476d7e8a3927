"""Which host the sandbox runs its interpreters on in this run of the tests."""

from __future__ import annotations

import pytest

from agentforge_sessions.sandbox.interpreter import uses_own_host

OWN_HOST = uses_own_host()

of_the_runner = pytest.mark.skipif(OWN_HOST, reason="a mechanism of the runner's host alone")
"""For what only the host that the runner brings has; the own host has no such mechanism."""

of_the_own_host = pytest.mark.skipif(not OWN_HOST, reason="the runner's host cannot do it")
"""For what only the own host does."""
