"""Checkouts of every kind that a person may work in, each with something of theirs to lose."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from attrs import frozen

from tests.support.applying import Step, arrange, lay
from tests.support.repositories import commit_all, know_files, new_checkout, plain_git
from tests.support.trees import Tree, lay_out, tree_of

BEGIN: Final[Mapping[str, str]] = {
    "a.txt": "1\n2\n3\n4\n5\n6\n7\n",
    "b.txt": "b\n",
    "gone.txt": "g\n",
    "pkg/c.py": "c = 1\n",
    "run.sh": "#!/bin/sh\n",
    "link": "-> b.txt",
    ".gitignore": "*.o\n",
}
"""What each has in its commit."""
CHANGE: Final[Mapping[str, str | None]] = {
    "a.txt": "1\n2\n3\n4\n5\n6\nseven\n",
    "gone.txt": None,
    "pkg/new.py": "n = 1\n",
    "new.txt": "n\n",
    "link": "-> a.txt",
}
"""What a session makes of it; it also makes `run.sh` executable."""


@frozen
class Made:
    """A checkout.

    Attributes:
        top: The checkout.
        home: The person's home.
    """

    top: Path
    home: Path

    def git(self, *words: str | Path, check: bool = True) -> str:
        done = plain_git(self.top, *words, home=self.home, check=check)
        return done.stdout.decode("utf-8", "surrogateescape")


@frozen
class Checkout:
    """A kind of checkout, and what has to come of it.

    Attributes:
        make: Makes it: given a plain one with one commit, returns where the person works.
        begins: The error with which no session begins, or None.
        applies: The error with which the result is not applied, or None.
        whole: The error with which a session that took the uncommitted work along is not applied.
        taken: The error with which the uncommitted work is not taken along.
        left_out: What of the result stays out, since the person ignores it.
    """

    make: Callable[[Made], Path | None]
    begins: str | None = None
    applies: str | None = None
    whole: str | None = None
    taken: str | None = None
    left_out: str | None = None


def _steps(*steps: Step) -> Callable[[Made], None]:
    return lambda on: arrange(on.top, *steps, home=on.home)


def plain(folder: Path) -> Made:
    """Make a checkout with one commit."""
    home = folder / "home"
    home.mkdir()
    top = folder / "checkout"
    lay_out(_begun(), top)
    know_files(top)
    return Made(top, home)


@functools.cache
def _begun() -> Tree:
    with tempfile.TemporaryDirectory() as folder:
        top = new_checkout(Path(folder) / "checkout")
        lay(top, BEGIN)
        commit_all(top, "begin")
        return tree_of(top)


# -------------------------------------------------------------------------- work not committed yet


def _all_elsewhere(on: Made) -> None:
    """All that can be lost, and nothing of it in the way."""
    lay(on.top, {"b.txt": "put away\n"})
    on.git("stash", "push", "-q")
    lay(on.top, {"staged": "s\n"})
    on.git("add", "staged")
    lay(on.top, {"staged": "and edited\n", "pkg/c.py": "c = 2\n", "untracked/u": "u\n"})
    lay(on.top, {"x.o": "ignored\n", "pkg/y.o": "ignored\n"})


def _repository_in_the_way(on: Made) -> None:
    new_checkout(on.top / "pkg" / "new.py", {"their": "file\n"})


def _modes_not_looked_at(on: Made) -> None:
    on.git("config", "core.fileMode", "false")
    (on.top / "b.txt").chmod(0o755)


def _closed_files(on: Made) -> None:
    (on.top / "a.txt").chmod(0o400)
    (on.top / "b.txt").chmod(0o600)


def _links_as_files(on: Made) -> None:
    on.git("config", "core.symlinks", "false")
    (on.top / "link").unlink()
    on.git("checkout", "--", "link")


def _link_for_a_folder(on: Made) -> None:
    (on.top / "pkg").rename(on.top.parent / "moved")
    (on.top / "pkg").symlink_to(on.top.parent / "moved")


# --------------------------------------------------------------------------- repositories of kinds


def _submodule(on: Made) -> None:
    part = new_checkout(on.top.parent / "part", {"p": "p\n"})
    words = ("-c", "protocol.file.allow=always", "submodule", "add", "-q")
    on.git(*words, part, "sub")
    commit_all(on.top, "submodule")
    lay(on.top, {"sub/p": "edited inside\n", "sub/untracked": "u\n"})


def _pointers(on: Made) -> None:
    lay(on.top, {".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n"})
    lay(on.top, {"x.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n"})
    commit_all(on.top, "pointers")


def _pointers_of_a_filter(on: Made) -> None:
    """The filter's content is in the checkout, its pointer in the commit."""
    config = '[filter "up"]\n\tclean = tr A-Z a-z\n\tsmudge = tr a-z A-Z\n\trequired = true\n'
    lay(on.home, {".gitconfig": config})
    lay(on.top, {".gitattributes": "*.up filter=up\n", "x.up": "ABC\n"})
    on.git("add", "-A")
    on.git("commit", "-qm", "filter")


def _filter_for_what_changes(on: Made) -> None:
    config = '[filter "up"]\n\tclean = tr A-Z a-z\n\tsmudge = tr a-z A-Z\n\trequired = true\n'
    lay(on.home, {".gitconfig": config})
    lay(on.top, {".gitattributes": "new.txt filter=up\n"})
    on.git("add", "-A")
    on.git("commit", "-qm", "filter")


def _lines_by_attributes(on: Made) -> None:
    lay(on.top, {".gitattributes": "*.txt text eol=crlf\n"})
    _check_out_again(on)


def _lines_by_configuration(on: Made) -> None:
    lay(on.home, {".gitconfig": "[core]\n\tautocrlf = true\n"})
    _check_out_again(on)


def _check_out_again(on: Made) -> None:
    commit_all(on.top, "rules")
    for path in on.top.glob("*.txt"):
        path.unlink()
    on.git("checkout", "--", ".")
    assert b"\r\n" in (on.top / "a.txt").read_bytes()


def _stored_with_carriage_returns(on: Made) -> None:
    (on.top / "b.txt").write_bytes(b"one\r\ntwo\n")
    commit_all(on.top, "mixed")
    lay(on.top, {".gitattributes": "b.txt text\n"})  # so git takes it for changed
    on.git("add", ".gitattributes")
    on.git("commit", "-qm", "rules")


def _shallow(on: Made) -> Path:
    lay(on.top, {"b.txt": "second\n"})
    commit_all(on.top, "second")
    return _cloned(on, "--depth=1", f"file://{on.top}")


def _shared(on: Made) -> Path:
    return _cloned(on, "--shared", on.top)


def _partial(on: Made) -> Path:
    on.git("config", "uploadpack.allowFilter", "true")
    return _cloned(on, "--filter=blob:none", f"file://{on.top}")


def _cloned(on: Made, *words: str | Path) -> Path:
    place = on.top.parent / "clone"
    on.git("clone", "-q", *words, place)
    return place


def _no_commit(on: Made) -> Path:
    place = new_checkout(on.top.parent / "empty")
    lay(place, {"mine": "untracked\n"})
    return place


def _linked(on: Made) -> Path:
    place = on.top.parent / "linked"
    on.git("worktree", "add", "-q", "-b", "other", place)
    lay(on.top, {"a.txt": "the first work tree's\n"})
    return place


def _separate(on: Made) -> None:
    on.git("init", "-q", "--separate-git-dir", on.top.parent / "apart.git")


def _by_a_link(on: Made) -> Path:
    place = on.top.parent / "by-a-link"
    place.symlink_to(on.top)
    return place


def _in_a_folder(on: Made) -> Path:
    return on.top / "pkg"


def _sparse_elsewhere(on: Made) -> None:
    lay(on.top, {"other/x": "x\n"})
    commit_all(on.top, "other")
    on.git("sparse-checkout", "set", "--cone", "--sparse-index", "other")


def _sha256(on: Made) -> Path:
    place = on.top.parent / "sha256"
    place.mkdir()
    plain_git(place, "init", "-q", "-b", "main", "--object-format=sha256", home=on.home)
    lay(place, BEGIN)
    commit_all(place, "begin")
    return place


def _index_of_a_later_version(on: Made) -> None:
    on.git("update-index", "--index-version", "4", "--untracked-cache")
    on.git("status")


def _replaced(on: Made) -> None:
    """Git shows another commit than the one that is checked out."""
    first = on.git("rev-parse", "HEAD").strip()
    lay(on.top, {"b.txt": "second\n"})
    second = commit_all(on.top, "second")
    on.git("replace", second, on.git("commit-tree", f"{first}^{{tree}}", "-m", "x").strip())


def _names(on: Made) -> None:
    for name in ("line\nbreak", "tab\t", '"q"', "\udcff", " x ", ":(top)", "e\u0301"):
        (on.top / name).write_text("precious\n")
    on.git("add", "-A")
    on.git("commit", "-qm", "names")
    (on.top / "line\nbreak").write_text("edited\n")


# -------------------------------------------------------------------------- operations under way


def _two_sides(on: Made) -> None:
    on.git("switch", "-q", "-c", "side")
    lay(on.top, {"b.txt": "side\n"})
    commit_all(on.top, "side")
    on.git("switch", "-q", "main")
    lay(on.top, {"b.txt": "main\n"})
    commit_all(on.top, "main")


def _under_way(*words: str) -> Callable[[Made], None]:
    def make(on: Made) -> None:
        _two_sides(on)
        on.git(*words, check=False)

    return make


def _mail(on: Made) -> None:
    _two_sides(on)
    patch = on.top.parent / "patch"
    patch.write_text(on.git("format-patch", "--stdout", "main~1..side"))
    on.git("am", patch, check=False)


def _stopped_rebase(on: Made) -> None:
    """Nothing in conflict: the person only wanted a look."""
    _two_sides(on)
    on.git("-c", "sequence.editor=sed -i s/^pick/edit/", "rebase", "-i", "HEAD~1")


def _conflict_alone(on: Made) -> None:
    _two_sides(on)
    on.git("stash", "-q", check=False)
    on.git("merge", "side", check=False)
    (on.top / ".git" / "MERGE_HEAD").unlink()


def _another_work_tree(on: Made) -> None:
    (on.top.parent / "another").mkdir()
    on.git("config", "core.worktree", str(on.top.parent / "another"))


def _bare(on: Made) -> Path:
    return _cloned(on, "--bare", on.top)


_OPERATION: Final = "OperationUnderWay"
_REFUSED: Final = "ApplyRefused"

CHECKOUTS: Final[Mapping[str, Checkout]] = {
    "clean": Checkout(_steps()),
    "all elsewhere": Checkout(_all_elsewhere),
    "staged": Checkout(_steps({"a.txt": "mine\n"}, ("add", "a.txt")), applies=_REFUSED),
    "staged and edited": Checkout(
        _steps({"a.txt": "mine\n"}, ("add", "a.txt"), {"a.txt": "mine, again\n"}), applies=_REFUSED
    ),
    "unstaged": Checkout(_steps({"a.txt": "one\n2\n3\n4\n5\n6\n7\n"}), applies=_REFUSED),
    "untracked in the way": Checkout(_steps({"new.txt": "precious\n"}), applies=_REFUSED),
    "ignored in the way": Checkout(
        _steps({".git/info/exclude": "new.txt\n", "new.txt": "precious\n"}), left_out="new.txt"
    ),
    "folder in the way": Checkout(_steps({"new.txt/inner": "precious\n"}), applies=_REFUSED),
    "repository in the way": Checkout(_repository_in_the_way, applies=_REFUSED, whole=_REFUSED),
    "deleted": Checkout(_steps({"a.txt": None}), applies=_REFUSED),
    "deleted and staged": Checkout(_steps(("rm", "-q", "a.txt")), applies=_REFUSED),
    "deleted as the result has it": Checkout(_steps(("rm", "-q", "gone.txt"))),
    "renamed": Checkout(_steps(("mv", "a.txt", "renamed.txt")), applies=_REFUSED),
    "edited what goes": Checkout(_steps({"gone.txt": "precious\n"}), applies=_REFUSED),
    "intent to add": Checkout(
        _steps({"new.txt": "precious\n"}, ("add", "-N", "new.txt")), applies=_REFUSED
    ),
    "assumed unchanged": Checkout(
        _steps(("update-index", "--assume-unchanged", "a.txt"), {"a.txt": "precious\n"}),
        applies=_REFUSED,
        whole=_REFUSED,
    ),
    "skipped": Checkout(
        _steps(("update-index", "--skip-worktree", "a.txt"), {"a.txt": "precious\n"}),
        applies=_REFUSED,
        whole=_REFUSED,
    ),
    "executable": Checkout(_steps(lambda top: (top / "a.txt").chmod(0o755)), applies=_REFUSED),
    "executable already": Checkout(_steps(lambda top: (top / "run.sh").chmod(0o755))),
    "modes not looked at": Checkout(_modes_not_looked_at),
    "closed files": Checkout(_closed_files),
    "another link": Checkout(_steps({"link": "-> elsewhere"}), applies=_REFUSED),
    "file for a link": Checkout(_steps({"link": "precious\n"}), applies=_REFUSED),
    "links as files": Checkout(_links_as_files),
    "link for a folder": Checkout(_link_for_a_folder, applies=_REFUSED),
    "case clash": Checkout(_steps({"NEW.txt": "precious\n"}), applies=_REFUSED, whole=_REFUSED),
    "pipe in the way": Checkout(
        _steps(lambda top: os.mkfifo(top / "new.txt")), applies=_REFUSED, whole=_REFUSED
    ),
    "submodule": Checkout(_submodule),
    "pointers": Checkout(_pointers),
    "pointers of a filter": Checkout(_pointers_of_a_filter),
    "filter for what changes": Checkout(_filter_for_what_changes, applies=_REFUSED, whole=_REFUSED),
    "lines by attributes": Checkout(_lines_by_attributes),
    "lines by configuration": Checkout(_lines_by_configuration),
    "stored with carriage returns": Checkout(_stored_with_carriage_returns),
    "shallow": Checkout(_shallow),
    "shared": Checkout(_shared),
    "partial": Checkout(_partial),
    "no commit": Checkout(_no_commit, begins="UnknownRevision"),
    "orphan branch": Checkout(
        _steps(("checkout", "-q", "--orphan", "other")), begins="UnknownRevision"
    ),
    "detached": Checkout(_steps(("checkout", "-q", "--detach"))),
    "branch with an odd name": Checkout(_steps(("checkout", "-q", "-b", "feature/ü-#1/@x"))),
    "packed": Checkout(_steps(("tag", "-m", "t", "v1"), ("pack-refs", "--all"), ("gc", "-q"))),
    "linked": Checkout(_linked),
    "separate": Checkout(_separate),
    "by a link": Checkout(_by_a_link),
    "in a folder": Checkout(_in_a_folder),
    "sparse": Checkout(_steps(("sparse-checkout", "set", "--cone", "pkg"))),
    "sparse elsewhere": Checkout(_sparse_elsewhere, applies="ApplyRefused", whole="ApplyRefused"),
    "sha256": Checkout(_sha256),
    "split index": Checkout(_steps(("update-index", "--split-index"))),
    "index of a later version": Checkout(_index_of_a_later_version),
    "replaced": Checkout(_replaced),
    "names": Checkout(_names),
    "rebase": Checkout(_under_way("rebase", "side"), applies=_OPERATION, whole=_OPERATION),
    "stopped rebase": Checkout(_stopped_rebase, applies=_OPERATION, whole=_OPERATION),
    "merge": Checkout(_under_way("merge", "side"), applies=_OPERATION, whole=_OPERATION),
    "cherry-pick": Checkout(
        _under_way("cherry-pick", "side"), applies=_OPERATION, whole=_OPERATION
    ),
    "revert": Checkout(_under_way("revert", "HEAD~1"), applies=_OPERATION, whole=_OPERATION),
    "bisect": Checkout(_under_way("bisect", "start"), applies=_OPERATION, whole=_OPERATION),
    "mail": Checkout(_mail, applies=_OPERATION, whole=_OPERATION),
    "conflict alone": Checkout(_conflict_alone, applies=_OPERATION, whole=_OPERATION),
    "index held": Checkout(
        _steps({".git/index.lock": "theirs"}), applies="CheckoutBusy", whole="CheckoutBusy"
    ),
    "broken index": Checkout(
        _steps({".git/index": "DIRC and no more"}), applies="GitFailed", taken="GitFailed"
    ),
    "broken head": Checkout(_steps({".git/HEAD": ""}), begins="NotARepository"),
    "another work tree": Checkout(_another_work_tree, begins="NotARepository"),
    "bare": Checkout(_bare, begins="NotARepository"),
}
