-- Pages of sessions, the last changed first. A save changes updated_at, so no index may be on it:
-- saves would no longer stay within a page of the table (heap-only tuples). What pages go by
-- instead changes with a save only where the session rests or has ended, or once an hour.

alter table agentforge.sessions add column listed_at timestamptz not null generated always as (
    case when state = 'active'
        then date_bin(interval '1 hour', updated_at, timestamptz '2000-01-01 00:00:00+00')
        else updated_at
    end) stored;

create index sessions_by_workflow
    on agentforge.sessions (state, workflow_type, listed_at desc, id desc);
create index sessions_by_change
    on agentforge.sessions (state, listed_at desc, id desc);

-- What a goal is searched by: the text of the goal, each letter folded, as session_rows.py has it.
-- With pg_trgm, which comes with PostgreSQL and which a role that may create in the database may
-- create, a part of a goal is found by an index; without, by looking at each goal.
do $$
declare
    place text;
begin
    begin
        create extension if not exists pg_trgm with schema public;
    exception
        when insufficient_privilege or undefined_file or feature_not_supported
                or invalid_schema_name then
            raise notice 'pg_trgm can''t be created: searching goals looks at each of them';
    end;
    select nspname into place from pg_extension join pg_namespace on pg_namespace.oid = extnamespace
        where extname = 'pg_trgm';
    if place is not null then
        execute format('create index session_documents_by_goal on agentforge.session_documents '
            'using gin (goal_words %I.gin_trgm_ops)', place);
    end if;
end
$$;

-- Sessions that no prune removes; a pin may come before its session, and outlive it.
create table agentforge.pins (
    session_id text primary key,
    pinned_at timestamptz not null default now()
);

-- What was removed, when, why and by whom: each line is written in the transaction of its removal.
create table agentforge.removals (
    number bigint generated always as identity primary key,
    session_id text not null,
    removed_at timestamptz not null default now(),
    line jsonb not null
);
create index removals_by_session on agentforge.removals (session_id);

create index questions_by_agent_session on agentforge.questions (agent_session)
    where agent_session is not null;

-- Delete a session with all that this store has of it. What refers to it goes by its own keys; its
-- questions and waiting jobs know it by its id. The questions go first: the end of one wakes the
-- session, and that job goes, too.
create function agentforge.remove_session(session text, line jsonb) returns void
language sql volatile set search_path = agentforge, pg_temp as $$
    delete from questions where agent_session = session;
    delete from procrastinate_jobs where queueing_lock = session and status = 'todo';
    delete from sessions where id = session;
    insert into removals (session_id, line) values (session, line);
$$;
