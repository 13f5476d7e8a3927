"""A repository of our own for one look at a person's: it sees their objects and keeps its own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from attrs import evolve, frozen

from .git_command import Git
from .git_records import (
    Difference,
    Leaf,
    index_lines,
    joined,
    parse_attributes,
    parse_differences,
    parse_index,
)
from .git_repositories import OwnRepository, UserRepository

_PREFIX: Final = "agentforge-apply-"
_FIXED: Final = {
    "GIT_AUTHOR_DATE": "2000-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2000-01-01T00:00:00Z",
}
PROTECTING: Final = {"core.protectHFS": "true", "core.protectNTFS": "true"}
"""Configuration by which an index refuses names that pass for `.git` on other systems."""


@frozen
class Scratch:
    """The repository, and a place for files.

    Attributes:
        folder: A temporary folder of our own.
        git: The repository in it, with an index.
        id_length: How many digits an object's id has.
    """

    folder: Path
    git: OwnRepository
    id_length: int = 40

    def index(self, name: str, work_tree: str | None = None) -> OwnRepository:
        """Return the repository with another index, and perhaps a folder of files."""
        tree = None if work_tree is None else self.folder / work_tree
        if tree is not None:
            tree.mkdir(exist_ok=True)
        return evolve(self.git, index=self.folder / name, work_tree=tree)

    def info(self, name: str, content: bytes) -> None:
        """Write `info/attributes` or `info/exclude`."""
        (self.git.git_dir / "info").mkdir(exist_ok=True)
        (self.git.git_dir / "info" / name).write_bytes(content)

    def differences(self, old: str, new: str, *, folders: bool = False) -> list[Difference]:
        """Return what two trees have differently; with `folders`, the trees in them, too."""
        also = ("-t",) if folders else ()
        output = self.git.run("diff-tree", "-r", *also, "-z", "--no-renames", "--raw", old, new)
        return parse_differences(output.stdout)

    def changed_tree(self, tree: str, changes: Mapping[bytes, Leaf | None], name: str) -> str:
        """Return a tree with some paths changed; its index keeps the given name."""
        index = self.index(name)
        index.run("read-tree", tree)
        if changes:
            index.run(
                *("update-index", "-z", "--add", "--replace", "--index-info"),
                stdin=index_lines(changes, self.id_length),
            )
        return index.run("write-tree").line

    def outside(self, paths: Sequence[bytes], patterns: bytes, *, cone: bool) -> set[bytes]:
        """Return which new paths a sparse checkout leaves out, as git itself finds it.

        Args:
            paths: The paths.
            patterns: What the checkout's `info/sparse-checkout` holds.
            cone: Whether these are folders, as git writes them, or patterns of any kind.
        """
        blob = self.git.run("hash-object", "-w", "--stdin").line
        leaves: dict[bytes, Leaf | None] = {path: Leaf("100644", blob) for path in paths}
        tree = self.changed_tree(self.empty_tree(), leaves, "index.new-paths")
        self.info("sparse-checkout", patterns)
        index = self.index("index.sparse", "sparse")
        index.run(
            *("read-tree", "-m", "-u", tree),
            configuration={
                "core.sparseCheckout": "true",
                "core.sparseCheckoutCone": "true" if cone else "false",
            },
        )
        listed = index.run("ls-files", "-s", "-v", "-z").stdout
        return {path for path, entry in parse_index(listed) if entry.skipped}

    def commit(self, tree: str, parent: str | None = None) -> str:
        """Return a commit of a tree, for a merge."""
        parents = () if parent is None else ("-p", parent)
        return self.git.run(
            "commit-tree", *parents, tree, stdin=b"scratch\n", environment=_FIXED
        ).line

    def empty_tree(self) -> str:
        """Return the tree without a file."""
        return self.git.run("mktree", "-z").line

    def attributes(
        self,
        index: OwnRepository,
        names: Sequence[str],
        paths: Sequence[bytes],
        configuration: Mapping[str, str],
    ) -> dict[bytes, dict[str, str]]:
        """Return attributes of paths, by the `.gitattributes` that an index has."""
        if not paths:
            return {}
        output = index.run(
            *("check-attr", "--cached", "-z", "--stdin", *names),
            stdin=joined(paths),
            configuration=configuration,
        )
        return parse_attributes(output.stdout)

    def listed(self, index: OwnRepository) -> dict[bytes, Leaf]:
        """Return what an index has."""
        output = index.run("ls-files", "-s", "-v", "-z")
        return {path: entry.leaf for path, entry in parse_index(output.stdout)}

    def files_of(self, tree: str) -> dict[bytes, Leaf]:
        """Return all files of a tree."""
        output = self.git.run("ls-tree", "-r", "-z", "--full-tree", tree)
        found = {}
        for line in output.names:
            head, path = line.split(b"\t", 1)
            mode, _, oid = head.decode("ascii").split(" ")
            found[path] = Leaf(mode, oid)
        return found


@contextmanager
def open_scratch(
    repository: UserRepository, objects: Sequence[Path], *, parent: Path | None = None
) -> Iterator[Scratch]:
    """Make a scratch repository, and remove it at the end of the block.

    Args:
        repository: The person's repository, whose objects it sees and does not write.
        objects: Further directories of objects that it sees.
        parent: Where its folder is made; the system's folder for temporary files if None.

    Raises:
        GitUnavailable: There is no git that can be used.
        OSError: The system refused.
    """
    with TemporaryDirectory(prefix=_PREFIX, dir=parent, ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        git = new_own_repository(
            folder / "git", repository.object_format, (repository.objects, *objects), repository.git
        )
        length = 64 if repository.object_format == "sha256" else 40
        yield Scratch(folder, evolve(git, index=folder / "index"), length)


def new_own_repository(
    git_dir: Path, object_format: str, objects: Sequence[Path], git: Git
) -> OwnRepository:
    """Make a bare repository that sees other directories of objects."""
    own = OwnRepository(git_dir, git=git)
    own.run("init", "-q", "--bare", "--template=", f"--object-format={object_format}")
    info = git_dir / "objects" / "info"
    info.mkdir(parents=True, exist_ok=True)
    info.joinpath("alternates").write_bytes(b"".join(_alternate(one) for one in objects))
    return own


def _alternate(path: Path) -> bytes:
    """Return a line of `objects/info/alternates`, as git reads names of any bytes."""
    text = os.fsencode(path).replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + text + b'"\n'
