-- Sessions. The head is small and is what every save changes, so it lies alone, with room in its
-- pages and with no index on a column that changes with each save: updates stay within a page
-- (heap-only tuples). The history and the artifacts are rows that are added and never changed.

create table agentforge.sessions (
    id text primary key check (id ~ '^session_[0-9]{8}_[0-9]{6}_([0-9]{6}|[0-9a-f]{8})$'),
    revision bigint not null check (revision > 0),
    state text not null check (state in ('active', 'paused', 'completed', 'aborted')),
    workflow_type text,
    current_phase text,
    attempt_number bigint not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    completed_at timestamptz,
    total_budget bigint not null,
    tokens_used bigint not null,
    n_artifacts integer not null,
    n_history integer not null,
    size_bytes bigint not null -- of the entries of both lists
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);

-- What seldom or never changes, written only when it does: in the words of the YAML form, which can
-- say every text there is, beside a plain text to search in.
create table agentforge.session_documents (
    session_id text primary key references agentforge.sessions (id) on delete cascade,
    goal text not null,
    goal_words text,
    schema_minor bigint not null,
    newer_fields text not null,
    newer_budget_fields text not null
) with (autovacuum_vacuum_scale_factor = 0.02);

create table agentforge.session_artifacts (
    session_id text not null references agentforge.sessions (id) on delete cascade,
    number integer not null,
    entry text not null,
    primary key (session_id, number)
);

create table agentforge.session_history (
    session_id text not null references agentforge.sessions (id) on delete cascade,
    number integer not null,
    entry text not null,
    primary key (session_id, number)
);

create table agentforge.session_attachments (
    session_id text not null references agentforge.sessions (id) on delete cascade,
    name text not null,
    content bytea not null,
    primary key (session_id, name)
);
