"""The statements by which a session is created, saved and read; pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Final

from .session_rows import DESCRIBED, DOCUMENT, SAVED, NewRows


def _given(names: Iterable[str]) -> str:
    """Return the parameters of columns."""
    return ", ".join(_parameter(name) for name in names)


def _parameter(name: str) -> str:
    return f"%({name})s::text[]" if name == "tags" else f"%({name})s"


def _set(names: Iterable[str]) -> str:
    return ", ".join(f"{name} = {_parameter(name)}" for name in names)


_LISTS: Final = {
    "head": ", ".join((*SAVED, *DESCRIBED)),
    "given_head": _given((*SAVED, *DESCRIBED)),
    "set_saved": _set(SAVED),
    "set_described": _set(DESCRIBED),
    "document": ", ".join(DOCUMENT),
    "given_document": _given(DOCUMENT),
    "set_document": _set(DOCUMENT),
}


def _statement(text: str) -> bytes:
    """Return a statement with the column lists that it names filled in."""
    return text.format_map(_LISTS).encode()


CREATE: Final = _statement("""
with head as (
    insert into agentforge.sessions (id, revision, {head}, n_artifacts, n_history, size_bytes)
    values (%(id)s, %(revision)s, {given_head},
        cardinality(%(artifacts)s::text[]), cardinality(%(history)s::text[]), %(size_bytes)s)
    on conflict (id) do nothing
    returning id),
document as (
    insert into agentforge.session_documents (session_id, {document})
    select id, {given_document} from head),
artifacts as (
    insert into agentforge.session_artifacts (session_id, number, entry)
    select head.id, new.number, new.entry
    from head, unnest(%(artifacts)s::text[]) with ordinality new (entry, number)),
history as (
    insert into agentforge.session_history (session_id, number, entry, saved_by)
    select head.id, new.number, new.entry,
        case when new.number > %(of_parent)s then pg_current_xact_id() end
    from head, unnest(%(history)s::text[]) with ordinality new (entry, number)),
attachments as (
    insert into agentforge.session_attachments (session_id, name, content)
    select head.id, new.name, new.content
    from head, unnest(%(names)s::text[], %(contents)s::bytea[]) new (name, content))
select id""")
"""Up to `from head`, before which more may follow; the same holds for a save."""
FROM_HEAD: Final = b" from head"

_HEAD: Final = _statement("""
    update agentforge.sessions set revision = revision + 1, {set_saved},
        n_artifacts = %(n_artifacts)s, n_history = %(n_history)s, size_bytes = %(size_bytes)s
""")
_DESCRIBED: Final = _statement(", {set_described}")
_IF_NEXT: Final = b"""
    where id = %(id)s and revision = %(revision)s and created_at = %(created_at)s
        and (%(claim)s::bigint is null or claims = %(claim)s)
        and (state in ('active', 'paused') and (state = %(state)s or %(recorded)s)
            or state = %(state)s and %(describes)s)
    returning id
"""
_ARTIFACTS: Final = b"""
artifacts as (
    insert into agentforge.session_artifacts (session_id, number, entry)
    select head.id, %(stored_artifacts)s + new.number, new.entry
    from head, unnest(%(artifacts)s::text[]) with ordinality new (entry, number))
"""
_HISTORY: Final = b"""
history as (
    insert into agentforge.session_history (session_id, number, entry)
    select head.id, %(stored_history)s + new.number, new.entry
    from head, unnest(%(history)s::text[]) with ordinality new (entry, number))
"""
_ENTRY: Final = b"""
history as (
    insert into agentforge.session_history (session_id, number, entry)
    select head.id, %(n_history)s, %(entry)s from head)
"""
_DOCUMENT: Final = _statement("""
document as (
    update agentforge.session_documents set {set_document} from head where session_id = head.id)
""")
SAVED_ALREADY: Final = b"with head as (select %(id)s::text as id) select id"
REPLACE_HEAD: Final = _HEAD + _DESCRIBED + _IF_NEXT
REPLACE_REST: Final = (
    b"delete from agentforge.session_artifacts where session_id = %(id)s",
    b"delete from agentforge.session_history where session_id = %(id)s",
    b"with head as (select %(id)s as id),"
    + b",".join((_DOCUMENT, _ARTIFACTS, _HISTORY))
    + b"select id from head",
)


@cache
def _save_statement(artifacts: bool, entries: int, document: bool, described: bool) -> bytes:
    parts = [b"head as (" + _HEAD + (_DESCRIBED if described else b"") + _IF_NEXT + b")"]
    parts += [_ARTIFACTS] if artifacts else []
    parts += {0: [], 1: [_ENTRY]}.get(entries, [_HISTORY])
    parts += [_DOCUMENT] if document else []
    return b"with " + b",".join(parts) + b" select id"


def save_statement(new: NewRows, *, document: bool, described: bool) -> bytes:
    """Return the statement of a save up to `from head`, before which more may follow.

    Unchanged parts are not in it, and cost nothing.

    Args:
        new: The rows that it adds.
        document: Whether it changes the document's row.
        described: Whether it changes the title, the tags or the parent.
    """
    return _save_statement(bool(new.artifacts), min(len(new.history), 2), document, described)


LOAD: Final = _statement("""
select revision, {head}, {document}, size_bytes,
    (select coalesce(string_agg(entry, '' order by number), '')
        from agentforge.session_artifacts where session_id = id),
    (select coalesce(string_agg(entry, '' order by number), '')
        from agentforge.session_history where session_id = id)
from agentforge.sessions join agentforge.session_documents on session_id = id where id = %s
""")
KEEP_STEP: Final = b"""
insert into agentforge.session_attachments (session_id, name, content)
select id, %(name)s, %(content)s from agentforge.sessions
where id = %(id)s and (%(claim)s::bigint is null or claims = %(claim)s)
for share -- a claim waits for it, and so sees the step
on conflict (session_id, name) do update set content = excluded.content
returning name
"""
