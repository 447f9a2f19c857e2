-- Cold storage of sessions: whose messages left the tables for a file, and which.

-- Set while the messages of an archived session lie in a file.
ALTER TABLE session.sessions
    ADD COLUMN archive_time timestamptz,
    ADD CONSTRAINT sessions_archived_hidden CHECK (archive_time IS NULL OR state = 'hidden');
-- What the worker stores next: the sessions that are put away for longest.
CREATE INDEX sessions_archivable ON session.sessions (tenant_id, hide_time, session_id)
    WHERE is_active AND state = 'hidden' AND archive_time IS NULL;
-- What lies in cold storage, newest first.
CREATE INDEX sessions_archived ON session.sessions (tenant_id, archive_time DESC, session_id)
    WHERE is_active AND archive_time IS NOT NULL;

-- The ids that messages have in other systems stay while their messages lie in a file, so that no other message takes
-- one; they go with a purge.
ALTER TABLE session.message_external_ids
    DROP CONSTRAINT message_external_ids_message_fkey,
    ADD CONSTRAINT message_external_ids_tenant_fkey
        FOREIGN KEY (tenant_id) REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE;

CREATE TABLE session.archived_sessions (
    tenant_id uuid NOT NULL,
    session_id text NOT NULL,
    file_id uuid NOT NULL,
    -- SHA-256 of the file.
    checksum bytea NOT NULL,
    byte_count bigint NOT NULL,
    -- Messages in the file that are not deleted, which is what the tenant's usage counts.
    message_count bigint NOT NULL,
    archive_time timestamptz NOT NULL,
    archived_by text NOT NULL,
    CONSTRAINT archived_sessions_pkey PRIMARY KEY (tenant_id, session_id),
    CONSTRAINT archived_sessions_session_fkey FOREIGN KEY (tenant_id, session_id)
        REFERENCES session.sessions (tenant_id, session_id) ON DELETE CASCADE
);

-- Which session's file a message lies in, so that it is found there and erased there. What is not named here does not come
-- back.
CREATE TABLE session.archived_messages (
    tenant_id uuid NOT NULL,
    message_id uuid NOT NULL,
    session_id text NOT NULL,
    subject_id text,
    CONSTRAINT archived_messages_pkey PRIMARY KEY (tenant_id, message_id),
    CONSTRAINT archived_messages_session_fkey FOREIGN KEY (tenant_id, session_id)
        REFERENCES session.archived_sessions (tenant_id, session_id) ON DELETE CASCADE
);
CREATE INDEX archived_messages_session ON session.archived_messages (tenant_id, session_id, message_id);
CREATE INDEX archived_messages_subject ON session.archived_messages (tenant_id, subject_id, session_id)
    WHERE subject_id IS NOT NULL;

-- Files that nothing names yet, or no more: noted before a file is written, and when its session stops naming it.
CREATE TABLE session.unreferenced_files (
    tenant_id uuid NOT NULL
        CONSTRAINT unreferenced_files_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    file_id uuid NOT NULL,
    checksum bytea NOT NULL,
    -- Who may still name it; null: nobody, for something in it was purged, or it was given up.
    session_id text,
    -- From when on nobody can still be writing it.
    due_time timestamptz NOT NULL,
    CONSTRAINT unreferenced_files_pkey PRIMARY KEY (tenant_id, file_id)
);
CREATE INDEX unreferenced_files_due ON session.unreferenced_files (tenant_id, due_time);
CREATE INDEX unreferenced_files_session ON session.unreferenced_files (tenant_id, session_id) WHERE session_id IS NOT NULL;

ALTER TABLE session.archived_sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.archived_sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.archived_sessions
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE session.archived_messages ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.archived_messages FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.archived_messages
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE session.unreferenced_files ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.unreferenced_files FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.unreferenced_files
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON session.archived_sessions, session.archived_messages, session.unreferenced_files
    TO skein_session;
