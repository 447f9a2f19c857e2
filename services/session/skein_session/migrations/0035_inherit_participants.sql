-- Messages inherit the agent and the subject of their session; those that are there already get them from the worker.

-- Messages up to this one have the session's agent and subject, where they name none of their own. Rows of the version
-- before, which does not know the column, fall behind last_sequence and are brought up by the worker's round.
ALTER TABLE session.sessions ADD COLUMN inherited_sequence bigint NOT NULL DEFAULT 0;
CREATE INDEX sessions_uninherited ON session.sessions (tenant_id, session_id)
    WHERE is_active AND inherited_sequence < last_sequence AND (agent_id IS NOT NULL OR subject_id IS NOT NULL);

-- The session service brings the search index up with its messages.
GRANT UPDATE (agent_id, subject_id) ON recall.documents TO skein_session;
