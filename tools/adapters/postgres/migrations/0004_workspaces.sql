-- Where the workspaces of sessions are: the packs of snapshots in the object store, each added and
-- never changed, and the place where a session was worked in last.

create table agentforge.session_packs (
    session_id text not null references agentforge.sessions (id) on delete cascade,
    number bigint generated always as identity,
    kind text not null check (kind in ('workspace', 'agent')),
    key text not null,
    sha256 text not null check (sha256 ~ '^[0-9a-f]{64}$'),
    size_bytes bigint not null check (size_bytes > 0),
    snapshots text[] not null,
    base text,
    created_at timestamptz not null default now(),
    primary key (session_id, number),
    unique (key)
);

-- The part of the object store that is this database's own: two databases that share a bucket never
-- take each other's packs for packs that nobody names.
create table agentforge.pack_space (
    only_one boolean primary key default true check (only_one),
    name text not null default substr(replace(gen_random_uuid()::text, '-', ''), 1, 16)
);

create table agentforge.session_places (
    session_id text primary key references agentforge.sessions (id) on delete cascade,
    place text not null,
    host text not null,
    turn bigint not null default 1,
    taken_up_at timestamptz not null default now()
) with (fillfactor = 80);
