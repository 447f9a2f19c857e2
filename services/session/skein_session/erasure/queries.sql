-- lock_session_any --
-- Read a session, deleted or not, and keep everybody else from it until the transaction ends.
SELECT session_id, subject_id, is_active
FROM session.sessions
WHERE tenant_id = :tenant_id AND session_id = :session_id
FOR UPDATE;

-- lock_session_of_subject --
-- Read the first of a person's sessions, deleted or not, and keep everybody else from it until the transaction ends.
SELECT session_id, subject_id, is_active
FROM session.sessions
WHERE tenant_id = :tenant_id AND subject_id = :subject_id
ORDER BY session_id
LIMIT 1
FOR UPDATE;

-- lock_sessions --
-- Keep others from changing some sessions and their messages until the transaction ends; all take them in this order.
SELECT session_id
FROM session.sessions
WHERE tenant_id = :tenant_id AND session_id = ANY (:session_ids::text[])
ORDER BY session_id
FOR NO KEY UPDATE;

-- messages_to_purge --
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

-- find_messages --
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

-- purge_titles --
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

-- purge_external_ids --
-- Remove the ids that messages have in other systems.
DELETE FROM session.message_external_ids
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[])
RETURNING external_id;

-- purge_messages --
-- Remove messages.
DELETE FROM session.messages
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[])
RETURNING message_id, session_id, sequence, is_active;

-- purge_message_order --
-- Forget the places of messages.
DELETE FROM session.message_order
WHERE tenant_id = :tenant_id
    AND (session_id, sequence) IN (SELECT place.* FROM unnest(:session_ids::text[], :sequences::bigint[]) AS place);

-- purge_documents --
-- Take messages out of the search index; their postings and vectors go with them.
DELETE FROM recall.documents
WHERE tenant_id = :tenant_id AND item_id = ANY (:message_ids::uuid[]);

-- decrement_message_counts --
-- Count sessions' messages without those that are being removed. A summary was made of them, so it goes, be it that of a
-- deleted session, whose messages are counted no more.
UPDATE session.sessions
SET message_count = message_count - gone.count, summary = NULL, revision = revision + 1
FROM unnest(:session_ids::text[], :counts::bigint[]) AS gone (session_id, count)
WHERE sessions.tenant_id = :tenant_id AND sessions.session_id = gone.session_id;

-- clear_responses --
-- Empty the stored answers that show something of some sessions: repeated, the request gets an empty answer and does
-- nothing.
UPDATE session.requests
SET response = '', fingerprint = '', session_id = NULL
WHERE tenant_id = :tenant_id AND session_id = ANY (:session_ids::text[]);

-- purge_states_of_session --
-- Remove the states that agents have in a session.
DELETE FROM session.agent_states
WHERE tenant_id = :tenant_id AND session_id = :session_id AND session_id <> '';

-- purge_session --
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

-- count_rows_of_sessions --
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

-- count_messages_naming_subject --
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

-- insert_erasures --
-- Note by digests what was erased, so that the access log loses what is recorded a moment later as well. Notes of a tenant
-- share a secret while there are any.
INSERT INTO memory.erasures (tenant_id, erasure_id, secret, digest, erase_time)
SELECT :tenant_id, erased.erasure_id, own.secret, sha256(own.secret || convert_to(erased.name, 'UTF8')),
    :erase_time::timestamptz
FROM unnest(:erasure_ids::uuid[], :names::text[]) AS erased (erasure_id, name),
    (SELECT coalesce((SELECT noted.secret FROM memory.erasures AS noted WHERE noted.tenant_id = :tenant_id
                      ORDER BY noted.erasure_id LIMIT 1), :secret::bytea) AS secret) AS own;

-- purge_access_log_of_session --
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

-- purge_access_log_of_subject --
-- Take a person out of some accesses: who it is, where they spoke, what was asked about them, and by which call.
UPDATE memory.access_log
SET subject_id = NULL, session_id = NULL, claimed_session_id = NULL, request_data = NULL, client_address = NULL,
    request_id = ''
WHERE tenant_id = :tenant_id AND access_id = ANY (ARRAY(
    SELECT about.access_id FROM memory.access_log AS about
    WHERE about.tenant_id = :tenant_id AND about.subject_id = :subject_id
    LIMIT :count));
