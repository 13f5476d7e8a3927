"""`list`, `prune` and `cleanup` of the command line, on a store in PostgreSQL."""

from __future__ import annotations

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import SessionManager
from tests.unit.cli.conftest import CommandLine, Ended
from tests.unit.cli.conftest import agentforge as agentforge  # noqa: PLC0414 (a fixture)
from tests.unit.cli.conftest import workflow as workflow  # noqa: PLC0414 (a fixture)


def made(agentforge: CommandLine, database: Database, *ends: str | None) -> list[str]:
    ids = []
    for number, end in enumerate(ends):
        store = PostgresStore(database, agentforge.base)
        manager = SessionManager(store, clock=lambda: agentforge.now)
        ids.append(manager.create("tdflow", "red", goal=f"Part {number} of it").session_id)
        if end is not None:
            getattr(manager, end)()
        agentforge.later(minutes=1)
    return ids


def test_a_list_goes_from_page_to_page_and_finds_goals(
    agentforge: CommandLine, database: Database
) -> None:
    ids = made(agentforge, database, None, "pause", "complete")

    def run(*words: object) -> Ended:
        return agentforge("--store", database.url, "list", *words)

    first = run("--limit", 2, "--json").document
    assert [one["session_id"] for one in first["sessions"]] == [ids[2], ids[1]]
    rest = run("--limit", 2, "--after", first["next"], "--json").document
    assert [one["session_id"] for one in rest["sessions"]] == [ids[0]]
    assert rest["next"] is None
    assert run("--limit", 1).err.startswith("more fit; --limit 1 --after ")
    found = run("--goal", "PART 1", "--json").document["sessions"]
    assert [one["session_id"] for one in found] == [ids[1]]


def test_prune_and_its_pins_work_on_a_store(agentforge: CommandLine, database: Database) -> None:
    old, pinned, open_ = made(agentforge, database, "complete", "abort", None)

    def run(*words: object) -> Ended:
        return agentforge("--store", database.url, "prune", *words)

    assert run("pin", "--kind", "agent", pinned).code == 0
    agentforge.later(minutes=60 * 24 * 31)
    seen = run("--kind", "agent", "--dry-run", "--json")
    assert seen.document["kinds"]["agent"]["deleted"] == [old]
    done = run("--kind", "agent", "--yes", "--json")
    assert (done.code, done.err) == (0, "")
    assert done.document["kinds"]["agent"]["deleted"] == [old]
    assert [one["reason"] for one in done.document["kinds"]["agent"]["skipped"]] == ["pinned"]
    assert run("unpin", "--kind", "agent", pinned).code == 0
    shown = run("--kind", "agent", "--yes")
    assert "agent: Deleted 1 session" in shown.out
    assert PostgresStore(database, agentforge.base).list_sessions() == [open_]
    trash = run("trash", "--kind", "agent")
    assert trash.code == 2
    assert "no trash" in trash.err
    refused = run("--kind", "agent", "--trash", "--yes")
    assert refused.code == 2
    assert "a store has no trash" in refused.err


def test_cleanup_deletes_what_ended_long_ago_from_a_store(
    agentforge: CommandLine, database: Database
) -> None:
    old, open_ = made(agentforge, database, "complete", None)
    agentforge.later(minutes=60 * 24 * 8)
    words = ("--store", database.url, "prune", "--kind", "agent", "--older-than", "7d", "--json")
    for more in ("--dry-run", "--yes"):
        assert agentforge(*words, more).document["kinds"]["agent"]["deleted"] == [old]
    assert PostgresStore(database, agentforge.base).list_sessions() == [open_]
