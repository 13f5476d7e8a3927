-- What a title is searched by, as a goal is: its text, each letter folded, as session_rows.py has it.
-- Titles of before are folded here letter by letter, which only a few (as the sharp s) tell from that;
-- the next change of one folds it whole.

alter table agentforge.session_documents add column title_words text;

update agentforge.session_documents set title_words = lower(title)
    from agentforge.sessions where session_id = id and title is not null;

do $$
declare
    place text;
begin
    select nspname into place from pg_extension join pg_namespace on pg_namespace.oid = extnamespace
        where extname = 'pg_trgm';
    if place is not null then
        execute format('create index session_documents_by_title on agentforge.session_documents '
            'using gin (title_words %I.gin_trgm_ops)', place);
    end if;
end
$$;
