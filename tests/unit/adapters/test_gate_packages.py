"""Packages for the sandbox of gates: what is copied, and what is refused."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from agentforge_sessions.wiring.gates.gate_packages import (
    PackageUnusable,
    installed_folders,
    prepare_packages,
)

GUEST = {"python": "3.15", "attrs": "", "pyyaml": ""}


def install(
    folder: Path,
    name: str,
    files: Mapping[str, str],
    *,
    requires: tuple[str, ...] = (),
    pure: bool = True,
) -> None:
    """Put a package there as an installer does."""
    about = f"{name.replace('-', '_')}-1.0.dist-info"
    said = "".join(f"Requires-Dist: {one}\n" for one in requires)
    content = {
        **files,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{said}",
        f"{about}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: {str(pure).lower()}\n",
    }
    listed = "".join(f"{path},,\n" for path in (*content, f"{about}/RECORD", "../../bin/tool"))
    content[f"{about}/RECORD"] = listed
    for path, text in content.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


def prepared(tmp_path: Path, *names: str) -> Path:
    return prepare_packages(
        names, tmp_path / "kept", folders=[tmp_path / "site"], guest=lambda: GUEST
    )


def names_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_package_is_there_with_what_it_needs_and_nothing_else(tmp_path: Path) -> None:
    site = tmp_path / "site"
    needs = ("small_two>=1", "attrs", 'old; python_version < "3.8"', 'fast; extra == "speed"')
    install(site, "small-one", {"small_one/__init__.py": "one\n"}, requires=needs)
    install(site, "small.two", {"small_two.py": "two\n"}, requires=("small-one",))
    install(site, "other", {"other.py": "other\n"})
    (site / "small_one" / "__pycache__").mkdir()
    place = prepared(tmp_path, "Small_One")
    found = names_in(place)
    assert {"small_one/__init__.py", "small_two.py"} <= found
    assert not any("other" in name or "__pycache__" in name or "bin" in name for name in found)
    assert prepared(tmp_path, "small-one") == place
    install(site, "small.two", {"small_two.py": "three\n", "more.py": ""})
    assert prepared(tmp_path, "small-one") != place


@pytest.mark.parametrize(
    ("files", "pure", "why"),
    [
        ({"fast/_core.cpython-311.so": ""}, True, r"compiled parts \(fast/_core"),
        ({"fast.py": ""}, False, "built for one kind of machine"),
    ],
)
def test_compiled_parts_are_refused(
    tmp_path: Path, files: dict[str, str], pure: bool, why: str
) -> None:
    install(tmp_path / "site", "fast", files, pure=pure)
    install(tmp_path / "site", "slow", {"slow.py": ""}, requires=("fast",))
    with pytest.raises(PackageUnusable, match=why) as caught:
        prepared(tmp_path, "fast")
    assert caught.value.package == "fast"
    with pytest.raises(PackageUnusable, match="and slow needs it"):
        prepared(tmp_path, "slow")
    assert not (tmp_path / "kept").exists()


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    with pytest.raises(PackageUnusable, match="nowhere can't be put into the sandbox: it is not"):
        prepared(tmp_path, "nowhere")
    with pytest.raises(PackageUnusable, match="the sandbox has it itself, so leave it out"):
        prepared(tmp_path, "PyYAML")


def test_a_package_of_a_folder_of_sources_is_refused(tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(site, "mine", {"mine.pth": "/src"})
    (site / "mine-1.0.dist-info" / "direct_url.json").write_text('{"dir_info": {"editable": true}}')
    with pytest.raises(PackageUnusable, match=r"pip install -e"):
        prepared(tmp_path, "mine")


def wheel(path: Path, files: Mapping[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def test_a_wheel_is_taken_as_it_is(tmp_path: Path) -> None:
    install(tmp_path / "site", "small-two", {"small_two.py": ""})
    about = "Metadata-Version: 2.1\nName: one\nVersion: 1\nRequires-Dist: small-two\n"
    made = wheel(
        tmp_path / "one-1-py3-none-any.whl",
        {
            "one.py": "1\n",
            "one-1.data/purelib/more.py": "2\n",
            "one-1.data/scripts/tool": "3\n",
            "one-1.dist-info/METADATA": about,
        },
    )
    found = names_in(prepared(tmp_path, str(made)))
    assert {"one.py", "more.py", "small_two.py"} <= found
    assert not any("tool" in name for name in found)


@pytest.mark.parametrize(
    ("name", "files", "why"),
    [
        ("one-1-cp311-cp311-linux_x86_64.whl", {"one.py": ""}, "made for one machine"),
        ("one-1-py3-none-any.whl", {"one.py": ""}, "it is no wheel"),
        (
            "one-1-py3-none-any.whl",
            {"../out.py": "", "one-1.dist-info/METADATA": ""},
            "paths lead out",
        ),
        (
            "one-1-py3-none-any.whl",
            {"one.so": "", "one-1.dist-info/METADATA": ""},
            "compiled parts",
        ),
    ],
)
def test_a_wheel_that_can_not_be_used_is_refused(
    tmp_path: Path, name: str, files: dict[str, str], why: str
) -> None:
    made = wheel(tmp_path / name, files)
    with pytest.raises(PackageUnusable, match=why):
        prepared(tmp_path, str(made))
    assert not (tmp_path / "out.py").exists()


def test_a_file_that_is_no_wheel_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "one-1-py3-none-any.whl"
    for content in (None, b"no archive"):
        if content is not None:
            broken.write_bytes(content)
        with pytest.raises(PackageUnusable, match="can't be read"):
            prepared(tmp_path, str(broken))


def test_the_projects_environment_is_looked_at_before_that_of_this_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / ".venv" / "lib" / "python3.12" / "site-packages"
    own.mkdir(parents=True)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    assert installed_folders(tmp_path)[0] == own
    assert len(installed_folders(tmp_path)) >= 2
