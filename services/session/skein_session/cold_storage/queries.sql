-- archivable_sessions --
-- Find sessions that were hidden before a time and are not archived, longest hidden first, after another session.
-- Sessions with too many messages are left out.
SELECT session_id, hide_time
FROM session.sessions
WHERE tenant_id = :tenant_id AND is_active AND state = 'hidden' AND archive_time IS NULL
    AND hide_time < :hidden_before AND last_sequence <= :max_messages
    AND (hide_time, session_id) > (:after_time::timestamptz, :after_id::text)
ORDER BY hide_time, session_id
LIMIT :count;

-- list_archived_sessions --
-- Read archived sessions, newest first, after another session.
SELECT own.session_id, own.title, own.archive_time, own.hide_time, stored.message_count, stored.byte_count,
    stored.checksum, stored.archived_by
FROM session.sessions AS own
JOIN session.archived_sessions AS stored ON stored.tenant_id = :tenant_id AND stored.session_id = own.session_id
    AND stored.space_id = own.space_id
WHERE own.tenant_id = :tenant_id AND own.is_active AND own.archive_time IS NOT NULL
    AND (own.archive_time < :before_time OR own.archive_time = :before_time AND own.session_id > :after_id)
    AND own.archive_time <= :before_time
ORDER BY own.archive_time DESC, own.session_id
LIMIT :count;

-- messages_to_archive --
-- Read messages of a session, deleted or not, as JSON of whole rows without their space, which is the session's.
SELECT sequence, message_id, subject_id, is_active, (to_jsonb(archived) - 'space_id')::text AS row
FROM session.messages AS archived
WHERE tenant_id = :tenant_id AND session_id = :session_id AND sequence > :after
ORDER BY sequence
LIMIT :count;

-- order_to_archive --
-- Read positions of a session as JSON of whole rows without their space.
SELECT sequence, (to_jsonb(archived) - 'space_id')::text AS row
FROM session.message_order AS archived
WHERE tenant_id = :tenant_id AND session_id = :session_id AND sequence > :after
ORDER BY sequence
LIMIT :count;

-- delete_archived_messages --
-- Delete messages that are archived; they keep their external ids.
DELETE FROM session.messages
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[])
    AND message_id BETWEEN :first_of_message_ids AND :last_of_message_ids;

-- unarchive_messages --
-- Insert messages from cold storage into the space of the transaction, which is their session's. On Citus, ON CONFLICT also
-- keeps the rows from being sent as a COPY, which row-level security refuses.
INSERT INTO session.messages
SELECT archived.*
FROM jsonb_populate_recordset(
    jsonb_populate_record(NULL::session.messages, jsonb_build_object('space_id', skein.space_id())), :rows::jsonb
) AS archived
WHERE archived.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- unarchive_order --
-- Insert positions from cold storage into the space of the transaction, as the messages.
INSERT INTO session.message_order
SELECT archived.*
FROM jsonb_populate_recordset(
    jsonb_populate_record(NULL::session.message_order, jsonb_build_object('space_id', skein.space_id())), :rows::jsonb
) AS archived
WHERE archived.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- parse_archived_messages --
-- Convert rows from cold storage into rows of session.messages.
SELECT message_id, session_id, sequence, external_id, role, content, name, subject_id, agent_id, parts, tool_calls,
    tool_call_id, tool_returns, model, step_id, group_id, sender_id, offline_thread_id, metadata, create_time,
    created_by, revision, update_time, updated_by, pending_approval, is_active
FROM jsonb_populate_recordset(NULL::session.messages, :rows::jsonb) AS archived
WHERE archived.tenant_id = :tenant_id;

-- insert_archived_session --
-- Store which file has a session's messages.
INSERT INTO session.archived_sessions
    (tenant_id, session_id, file_id, checksum, byte_count, message_count, archive_time, archived_by)
VALUES (:tenant_id, :session_id, :file_id, :checksum, :byte_count, :message_count, :archive_time, :archived_by);

-- insert_archived_messages --
-- Store which messages a session's file has.
INSERT INTO session.archived_messages (tenant_id, message_id, session_id, subject_id)
VALUES (:tenant_id, :message_id, :session_id, :subject_id);

-- mark_archived --
-- Set the time at which a session was archived; null when it is unarchived.
UPDATE session.sessions
SET archive_time = :archive_time,
    -- The file may be older than the agent or subject, so all messages of an unarchived session inherit again.
    inherited_sequence = CASE WHEN :archive_time::timestamptz IS NULL THEN 0 ELSE inherited_sequence END
WHERE tenant_id = :tenant_id AND session_id = :session_id;

-- get_archived_session --
-- Read the file of a session, deleted or not, and the agent and subject that its messages inherit.
SELECT stored.file_id, stored.checksum, stored.byte_count, stored.message_count,
    own.is_active, own.agent_id, own.subject_id
FROM session.archived_sessions AS stored
JOIN session.sessions AS own ON own.tenant_id = :tenant_id AND own.session_id = stored.session_id
    AND own.space_id = stored.space_id
WHERE stored.tenant_id = :tenant_id AND stored.session_id = :session_id;

-- delete_archived_session --
-- Unlink a session's file with the list of its messages; return the file.
DELETE FROM session.archived_sessions
WHERE tenant_id = :tenant_id AND session_id = :session_id
RETURNING file_id, checksum;

-- messages_of_archive --
-- Find the messages of a session's file.
SELECT message_id
FROM session.archived_messages
WHERE tenant_id = :tenant_id AND session_id = :session_id
ORDER BY message_id
LIMIT :limit;

-- find_archived_messages --
-- Find the sessions whose files have some messages.
SELECT message_id, session_id
FROM session.archived_messages
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[]);

-- next_archived_of_subject --
-- Find the next session, after another, with archived messages of a subject; `is_own` says whether it is the subject's.
SELECT message.session_id, own.subject_id IS NOT DISTINCT FROM :subject_id::text AS is_own
FROM session.archived_messages AS message
JOIN session.sessions AS own ON own.tenant_id = :tenant_id AND own.session_id = message.session_id
    AND own.space_id = message.space_id
WHERE message.tenant_id = :tenant_id AND message.subject_id = :subject_id AND message.session_id > :after
ORDER BY message.session_id
LIMIT 1;

-- purge_archived_messages --
-- Purge archived messages: unarchiving leaves them out.
DELETE FROM session.archived_messages
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[])
RETURNING message_id;

-- insert_pending_file --
-- Insert a file that is deleted when due, unless its session is linked to it before.
INSERT INTO session.unreferenced_files (tenant_id, file_id, checksum, session_id, due_time)
VALUES (:tenant_id, :file_id, :checksum, :session_id, :due_time);

-- link_file --
-- Turn a pending file into a linked one. No row comes back when the file was cancelled or deleted.
DELETE FROM session.unreferenced_files
WHERE tenant_id = :tenant_id AND file_id = :file_id AND session_id = :session_id
RETURNING file_id;

-- cancel_files --
-- Keep pending files of sessions from being linked, because a purge concerns their contents.
UPDATE session.unreferenced_files
SET session_id = NULL
WHERE tenant_id = :tenant_id AND session_id = ANY (:session_ids::text[])
RETURNING file_id, checksum;

-- list_due_files --
-- Find some files that are due for deletion.
SELECT file_id, checksum
FROM session.unreferenced_files
WHERE tenant_id = :tenant_id AND due_time <= :at
ORDER BY due_time
LIMIT :count;

-- is_linked --
-- Return true when a session is linked to a file.
SELECT true
FROM session.archived_sessions
WHERE tenant_id = :tenant_id AND session_id = :session_id AND file_id = :file_id;

-- delete_pending_file --
-- Delete a pending file. No row comes back when a concurrent call has linked or deleted it.
DELETE FROM session.unreferenced_files
WHERE tenant_id = :tenant_id AND file_id = :file_id
RETURNING file_id;
