"""What is loaded for the asynchronous face, and what is said where its package is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

BLOCKED = """
import sys
class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name == "anyio" or name.startswith("anyio."):
            raise ModuleNotFoundError("No module named 'anyio'", name="anyio")
sys.meta_path.insert(0, Refusing())
"""


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.mark.parametrize(
    "made",
    [
        "agentforge_sessions.AsyncSessionManager('x')",
        "agentforge_sessions.AsyncWorkflowRunner()",
        "agentforge_sessions.AsyncSandbox(None)",
    ],
)
def test_missing_package_is_named_with_what_to_install(made: str) -> None:
    program = f"""{BLOCKED}
import agentforge_sessions
from agentforge_sessions import *
try:
    {made}
except agentforge_sessions.AgentForgeError as error:
    print(type(error).__name__, error.kind.value, error)
"""
    said = run(program)
    assert said.startswith("ExtraMissing not_done the asynchronous face needs anyio 4.11")
    assert "pip install 'agentforge-sessions[async]'" in said


def test_synchronous_work_loads_neither_anyio_nor_asyncio() -> None:
    program = """
import sys, tempfile, agentforge_sessions
manager = agentforge_sessions.build_manager(tempfile.mkdtemp())
manager.create()
heavy = "anyio", "asyncio", "agentforge_sessions.entrypoints.aio"
print([name for name in heavy if name in sys.modules])
"""
    assert run(program).splitlines()[-1] == "[]"
