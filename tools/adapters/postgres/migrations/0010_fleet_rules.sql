-- What workers may do for those who submit is their own: one that may not run a session passes it on
-- to those that may, by a queue of their own. And what a worker says of itself when it is not well.

alter table agentforge.submissions add column needs text; -- what the last worker was not allowed
alter table agentforge.workers add column problem text; -- why it takes no sessions; null where it does

-- The queue of the looks at a session: that of its submission, or of the workers that are allowed what
-- it needs.
create function agentforge.queue_of(queue text, needs text) returns text
language sql immutable as $$
    select queue || coalesce('@' || needs, '')
$$;

create or replace function agentforge.wake(session text, at timestamptz default null) returns bigint
language sql volatile set search_path = agentforge, pg_temp as $$
    select agentforge.enqueue(id, agentforge.queue_of(submissions.queue, submissions.needs),
        submissions.priority, at)
    from submissions join sessions on id = submissions.session_id
    where id = session and state in ('active', 'paused')
$$;

create or replace function agentforge.submit(
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
