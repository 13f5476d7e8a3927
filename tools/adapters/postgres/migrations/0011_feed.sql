-- The feed of all histories. Each entry says which transaction saved it. Transactions are committed in
-- no order of their numbers, but nothing is added any more to those before the oldest that still runs:
-- so far a reader may go without missing one. Entries that a fork has of its parent are of none.

alter table agentforge.session_history
    add column saved_by xid8 default pg_current_xact_id();

create index session_history_by_save on agentforge.session_history (saved_by);

-- How far each receiver of events was told, and what sessions that were removed left for it.
create table agentforge.receivers (
    name text primary key,
    state text not null
);

create table agentforge.receiver_events (
    receiver text not null references agentforge.receivers (name) on delete cascade,
    session_id text not null,
    events jsonb not null,
    primary key (receiver, session_id)
);
