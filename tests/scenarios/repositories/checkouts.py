"""Checkouts of every kind that a person may work in, each with something of theirs to lose."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from attrs import frozen

from tests.support.applying import lay
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


@frozen(kw_only=True)
class Checkout:
    """A kind of checkout, and what has to come of it.

    Attributes:
        make: Makes it: given a plain one with one commit, returns where the person works.
        begins: The error with which no session begins, or None.
        applies: The error with which the result is not applied, or None.
        commits: The same, where a commit is wanted.
        whole: The error with which a session that took the uncommitted work along is not applied.
        taken: The error with which the uncommitted work is not taken along.
        left_out: What of the result stays out, since the person ignores it.
    """

    make: Callable[[Made], Path | None]
    begins: str | None = None
    applies: str | None = None
    commits: str | None = None
    whole: str | None = None
    taken: str | None = None
    left_out: str | None = None


def _kind(
    make: Callable[[Made], Path | None],
    *,
    begins: str | None = None,
    applies: str | None = None,
    commits: str | None = None,
    whole: str | None = None,
    taken: str | None = None,
    left_out: str | None = None,
) -> Checkout:
    return Checkout(
        make=make,
        begins=begins,
        applies=applies,
        commits=commits if commits is not None else applies,
        whole=whole,
        taken=taken,
        left_out=left_out,
    )


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


def _clean(on: Made) -> None:
    pass


def _all_elsewhere(on: Made) -> None:
    """All that can be lost, and nothing of it in the way."""
    lay(on.top, {"b.txt": "put away\n"})
    on.git("stash", "push", "-q")
    lay(on.top, {"staged": "s\n"})
    on.git("add", "staged")
    lay(on.top, {"staged": "and edited\n", "pkg/c.py": "c = 2\n", "untracked/u": "u\n"})
    lay(on.top, {"x.o": "ignored\n", "pkg/y.o": "ignored\n"})


def _staged(on: Made) -> None:
    lay(on.top, {"a.txt": "mine\n"})
    on.git("add", "a.txt")


def _staged_and_edited(on: Made) -> None:
    _staged(on)
    lay(on.top, {"a.txt": "mine, again\n"})


def _unstaged(on: Made) -> None:
    lay(on.top, {"a.txt": "one\n2\n3\n4\n5\n6\n7\n"})


def _untracked_in_the_way(on: Made) -> None:
    lay(on.top, {"new.txt": "precious\n"})


def _ignored_in_the_way(on: Made) -> None:
    """Ignored by the person alone: what they ignore stays out of what is applied."""
    lay(on.top, {".git/info/exclude": "new.txt\n", "new.txt": "precious\n"})


def _folder_in_the_way(on: Made) -> None:
    lay(on.top, {"new.txt/inner": "precious\n"})


def _repository_in_the_way(on: Made) -> None:
    new_checkout(on.top / "pkg" / "new.py", {"their": "file\n"})


def _deleted(on: Made) -> None:
    (on.top / "a.txt").unlink()


def _deleted_and_staged(on: Made) -> None:
    on.git("rm", "-q", "a.txt")


def _deleted_as_the_result_has_it(on: Made) -> None:
    on.git("rm", "-q", "gone.txt")


def _renamed(on: Made) -> None:
    on.git("mv", "a.txt", "renamed.txt")


def _edited_what_goes(on: Made) -> None:
    lay(on.top, {"gone.txt": "precious\n"})


def _intent_to_add(on: Made) -> None:
    lay(on.top, {"new.txt": "precious\n"})
    on.git("add", "-N", "new.txt")


def _assumed_unchanged(on: Made) -> None:
    on.git("update-index", "--assume-unchanged", "a.txt")
    lay(on.top, {"a.txt": "precious\n"})


def _skipped(on: Made) -> None:
    on.git("update-index", "--skip-worktree", "a.txt")
    lay(on.top, {"a.txt": "precious\n"})


def _executable(on: Made) -> None:
    (on.top / "a.txt").chmod(0o755)


def _executable_already(on: Made) -> None:
    (on.top / "run.sh").chmod(0o755)


def _modes_not_looked_at(on: Made) -> None:
    on.git("config", "core.fileMode", "false")
    (on.top / "b.txt").chmod(0o755)


def _closed_files(on: Made) -> None:
    (on.top / "a.txt").chmod(0o400)
    (on.top / "b.txt").chmod(0o600)


def _another_link(on: Made) -> None:
    (on.top / "link").unlink()
    (on.top / "link").symlink_to("elsewhere")


def _file_for_a_link(on: Made) -> None:
    (on.top / "link").unlink()
    lay(on.top, {"link": "precious\n"})


def _links_as_files(on: Made) -> None:
    on.git("config", "core.symlinks", "false")
    (on.top / "link").unlink()
    on.git("checkout", "--", "link")


def _link_for_a_folder(on: Made) -> None:
    (on.top / "pkg").rename(on.top.parent / "moved")
    (on.top / "pkg").symlink_to(on.top.parent / "moved")


def _case_clash(on: Made) -> None:
    lay(on.top, {"NEW.txt": "precious\n"})


def _pipe_in_the_way(on: Made) -> None:
    os.mkfifo(on.top / "new.txt")


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


def _orphan_branch(on: Made) -> None:
    on.git("checkout", "-q", "--orphan", "other")


def _detached(on: Made) -> None:
    on.git("checkout", "-q", "--detach")


def _branch_with_an_odd_name(on: Made) -> None:
    on.git("checkout", "-q", "-b", "feature/ü-#1/@x")


def _packed(on: Made) -> None:
    on.git("tag", "-m", "t", "v1")
    on.git("pack-refs", "--all")
    on.git("gc", "-q")


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


def _sparse(on: Made) -> None:
    on.git("sparse-checkout", "set", "--cone", "pkg")  # what is at the top stays


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


def _split_index(on: Made) -> None:
    on.git("update-index", "--split-index")


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


def _index_held(on: Made) -> None:
    (on.top / ".git" / "index.lock").write_bytes(b"theirs")


def _broken_index(on: Made) -> None:
    (on.top / ".git" / "index").write_bytes(b"DIRC and no more")


def _broken_head(on: Made) -> None:
    (on.top / ".git" / "HEAD").write_bytes(b"")


def _another_work_tree(on: Made) -> None:
    (on.top.parent / "another").mkdir()
    on.git("config", "core.worktree", str(on.top.parent / "another"))


def _bare(on: Made) -> Path:
    return _cloned(on, "--bare", on.top)


_OPERATION: Final = "OperationUnderWay"
_REFUSED: Final = "ApplyRefused"

CHECKOUTS: Final[Mapping[str, Checkout]] = {
    "clean": _kind(_clean),
    "all elsewhere": _kind(_all_elsewhere),
    "staged": _kind(_staged, applies=_REFUSED),
    "staged and edited": _kind(_staged_and_edited, applies=_REFUSED),
    "unstaged": _kind(_unstaged, applies=_REFUSED),
    "untracked in the way": _kind(_untracked_in_the_way, applies=_REFUSED),
    "ignored in the way": _kind(_ignored_in_the_way, left_out="new.txt"),
    "folder in the way": _kind(_folder_in_the_way, applies=_REFUSED),
    "repository in the way": _kind(_repository_in_the_way, applies=_REFUSED, whole=_REFUSED),
    "deleted": _kind(_deleted, applies=_REFUSED),
    "deleted and staged": _kind(_deleted_and_staged, applies=_REFUSED),
    "deleted as the result has it": _kind(_deleted_as_the_result_has_it),
    "renamed": _kind(_renamed, applies=_REFUSED),
    "edited what goes": _kind(_edited_what_goes, applies=_REFUSED),
    "intent to add": _kind(_intent_to_add, applies=_REFUSED),
    "assumed unchanged": _kind(_assumed_unchanged, applies=_REFUSED, whole=_REFUSED),
    "skipped": _kind(_skipped, applies=_REFUSED, whole=_REFUSED),
    "executable": _kind(_executable, applies=_REFUSED),
    "executable already": _kind(_executable_already),
    "modes not looked at": _kind(_modes_not_looked_at),
    "closed files": _kind(_closed_files),
    "another link": _kind(_another_link, applies=_REFUSED),
    "file for a link": _kind(_file_for_a_link, applies=_REFUSED),
    "links as files": _kind(_links_as_files),
    "link for a folder": _kind(_link_for_a_folder, applies=_REFUSED),
    "case clash": _kind(_case_clash, applies=_REFUSED, whole=_REFUSED),
    "pipe in the way": _kind(_pipe_in_the_way, applies=_REFUSED, whole=_REFUSED),
    "submodule": _kind(_submodule),
    "pointers": _kind(_pointers),
    "pointers of a filter": _kind(_pointers_of_a_filter),
    "filter for what changes": _kind(_filter_for_what_changes, applies=_REFUSED, whole=_REFUSED),
    "lines by attributes": _kind(_lines_by_attributes),
    "lines by configuration": _kind(_lines_by_configuration),
    "stored with carriage returns": _kind(_stored_with_carriage_returns),
    "shallow": _kind(_shallow),
    "shared": _kind(_shared),
    "partial": _kind(_partial),
    "no commit": _kind(_no_commit, begins="UnknownRevision"),
    "orphan branch": _kind(_orphan_branch, begins="UnknownRevision"),
    "detached": _kind(_detached),
    "branch with an odd name": _kind(_branch_with_an_odd_name),
    "packed": _kind(_packed),
    "linked": _kind(_linked),
    "separate": _kind(_separate),
    "by a link": _kind(_by_a_link),
    "in a folder": _kind(_in_a_folder),
    "sparse": _kind(_sparse),
    "sparse elsewhere": _kind(_sparse_elsewhere, applies="ApplyRefused", whole="ApplyRefused"),
    "sha256": _kind(_sha256),
    "split index": _kind(_split_index),
    "index of a later version": _kind(_index_of_a_later_version),
    "replaced": _kind(_replaced),
    "names": _kind(_names),
    "rebase": _kind(_under_way("rebase", "side"), applies=_OPERATION, whole=_OPERATION),
    "stopped rebase": _kind(_stopped_rebase, applies=_OPERATION, whole=_OPERATION),
    "merge": _kind(_under_way("merge", "side"), applies=_OPERATION, whole=_OPERATION),
    "cherry-pick": _kind(_under_way("cherry-pick", "side"), applies=_OPERATION, whole=_OPERATION),
    "revert": _kind(_under_way("revert", "HEAD~1"), applies=_OPERATION, whole=_OPERATION),
    "bisect": _kind(_under_way("bisect", "start"), applies=_OPERATION, whole=_OPERATION),
    "mail": _kind(_mail, applies=_OPERATION, whole=_OPERATION),
    "conflict alone": _kind(_conflict_alone, applies=_OPERATION, whole=_OPERATION),
    "index held": _kind(_index_held, applies="CheckoutBusy", whole="CheckoutBusy"),
    "broken index": _kind(_broken_index, applies="GitFailed", taken="GitFailed"),
    "broken head": _kind(_broken_head, begins="NotARepository"),
    "another work tree": _kind(_another_work_tree, begins="NotARepository"),
    "bare": _kind(_bare, begins="NotARepository"),
}
