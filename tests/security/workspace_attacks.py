"""What code in a workspace may leave there for whoever runs git over it on the host.

An attack gets the ground and changes the workspace (and what the person has already, where it is
about that). What it wants to run is the canary; what it wants to reach is outside of the workspace.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

from attrs import frozen

from tests.support.repositories import canary, new_checkout, plain_git, write_files

SECRET: Final = "the-secret-of-the-host-77ab"


@frozen
class Ground:
    """Where it happens.

    Attributes:
        folder: All that can be written.
        home: The person's home.
        checkout: Their checkout.
        outside: Files that nobody should touch.
        workspace: The session's workspace.
        program: What the attacks want to have run.
        ran: What it leaves when it runs.
    """

    folder: Path
    home: Path
    checkout: Path
    outside: Path
    workspace: Path
    program: Path
    ran: Path

    @classmethod
    def prepared(cls, folder: Path) -> Ground:
        """Make a checkout, a home that defines filters, and files outside; no workspace yet."""
        program, ran = canary(folder)
        home = folder / "home"
        home.mkdir()
        for key in ("clean", "smudge", "process"):
            plain_git(folder, "config", "--global", f"filter.user.{key}", str(program), home=home)
        plain_git(folder, "config", "--global", "diff.user.textconv", str(program), home=home)
        outside = folder / "outside"
        write_files(outside, {"secret": SECRET, "inner/file": SECRET})
        checkout = new_checkout(
            folder / "checkout", {"a.txt": "1\n2\n3\n", "sub/b.txt": "b\n", "c.txt": "c\n"}
        )
        return cls(folder, home, checkout, outside, Path(), program, ran)

    def sprung(self) -> bool:
        """Return whether the canary ran, and forget it."""
        ran = self.ran.exists()
        self.ran.unlink(missing_ok=True)
        return ran

    def own_repository(self, *settings: tuple[str, str], at: str = ".") -> Path:
        """Make a repository in the workspace, with a commit and a configuration."""
        work = self.workspace / at
        work.mkdir(exist_ok=True, parents=True)
        plain_git(work, "init", "-q", "-b", "main")
        plain_git(work, "add", "-A")
        plain_git(work, "commit", "-q", "--allow-empty", "-m", "x")
        for key, value in settings:
            plain_git(work, "config", key, value)
        return work / ".git"


@frozen(kw_only=True)
class Attack:
    """An attack, and what has to come of it.

    Attributes:
        make: Does it.
        springs: Whether plain git, run in the workspace, falls for it.
        kept: Whether the workspace can be kept as a snapshot.
        applied: Whether the result can be brought home.
        converted: Whether its own rules for a checkout give the files other bytes there.
    """

    make: Callable[[Ground], object]
    springs: bool = False
    kept: bool = True
    applied: bool = True
    converted: bool = False


def _fsmonitor(on: Ground) -> None:
    on.own_repository(("core.fsmonitor", str(on.program)))


def _hooks(on: Ground) -> None:
    git_dir = on.own_repository(("core.hooksPath", str(on.workspace / "my-hooks")))
    for hooks in (git_dir / "hooks", on.workspace / "my-hooks"):
        hooks.mkdir(exist_ok=True)
        for name in ("pre-commit", "post-commit", "post-checkout", "reference-transaction"):
            (hooks / name).symlink_to(on.program)


def _filter(on: Ground) -> None:
    on.own_repository(("filter.evil.clean", str(on.program)), ("filter.evil.smudge", "cat"))
    write_files(on.workspace, {".gitattributes": "* filter=evil\n"})


def _filter_of_the_person(on: Ground) -> None:
    write_files(on.workspace, {".gitattributes": "new.txt filter=user diff=user\n"})
    on.own_repository()
    write_files(on.workspace, {"new.txt": "changed\n"})


def _textconv(on: Ground) -> None:
    write_files(on.workspace, {".gitattributes": "* diff=evil\n"})
    on.own_repository(("diff.evil.textconv", str(on.program)))


def _external_diff(on: Ground) -> None:
    on.own_repository(("diff.external", str(on.program)), ("core.pager", str(on.program)))


def _include(on: Ground) -> None:
    write_files(on.workspace, {"more.cfg": f"[core]\n\tfsmonitor = {on.program}\n"})
    on.own_repository(("include.path", str(on.workspace / "more.cfg")))


def _conditional_include(on: Ground) -> None:
    write_files(on.workspace, {"more.cfg": f"[core]\n\tfsmonitor = {on.program}\n"})
    on.own_repository(("includeIf.gitdir:/.path", str(on.workspace / "more.cfg")))


def _signing(on: Ground) -> None:
    on.own_repository(("commit.gpgSign", "true"), ("gpg.program", str(on.program)))


def _partial_clone(on: Ground) -> None:
    on.own_repository(
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.url", f"ext::{on.program}"),
        ("remote.origin.promisor", "true"),
        ("protocol.ext.allow", "always"),
    )


def _alternates(on: Ground) -> None:
    git_dir = on.own_repository()
    objects = on.checkout / ".git" / "objects"
    (git_dir / "objects" / "info").mkdir(exist_ok=True)
    (git_dir / "objects" / "info" / "alternates").write_text(f"{objects}\n../../../outside\n")


def _git_file_to_the_persons(on: Ground) -> None:
    (on.workspace / ".git").write_text(f"gitdir: {on.checkout / '.git'}\n")


def _git_file_to_another(on: Ground) -> None:
    git_dir = on.own_repository(("core.fsmonitor", str(on.program)))
    git_dir.rename(on.workspace / "elsewhere")
    (on.workspace / ".git").write_text("gitdir: elsewhere\n")


def _git_link_to_the_persons(on: Ground) -> None:
    (on.workspace / ".git").symlink_to(on.checkout / ".git")


def _git_link_to_another(on: Ground) -> None:
    git_dir = on.own_repository(("core.fsmonitor", str(on.program)))
    git_dir.rename(on.workspace / "elsewhere")
    (on.workspace / ".git").symlink_to("elsewhere")


def _common_directory(on: Ground) -> None:
    git_dir = on.own_repository()
    (git_dir / "commondir").write_text(f"{on.checkout / '.git'}\n")


def _work_tree_outside(on: Ground) -> None:
    on.own_repository(("core.worktree", str(on.outside)))


def _nested_repository(on: Ground) -> None:
    write_files(on.workspace, {"sub/nested/x": "x\n"})
    on.own_repository(("core.fsmonitor", str(on.program)), at="sub/nested")
    on.own_repository()
    write_files(on.workspace, {"sub/nested/x": "changed\n"})


def _bare_repository(on: Ground) -> None:
    """The workspace itself passes for a bare repository, whose work tree it names."""
    git_dir = on.own_repository(("core.fsmonitor", str(on.program)), ("core.worktree", "."))
    plain_git(on.workspace, "config", "core.bare", "false")
    for name in ("HEAD", "config", "objects", "refs"):
        (git_dir / name).rename(on.workspace / name)
    shutil.rmtree(git_dir)


def _submodules(on: Ground) -> None:
    text = f'[submodule "x"]\n\tpath = sub\n\turl = ext::{on.program}\n\tupdate = !{on.program}\n'
    write_files(on.workspace, {".gitmodules": text})
    on.own_repository(("submodule.x.update", f"!{on.program}"), ("submodule.recurse", "true"))


def _linked_git_files(on: Ground) -> None:
    for name in (".gitattributes", ".gitignore", ".gitmodules", ".mailmap"):
        (on.workspace / name).symlink_to(on.outside / "secret")


def _spellings(on: Ground) -> None:
    write_files(on.workspace, {".GIT/config": "[core]\n", "sub/.Git/hooks/post-checkout": "x"})


def _spellings_of_other_systems(on: Ground) -> None:
    for name in ("git~1", ".git ", ".git.", ".g\u200cit", ".git::$INDEX_ALLOCATION"):
        write_files(on.workspace, {f"{name}/config": "[core]\n\tfsmonitor = evil\n"})


_NAMES: Final = (
    *("line\nbreak", "tab\tname", "\x1b[2J\x1b]0;title\x07", "..x", "...", "x..", ".. ", "-rf"),
    *("--output=a.txt", ":(top)c.txt", "*", "?[a-z]", '"quoted"', "back\\slash", "$(id)", "`id`"),
    *("~", "%s", "\udcff\udcfe", "x" * 255, " leading", "a.txt\r", "0" * 40),
    *("HEAD", "refs", "@{-1}", "--end-of-options", "--", "@", "FETCH_HEAD"),
)


def _names(on: Ground) -> None:
    for name in _NAMES:
        (on.workspace / name).write_text("n\n")
    (on.workspace / "deep\n..").mkdir()
    (on.workspace / "deep\n.." / "..\n").write_text("n\n")


def _names_in_another_form(on: Ground) -> None:
    write_files(on.workspace, {"e\u0301": "one\n", "\u00e9": "another\n"})


def _names_in_another_case(on: Ground) -> None:
    write_files(on.workspace, {"A.TXT": "another\n", "SUB/B.txt": "another\n"})


def _converting_attributes(on: Ground) -> None:
    text = "* text eol=crlf ident working-tree-encoding=UTF-16 export-subst export-ignore\n"
    write_files(on.workspace, {".gitattributes": text, "ident": "$Id$ $Format:%H$\r\n\n\r"})


def _macros(on: Ground) -> None:
    lines = "".join(f"[attr]m{n} m{n + 1} m{n + 1}\n" for n in range(40))
    write_files(on.workspace, {".gitattributes": f"{lines}* m0\n"})


def _folder_that_became_a_link(on: Ground) -> None:
    shutil.rmtree(on.workspace / "sub")
    (on.workspace / "sub").symlink_to(on.outside / "inner")


def _file_that_became_a_link(on: Ground) -> None:
    (on.workspace / "c.txt").unlink()
    (on.workspace / "c.txt").symlink_to(on.outside / "secret")


def _links_out(on: Ground) -> None:
    for number, target in enumerate(
        (on.outside, on.checkout / ".git", "/etc/passwd", "../../../..", "/nowhere", ".", "link3")
    ):
        (on.workspace / f"link{number}").symlink_to(target)


def _hard_links(on: Ground) -> None:
    os.link(on.outside / "secret", on.workspace / "hard")
    (on.workspace / "c.txt").unlink()
    os.link(on.outside / "inner" / "file", on.workspace / "c.txt")
    (on.workspace / "mode.sh").write_text("x")


def _closed_folders(on: Ground) -> None:
    write_files(on.workspace, {"closed/x": "x\n", "setuid": "x\n"})
    (on.workspace / "setuid").chmod(0o4755)
    (on.workspace / "closed").chmod(0o500)


def _pipe(on: Ground) -> None:
    os.mkfifo(on.workspace / "pipe")


def _pipe_for_git(on: Ground) -> None:
    os.mkfifo(on.workspace / ".gitattributes")


def _socket(on: Ground) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = os.open(on.workspace, os.O_RDONLY)
        try:
            made.bind(f"/proc/self/fd/{here}/s")
        finally:
            os.close(here)


def _large_attributes(on: Ground) -> None:
    write_files(on.workspace, {".gitattributes": "x y\n" * (1 << 19)})


def _sparse_giant(on: Ground) -> None:
    with (on.workspace / "giant").open("wb") as file:
        file.truncate(1 << 42)


def _deep(on: Ground) -> None:
    here = os.open(on.workspace, os.O_RDONLY)
    try:
        for _ in range(300):
            os.mkdir("d", dir_fd=here)
            inner = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = inner
    finally:
        os.close(here)


def _nothing_left(on: Ground) -> None:
    for path in on.workspace.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


ATTACKS: Final[dict[str, Attack]] = {
    "fsmonitor": Attack(make=_fsmonitor, springs=True),
    "hooks": Attack(make=_hooks, springs=True),
    "filter": Attack(make=_filter, springs=True),
    "filter of the person": Attack(make=_filter_of_the_person, springs=True, applied=False),
    "textconv": Attack(make=_textconv, springs=True),
    "external diff": Attack(make=_external_diff, springs=True),
    "include": Attack(make=_include, springs=True),
    "conditional include": Attack(make=_conditional_include, springs=True),
    "signing": Attack(make=_signing, springs=True),
    "partial clone": Attack(make=_partial_clone),
    "alternates": Attack(make=_alternates),
    "git file to the person's": Attack(make=_git_file_to_the_persons),
    "git file to another": Attack(make=_git_file_to_another, springs=True),
    "git link to the person's": Attack(make=_git_link_to_the_persons),
    "git link to another": Attack(make=_git_link_to_another, springs=True),
    "common directory": Attack(make=_common_directory),
    "work tree outside": Attack(make=_work_tree_outside),
    "nested repository": Attack(make=_nested_repository, springs=True),
    "bare repository": Attack(make=_bare_repository, springs=True),
    "submodules": Attack(make=_submodules),
    "linked git files": Attack(make=_linked_git_files),
    "spellings of .git": Attack(make=_spellings),
    "spellings of other systems": Attack(make=_spellings_of_other_systems, applied=False),
    "names": Attack(make=_names),
    "names in another form": Attack(make=_names_in_another_form, applied=False),
    "names in another case": Attack(make=_names_in_another_case, applied=False),
    "converting attributes": Attack(make=_converting_attributes, converted=True),
    "macros": Attack(make=_macros),
    "folder that became a link": Attack(make=_folder_that_became_a_link),
    "file that became a link": Attack(make=_file_that_became_a_link),
    "links out": Attack(make=_links_out),
    "hard links": Attack(make=_hard_links),
    "closed folders": Attack(make=_closed_folders),
    "pipe": Attack(make=_pipe, kept=False),
    "pipe for git": Attack(make=_pipe_for_git, kept=False),
    "socket": Attack(make=_socket, kept=False),
    "large attributes": Attack(make=_large_attributes, kept=False),
    "sparse giant": Attack(make=_sparse_giant, kept=False),
    "deep folders": Attack(make=_deep, kept=False),
    "nothing left": Attack(make=_nothing_left),
}
