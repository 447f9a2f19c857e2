-- Cold storage of sessions: whose messages left the tables for a file, and which.

-- Set while the messages of an archived session lie in a file.
ALTER TABLE session.sessions
    ADD COLUMN store_time timestamptz,
    ADD CONSTRAINT sessions_stored_archived CHECK (store_time IS NULL OR state = 'archived');
-- What the worker stores next: the sessions that are put away for longest.
CREATE INDEX sessions_storable ON session.sessions (tenant_id, archive_time, session_id)
    WHERE is_active AND state = 'archived' AND store_time IS NULL;
-- What lies in cold storage, newest first.
CREATE INDEX sessions_stored ON session.sessions (tenant_id, store_time DESC, session_id)
    WHERE is_active AND store_time IS NOT NULL;

-- The ids that messages have in other systems stay while their messages lie in a file, so that no other message takes
-- one; they go with a purge.
ALTER TABLE session.message_external_ids
    DROP CONSTRAINT message_external_ids_message_fkey,
    ADD CONSTRAINT message_external_ids_tenant_fkey
        FOREIGN KEY (tenant_id) REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE;

CREATE TABLE session.stored_sessions (
    tenant_id uuid NOT NULL,
    session_id text NOT NULL,
    file_id uuid NOT NULL,
    -- SHA-256 of the file.
    checksum bytea NOT NULL,
    byte_count bigint NOT NULL,
    -- Messages in the file that are not deleted, which is what the tenant's usage counts.
    message_count bigint NOT NULL,
    store_time timestamptz NOT NULL,
    stored_by text NOT NULL,
    CONSTRAINT stored_sessions_pkey PRIMARY KEY (tenant_id, session_id),
    CONSTRAINT stored_sessions_session_fkey FOREIGN KEY (tenant_id, session_id)
        REFERENCES session.sessions (tenant_id, session_id) ON DELETE CASCADE
);

-- Which session's file a message lies in, so that it is found there and erased there. What is not named here does not come
-- back.
CREATE TABLE session.stored_messages (
    tenant_id uuid NOT NULL,
    message_id uuid NOT NULL,
    session_id text NOT NULL,
    subject_id text,
    CONSTRAINT stored_messages_pkey PRIMARY KEY (tenant_id, message_id),
    CONSTRAINT stored_messages_session_fkey FOREIGN KEY (tenant_id, session_id)
        REFERENCES session.stored_sessions (tenant_id, session_id) ON DELETE CASCADE
);
CREATE INDEX stored_messages_session ON session.stored_messages (tenant_id, session_id, message_id);
CREATE INDEX stored_messages_subject ON session.stored_messages (tenant_id, subject_id, session_id)
    WHERE subject_id IS NOT NULL;

-- Files that nothing names yet, or no more: noted before a file is written, and when its session stops naming it.
CREATE TABLE session.leaving_files (
    tenant_id uuid NOT NULL
        CONSTRAINT leaving_files_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    file_id uuid NOT NULL,
    checksum bytea NOT NULL,
    -- Who may still name it; null: nobody, for something in it was purged, or it was given up.
    session_id text,
    -- From when on nobody can still be writing it.
    due_time timestamptz NOT NULL,
    CONSTRAINT leaving_files_pkey PRIMARY KEY (tenant_id, file_id)
);
CREATE INDEX leaving_files_due ON session.leaving_files (tenant_id, due_time);
CREATE INDEX leaving_files_session ON session.leaving_files (tenant_id, session_id) WHERE session_id IS NOT NULL;

ALTER TABLE session.stored_sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.stored_sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.stored_sessions
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE session.stored_messages ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.stored_messages FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.stored_messages
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE session.leaving_files ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.leaving_files FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.leaving_files
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON session.stored_sessions, session.stored_messages, session.leaving_files
    TO skein_session;
