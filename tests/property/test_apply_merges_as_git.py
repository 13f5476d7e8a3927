"""What an apply makes of a checkout is what git's own merge makes of it in a scratch clone."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentforge_sessions.repository.apply.apply_errors import ApplyConflict, ApplyRefused
from tests.support.applying import Site, files_of, seen, services_in
from tests.support.repositories import commit_all, new_checkout, plain_git
from tests.support.soak import examples

NAMES = ["a", "b", "c/d", "c/e", "c", "f/g/h", "i"]
CONTENTS = st.lists(st.sampled_from("xyz"), min_size=0, max_size=6).map(
    lambda lines: "".join(f"{number} {line}\n" * 2 for number, line in enumerate(lines))
)
TREES = st.dictionaries(st.sampled_from(NAMES), st.tuples(CONTENTS, st.booleans()), max_size=6).map(
    lambda tree: {
        name: one for name, one in tree.items() if not any(o.startswith(f"{name}/") for o in tree)
    }
)


def _become(folder: Path, tree: dict[str, tuple[str, bool]]) -> str:
    for path in folder.iterdir():
        if path.name != ".git":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, (content, executable) in tree.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(0o755 if executable else 0o644)
    return commit_all(folder, "tree")


def _named(content: object) -> object:
    """Return a file with the name that an apply gives our side of a conflict."""
    return content.replace(b" HEAD", b" yours") if isinstance(content, bytes) else content


def _files(top: Path) -> dict[str, object]:
    found = files_of(top).items()
    return {name.replace("~HEAD", "~yours"): _named(content) for name, content in found}


def _staged(top: Path) -> list[tuple[str, str, str, object]]:
    """Return the mode, stage, path and content of each entry of an index."""
    lines = plain_git(top, "ls-files", "-s").stdout.decode().splitlines()
    entries = [line.replace("\t", " ", 1).split(" ", 3) for line in lines]
    asked = "".join(f"{oid}\n" for _, oid, _, _ in entries).encode()
    rest = plain_git(top, "cat-file", "--batch=%(objectsize)", stdin=asked).stdout
    found = []
    for mode, _, stage, path in entries:
        size, _, rest = rest.partition(b"\n")
        content, rest = rest[: int(size)], rest[int(size) + 1 :]
        found.append((mode, stage, path.replace("~HEAD", "~yours"), _named(content)))
    return sorted(found, key=lambda one: (one[2], one[1]))


def _merges_as(scratch: Path, site: Site) -> None:
    """Check that a merge on request leaves what git's own merge left in the clone."""
    before = seen(site.top)
    try:
        applied = site.apply(merge=True)
    except ApplyConflict:
        assert plain_git(scratch, "ls-files", "-u").stdout == b""
        assert seen(site.top) == before
    else:
        assert applied.conflicts
        assert _files(site.top) == _files(scratch)
        assert _staged(site.top) == _staged(scratch)


@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
@given(base=TREES, theirs=TREES, ours=TREES)
def test_the_applied_result_is_gits_own_merge(
    base: dict[str, tuple[str, bool]],
    theirs: dict[str, tuple[str, bool]],
    ours: dict[str, tuple[str, bool]],
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own = new_checkout(folder / "own")
        first = _become(own, base)
        top = folder / "checkout"
        plain_git(own, "clone", "-q", str(own), str(top))
        result = _become(own, theirs)
        _become(top, ours)
        scratch = folder / "clone"
        plain_git(top, "clone", "-q", str(top), str(scratch))
        plain_git(scratch, "fetch", "-q", str(own), f"{result}:it")
        merged = plain_git(scratch, "merge", "-q", "--no-edit", "it", check=False)
        site = Site(top, own, first, result, services_in(folder))
        before = seen(top)
        try:
            applied = site.apply(commit=True)
        except ApplyConflict:
            assert merged.returncode != 0
            assert seen(top) == before
            _merges_as(scratch, site)
        except ApplyRefused:
            assert seen(top) == before
            raise
        else:
            assert merged.returncode == 0, (applied, merged.stderr)
            assert files_of(top) == files_of(scratch)
            assert site.status() == []
            assert site.git("rev-parse", "HEAD^{tree}") == (
                plain_git(scratch, "rev-parse", "HEAD^{tree}").stdout.decode()
            )
            assert site.apply(commit=True).nothing_to_do
