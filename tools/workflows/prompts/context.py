"""The part of a project that an agent is shown, within a limit of tokens, and what is left out.

The most important comes first: rules, files for agents, the named files, the signatures of the
Python modules they import, and the names of all files. The context is gathered once, before the
first call, and stored with the session, so that each call and each worker sends the same.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from attrs import field, frozen

from ...base.errors import ErrorKind, counted
from ...base.files import FileSystem, OsFileSystem
from ...base.text.path_pattern import is_exact, matches
from ...harness import HarnessError
from ...harness.views.briefing import most_tokens
from ..converters import as_tuple
from .context_folder import LINK, ContextFolder, ContextListing, NotShown, context_folder
from .project_outline import imported_modules, parse_module, signatures, tree_text
from .prompts import fenced, language_of

GUIDE_TOKENS: Final = 4000
"""The limit of one file for agents, in tokens."""
_TREE_SHARE: Final = 4
"""File names take at most one in this many tokens of the limit."""
_MAX_NAMED: Final = 500
_CHARS_PER_TOKEN: Final = 3
_HEADING_TOKENS: Final = 60
"""More than the heading, the fence and a note around a text take."""
_UNSAFE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069`\ud800-\udfff]"
)


@frozen(kw_only=True)
class ContextRequest:
    """Which parts of a project to show.

    Attributes:
        files: Globs of files to show whole, relative to the folder.
        max_tokens: The limit for everything, in tokens.
        tree: Whether to show the names of files.
        guides: Files for agents, shown up to `GUIDE_TOKENS` each if they exist.
        rules: Rules for the work, shown whole, or None.
        source: The folder where imports begin.
        about: What the project is, in a few words, or None.
    """

    files: tuple[str, ...] = field(default=(), converter=as_tuple)
    max_tokens: int = 20_000
    tree: bool = True
    guides: tuple[str, ...] = field(default=("AGENTS.md", "CLAUDE.md"), converter=as_tuple)
    rules: str | None = None
    source: str = "."
    about: str | None = None


@frozen(kw_only=True)
class ContextPart:
    """One part of a context.

    Attributes:
        kind: "rules", "guide", "file", "signatures" or "tree".
        name: The path, or a description.
        text: The text as the prompt contains it.
        cut: Whether the text is incomplete.
    """

    kind: str
    name: str
    text: str = field(repr=False)
    cut: bool = False

    @property
    def tokens(self) -> int:
        """An upper bound of its tokens."""
        return most_tokens(self.text)


@frozen(kw_only=True)
class Context:
    """The parts of a project to show, and what was left out.

    Attributes:
        parts: Its parts, in the order of the prompt.
        left_out: What was requested and is not shown, with the reason.
    """

    parts: tuple[ContextPart, ...]
    left_out: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """The whole context, as the prompt contains it."""
        return "\n\n".join(part.text for part in self.parts)

    @property
    def tokens(self) -> int:
        """An upper bound of the tokens of the whole context."""
        return most_tokens(self.text)


class RulesTooLong(HarnessError, ValueError, kind=ErrorKind.USAGE):
    """The rules, which are shown whole, exceed the limit; nothing was gathered."""

    message = "the rules take more than the {max_tokens:,} tokens of the context"
    max_tokens: int


def gather_context(
    folder: Path, request: ContextRequest, *, fs: FileSystem | None = None
) -> Context:
    """Gather the context of a folder.

    Guarantees: the text takes at most `max_tokens`; no link is followed and nothing outside the
    folder is read; what looks like a secret is left out, unless a glob is exactly its path.

    Raises:
        RulesTooLong: The rules alone exceed the limit.
        ReadError: The folder can't be read.
    """
    with context_folder(fs if fs is not None else OsFileSystem(), folder) as opened:
        return _Gathering(opened, request).all()


class _Gathering:
    def __init__(self, folder: ContextFolder, request: ContextRequest) -> None:
        self._folder = folder
        self._request = request
        self._parts: list[ContextPart] = []
        self._left_out: dict[str, str] = {}
        self._room = request.max_tokens

    def all(self) -> Context:
        request = self._request
        listing = self._folder.list()
        if listing.cut:
            self._leave(".", f"holds more than {self._folder.max_entries:,} files; the rest is")
        if request.about and not self._add("about", "project", request.about):
            self._leave("project", "does not fit into the bound")
        if request.rules and not self._add(
            "rules", "rules", f"## Rules that hold here\n\n{request.rules.strip()}"
        ):
            raise RulesTooLong(request.max_tokens)
        for path in request.guides:
            self._guide(path)
        shown = dict(self._files(listing))
        if request.tree:
            # Reserves room for the names, because the signatures may be many.
            room = min(self._room, request.max_tokens // _TREE_SHARE) - _HEADING_TOKENS
            tree = tree_text(map(shown_name, listing.files), max_chars=room * _CHARS_PER_TOKEN)
        else:
            tree = ""
        part = f"## Files of the project\n\n{fenced(tree, 'text')}" if tree else ""
        kept = most_tokens(part) + 1 if part else 0
        self._room -= kept
        self._signatures(shown, listing)
        self._room += kept
        if part and not self._add("tree", counted(len(listing.files), "file"), part):
            self._leave("names of files", "don't fit into the bound")
        return Context(parts=tuple(self._parts), left_out=tuple(self._left_out.items()))

    def _add(self, kind: str, name: str, text: str, *, cut: bool = False) -> bool:
        """Add a part if it fits, with the blank line before it; return whether it did."""
        part = ContextPart(kind=kind, name=shown_name(name), text=text, cut=cut)
        needed = part.tokens + (1 if self._parts else 0)
        if needed > self._room:
            return False
        self._room -= needed
        self._parts.append(part)
        return True

    def _leave(self, path: str, reason: str) -> None:
        self._left_out.setdefault(shown_name(path), reason)

    def _guide(self, path: str) -> None:
        try:
            text = self._folder.text(path, named=True)
        except NotShown as error:
            if str(error) != "is not there":
                self._leave(path, str(error))
            return
        most = min(GUIDE_TOKENS, self._room - _HEADING_TOKENS) * _CHARS_PER_TOKEN
        shown = _cut(text, most)
        cut = len(shown) < len(text)
        more = "\n\n(The rest is not shown.)" if cut else ""
        body = f"## {shown_name(path)}\n\n{fenced(shown, 'markdown')}{more}"
        if not shown.strip() or not self._add("guide", path, body, cut=cut):
            self._leave(path, "does not fit into the bound" if shown.strip() else "is empty")

    def _files(self, listing: ContextListing) -> Iterator[tuple[str, str]]:
        """Show the files that the globs match, each once, in the globs' order; yield the texts."""
        seen: set[str] = set()
        for pattern in self._request.files:
            named = is_exact(pattern) and not pattern.endswith("/")
            paths = [pattern] if named else self._matching(pattern, listing)
            for path in paths:
                if path in seen:
                    continue
                seen.add(path)
                try:
                    text = self._folder.text(path, named=named)
                except NotShown as error:
                    self._leave(path, str(error))
                    continue
                block = fenced(text, f"{language_of(path)}:{shown_name(path)}")
                if self._add("file", path, block):
                    yield path, text
                else:
                    self._leave(path, "does not fit into the bound")

    def _matching(self, pattern: str, listing: ContextListing) -> list[str]:
        found = [path for path in listing.files if matches(pattern, path)]
        secret = [path for path in listing.secret if matches(pattern, path)]
        links = [path for path in listing.links if matches(pattern, path)]
        for path in secret:
            self._leave(path, "looks like a secret")
        for path in links:
            self._leave(path, LINK)
        if not (found or secret or links):
            self._leave(pattern, "matches no file")
        for path in found[_MAX_NAMED:]:
            self._leave(path, f"is beyond the first {_MAX_NAMED} files of {shown_name(pattern)}")
        return found[:_MAX_NAMED]

    def _signatures(self, shown: dict[str, str], listing: ContextListing) -> None:
        """Show the signatures of the modules that the shown Python files import."""
        there = set(listing.files)
        wanted: dict[str, None] = {}
        for path, text in shown.items():
            tree = parse_module(text) if path.endswith((".py", ".pyi")) else None
            if tree is not None:
                wanted.update(dict.fromkeys(self._imported(tree, path, there)))
        for path in wanted:
            if path in shown:
                continue
            try:
                tree = parse_module(self._folder.text(path, named=False))
            except NotShown as error:
                self._leave(path, str(error))
                continue
            offered = signatures(tree) if tree is not None else ""
            block = f"Signatures of {shown_name(path)}:\n\n{fenced(offered, 'python')}"
            if not offered:
                self._leave(path, "is no Python that can be read, or offers nothing")
            elif not self._add("signatures", path, block):
                self._leave(path, "does not fit into the bound")

    def _imported(self, tree: ast.Module, path: str, there: set[str]) -> Iterator[str]:
        source = self._request.source.strip("/")
        root = "" if source in {"", "."} else f"{source}/"
        package = tuple(path.removeprefix(root).split("/")[:-1])
        for name in imported_modules(tree, package):
            stem = name.replace(".", "/")
            for start in dict.fromkeys((root, "")):
                for end in (".py", "/__init__.py"):
                    if f"{start}{stem}{end}" in there:
                        yield f"{start}{stem}{end}"


def shown_name(path: str) -> str:
    """Return a path so that neither a prompt nor a terminal misreads any part of it."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", path)


def _cut(text: str, most: int) -> str:
    """Return the first whole lines of a text, up to a number of bytes."""
    if len(text.encode()) <= most:
        return text
    kept = text.encode()[: max(0, most)].decode("utf-8", "ignore")
    return kept[: kept.rfind("\n") + 1]


def listed(context: Context) -> Iterable[tuple[str, str, str]]:
    """Yield each part's kind, name and size, for a list that a person reads."""
    for part in context.parts:
        yield part.kind, part.name, f"{part.tokens:,} tokens{', cut' if part.cut else ''}"
