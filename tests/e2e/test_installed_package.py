"""The package as it is installed: beside a project's own `tools`, from wheel and source archive.

Nothing is downloaded: the scratch environment sees the packages of this one, but for ours.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from agentforge_sessions.sandbox import prepare
from tests.support.person import persons_folders

ROOT = Path(__file__).resolve().parents[2]
OURS = re.compile(r"_?agentforge.*", re.IGNORECASE)


def run(*command: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    environment |= {**persons_folders(), **variables}
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def build(kind: str, into: Path, source: Path) -> Path:
    done = run(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", into, cwd=source)
    assert done.returncode == 0, done.stderr
    (built,) = into.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tmp_path_factory.mktemp("wheel"), ROOT)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment into which pip installed the wheel."""
    home = tmp_path_factory.mktemp("environment")
    done = run(sys.executable, "-m", "venv", "--without-pip", home, cwd=home)
    assert done.returncode == 0, done.stderr
    packages = home / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if not OURS.fullmatch(package.name) and package.suffix != ".pth":
            (packages / package.name).symlink_to(package)
    install(home, wheel)
    return home / "bin"


def install(home: Path, wheel: Path) -> None:
    """Install the wheel; what is imported is compiled then, and nothing else."""
    pip(home, "install", "--no-deps", "--no-index", "--no-compile", wheel)


def pip(home: Path, *arguments: str | Path) -> None:
    done = run(
        *(sys.executable, "-m", "pip", "--disable-pip-version-check"),
        *("--python", home / "bin" / "python", *arguments),
        cwd=home,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a package `tools` of its own."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "search.py").write_text("FOUND = 'by the project'\n")
    (tmp_path / "tools" / "__init__.py").write_text("OWNER = 'the project'\n")
    return tmp_path


def first_example() -> str:
    text = (ROOT / "docs" / "first-day.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found.group(1)


@pytest.mark.parametrize(
    ("kind", "variables"),
    [("package", {"PYTHONPATH": "."}), ("namespace package", {})],
    ids=["package on PYTHONPATH", "namespace package"],
)
def test_the_first_example_of_the_readme_runs_in_a_project_with_tools_of_its_own(
    installed: Path, project: Path, kind: str, variables: dict[str, str]
) -> None:
    if kind == "namespace package":
        (project / "tools" / "__init__.py").unlink()
    (project / "example.py").write_text(
        "from tools.search import FOUND\n" + first_example() + "print(session.session_id, FOUND)\n"
    )

    done = run(installed / "python", "example.py", cwd=project, **variables)

    assert done.returncode == 0, done.stderr
    session_id, found = done.stdout.rstrip().split(" ", 1)
    assert found == "by the project"
    assert (project / ".agentforge" / "sessions" / session_id / "session.yaml").is_file()
    shown = run(installed / "agentforge", "show", session_id, cwd=project, **variables)
    assert shown.returncode == 0, shown.stderr
    assert "An interval scheduler" in shown.stdout


@pytest.mark.timeout(900)  # the first run on a machine compiles the guest
def test_the_wheel_alone_runs_its_example(installed: Path, tmp_path: Path) -> None:
    listed = run(installed / "agentforge", "run", "--example", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    names = [line.split()[0] for line in listed.stdout.splitlines()[1:]]
    assert names == ["flaky", "hello", "interval-scheduler"]
    prepare()

    done = run(installed / "agentforge", "run", "--example", "hello", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "[2/2] count: succeeded" in done.stdout
    (session,) = (tmp_path / ".agentforge" / "sessions").glob("session_*")
    assert "words" in (session / "workspace" / "counts.json").read_text()


def test_the_wheel_brings_the_tables_of_a_database(installed: Path, tmp_path: Path) -> None:
    program = (
        "from agentforge_sessions.fleet.postgres.schema import migrations\n"
        "print(*(f'{one.number:04}_{one.name}.sql' for one in migrations()))"
    )
    done = run(installed / "python", "-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    files = (ROOT / "tools" / "fleet" / "postgres" / "migrations").glob("*.sql")
    assert done.stdout.split() == sorted(path.name for path in files)


def test_who_stays_on_files_loads_no_database(installed: Path, tmp_path: Path) -> None:
    """Nor needs one: what is not loaded need not be installed."""
    program = (
        "import sys, agentforge_sessions\n"
        "from agentforge_sessions import build_manager\n"
        "from agentforge_sessions.entrypoints.cli.main import run\n"
        "build_manager().create(goal='a goal')\n"
        "for words in (['list'], ['store', 'status'], ['doctor']):\n"
        "    run(words)\n"
        "wanted = {'psycopg', 'psycopg_pool', 'procrastinate', 'obstore', 'prometheus_client'}\n"
        "sys.exit(' '.join(wanted & set(sys.modules)) or 0)"
    )
    done = run(installed / "python", "-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_help_of_every_command_is_there_in_such_a_project(
    installed: Path, project: Path
) -> None:
    every_help = (
        "import contextlib, io, sys, typer, tools.search\n"
        "from agentforge_sessions.entrypoints.cli.main import app\n"
        "def each(command, path):\n"
        "    yield path\n"
        "    for name in getattr(command, 'commands', {}):\n"
        "        yield from each(command.commands[name], (*path, name))\n"
        "command = typer.main.get_command(app)\n"
        "for path in each(command, ()):\n"
        "    out = io.StringIO()\n"
        "    with contextlib.redirect_stdout(out):\n"
        "        command.main([*path, '--help'], prog_name='agentforge', standalone_mode=False)\n"
        "    assert 'Usage: agentforge' in out.getvalue(), path\n"
        "    print(*path)\n"
    )

    done = run(installed / "python", "-c", every_help, cwd=project, PYTHONPATH=".", COLUMNS="200")

    assert done.returncode == 0, done.stderr
    assert {"run", "prune", "sandbox exec", "mcp"} <= set(done.stdout.splitlines())
    for name in ("agentforge", "agentforge-sessions"):
        version = run(installed / name, "--version", cwd=project, PYTHONPATH=".")
        assert version.returncode == 0, version.stderr
        assert "0.1.0" in version.stdout


def test_a_worker_process_of_the_sandbox_starts_in_such_a_project(
    installed: Path, project: Path
) -> None:
    program = (
        "from agentforge_sessions.sandbox import create_sandbox\n"
        "with create_sandbox(isolation='process') as sandbox:\n"
        "    print(sandbox.execute('print(6 * 7)').stdout)\n"
    )

    done = run(installed / "python", "-c", program, cwd=project, PYTHONPATH=".")

    assert done.stdout.split() == ["42"], done.stderr


def test_uninstalling_leaves_the_projects_own_tools_alone(
    wheel: Path, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("left")
    assert run(sys.executable, "-m", "venv", "--without-pip", home, cwd=home).returncode == 0
    packages = home / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    (project / "tools").rename(packages / "tools")  # installed there as many a project is
    before = sorted((packages / "tools").rglob("*"))
    install(home, wheel)
    assert (packages / "agentforge_sessions" / "harness").is_dir()

    pip(home, "uninstall", "--yes", "agentforge-sessions")

    assert sorted((packages / "tools").rglob("*")) == before
    assert not (packages / "agentforge_sessions").exists()
    assert not (home / "bin" / "agentforge").exists()


def test_a_wheel_brings_one_package_with_its_types_and_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = next(name for name in names if name.endswith("/METADATA"))
        page = archive.read(metadata).decode()

    tops = {name.split("/")[0] for name in names}
    assert tops == {"agentforge_sessions", "agentforge_sessions-0.1.0.dist-info"}
    assert "agentforge_sessions/py.typed" in names
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert "Project-URL" not in page
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert [link for link in links if not link.startswith("https://")] == []
    assert "`docs/architecture.md`" in page


def test_the_source_archive_holds_what_a_checkout_holds_and_builds_the_same_wheel(
    wheel: Path, tmp_path: Path
) -> None:
    packed = build("sdist", tmp_path / "sdist", ROOT)
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (source,) = (tmp_path / "unpacked").iterdir()

    assert (source / "agentforge_sessions" / "harness" / "session_manager.py").is_file()
    here = ["README.md", "LICENSE", "SECURITY.md", "CONTRIBUTING.md", "constraints.txt", "Makefile"]
    for name in (
        *here,
        "examples/workflows/hello/workflow.yaml",
        "docs/architecture.md",
        "tools/harness/session_manager.py",
    ):
        assert (source / name).is_file(), name
    again = build("wheel", tmp_path / "again", source)
    with zipfile.ZipFile(wheel) as ours, zipfile.ZipFile(again) as theirs:
        assert sorted(ours.namelist()) == sorted(theirs.namelist())


def test_the_fixed_paths_can_be_imported_from_the_root_of_the_checkout() -> None:
    program = (
        "from tools.harness.session_manager import SessionManager\n"
        "from tools.harness.session_store import SessionStore\n"
        "from tools.harness.session_domain import SessionContext, TokenBudget\n"
        "import sys\n"
        "assert not any(name.startswith('agentforge_sessions') for name in sys.modules)\n"
        "print(SessionManager.__module__)\n"
    )

    done = run(sys.executable, "-c", program, cwd=ROOT)

    assert done.stdout.split() == ["tools.harness.session_manager"], done.stderr
