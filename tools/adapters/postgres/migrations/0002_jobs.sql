-- Which sessions the fleet works on, and what wakes them. The jobs are procrastinate's, whose tables
-- lie in this schema, too (schema.py puts them here): a session says what is to be done, a job only
-- that a worker should look.

-- How often the session was taken by a worker. The last one to take it is the one whose saves count.
alter table agentforge.sessions add column claims bigint not null default 0;

create table agentforge.submissions (
    session_id text primary key references agentforge.sessions (id) on delete cascade,
    queue text not null check (length(queue) between 1 and 128),
    priority integer not null default 0,
    submitted_at timestamptz not null default now(),
    failures integer not null default 0, -- looks in a row that ended without the phase passed
    failed_phase text,
    failed_for text
) with (fillfactor = 80);

-- Who the workers are that procrastinate knows by a number; for people.
create table agentforge.workers (
    worker_id bigint primary key references agentforge.procrastinate_workers (id) on delete cascade,
    host text not null,
    pid integer not null,
    concurrency integer not null,
    queues text[] not null,
    version text not null,
    started_at timestamptz not null default now()
);

-- Enqueue a look at a session; where one waits already, that one. Returns the job, or null.
create function agentforge.enqueue(session text, queue text, priority integer, at timestamptz)
returns bigint
language sql volatile set search_path = agentforge, pg_temp as $$
    insert into procrastinate_jobs
        (queue_name, task_name, priority, lock, queueing_lock, args, scheduled_at)
    values (queue, 'agentforge.run_session', priority, session, session,
        jsonb_build_object('session_id', session), at)
    on conflict (queueing_lock) where status = 'todo' do nothing
    returning id
$$;

-- Enqueue a look at a session that was submitted and has not ended; nothing where one waits already.
-- Returns the job, or null.
create function agentforge.wake(session text, at timestamptz default null) returns bigint
language sql volatile set search_path = agentforge, pg_temp as $$
    select agentforge.enqueue(id, submissions.queue, submissions.priority, at)
    from submissions join sessions on id = submissions.session_id
    where id = session and state in ('active', 'paused')
$$;

-- Have the fleet work on a session from now on. A look that waits already waits in this queue then.
create function agentforge.submit(session text, queue text, priority integer, at timestamptz)
returns bigint
language plpgsql volatile set search_path = agentforge, pg_temp as $$
begin
    insert into submissions (session_id, queue, priority) values (session, $2, $3)
    on conflict (session_id) do update set queue = excluded.queue, priority = excluded.priority,
        submitted_at = now(), failures = 0, failed_phase = null, failed_for = null;
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
    after update of status on agentforge.procrastinate_jobs for each row
    when (old.status in ('doing', 'failed') and new.status <> 'doing'
        and (new.lock is not null or new.status = 'todo'))
    execute function agentforge.tell_of_released_lock();
