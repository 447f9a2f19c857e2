-- hold_session --
-- Read a session, deleted or not, and keep everybody else from it until the transaction ends.
SELECT session_id, subject_id, is_active
FROM session.sessions
WHERE tenant_id = :tenant_id AND session_id = :session_id
FOR UPDATE;

-- hold_session_of_subject --
-- Read the first of a person's sessions, deleted or not, and keep everybody else from it until the transaction ends.
SELECT session_id, subject_id, is_active
FROM session.sessions
WHERE tenant_id = :tenant_id AND subject_id = :subject_id
ORDER BY session_id
LIMIT 1
FOR UPDATE;

-- hold_sessions --
-- Keep others from changing some sessions and their messages until the transaction ends; all take them in this order.
SELECT session_id
FROM session.sessions
WHERE tenant_id = :tenant_id AND session_id = ANY (:session_ids::text[])
ORDER BY session_id
FOR NO KEY UPDATE;

-- messages_to_erase --
-- Find some of a session's messages, deleted or not.
SELECT message_id
FROM session.messages
WHERE tenant_id = :tenant_id AND session_id = :session_id
ORDER BY sequence
LIMIT :limit;

-- messages_naming_subject --
-- Find messages of a person, deleted or not, from after one on; `is_own` says of each whether its session is the person's
-- as well.
SELECT message.message_id, message.session_id, EXISTS (
        SELECT FROM session.sessions AS own
        WHERE own.tenant_id = :tenant_id AND own.session_id = message.session_id AND own.subject_id = :subject_id
    ) AS is_own
FROM session.messages AS message
WHERE message.tenant_id = :tenant_id AND message.subject_id = :subject_id
    AND (:after::uuid IS NULL OR message.message_id > :after)
ORDER BY message.message_id
LIMIT :limit;

-- named_messages --
-- Find messages, deleted or not, in the tables and in cold storage, by their ids: in one statement, so that one that is on
-- its way between both is found.
SELECT message_id, session_id, false AS is_stored
FROM session.messages
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[])
UNION ALL
SELECT message_id, session_id, true
FROM session.stored_messages
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids);

-- messages_of_external_ids --
-- Find the messages that hold some external ids.
SELECT message_id
FROM session.message_external_ids
WHERE tenant_id = :tenant_id AND external_id = ANY (:external_ids::text[]);

-- erase_titles --
-- Take from sessions the titles that were made of messages which go: all of a message, or its first 100 characters.
UPDATE session.sessions
SET title = NULL, revision = revision + 1
WHERE tenant_id = :tenant_id AND session_id = ANY (:session_ids::text[]) AND title IS NOT NULL
    AND EXISTS (
        SELECT FROM session.messages AS message
        WHERE message.tenant_id = :tenant_id AND message.message_id = ANY (:message_ids::uuid[])
            AND message.session_id = sessions.session_id AND message.role = 'user'
            AND strpos(message.content, sessions.title) > 0
            AND (char_length(sessions.title) = 100 OR
                 btrim(message.content, E' \t\n\r\f\u0085\u00a0\u2003\u3000') = sessions.title));

-- erase_external_ids --
-- Remove the ids that messages have in other systems.
DELETE FROM session.message_external_ids
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[])
RETURNING external_id;

-- erase_messages --
-- Remove messages.
DELETE FROM session.messages
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[])
RETURNING message_id, session_id, sequence, is_active;

-- erase_message_order --
-- Forget the places of messages.
DELETE FROM session.message_order
WHERE tenant_id = :tenant_id
    AND (session_id, sequence) IN (SELECT place.* FROM unnest(:session_ids::text[], :sequences::bigint[]) AS place);

-- erase_documents --
-- Take messages out of the search index; their postings and vectors go with them.
DELETE FROM recall.documents
WHERE tenant_id = :tenant_id AND item_id = ANY (:message_ids::uuid[]);

-- count_messages_out --
-- Count sessions' messages without those that are being removed. A summary was made of them, so it goes, be it that of a
-- deleted session, whose messages are counted no more.
UPDATE session.sessions
SET message_count = message_count - gone.count, summary = NULL, revision = revision + 1
FROM unnest(:session_ids::text[], :counts::bigint[]) AS gone (session_id, count)
WHERE sessions.tenant_id = :tenant_id AND sessions.session_id = gone.session_id;

-- empty_answers --
-- Empty the stored answers that show something of some sessions: repeated, the request gets an empty answer and does
-- nothing.
UPDATE session.requests
SET response = '', fingerprint = '', session_id = NULL
WHERE tenant_id = :tenant_id AND session_id = ANY (:session_ids::text[]);

-- erase_states_of_session --
-- Remove the states that agents have in a session.
DELETE FROM session.agent_states
WHERE tenant_id = :tenant_id AND session_id = :session_id AND session_id <> '';

-- erase_session --
-- Remove a session; what it is found by goes with it.
DELETE FROM session.sessions
WHERE tenant_id = :tenant_id AND session_id = :session_id;

-- sessions_of_subject --
-- Find a person's sessions, deleted or not.
SELECT session_id
FROM session.sessions
WHERE tenant_id = :tenant_id AND subject_id = :subject_id
ORDER BY session_id
LIMIT :limit;

-- count_of_sessions --
-- Count what some sessions have, each kind up to a number.
SELECT
    (SELECT count(*) FROM (
        SELECT FROM session.messages
        WHERE tenant_id = :tenant_id AND session_id = ANY (:session_ids::text[]) LIMIT :most) AS counted) AS messages,
    (SELECT count(*) FROM (
        SELECT FROM session.stored_messages
        WHERE tenant_id = :tenant_id AND session_id = ANY (:session_ids) LIMIT :most) AS counted) AS stored,
    (SELECT count(*) FROM (
        SELECT FROM session.agent_states
        WHERE tenant_id = :tenant_id AND session_id = ANY (:session_ids) AND session_id <> '' LIMIT :most) AS counted)
        AS states,
    (SELECT count(*) FROM (
        SELECT FROM session.items
        WHERE tenant_id = :tenant_id AND session_id = ANY (:session_ids) LIMIT :most) AS counted) AS items;

-- count_naming_subject --
-- Count the messages of a person in sessions of others, those in cold storage too, up to a number.
SELECT count(*) FROM (
    SELECT FROM session.messages AS message
    WHERE message.tenant_id = :tenant_id AND message.subject_id = :subject_id
        AND NOT message.session_id = ANY (:session_ids::text[])
    UNION ALL
    SELECT FROM session.stored_messages AS message
    WHERE message.tenant_id = :tenant_id AND message.subject_id = :subject_id
        AND NOT message.session_id = ANY (:session_ids)
    LIMIT :most) AS counted;

-- export_session --
-- Read a person's next session, deleted or not, after one.
SELECT session_id, title, state, session_type, subject_id, agent_id, metadata, summary, end_reason, message_count,
    last_sequence, revision, create_time, update_time, end_time, archive_time, archived_state, active_time, created_by,
    store_time, is_active
FROM session.sessions
WHERE tenant_id = :tenant_id AND subject_id = :subject_id AND session_id > :after
ORDER BY session_id
LIMIT 1;

-- export_messages --
-- Read messages of a session, deleted or not, from after a sequence number on.
SELECT message_id, session_id, sequence, external_id, role, content, name, subject_id, agent_id, parts, tool_calls,
    tool_call_id, tool_returns, model, step_id, group_id, sender_id, offline_thread_id, metadata, create_time,
    created_by, revision, update_time, updated_by, is_active
FROM session.messages
WHERE tenant_id = :tenant_id AND session_id = :session_id AND sequence > :after
ORDER BY sequence
LIMIT :limit;

-- export_named_messages --
-- Read messages, deleted or not, by their ids.
SELECT message_id, session_id, sequence, external_id, role, content, name, subject_id, agent_id, parts, tool_calls,
    tool_call_id, tool_returns, model, step_id, group_id, sender_id, offline_thread_id, metadata, create_time,
    created_by, revision, update_time, updated_by, is_active
FROM session.messages
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[])
ORDER BY message_id;

-- take_salt --
-- Give a tenant the salt of its tombstones, unless it has one.
INSERT INTO session.tombstone_salts (tenant_id, salt)
VALUES (:tenant_id, :salt)
ON CONFLICT ON CONSTRAINT tombstone_salts_pkey DO NOTHING;

-- read_salt --
-- Read the salt of a tenant's tombstones.
SELECT salt FROM session.tombstone_salts WHERE tenant_id = :tenant_id;

-- insert_tombstones --
-- Remember the digests of what was purged; those that are there stay.
INSERT INTO session.tombstones (tenant_id, digest, create_time)
VALUES (:tenant_id, :digest, :create_time)
ON CONFLICT ON CONSTRAINT tombstones_pkey DO NOTHING;

-- renew_tombstones --
-- Remember the digests of what was purged, and that of what is there already it was done again.
INSERT INTO session.tombstones (tenant_id, digest, create_time)
VALUES (:tenant_id, :digest, :create_time)
ON CONFLICT ON CONSTRAINT tombstones_pkey DO UPDATE SET create_time = excluded.create_time;

-- purged_names --
-- Return those of some names that belong to what was purged.
SELECT name
FROM session.tombstone_salts AS own, unnest(:names::text[]) AS name
WHERE own.tenant_id = :tenant_id
    AND EXISTS (
        SELECT FROM session.tombstones AS stone
        WHERE stone.tenant_id = :tenant_id AND stone.digest = sha256(own.salt || convert_to(name, 'UTF8')));

-- answer_about_session --
-- Keep the answer of a claimed request, with the session that it shows something of.
UPDATE session.requests
SET response = :response, session_id = :session_id
WHERE tenant_id = :tenant_id AND principal = :principal AND method = :method AND request_id = :request_id;

-- note_erasures --
-- Note by digests what was erased, so that the access log loses what is recorded a moment later as well. Notes of a tenant
-- share a secret while there are any.
INSERT INTO memory.erasures (tenant_id, erasure_id, secret, digest, erase_time)
SELECT :tenant_id, erased.erasure_id, own.secret, sha256(own.secret || convert_to(erased.name, 'UTF8')),
    :erase_time::timestamptz
FROM unnest(:erasure_ids::uuid[], :names::text[]) AS erased (erasure_id, name),
    (SELECT coalesce((SELECT noted.secret FROM memory.erasures AS noted WHERE noted.tenant_id = :tenant_id
                      ORDER BY noted.erasure_id LIMIT 1), :secret::bytea) AS secret) AS own;

-- clear_accesses_of_session --
-- Take a session out of the access log: its name, whose it was, what was asked about it, and by which call. Accesses about
-- people other than the session's own stay: callers choose the names of sessions.
UPDATE memory.access_log
SET subject_id = NULL, session_id = NULL, claimed_session_id = NULL, request_data = NULL, client_address = NULL,
    request_id = ''
WHERE tenant_id = :tenant_id AND access_id = ANY (ARRAY(
    SELECT about.access_id FROM memory.access_log AS about
    WHERE about.tenant_id = :tenant_id AND about.session_id = :session_id
        AND (about.subject_id IS NULL OR about.subject_id = :subject_id::text)
    UNION
    SELECT claimed.access_id FROM memory.access_log AS claimed
    WHERE claimed.tenant_id = :tenant_id AND claimed.claimed_session_id = :session_id
        AND (claimed.subject_id IS NULL OR claimed.subject_id = :subject_id)));

-- clear_accesses_of_subject --
-- Take a person out of some accesses: who it is, where they spoke, what was asked about them, and by which call.
UPDATE memory.access_log
SET subject_id = NULL, session_id = NULL, claimed_session_id = NULL, request_data = NULL, client_address = NULL,
    request_id = ''
WHERE tenant_id = :tenant_id AND access_id = ANY (ARRAY(
    SELECT about.access_id FROM memory.access_log AS about
    WHERE about.tenant_id = :tenant_id AND about.subject_id = :subject_id
    LIMIT :count));
