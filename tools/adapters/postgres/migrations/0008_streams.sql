-- Streams of sessions: entries that are only ever added. The row of a stream is what appends take
-- turns by, so that positions are committed in their order and a reader who is at one has seen all
-- before it. A stream that is replaced is another one: its generation says so.

create table agentforge.session_streams (
    session_id text not null references agentforge.sessions (id) on delete cascade,
    name text not null,
    generation bigint generated always as identity,
    last bigint not null check (last >= 0),
    size_bytes bigint not null,
    primary key (session_id, name)
) with (fillfactor = 80);

create table agentforge.session_stream_entries (
    session_id text not null,
    stream text not null,
    position bigint not null,
    head bytea not null,
    body bytea not null,
    primary key (session_id, stream, position),
    foreign key (session_id, stream)
        references agentforge.session_streams (session_id, name) on delete cascade
);
-- A body is read alone, and is packed already where that is worth it.
alter table agentforge.session_stream_entries alter column body set storage external;
