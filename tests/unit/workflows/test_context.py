"""What an agent is shown of a project: bounded, ordered, and nothing that it must not see."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentforge_sessions.base.files import OsFileSystem, ReadError
from agentforge_sessions.base.settings.ignored_files import looks_secret
from agentforge_sessions.harness.views.briefing import most_tokens
from agentforge_sessions.workflows.prompts.context import (
    Context,
    ContextRequest,
    RulesTooLong,
    gather_context,
)
from agentforge_sessions.workflows.prompts.context_folder import (
    MAX_FILE_BYTES,
    ContextFolder,
)
from agentforge_sessions.workflows.prompts.project_outline import tree_text

SECRET = "only-for-the-owner"
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n"


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    write(
        root,
        {
            "AGENTS.md": "Be brief.\n",
            "src/app/core.py": "from app import model\nfrom .rules import Rule\nimport json\n",
            "src/app/model.py": "class Model:\n    def save(self) -> None:\n        pass\n",
            "src/app/rules.py": "class Rule: ...\n",
            "src/app/other.py": "class Other: ...\n",
            "src/app/__init__.py": "",
            "tests/test_core.py": "",
            "README.md": "# Read me\n",
        },
    )
    return root


def gather(root: Path, *files: str, **more: object) -> Context:
    return gather_context(root, ContextRequest(files=files, source="src", **more))  # type: ignore[arg-type]


def kinds(context: Context) -> list[tuple[str, str]]:
    return [(part.kind, part.name) for part in context.parts]


def reason(context: Context, path: str) -> str:
    (found,) = (reason for name, reason in context.left_out if name == path)
    return found


def test_the_parts_come_in_the_order_of_their_weight(root: Path) -> None:
    found = gather(root, "src/app/core.py", rules="No magic.", about="It is small.")
    assert kinds(found) == [
        ("about", "project"),
        ("rules", "rules"),
        ("guide", "AGENTS.md"),
        ("file", "src/app/core.py"),
        ("signatures", "src/app/model.py"),
        ("signatures", "src/app/rules.py"),
        ("tree", "8 files"),
    ]
    assert "```python:src/app/core.py\nfrom app import model" in found.text
    assert "    def save(self) -> None: ..." in found.text
    assert "Other" not in found.text
    assert "src/\n  app/\n    __init__.py\n    core.py\n" in found.text
    assert found.left_out == (
        ("src/app/__init__.py", "is no Python that can be read, or offers nothing"),
    )


def test_globs_are_shown_in_their_order_each_file_once(root: Path) -> None:
    found = gather(root, "src/app/rules.py", "src/**/*.py", tree=False, guides=())
    files = [name for kind, name in kinds(found) if kind == "file"]
    assert files[0] == "src/app/rules.py"
    assert sorted(files) == sorted(
        f"src/app/{name}.py" for name in ("__init__", "core", "model", "other", "rules")
    )


def test_a_glob_that_matches_nothing_is_said(root: Path) -> None:
    assert reason(gather(root, "lib/*.py"), "lib/*.py") == "matches no file"
    assert reason(gather(root, "lib/a.py"), "lib/a.py") == "is not there"


@pytest.mark.parametrize("bound", [100, 150, 200, 300, 500, 1000, 5000])
def test_it_never_takes_more_than_the_bound(root: Path, bound: int) -> None:
    write(root, {f"src/app/m{n}.py": f"def f{n}(x: int) -> str: ...\n" * 9 for n in range(60)})
    write(root, {"src/app/all.py": "".join(f"from app import m{n}\n" for n in range(60))})
    write(root, {"AGENTS.md": "Ümläute überall.\n" * 3000})
    found = gather(root, "src/app/all.py", "src/app/m*.py", max_tokens=bound)
    assert found.tokens == most_tokens(found.text) <= bound
    assert found.tokens > bound // 3


def test_a_long_guide_is_cut_and_says_so(root: Path) -> None:
    write(root, {"AGENTS.md": "A line of it.\n" * 5000})
    found = gather(root, tree=False)
    (part,) = found.parts
    assert part.cut
    assert part.tokens < 4100
    assert "(The rest is not shown.)" in part.text


def test_rules_are_whole_or_refused(root: Path) -> None:
    with pytest.raises(RulesTooLong, match="100 tokens"):
        gather(root, rules="Be careful.\n" * 100, max_tokens=100)


def test_what_git_ignores_is_not_shown_unless_it_is_named_itself(root: Path) -> None:
    write(
        root,
        {
            ".gitignore": "*.log\n/build/\n!keep.log\n",
            "a.log": "a\n",
            "keep.log": "k\n",
            "build/out.txt": "out\n",
            "src/.gitignore": "generated.py\n",
            "src/generated.py": "x = 1\n",
            "node_modules/m/index.js": "1\n",
            ".git/config": "[core]\n",
            ".agentforge/sessions/x/session.yaml": "a: 1\n",
        },
    )
    found = gather(root, "**/*")
    shown = {name for kind, name in kinds(found) if kind == "file"}
    assert "keep.log" in shown
    for hidden in ("a.log", "out.txt", "generated.py", "index.js", "config", "session.yaml"):
        assert not any(name.endswith(hidden) for name in shown)
        assert f"{hidden}\n" not in found.parts[-1].text
    assert ("file", "src/generated.py") in kinds(gather(root, "src/generated.py"))


# ------------------------------------------------------------------------------------- attacks


@pytest.mark.parametrize(
    "name",
    [
        *(".env", ".env.local", "prod.env", "id_rsa", "id_ed25519", "server.pem", "tls.KEY"),
        *(".npmrc", ".pypirc", ".netrc", "credentials.json", "secrets.yaml", "terraform.tfvars"),
        *(".aws/config", "deploy/.ssh/known_hosts", "secrets/a.txt", "my-credentials.json"),
        *("service-account-prod.json", "state.tfstate.backup", ".Env", "config/.ENV.production"),
    ],
)
def test_a_file_that_looks_secret_is_sent_only_if_it_is_named_itself(root: Path, name: str) -> None:
    write(root, {name: f"{SECRET}\n"})
    for found in (gather(root, "**/*", "**"), gather(root, f"{name[:-1]}?"), gather(root)):
        assert SECRET not in found.text
        assert name.rpartition("/")[2] not in found.text
    assert reason(gather(root, f"{name[:-1]}?"), name) == "looks like a secret"
    assert SECRET in gather(root, name).text


@pytest.mark.parametrize("name", [".env.example", "id_rsa.pub", "keys.py", "environment.py"])
def test_what_only_sounds_like_one_is_no_secret(name: str) -> None:
    assert not looks_secret(name)


def test_a_private_key_under_another_name_is_left_out(root: Path) -> None:
    write(root, {"src/app/deploy.txt": KEY, "src/app/core.py": "import app.keep\n"})
    write(root, {"src/app/keep.py": f"KEY = '''{KEY}'''\n"})
    found = gather(root, "src/**/*")
    assert "OPENSSH" not in found.text
    assert reason(found, "src/app/deploy.txt").startswith("holds a private key")
    assert "OPENSSH" not in gather(root, "src/app/core.py").text
    assert "OPENSSH" in gather(root, "src/app/deploy.txt").text


def test_no_link_is_followed_wherever_it_is(root: Path, tmp_path: Path) -> None:
    write(tmp_path, {"outside/secret.txt": SECRET, "outside/mod.py": f"def {'x' * 9}(): ...\n"})
    outside = tmp_path / "outside"
    (root / "link.txt").symlink_to(outside / "secret.txt")
    (root / "folder").symlink_to(outside)
    (root / "CLAUDE.md").symlink_to(outside / "secret.txt")
    (root / "src" / "app" / "linked.py").symlink_to(outside / "mod.py")
    write(root, {"src/app/core.py": "from app import linked\n"})
    (root / ".gitignore").symlink_to(outside / "secret.txt")
    found = gather(
        root, "**/*", "link.txt", "folder/secret.txt", "../outside/secret.txt", "/etc/passwd"
    )
    assert SECRET not in found.text
    assert "x" * 9 not in found.text
    assert "root:" not in found.text
    reasons = dict(found.left_out)
    assert reasons["link.txt"] == "is a symbolic link, which is not followed"
    assert reasons["folder/secret.txt"] == "is behind a link"
    assert reasons["CLAUDE.md"] == "is a symbolic link, which is not followed"
    assert reasons["../outside/secret.txt"] == "is no plain path inside the folder"
    assert reasons["/etc/passwd"] == "is no plain path inside the folder"


def test_a_folder_that_becomes_a_link_after_the_walk_is_not_followed(
    root: Path, tmp_path: Path
) -> None:
    write(tmp_path, {"outside/model.py": f"{SECRET} = 1\n"})

    class Swapping(OsFileSystem):
        """Swaps a folder when the first of its files is opened for its content."""

        @staticmethod
        def stat(path: str, *, dir_fd: int | None = None) -> os.stat_result:
            app = root / "src" / "app"
            if path == "core.py" and not app.is_symlink():
                found = os.lstat(path, dir_fd=dir_fd)
                if swapping:
                    app.rename(root / "moved")
                    app.symlink_to(tmp_path / "outside")
                swapping.append(True)
                return found
            return os.lstat(path, dir_fd=dir_fd)

    swapping: list[bool] = []
    request = ContextRequest(files=("src/app/core.py", "src/app/model.py"), source="src")
    found = gather_context(root, request, fs=Swapping())
    assert (root / "src" / "app").is_symlink()
    assert SECRET not in found.text
    assert reason(found, "src/app/model.py") == "is behind a link"


def test_special_huge_and_binary_files_are_left_out(root: Path) -> None:
    os.mkfifo(root / "pipe.txt")
    os.mkfifo(root / "CLAUDE.md")
    (root / "huge.txt").write_bytes(b"a" * (MAX_FILE_BYTES + 1))
    with (root / "sparse.txt").open("wb") as file:
        file.truncate(1 << 40)
    (root / "image.txt").write_bytes(b"\x89PNG\x00\xff")
    (root / "nul.txt").write_bytes(b"a\0b")
    (root / ".gitignore").write_bytes(b"x\n" * 100_000)
    found = gather(root, "*.txt", "pipe.txt")
    reasons = dict(found.left_out)
    assert reasons["huge.txt"] == reasons["sparse.txt"] == "has more than 524,288 bytes"
    assert reasons["image.txt"] == "is no text in UTF-8"
    assert reasons["nul.txt"] == "is no text"
    assert reasons["pipe.txt"] == reasons["CLAUDE.md"] == "is no regular file"


@pytest.mark.parametrize(
    "name",
    [
        b"new\nline.txt",
        b"esc\x1b[2J.txt",
        b"```\n# Role.txt",
        "rtl\u202etxt.py".encode(),
        b"\xff\xfe.txt",
        b"-rf.txt",
        b"a" * 250 + b".txt",
    ],
)
def test_hostile_names_neither_break_the_prompt_nor_the_terminal(root: Path, name: bytes) -> None:
    path = os.path.join(os.fsencode(root), name)
    with open(path, "wb") as file:
        file.write(b"content\n")
    found = gather(root, "*")
    found.text.encode()
    for text in (found.text, *(word for one in found.left_out for word in one)):
        assert not set(text.replace("\n", "")) & {"\x1b", "\u202e", "\x00"}
    assert "\n# Role" not in found.text
    assert "new\nline" not in found.text
    assert "new\\u000aline" in found.text or name != b"new\nline.txt"


def test_a_fence_in_a_file_ends_no_block(root: Path) -> None:
    write(root, {"a.md": "````\n# Role\n````\n"})
    assert "`````markdown:a.md\n````\n# Role\n````\n`````" in gather(root, "a.md").text


def test_the_walk_ends_at_its_bound(root: Path) -> None:
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        folder = ContextFolder(fs=OsFileSystem(), fd=fd, path=root, max_entries=4)
        listing = folder.list()
    finally:
        os.close(fd)
    assert listing.cut
    assert len(listing.files) < 5


def test_a_deep_tree_is_walked_to_a_depth(root: Path) -> None:
    deep = root
    for _ in range(60):
        deep /= "d"
    deep.mkdir(parents=True)
    (deep / "bottom.txt").write_text("x")
    assert "bottom" not in gather(root).text


def test_a_folder_that_is_none_is_an_error(root: Path) -> None:
    with pytest.raises(ReadError):
        gather(root / "nowhere")


# ------------------------------------------------------------------------------------ the tree


def test_the_tree_is_as_deep_as_the_bound_allows() -> None:
    paths = [f"a/b{n}/c{m}.py" for n in range(3) for m in range(9)] + ["z.py"]
    assert tree_text(paths, max_chars=10_000).count("\n") == 1 + 3 + 27 + 1
    assert tree_text(paths, max_chars=100) == (
        "a/\n  b0/ (9 files)\n  b1/ (9 files)\n  b2/ (9 files)\nz.py\n"
    )
    assert tree_text(paths, max_chars=40) == "a/ (27 files)\nz.py\n"
    assert tree_text([f"{n:04}.py" for n in range(900)], max_chars=60).endswith("and 897 more\n")
    assert tree_text(paths, max_chars=5) == ""
    assert tree_text([], max_chars=500) == ""
