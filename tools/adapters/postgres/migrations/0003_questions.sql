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
