-- Which sessions the fleet works on, and what wakes them. The jobs are procrastinate's, whose tables
-- lie in this schema, too (schema.py puts them here): a session says what is to be done, a job only
-- that a worker should look.

create table agentforge.submissions (
    session_id text primary key references agentforge.sessions (id) on delete cascade,
    queue text not null check (length(queue) between 1 and 128),
    priority integer not null default 0,
    submitted_at timestamptz not null default now()
);

-- Enqueue a look at a session that was submitted and has not ended; nothing where one waits already.
-- Returns the job, or null.
create function agentforge.wake(session text, at timestamptz default null) returns bigint
language sql volatile set search_path = agentforge, pg_temp as $$
    insert into procrastinate_jobs
        (queue_name, task_name, priority, lock, queueing_lock, args, scheduled_at)
    select submissions.queue, 'agentforge.run_session', submissions.priority, id, id,
        jsonb_build_object('session_id', id), at
    from submissions join sessions on id = submissions.session_id
    where id = session and state in ('active', 'paused')
    on conflict (queueing_lock) where status = 'todo' do nothing
    returning id
$$;

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
