-- Pages of sessions in the order of their creation. A session is created once, so this index changes
-- with no save. Orders by what each save changes (what is left of a budget, what was spent) have no
-- index: with one, no save would stay within a page of the table (heap-only tuples).

create index sessions_by_creation on agentforge.sessions (created_at, id);
