"""The documents as a reader meets them: pages of the menu, their blocks, links and commands."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml
from attrs import frozen

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
_FENCE: Final = re.compile(r"( *)(`{3,}|~{3,})(.*)")
_MARK: Final = re.compile(r"<!-- (not-run: .+|exits-with-\d+|continues) -->")
_HEADING: Final = re.compile(r"#{1,6} (.+?)(?: \{#([\w-]+)\})?")
_LINK: Final = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(<?([^)<>\s]+)>?\)")
_COMMAND: Final = re.compile(r"(?:^|[$(;&|=] *|\buvx )(agentforge(?:-sessions)? .*)")
_CODE: Final = re.compile(r"(`+)(.+?)\1")


@frozen
class Block:
    """A fenced block of a page.

    Attributes:
        page: The page's path below the root.
        line: The line of its first character, from 1.
        language: What its fence names, or "".
        text: Its content, without the indentation of the fence.
        marks: The marks on the lines above it.
    """

    page: str
    line: int
    language: str
    text: str
    marks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def not_run(self) -> bool:
        return any(mark.startswith("not-run: ") for mark in self.marks)

    @property
    def continues(self) -> bool:
        return "continues" in self.marks

    @property
    def exit_code(self) -> int:
        codes = [mark.rpartition("-")[2] for mark in self.marks if mark.startswith("exits-with-")]
        return int(codes[0]) if codes else 0


def built_site(folder: Path) -> Path:
    """Build the site in a folder, without a network where one can be taken away.

    A link or an anchor that leads nowhere fails the build.
    """
    shutil.copytree(DOCS, folder / "docs")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    zensical = str(Path(sys.executable).with_name("zensical"))
    command = [zensical, "build", "--strict", "--config-file", str(folder / "mkdocs.yml")]
    without_network = ["unshare", "--net", "--map-root-user"]
    if subprocess.run([*without_network, "true"], capture_output=True, check=False).returncode:
        without_network = []
    done = subprocess.run(
        [*without_network, *command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


def menu() -> list[Path]:
    """Return the pages of the site's menu, in its order."""

    def pages(node: Any) -> Iterator[str]:
        if isinstance(node, str):
            yield node
        elif node is not None:
            for one in node if isinstance(node, list) else node.values():
                yield from pages(one)

    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    return [DOCS / name for name in pages(yaml.safe_load(text.partition("\nnav:")[2]))]


def readers_pages() -> list[Path]:
    """Return what a reader is led through: the README and the menu."""
    return [ROOT / "README.md", *menu()]


def all_pages() -> list[Path]:
    """Return every document of the repository."""
    beside = [ROOT / "examples" / "README.md", ROOT / "benchmarks" / "README.md"]
    return [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md")), *beside]


def blocks_of(page: Path) -> list[Block]:
    """Return a page's fenced blocks; one within a longer one is content."""
    return [block for block, _ in _parts(page) if block is not None]


def prose_of(page: Path) -> list[tuple[int, str]]:
    """Return the lines of a page outside of its blocks, with their numbers."""
    return [line for block, line in _parts(page) if block is None]


def _parts(page: Path) -> Iterator[tuple[Block | None, tuple[int, str]]]:
    name = page.relative_to(ROOT).as_posix()
    marks: list[str] = []
    inside: list[str] = []
    opened: tuple[int, str, str, str] | None = None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.fullmatch(line)
        if opened is not None:
            first, indent, closes, info = opened
            if fence and fence[2].startswith(closes) and not fence[3].strip():
                text = "".join(f"{one.removeprefix(indent)}\n" for one in inside)
                yield Block(name, first, info.strip(), text, tuple(marks)), (number, "")
                opened, marks, inside = None, [], []
            else:
                inside.append(line)
        elif fence and "`" not in fence[3]:
            opened = (number + 1, fence[1], fence[2], fence[3])
        else:
            found = _MARK.fullmatch(line.strip())
            marks = [*marks, found[1]] if found else []
            yield None, (number, line)
    assert opened is None, f"{name}: a fence is not closed"


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as the site and GitHub make them."""
    found: set[str] = set()
    for _, line in prose_of(page):
        heading = _HEADING.fullmatch(line)
        if heading is None:
            found |= set(re.findall(r'<a id="([^"]+)">', line))
            continue
        if heading[2]:
            found.add(heading[2])
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).replace("`", "")
        slug = re.sub(r"[^\w\s-]", "", plain).strip().lower()
        found.add(re.sub(r"[-\s]+", "-", slug))
    return found


def links_of(page: Path) -> list[tuple[int, str]]:
    """Return where a page's links and pictures lead, with their lines; none within code."""
    prose = prose_of(page)
    text = "\n".join(_CODE.sub("", line) for _, line in prose)
    return [(prose[text.count("\n", 0, one.start())][0], one[1]) for one in _LINK.finditer(text)]


def commands_of(page: Path) -> list[tuple[int, str]]:
    """Return the command lines of `agentforge` on a page, of blocks and of inline code."""
    found = [
        (block.line + offset, command)
        for block in blocks_of(page)
        for offset, line in enumerate(re.sub(r"\\\n\s*", " ", block.text).splitlines())
        for command in _COMMAND.findall(line)
    ]
    prose = prose_of(page)
    text = "\n".join(line for _, line in prose)
    for code in _CODE.finditer(text):
        command = " ".join(code[2].split())
        if re.match(r"agentforge [a-z-]", command):
            found.append((prose[text.count("\n", 0, code.start())][0], command))
    return found
