"""Features of two Python source distributions of the index, developed in repositories of their own.

`inflection` is flat and depends on nothing; `dependency-groups` has a src layout and depends on
`packaging`, which is in the `.venv` of its checkout, with an older copy of the project itself.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

import pytest

from tests.support.index_packages import IndexPackage
from tests.support.own_project import OwnProject, Steps, require_jail
from tests.support.soak import SOAKING

pytestmark = pytest.mark.timeout(600)

FLAT: Final = IndexPackage(
    "inflection==0.5.1",
    "inflection-0.5.1.tar.gz",
    "1a29730d366e996aaacffb2f1f1cb9593dc38e2ddd30c91250c6dde09ea9b417",
)
SRC: Final = IndexPackage(
    "dependency-groups==1.3.2",
    "dependency_groups-1.3.2.tar.gz",
    "c81831f43828dbc3987ee247eb198241a0152b8e7ceab10977cc3808eb388ac7",
)
QUIET: Final = ("-q", "-p", "no:cacheprovider", "--disable-plugin-autoload")
"""None of the plugins beside this Python is needed; to load them takes longer than the tests."""
PYTHON: Final = '[project]\nlanguage = "python"\nsource = "{source}"\n'


# ------------------------------------------------------------------------------ inflection, flat

FLAT_SPECIFICATION: Final = """\
schema_version: 1
metadata: {spec_id: initials, title: Initials, version: "1.0.0", status: approved}
components:
  - component_id: initials
    location: inflection/__init__.py
    tests: [test_initials.py]
    entities:
      - name: initials
        kind: function
        methods: [{name: initials, signature: "(word: str) -> str"}]
    acceptance_criteria:
      - {id: AC-01, text: initials("device_type") and initials("DeviceType") are "DT".}
      - {id: AC-02, text: initials of an empty text is an empty text.}
"""
FLAT_TESTS: Final = """\
import inflection


def test_ac_01_initials_of_words_however_they_are_joined() -> None:
    assert inflection.initials("device_type") == "DT"
    assert inflection.initials("DeviceType") == "DT"


def test_ac_02_nothing_has_no_initials() -> None:
    assert inflection.initials("") == ""
"""
FLAT_CODE: Final = '''

def initials(word: str) -> str:
    """Return the first letters of a word's parts, as capitals."""
    return "".join(part[:1].upper() for part in underscore(word).split("_"))
'''


def flat_steps(checkout: Path) -> Steps:
    code = (checkout / "inflection" / "__init__.py").read_text()
    better = FLAT_CODE.replace("underscore(word).split", "underscore(word).strip().split")
    return {
        "red-1": {"test_initials.py": FLAT_TESTS},
        "green-1": {"inflection/__init__.py": code + FLAT_CODE},
        "refactor-1": {"inflection/__init__.py": code + better},
    }


@pytest.mark.parametrize("mode", ["answer", "edit"] if SOAKING else ["answer"])
def test_a_feature_of_a_flat_package_comes_home(tmp_path: Path, mode: str) -> None:
    require_jail()
    checkout = FLAT.extracted(tmp_path / "inflection")
    steps = flat_steps(checkout)
    project = OwnProject.begun(checkout, configuration=PYTHON.format(source="."))
    own_tests = [sys.executable, "-m", "pytest", *QUIET]

    session_id = project.develop(mode, FLAT_SPECIFICATION, steps, "--gate", " ".join(own_tests))

    assert project.staged() == []
    shown = project.agentforge("diff", session_id)
    assert [one["path"] for one in shown["files"]] == ["inflection/__init__.py", "test_initials.py"]
    project.agentforge("apply", session_id)
    assert project.staged() == ["A  test_initials.py", "M  inflection/__init__.py"]
    after = project.run(own_tests)
    assert after.returncode == 0, after.stdout
    assert "457 passed" in after.stdout


# ------------------------------------------------------------- dependency-groups, with a src layout

SRC_SPECIFICATION: Final = """\
schema_version: 1
metadata: {spec_id: group-names, title: Names of groups, version: "1.0.0", status: approved}
components:
  - component_id: group_names
    location: src/dependency_groups/_names.py
    other_files: [src/dependency_groups/__init__.py]
    tests: ["tests/test_group_names*.py"]
    entities:
      - name: group_names
        kind: function
        methods:
          - {name: group_names, signature: "(groups: Mapping[str, object]) -> tuple[str, ...]"}
    acceptance_criteria:
      - {id: AC-01, text: The normalized names of all groups are given in their order.}
      - {id: AC-02, text: What is no mapping raises TypeError.}
"""
SRC_TESTS: Final = """\
import dependency_groups
import pytest


def test_ac_01_names_are_normalized_in_their_order() -> None:
    groups = {"Test_Tools": [], "docs": []}
    assert dependency_groups.group_names(groups) == ("test-tools", "docs")


def test_ac_02_what_is_no_mapping_is_refused() -> None:
    function = dependency_groups.group_names
    with pytest.raises(TypeError):
        function([])
"""
SRC_CODE: Final = '''\
from __future__ import annotations

from collections.abc import Mapping

from packaging.utils import canonicalize_name


def group_names(groups: Mapping[str, object]) -> tuple[str, ...]:
    """Return the normalized names of all groups."""
    if not isinstance(groups, Mapping):
        raise TypeError("Dependency Groups table is not a mapping")
    return tuple(canonicalize_name(name) for name in groups)
'''


def src_steps(checkout: Path) -> Steps:
    offered = (checkout / "src" / "dependency_groups" / "__init__.py").read_text()
    wider = offered.replace(
        "\n__all__ = (", '\nfrom ._names import group_names\n\n__all__ = (\n    "group_names",'
    )
    return {
        "red-1": {"tests/test_group_names.py": SRC_TESTS},
        "green-1": {
            "src/dependency_groups/_names.py": SRC_CODE,
            "src/dependency_groups/__init__.py": wider,
        },
        "refactor-1": {
            "src/dependency_groups/_names.py": SRC_CODE.replace("all groups", "all of the groups")
        },
    }


def environment_of(checkout: Path) -> Path:
    """Make the checkout's `.venv`: an older copy of the project, pytest, and what they need.

    What is installed beside this Python is taken; nothing is fetched.
    """
    place = checkout / ".venv"
    made = subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(place)],
        capture_output=True,
        check=False,
        timeout=120,
    )
    if made.returncode:
        pytest.skip("no virtual environment can be made here")
    (site,) = place.glob("lib/python3*/site-packages")
    for name in ("pytest", "pluggy", "iniconfig", "packaging", "pygments"):
        one = distribution(name)
        for top in {path.parts[0] for path in one.files or () if ".." not in path.parts}:
            source = Path(str(one.locate_file(top)))
            if source.is_dir() and source.name != "__pycache__":
                shutil.copytree(source, site / top)  # compiled, as after an installation
            elif source.suffix == ".py":
                shutil.copy2(source, site / top)
    shutil.copytree(checkout / "src" / "dependency_groups", site / "dependency_groups")
    return place


@pytest.mark.parametrize("mode", ["answer", "edit"] if SOAKING else ["edit"])
def test_a_feature_of_a_src_layout_with_dependencies_comes_home(tmp_path: Path, mode: str) -> None:
    require_jail()
    checkout = SRC.extracted(tmp_path / "dependency-groups")
    environment_of(checkout)
    steps = src_steps(checkout)
    project = OwnProject.begun(
        checkout,
        configuration=PYTHON.format(source="src") + '[jail]\nmounts = [".venv"]\n',
        ignored=[".venv/"],
    )

    command = " ".join([".venv/bin/python", "-m", "pytest", *QUIET])
    session_id = project.develop(mode, SRC_SPECIFICATION, steps, "--gate", command)

    assert project.staged() == []
    project.agentforge("apply", session_id)
    assert project.staged() == [
        "A  src/dependency_groups/_names.py",
        "A  tests/test_group_names.py",
        "M  src/dependency_groups/__init__.py",
    ]
    after = project.run(["env", "PYTHONPATH=src", *command.split()])
    assert after.returncode == 0, after.stdout
    assert "55 passed" in after.stdout
