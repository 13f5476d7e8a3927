"""What is stored in a PostgreSQL store, as a test looks at it: past the program, in few words."""

from __future__ import annotations

from typing import Any

from psycopg import Connection

Stored = list[tuple[Any, ...]]
"""For each session its revision, state, artifacts, history, and what is kept beside it."""

_STORED = b"""
select revision, state, goal_words,
    array(select substring(entry from 'path: (.*?)\\n') from agentforge.session_artifacts
        where session_id = id order by number),
    array(select substring(entry from 'action: (.*?)\\n') from agentforge.session_history
        where session_id = id order by number),
    array(select name || encode(content, 'hex') from agentforge.session_attachments
        where session_id = id order by name),
    schema_minor is not null
        and n_artifacts = (select count(*) from agentforge.session_artifacts where session_id = id)
        and n_history = (select count(*) from agentforge.session_history where session_id = id)
        and size_bytes = coalesce((select sum(octet_length(entry))
            from agentforge.session_artifacts where session_id = id), 0)
        + coalesce((select sum(octet_length(entry))
            from agentforge.session_history where session_id = id), 0)
from agentforge.sessions left join agentforge.session_documents on session_id = id order by id
"""
_NUMBERS_WITH_A_GAP = b"""
select session_id, max(number), count(*) from agentforge.session_history
group by session_id having max(number) <> count(*) or min(number) <> 1
"""
_OTHERS = b"""
select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
"""
_ADVISORY = b"""
select objid from pg_locks where locktype = 'advisory'
    and database = (select oid from pg_database where datname = current_database())
"""


def stored(connection: Connection[Any]) -> Stored:
    """Return what is stored, after a look at whether each session is whole."""
    if connection.execute("select to_regclass('agentforge.migrations')").fetchone() == (None,):
        return []
    rows = connection.execute(_STORED).fetchall()
    assert all(row[-1] for row in rows), f"half a session: {rows}"
    assert connection.execute(_NUMBERS_WITH_A_GAP).fetchall() == []
    return [tuple(row[:-1]) for row in rows]


def is_left_alone(connection: Connection[Any]) -> bool:
    """Return whether nobody else is connected to the database."""
    return not connection.execute(_OTHERS).fetchall()


def advisory_locks(connection: Connection[Any]) -> list[Any]:
    """Return the advisory locks that somebody holds in the database."""
    return connection.execute(_ADVISORY).fetchall()
