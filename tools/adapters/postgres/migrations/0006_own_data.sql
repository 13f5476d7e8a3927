-- What a session carries for its user. Title, tags and parent are shown in listings and looked for, so
-- they are beside the head; a save writes them only where they changed, so it stays within its page
-- (heap-only tuples). Metadata and workflow state are in the words of the YAML form, as the goal is.

alter table agentforge.sessions
    add column title text,
    add column tags text[] not null default '{}',
    add column parent_id text;

alter table agentforge.session_documents
    add column metadata text not null default '',
    add column workflow_state text not null default '';

-- Sessions without tags and without a parent cost these nothing.
create index sessions_by_tag on agentforge.sessions using gin (tags) where tags <> '{}';
create index sessions_by_parent on agentforge.sessions (parent_id, id) where parent_id is not null;
