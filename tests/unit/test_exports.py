"""Names of a package that load their module on first use are the same names."""

import subprocess
import sys
from importlib import import_module, metadata

import pytest

from agentforge_sessions.base.exports import on_first_use


@pytest.mark.parametrize(
    "package",
    [
        "agentforge_sessions",
        "agentforge_sessions.harness",
        "agentforge_sessions.prune",
        "agentforge_sessions.sandbox",
    ],
)
def test_every_public_name_is_there_and_comes_from_the_package(package: str) -> None:
    module = import_module(package)
    for name in module.__all__:
        assert getattr(module, name) is not None
        assert name in vars(module), "it is found once"


@pytest.mark.parametrize("package", ["harness", "prune", "sandbox"])
def test_importing_the_package_loads_no_part_of_it(package: str) -> None:
    program = (
        f"import sys, agentforge_sessions.{package};"
        f"print([one for one in sys.modules if '{package}.' in one])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_importing_the_whole_package_loads_none_of_its_packages_and_nothing_of_others() -> None:
    program = (
        "import sys; before = set(sys.modules); import agentforge_sessions;"
        "print(*sorted({name for name in set(sys.modules) - before"
        " if name.split('.')[0] not in sys.stdlib_module_names}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    own = ["agentforge_sessions", "agentforge_sessions.base", "agentforge_sessions.base.exports"]
    assert done.stdout.split() == own


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    find = on_first_use("agentforge_sessions.prune", {"engine": "prune"})
    with pytest.raises(
        AttributeError, match=r"module 'agentforge_sessions\.prune' has no attribute 'plan'"
    ):
        find("plan")


@pytest.mark.parametrize("package", ["", ".harness", ".prune", ".sandbox"])
def test_dir_names_what_is_public_before_any_of_it_is_loaded(package: str) -> None:
    name = f"agentforge_sessions{package}"
    program = f"import {name} as one; print(set(one.__all__) - set(dir(one)), dir(one)[-1])"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    missing, last = done.stdout.split()
    assert missing == "set()"
    assert last == import_module(name).__all__[-1]


def test_the_package_says_its_release() -> None:
    import agentforge_sessions

    assert agentforge_sessions.__version__ == metadata.version("agentforge-sessions")
    assert "__version__" in dir(agentforge_sessions)
