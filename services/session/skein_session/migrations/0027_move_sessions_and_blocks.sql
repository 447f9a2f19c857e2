-- Sessions and blocks move between spaces, with all that refers to them.
SET LOCAL lock_timeout = '5s';

GRANT UPDATE (space_id) ON session.sessions_history, session.messages_history, session.title_terms,
    session.title_terms_history TO skein_session;
GRANT UPDATE (space_id) ON recall.documents, recall.documents_history TO skein_session;
-- Who approved the messages of a session.
GRANT SELECT (tenant_id, entity_id, entity_type, space_id), UPDATE (space_id) ON memory.changes TO skein_session;
GRANT UPDATE (space_id) ON memory.block_agents_history TO skein_memory;
