-- ---------------------------------------------------------------------------------------- sessions

-- Sessions. The head is small and is what every save changes, so it lies alone, with room in its
-- pages and with no index on a column that changes with each save: updates stay within a page
-- (heap-only tuples). The history and the artifacts are rows that are added and never changed.
--
-- Title, tags and parent are shown in listings and looked for, so they are beside the head; a save
-- writes them only where they changed. What pages go by instead of updated_at is listed_at, which
-- changes with a save only where the session rests or has ended, or once an hour.

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
    size_bytes bigint not null, -- of the entries of both lists
    claims bigint not null default 0, -- by workers: the saves of the last one to take it count
    listed_at timestamptz not null generated always as (
        case when state = 'active'
            then date_bin(interval '1 hour', updated_at, timestamptz '2000-01-01 00:00:00+00')
            else updated_at
        end) stored,
    title text,
    tags text[] not null default '{}',
    parent_id text
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);

-- Pages of sessions: the last changed first, or in the order of their creation, which changes with no
-- save. Orders by what each save changes (what is left of a budget, what was spent) have no index.
-- Sessions without tags and without a parent cost the last two nothing.
create index sessions_by_workflow
    on agentforge.sessions (state, workflow_type, listed_at desc, id desc);
create index sessions_by_change
    on agentforge.sessions (state, listed_at desc, id desc);
create index sessions_by_creation on agentforge.sessions (created_at, id);
create index sessions_by_tag on agentforge.sessions using gin (tags) where tags <> '{}';
create index sessions_by_parent on agentforge.sessions (parent_id, id) where parent_id is not null;

-- What seldom or never changes, written only when it does: in the words of the YAML form, which can
-- say every text there is, beside a plain text to search in: that of the goal and of the title, each
-- letter folded, as session_rows.py has it.
create table agentforge.session_documents (
    session_id text primary key references agentforge.sessions (id) on delete cascade,
    goal text not null,
    goal_words text,
    schema_minor bigint not null,
    newer_fields text not null,
    newer_budget_fields text not null,
    metadata text not null default '',
    workflow_state text not null default '',
    title_words text
) with (autovacuum_vacuum_scale_factor = 0.02);

-- With pg_trgm, which comes with PostgreSQL and which a role that may create in the database may
-- create, a part of a goal or a title is found by an index; without, by looking at each of them.
do $$
declare
    place text;
begin
    begin
        create extension if not exists pg_trgm with schema public;
    exception
        when insufficient_privilege or undefined_file or feature_not_supported
                or invalid_schema_name then
            raise notice 'pg_trgm can''t be created: searching goals and titles looks at each of them';
    end;
    select nspname into place from pg_extension join pg_namespace on pg_namespace.oid = extnamespace
        where extname = 'pg_trgm';
    if place is not null then
        execute format('create index session_documents_by_goal on agentforge.session_documents '
            'using gin (goal_words %I.gin_trgm_ops)', place);
        execute format('create index session_documents_by_title on agentforge.session_documents '
            'using gin (title_words %I.gin_trgm_ops)', place);
    end if;
end
$$;

create table agentforge.session_artifacts (
    session_id text not null references agentforge.sessions (id) on delete cascade,
    number integer not null,
    entry text not null,
    primary key (session_id, number)
);

-- The feed of all histories goes by the transaction that saved an entry. Transactions are committed in
-- no order of their numbers, but nothing is added any more to those before the oldest that still runs:
-- so far a reader may go without missing one. Entries that a fork has of its parent are of none.
create table agentforge.session_history (
    session_id text not null references agentforge.sessions (id) on delete cascade,
    number integer not null,
    entry text not null,
    saved_by xid8 default pg_current_xact_id(),
    primary key (session_id, number)
);
create index session_history_by_save on agentforge.session_history (saved_by);

create table agentforge.session_attachments (
    session_id text not null references agentforge.sessions (id) on delete cascade,
    name text not null,
    content bytea not null,
    primary key (session_id, name)
);

-- ----------------------------------------------------------------------------------------- streams

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

-- -------------------------------------------------------------------------------------- workspaces

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

-- The packs of work trees, which are small, where no object store has them. A pack is read in pieces,
-- and is packed already.
create table agentforge.pack_objects (
    key text collate "C" primary key,
    content bytea not null,
    stored_at timestamptz not null default now()
);
alter table agentforge.pack_objects alter column content set storage external;

create table agentforge.session_places (
    session_id text primary key references agentforge.sessions (id) on delete cascade,
    place text not null,
    host text not null,
    turn bigint not null default 1,
    taken_up_at timestamptz not null default now()
) with (fillfactor = 80);

-- ---------------------------------------------------------------------------------------- removals

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

-- ----------------------------------------------------------------------------- receivers of events

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

-- --------------------------------------------------------------------------------------- the fleet

-- Which sessions the fleet works on, and what wakes them. The jobs are procrastinate's, whose tables
-- lie in this schema, too (schema.py puts them here): a session says what is to be done, a job only
-- that a worker should look. What workers may do for those who submit is their own: one that may not
-- run a session passes it on to those that may, by a queue of their own.

create table agentforge.submissions (
    session_id text primary key references agentforge.sessions (id) on delete cascade,
    queue text not null check (length(queue) between 1 and 128),
    priority integer not null default 0,
    submitted_at timestamptz not null default now(),
    failures integer not null default 0, -- looks in a row that ended without the phase passed
    failed_phase text,
    failed_for text,
    needs text -- what the last worker was not allowed
) with (fillfactor = 80);

-- Who the workers are that procrastinate knows by a number; for people.
create table agentforge.workers (
    worker_id bigint primary key references agentforge.procrastinate_workers (id) on delete cascade,
    host text not null,
    pid integer not null,
    concurrency integer not null,
    queues text[] not null,
    version text not null,
    started_at timestamptz not null default now(),
    problem text -- why it takes no sessions; null where it does
);

-- The queue of the looks at a session: that of its submission, or of the workers that are allowed what
-- it needs.
create function agentforge.queue_of(queue text, needs text) returns text
language sql immutable as $$
    select queue || coalesce('@' || needs, '')
$$;

-- Enqueue a look at a session; where one waits already, that one, at the earlier of both times.
-- Returns the job, or null where nothing changed.
create function agentforge.enqueue(session text, queue text, priority integer, at timestamptz)
returns bigint
language sql volatile set search_path = agentforge, pg_temp as $$
    insert into procrastinate_jobs
        (queue_name, task_name, priority, lock, queueing_lock, args, scheduled_at)
    values (queue, 'agentforge.run_session', priority, session, session,
        jsonb_build_object('session_id', session), at)
    on conflict (queueing_lock) where status = 'todo' do update set scheduled_at = at
        where procrastinate_jobs.scheduled_at > coalesce(at, now())
    returning id
$$;

-- Enqueue a look at a session that was submitted and has not ended; nothing where one waits already.
-- Returns the job, or null.
create function agentforge.wake(session text, at timestamptz default null) returns bigint
language sql volatile set search_path = agentforge, pg_temp as $$
    select agentforge.enqueue(id, agentforge.queue_of(submissions.queue, submissions.needs),
        submissions.priority, at)
    from submissions join sessions on id = submissions.session_id
    where id = session and state in ('active', 'paused')
$$;

-- Have the fleet work on a session from now on. A look that waits already waits in this queue then.
create function agentforge.submit(
    session text, queue text, priority integer, at timestamptz)
returns bigint
language plpgsql volatile set search_path = agentforge, pg_temp as $$
begin
    insert into submissions (session_id, queue, priority) values (session, $2, $3)
    on conflict (session_id) do update set queue = excluded.queue, priority = excluded.priority,
        submitted_at = now(), failures = 0, failed_phase = null, failed_for = null, needs = null;
    delete from procrastinate_jobs where queueing_lock = session and status = 'todo';
    return agentforge.enqueue($1, $2, $3, $4);
end
$$;

-- The fleet works on a session no more. Its look that waits is removed, the one that runs is asked to
-- stop. Returns the job that runs, 0 where none does, null where the session was not submitted.
create function agentforge.withdraw(session text) returns bigint
language plpgsql volatile set search_path = agentforge, pg_temp as $$
declare
    running bigint;
begin
    delete from submissions where session_id = session;
    if not found then
        return null;
    end if;
    delete from procrastinate_jobs where queueing_lock = session and status = 'todo';
    select procrastinate_cancel_job_v1(id, true, false) into running
        from procrastinate_jobs where lock = session and status = 'doing';
    return coalesce(running, 0);
end
$$;

-- Note that a look ended without the phase passed. Returns how many did so in a row; null where the
-- session is not submitted or has ended.
create function agentforge.count_failure(session text, reason text) returns integer
language sql volatile set search_path = agentforge, pg_temp as $$
    update submissions set failed_phase = current_phase, failed_for = reason,
        failures = case when failed_phase is not distinct from current_phase then failures + 1
            else 1 end
    from sessions where id = session and session_id = session and state in ('active', 'paused')
    returning failures
$$;

-- Note that a worker was not allowed what a session needs: its next look is for workers that are.
-- Returns how many workers of those refused it, too: 0 where the worker that did was any; null where
-- the session is not submitted or has ended.
create function agentforge.pass_on(session text, wanted text, reason text) returns integer
language sql volatile set search_path = agentforge, pg_temp as $$
    with former as (select session_id, needs from submissions where session_id = session for update)
    update submissions set needs = wanted, failed_phase = current_phase, failed_for = reason,
        failures = case when former.needs is null then 0 else failures + 1 end
    from sessions, former
    where id = session and former.session_id = id and submissions.session_id = id
        and state in ('active', 'paused')
    returning failures
$$;

-- Note why the last look at a session came to nothing, where that says nothing of the session.
create function agentforge.note_reason(session text, reason text) returns boolean
language sql volatile set search_path = agentforge, pg_temp as $$
    update submissions set failed_for = reason where session_id = session returning true
$$;

-- End the connection by which a job's worker holds its session, so that another one can take it.
create function agentforge.end_holder(session text, job bigint) returns bigint
language plpgsql volatile set search_path = agentforge, pg_temp as $$
declare
    digest bytea := substring(sha256(convert_to('agentforge run ' || session, 'UTF8')) for 8);
    ended bigint;
begin
    select count(pg_terminate_backend(locks.pid)) into ended
    from pg_locks locks join pg_stat_activity activity on activity.pid = locks.pid
    where locks.locktype = 'advisory' and locks.granted and locks.objsubid = 1
        and locks.database = (select oid from pg_database where datname = current_database())
        and locks.classid = ('x' || encode(substring(digest for 4), 'hex'))::bit(32)::bigint::oid
        and locks.objid = ('x' || encode(substring(digest from 5), 'hex'))::bit(32)::bigint::oid
        and activity.application_name = 'agentforge job ' || job;
    return ended;
exception when insufficient_privilege then
    return 0; -- the connection ends by itself, and what it saves is refused
end
$$;

-- End the jobs of workers that have not been heard of for so long, and enqueue their sessions again.
-- Never procrastinate_retry_job: the late worker would end the new one's job.
create function agentforge.recover(silence interval)
returns table (job bigint, session text, worker bigint, successor bigint)
language plpgsql volatile set search_path = agentforge, pg_temp as $$
#variable_conflict use_column
declare
    stalled record;
begin
    for stalled in
        select jobs.id, jobs.lock, jobs.queue_name, jobs.priority, jobs.worker_id,
            jobs.abort_requested
        from procrastinate_jobs jobs left join procrastinate_workers workers
            on workers.id = jobs.worker_id
        where jobs.status = 'doing' and jobs.task_name = 'agentforge.run_session'
            and (workers.id is null or workers.last_heartbeat < now() - silence)
        order by jobs.id for update of jobs skip locked
    loop
        perform procrastinate_finish_job_v1(stalled.id, 'aborted', false);
        perform agentforge.end_holder(stalled.lock, stalled.id);
        job := stalled.id;
        session := stalled.lock;
        worker := stalled.worker_id;
        successor := agentforge.wake(stalled.lock);
        return next;
    end loop;
    for stalled in
        select jobs.id from procrastinate_jobs jobs left join procrastinate_workers workers
            on workers.id = jobs.worker_id
        where jobs.status = 'doing' and jobs.queue_name = 'agentforge-maint'
            and (workers.id is null or workers.last_heartbeat < now() - silence)
        for update of jobs skip locked
    loop
        perform procrastinate_finish_job_v1(stalled.id, 'aborted', true);
    end loop;
end
$$;

-- End a job that its worker, which lives, runs no more: the end could not be written. Returns whether
-- it was so.
create function agentforge.release(job bigint, worker bigint) returns boolean
language plpgsql volatile set search_path = agentforge, pg_temp as $$
declare
    session text;
begin
    select lock into session from procrastinate_jobs
        where id = job and worker_id = worker and status = 'doing' for update;
    if not found then
        return false;
    end if;
    perform procrastinate_finish_job_v1(job, 'aborted', false);
    perform agentforge.end_holder(session, job);
    perform agentforge.wake(session);
    return true;
end
$$;

-- Enqueue the submitted sessions that should be worked on and have no job, however they lost it.
create function agentforge.sweep() returns table (session text)
language sql volatile set search_path = agentforge, pg_temp as $$
    select id from (
        select id, agentforge.wake(id) job
        from submissions join sessions on id = submissions.session_id
        where state = 'active' and not exists (
            select 1 from procrastinate_jobs
            where lock = sessions.id and status in ('todo', 'doing'))
    ) woken where job is not null
$$;

-- What `agentforge.sweep` and a listing of jobs look for.
create index jobs_of_session on agentforge.procrastinate_jobs (lock, id desc);

-- procrastinate tells workers of a job that is inserted, and nobody of a lock that is let go of: the
-- job that waited for it would wait for the next poll.
create function agentforge.tell_of_released_lock() returns trigger
language plpgsql set search_path = agentforge, pg_temp as $$
declare
    waiting bigint;
begin
    if new.status = 'todo' then
        waiting := new.id;
    else
        select id into waiting from procrastinate_jobs
            where lock = new.lock and status = 'todo' order by priority desc, id limit 1;
    end if;
    if waiting is not null then
        perform pg_notify('procrastinate_queue_v1#' || new.queue_name,
            json_build_object('type', 'job_inserted', 'job_id', waiting)::text);
        perform pg_notify('procrastinate_any_queue_v1',
            json_build_object('type', 'job_inserted', 'job_id', waiting)::text);
    end if;
    return null;
end
$$;

create trigger agentforge_released_lock
    after update of status, scheduled_at on agentforge.procrastinate_jobs for each row
    when (old.status in ('doing', 'failed') and new.status <> 'doing'
            and (new.lock is not null or new.status = 'todo')
        or old.status = 'todo' and new.status = 'todo' and new.scheduled_at is null)
    execute function agentforge.tell_of_released_lock();

-- --------------------------------------------------------------------------------------- questions

-- Question sessions. The documents are those of the files, byte for byte; the columns beside them are
-- what is looked for.

create sequence agentforge.question_changes;

create table agentforge.questions (
    id text primary key check (id ~ '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$'),
    change bigint not null default nextval('agentforge.question_changes'),
    status text not null
        check (status in ('pending', 'completed', 'rejected', 'timed_out', 'abandoned')),
    created_at timestamptz not null,
    changed_at timestamptz not null, -- as its documents say, not before created_at
    agent_session text, -- of this store; the one that goes on once this has ended
    request text not null,
    status_document text not null,
    answers text
);

create index questions_waiting on agentforge.questions (id, change, created_at)
    where status = 'pending';
create index questions_by_change on agentforge.questions (changed_at);
create index questions_by_agent_session on agentforge.questions (agent_session)
    where agent_session is not null;

-- Whoever ends a question wakes the agent session that asked it, in the same transaction, and tells
-- all who wait or look, with the id alone, when that is committed.
create function agentforge.tell_of_question() returns trigger
language plpgsql set search_path = agentforge, pg_temp as $$
begin
    if tg_op <> 'INSERT' and old.status = 'pending' and old.agent_session is not null
            and (tg_op = 'DELETE' or new.status <> 'pending') then
        perform agentforge.wake(old.agent_session);
    end if;
    if tg_op = 'DELETE' then
        perform pg_notify('agentforge_questions', old.id);
    else
        perform pg_notify('agentforge_questions', new.id);
    end if;
    return null;
end
$$;

create trigger agentforge_question_changed
    after insert or update or delete on agentforge.questions for each row
    execute function agentforge.tell_of_question();

-- Delete a session with all that this store has of it. What refers to it goes by its own keys; its
-- questions and waiting jobs know it by its id. The questions go first: the end of one wakes the
-- session, and that job goes, too.
create function agentforge.remove_session(session text, line jsonb) returns void
language sql volatile set search_path = agentforge, pg_temp as $$
    delete from questions where agent_session = session;
    delete from procrastinate_jobs where queueing_lock = session and status = 'todo';
    delete from pack_objects using pack_space
        where starts_with(key, name || '/' || session || '/');
    delete from sessions where id = session;
    insert into removals (session_id, line) values (session, line);
$$;
