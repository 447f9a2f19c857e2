-- storable_sessions --
-- Find sessions that were put away before a time and are not stored, those that are away for longest first, from after one
-- on, without those that have too many messages.
SELECT session_id, archive_time
FROM session.sessions
WHERE tenant_id = :tenant_id AND is_active AND state = 'archived' AND store_time IS NULL
    AND archive_time < :archived_before AND last_sequence <= :most_messages
    AND (archive_time, session_id) > (:after_time::timestamptz, :after_id::text)
ORDER BY archive_time, session_id
LIMIT :count;

-- list_stored_sessions --
-- Read the sessions whose messages lie in cold storage, newest first, from after one on.
SELECT own.session_id, own.title, own.store_time, own.archive_time, stored.message_count, stored.byte_count,
    stored.checksum, stored.stored_by
FROM session.sessions AS own
JOIN session.stored_sessions AS stored ON stored.tenant_id = :tenant_id AND stored.session_id = own.session_id
WHERE own.tenant_id = :tenant_id AND own.is_active AND own.store_time IS NOT NULL
    AND (own.store_time < :before_time OR own.store_time = :before_time AND own.session_id > :after_id)
    AND own.store_time <= :before_time
ORDER BY own.store_time DESC, own.session_id
LIMIT :count;

-- cold_messages --
-- Read messages of a session, deleted or not, whole rows as JSON: on their way to cold storage.
SELECT sequence, message_id, subject_id, is_active, to_jsonb(kept)::text AS row
FROM session.messages AS kept
WHERE tenant_id = :tenant_id AND session_id = :session_id AND sequence > :after
ORDER BY sequence
LIMIT :count;

-- cold_order --
-- Read places of a session, whole rows as JSON: on their way to cold storage.
SELECT sequence, to_jsonb(kept)::text AS row
FROM session.message_order AS kept
WHERE tenant_id = :tenant_id AND session_id = :session_id AND sequence > :after
ORDER BY sequence
LIMIT :count;

-- drop_messages --
-- Take messages out of the tables; the ids that they have in other systems stay theirs.
DELETE FROM session.messages
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[]);

-- warm_messages --
-- Put messages back from cold storage.
INSERT INTO session.messages
SELECT kept.*
FROM jsonb_populate_recordset(NULL::session.messages, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id;

-- warm_order --
-- Put places of messages back from cold storage.
INSERT INTO session.message_order
SELECT kept.*
FROM jsonb_populate_recordset(NULL::session.message_order, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id;

-- read_cold_messages --
-- Read rows from cold storage as what they are in the tables.
SELECT message_id, session_id, sequence, external_id, role, content, name, subject_id, agent_id, parts, tool_calls,
    tool_call_id, tool_returns, model, step_id, group_id, sender_id, offline_thread_id, metadata, create_time,
    created_by, revision, update_time, updated_by, is_active
FROM jsonb_populate_recordset(NULL::session.messages, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id;

-- insert_stored_session --
-- Note in which file a session's messages lie.
INSERT INTO session.stored_sessions
    (tenant_id, session_id, file_id, checksum, byte_count, message_count, store_time, stored_by)
VALUES (:tenant_id, :session_id, :file_id, :checksum, :byte_count, :message_count, :store_time, :stored_by);

-- insert_stored_messages --
-- Note which messages lie in a session's file.
INSERT INTO session.stored_messages (tenant_id, message_id, session_id, subject_id)
VALUES (:tenant_id, :message_id, :session_id, :subject_id);

-- mark_stored --
-- Say on a session's row since when its messages are stored; null: they are back.
UPDATE session.sessions
SET store_time = :store_time,
    -- A session that is restored is looked through again: its file may be older than its agent or subject.
    inherited_sequence = CASE WHEN :store_time::timestamptz IS NULL THEN 0 ELSE inherited_sequence END
WHERE tenant_id = :tenant_id AND session_id = :session_id;

-- get_stored_session --
-- Read in which file a session's messages lie, be the session deleted or not, and what they inherit of the session.
SELECT stored.file_id, stored.checksum, stored.byte_count, stored.message_count,
    own.is_active, own.agent_id, own.subject_id
FROM session.stored_sessions AS stored
JOIN session.sessions AS own ON own.tenant_id = :tenant_id AND own.session_id = stored.session_id
WHERE stored.tenant_id = :tenant_id AND stored.session_id = :session_id;

-- delete_stored_session --
-- Forget a session's file and what lies in it; say which file it was.
DELETE FROM session.stored_sessions
WHERE tenant_id = :tenant_id AND session_id = :session_id
RETURNING file_id, checksum;

-- stored_of_session --
-- Find the messages that lie in a session's file.
SELECT message_id
FROM session.stored_messages
WHERE tenant_id = :tenant_id AND session_id = :session_id
ORDER BY message_id
LIMIT :limit;

-- stored_named --
-- Find the sessions in whose files some messages lie.
SELECT message_id, session_id
FROM session.stored_messages
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[]);

-- next_stored_of_subject --
-- Find the next session, after one, in whose file messages of a person lie; `is_own` says whether it is the person's.
SELECT message.session_id, own.subject_id IS NOT DISTINCT FROM :subject_id::text AS is_own
FROM session.stored_messages AS message
JOIN session.sessions AS own ON own.tenant_id = :tenant_id AND own.session_id = message.session_id
WHERE message.tenant_id = :tenant_id AND message.subject_id = :subject_id AND message.session_id > :after
ORDER BY message.session_id
LIMIT 1;

-- erase_stored_messages --
-- Forget messages that lie in a file: they do not come back.
DELETE FROM session.stored_messages
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[])
RETURNING message_id;

-- insert_leaving_file --
-- Note a file that is to go unless the session that is given names it by then.
INSERT INTO session.leaving_files (tenant_id, file_id, checksum, session_id, due_time)
VALUES (:tenant_id, :file_id, :checksum, :session_id, :due_time);

-- name_file --
-- Take a file from those that are to go, for its session names it. No row comes back when it may not any more.
DELETE FROM session.leaving_files
WHERE tenant_id = :tenant_id AND file_id = :file_id AND session_id = :session_id
RETURNING file_id;

-- void_files --
-- Let no session name the files that are being written for it: something in them is being purged.
UPDATE session.leaving_files
SET session_id = NULL
WHERE tenant_id = :tenant_id AND session_id = ANY (:session_ids::text[])
RETURNING file_id, checksum;

-- due_files --
-- Find some files that are to go.
SELECT file_id, checksum
FROM session.leaving_files
WHERE tenant_id = :tenant_id AND due_time <= :at
ORDER BY due_time
LIMIT :count;

-- is_named --
-- Say whether a session names a file.
SELECT true
FROM session.stored_sessions
WHERE tenant_id = :tenant_id AND session_id = :session_id AND file_id = :file_id;

-- delete_leaving_file --
-- Forget a file that goes. No row comes back when a session names it meanwhile, or somebody else forgot it.
DELETE FROM session.leaving_files
WHERE tenant_id = :tenant_id AND file_id = :file_id
RETURNING file_id;
