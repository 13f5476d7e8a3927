"""The example of a repository ends with the real project's own tests passing in the checkout."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.index_packages import IndexPackage
from tests.support.repositories import plain_git

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "repository"

pytestmark = pytest.mark.timeout(600)


def project() -> IndexPackage:
    """Return the source distribution that `make run` fetches."""
    pinned = (EXAMPLE / "requirements.txt").read_text()
    found = re.search(r"^(\S+)==(\S+) --hash=sha256:([0-9a-f]{64})$", pinned, re.MULTILINE)
    assert found is not None
    name, version, sha256 = found.groups()
    file = f"{name.replace('-', '_')}-{version}.tar.gz"
    makefile = (EXAMPLE.parents[1] / "Makefile").read_text()
    assert f"$(PROJECTS)/{file}" in makefile
    return IndexPackage(f"{name}=={version}", file, sha256)


def test_the_feature_comes_home(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    done = subprocess.run(
        [sys.executable, EXAMPLE / "develop.py", project().fetched(), checkout],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if "is left out" in done.stdout:
        pytest.skip(done.stdout.splitlines()[-1])
    assert "3 new tests fail for want of the implementation; 53 older ones" in done.stdout
    assert "gate tests_pass failed: 1 of 56 tests" in done.stdout
    assert "56 passed" in done.stdout
    staged = plain_git(checkout, "status", "--porcelain").stdout.decode().splitlines()
    assert staged == [
        "M  src/dependency_groups/__init__.py",
        "A  src/dependency_groups/_names.py",
        "A  tests/test_group_names.py",
    ]
