"""A temporary repository of our own that sees a person's objects and stores its own separately."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from attrs import field, frozen

from ..git.git_command import (
    Difference,
    Git,
    IndexEntry,
    Leaf,
    index_lines,
    joined,
    parse_attributes,
    parse_differences,
    parse_index,
)
from ..git.git_objects import COMMIT, TREE, commit_content, compressed, object_id
from ..git.git_repositories import OwnRepository, UserRepository

_PREFIX: Final = "agentforge-apply-"
_MADE_S: Final = 946_684_800
"""The time of every commit here, in seconds since 1970, so that equal commits have equal ids."""
PROTECTING: Final = {"core.protectHFS": "true", "core.protectNTFS": "true"}
"""Configuration by which an index refuses names that other systems take for `.git`."""


@frozen
class Scratch:
    """The repository, and a place for files.

    Git's answers about a tree are cached: a tree never changes.

    Attributes:
        folder: A temporary folder of our own.
        git: The repository in it, with an index.
        id_length: The number of digits of an object's id.
    """

    folder: Path
    git: OwnRepository
    id_length: int = 40
    _files: dict[str, dict[bytes, Leaf]] = field(factory=dict, init=False, repr=False, eq=False)
    _differences: dict[tuple[str, str, bool], list[Difference]] = field(
        factory=dict, init=False, repr=False, eq=False
    )

    def index(self, name: str, work_tree: str | None = None) -> OwnRepository:
        """Return the repository with another index, and optionally a folder of files."""
        tree = None if work_tree is None else self.folder / work_tree
        if tree is not None:
            tree.mkdir(exist_ok=True)
        return replace(self.git, index=self.folder / name, work_tree=tree)

    def index_of(self, tree: str, name: str, work_tree: str | None = None) -> OwnRepository:
        """Return the repository with an index of a full tree."""
        index = self.index(name, work_tree)
        assert index.index is not None  # noqa: S101 (it was given one)
        kept = self.folder / f"index.tree-{tree}"
        if kept.exists():
            shutil.copyfile(kept, index.index)
        else:
            index.run("read-tree", tree)
            shutil.copyfile(index.index, kept)
        return index

    def info(self, name: str, content: bytes) -> None:
        """Write `info/attributes` or `info/exclude`."""
        (self.git.git_dir / "info").mkdir(exist_ok=True)
        (self.git.git_dir / "info" / name).write_bytes(content)

    def differences(self, old: str, new: str, *, folders: bool = False) -> list[Difference]:
        """Return the differences between two trees; with `folders`, including the trees in them."""
        if old == new:
            return []
        found = self._differences.get((old, new, folders))
        if found is None:
            also = ("-t",) if folders else ()
            output = self.git.run("diff-tree", "-r", *also, "-z", "--no-renames", "--raw", old, new)
            found = self._differences[old, new, folders] = parse_differences(output.stdout)
        return list(found)

    def trees_of(self, revisions: Sequence[str]) -> list[str | None]:
        """Return the trees of commits or trees by their ids; None for missing ones."""
        asked = [one for one in revisions if not {"\n", "\0"} & set(one)]
        output = self.git.run(
            *("cat-file", "--batch-check=%(objecttype) %(objectname)"),
            stdin=b"".join(os.fsencode(f"{one}^{{tree}}\n") for one in asked),
        )
        found = dict(zip(asked, output.stdout.splitlines(), strict=True))
        said = [found.get(one, b"").partition(b" ") for one in revisions]
        return [name.decode("ascii") if kind == b"tree" else None for kind, _, name in said]

    def changed_tree(self, tree: str, changes: Mapping[bytes, Leaf | None], name: str) -> str:
        """Return a tree with some paths changed, by an index of the given name."""
        if not changes:
            return tree
        index = self.index_of(tree, name)
        self.put(index, changes)
        return index.run("write-tree").line

    def put(
        self,
        index: OwnRepository,
        changes: Mapping[bytes, Leaf | None],
        configuration: Mapping[str, str] | None = None,
        stages: Sequence[tuple[bytes, IndexEntry]] = (),
    ) -> None:
        """Change paths of an index; those of `stages` are in conflict then."""
        changes = {**changes, **dict.fromkeys(path for path, _ in stages)}
        index.run(
            *("update-index", "-z", "--add", "--replace", "--index-info"),
            stdin=index_lines(changes, self.id_length)
            + joined([one.line(path) for path, one in stages]),
            configuration=configuration,
        )

    def outside(self, paths: Sequence[bytes], patterns: bytes, *, cone: bool) -> set[bytes]:
        """Return which new paths a sparse checkout leaves out, by git's own answer.

        Args:
            paths: The paths.
            patterns: The content of the checkout's `info/sparse-checkout`.
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
        parents = [] if parent is None else [parent]
        content = commit_content(tree, parents, at_s=_MADE_S, message=b"scratch\n")
        oid = object_id(COMMIT, content, self._algorithm)
        path = self.git.git_dir / "objects" / oid[:2] / oid[2:]
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(compressed(COMMIT, content))
        return oid

    def branch(self, name: str, commit: str) -> None:
        """Set a branch of this repository, whose name then is the commit's in conflict markers."""
        (self.git.git_dir / "refs" / "heads" / name).write_text(f"{commit}\n")

    def empty_tree(self) -> str:
        """Return the tree without a file, which git knows in every repository."""
        return object_id(TREE, b"", self._algorithm)

    @property
    def _algorithm(self) -> str:
        return "sha256" if self.id_length == 64 else "sha1"

    def attributes(
        self,
        index: OwnRepository,
        names: Sequence[str],
        paths: Sequence[bytes],
        configuration: Mapping[str, str],
    ) -> dict[bytes, dict[str, str]]:
        """Return attributes of paths, by the `.gitattributes` in an index."""
        if not paths:
            return {}
        output = index.run(
            *("check-attr", "--cached", "-z", "--stdin", *names),
            stdin=joined(paths),
            configuration=configuration,
        )
        return parse_attributes(output.stdout)

    def listed(self, index: OwnRepository) -> dict[bytes, Leaf]:
        """Return the entries of an index."""
        output = index.run("ls-files", "-s", "-v", "-z")
        return {path: entry.leaf for path, entry in parse_index(output.stdout)}

    def files_of(self, tree: str) -> Mapping[bytes, Leaf]:
        """Return all files of a tree."""
        found = self._files.get(tree)
        if found is None:
            found = self._files[tree] = {}
            for line in self.git.run("ls-tree", "-r", "-z", "--full-tree", tree).names:
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
        parent: The folder in which it is made; the system's folder for temporary files if None.

    Raises:
        GitUnavailable: There is no usable git.
        OSError: The system refused.
    """
    with TemporaryDirectory(prefix=_PREFIX, dir=parent, ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        git = new_own_repository(
            folder / "git", repository.object_format, (repository.objects, *objects), repository.git
        )
        length = 64 if repository.object_format == "sha256" else 40
        yield Scratch(folder, replace(git, index=folder / "index"), length)


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
    """Return a line of `objects/info/alternates`, quoted as git reads names of any bytes."""
    text = os.fsencode(path).replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + text + b'"\n'
