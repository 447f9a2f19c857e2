-- lock_session_any --
-- Read a session, deleted or not, and lock its row.
SELECT session_id, subject_id, is_active
FROM session.sessions
WHERE tenant_id = :tenant_id AND session_id = :session_id
FOR UPDATE;

-- next_space_of_subject --
-- Find a space, among those that the call reaches, with a session or messages of a subject.
(SELECT space_id FROM session.sessions WHERE tenant_id = :tenant_id AND subject_id = :subject_id LIMIT 1)
UNION ALL
(SELECT space_id FROM session.messages WHERE tenant_id = :tenant_id AND subject_id = :subject_id LIMIT 1)
UNION ALL
(SELECT space_id FROM session.archived_messages WHERE tenant_id = :tenant_id AND subject_id = :subject_id LIMIT 1)
LIMIT 1;

-- next_space_to_export --
-- Find the first space, after one, of those that the call reaches, with a session or messages of a subject.
SELECT found.space_id
FROM (
    (SELECT space_id FROM session.sessions
     WHERE tenant_id = :tenant_id AND subject_id = :subject_id AND (:after::uuid IS NULL OR space_id > :after)
     ORDER BY space_id
     LIMIT 1)
    UNION ALL
    (SELECT space_id FROM session.messages
     WHERE tenant_id = :tenant_id AND subject_id = :subject_id AND (:after IS NULL OR space_id > :after)
     ORDER BY space_id
     LIMIT 1)
    UNION ALL
    (SELECT space_id FROM session.archived_messages
     WHERE tenant_id = :tenant_id AND subject_id = :subject_id AND (:after IS NULL OR space_id > :after)
     ORDER BY space_id
     LIMIT 1)
) AS found
ORDER BY found.space_id
LIMIT 1;

-- lock_session_of_subject --
-- Read the first of a subject's sessions, deleted or not, and lock its row.
SELECT session_id, subject_id, is_active
FROM session.sessions
WHERE tenant_id = :tenant_id AND subject_id = :subject_id
ORDER BY session_id
LIMIT 1
FOR UPDATE;

-- lock_sessions --
-- Lock sessions against changes of them and their messages. All transactions lock them in this order.
SELECT session_id
FROM session.sessions
WHERE tenant_id = :tenant_id AND session_id = ANY (:session_ids::text[])
ORDER BY session_id
FOR NO KEY UPDATE;

-- messages_to_purge --
-- Find messages of a session, deleted or not.
SELECT message_id
FROM session.messages
WHERE tenant_id = :tenant_id AND session_id = :session_id
ORDER BY sequence
LIMIT :limit;

-- messages_naming_subject --
-- Find messages of a subject, deleted or not, after another. `is_own` says whether the session is the subject's too.
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
-- Find messages by ids, deleted or archived ones too. One statement, so that it finds a message that a concurrent call
-- moves between the tables and cold storage.
SELECT message_id, session_id, false AS is_stored
FROM session.messages
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[])
    AND message_id BETWEEN :first_of_message_ids AND :last_of_message_ids
UNION ALL
SELECT message_id, session_id, true
FROM session.archived_messages
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids);

-- messages_of_external_ids --
-- Find the messages of external ids.
SELECT message_id
FROM session.message_external_ids
WHERE tenant_id = :tenant_id AND external_id = ANY (:external_ids::text[]);

-- purge_titles --
-- Clear titles of sessions that were taken from purged messages: the whole text, or its first 100 characters.
UPDATE session.sessions
SET title = NULL, revision = revision + 1
WHERE tenant_id = :tenant_id AND session_id = ANY (:session_ids::text[]) AND title IS NOT NULL
    AND EXISTS (
        SELECT FROM session.messages AS message
        WHERE message.tenant_id = :tenant_id AND message.message_id = ANY (:message_ids::uuid[])
    AND message.message_id BETWEEN :first_of_message_ids AND :last_of_message_ids
            AND message.session_id = sessions.session_id AND message.role = 'user'
            AND strpos(message.content, sessions.title) > 0
            AND (char_length(sessions.title) = 100 OR
                 btrim(message.content, E' \t\n\r\f\u0085\u00a0\u2003\u3000') = sessions.title));

-- purge_title_terms --
-- Delete the terms of cleared titles.
DELETE FROM session.title_terms
WHERE tenant_id = :tenant_id AND session_id = ANY (ARRAY(
    SELECT untitled.session_id FROM session.sessions AS untitled
    WHERE untitled.tenant_id = :tenant_id AND untitled.session_id = ANY (:session_ids::text[])
        AND untitled.title IS NULL));

-- purge_title_terms_history --
-- Purge the terms of former titles of sessions.
DELETE FROM session.title_terms_history
WHERE tenant_id = :tenant_id AND session_id = ANY (:session_ids::text[]);

-- purge_external_ids --
-- Purge the external ids of messages.
DELETE FROM session.message_external_ids
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[])
RETURNING external_id;

-- messages_known --
-- Return when messages were recorded first.
SELECT message.message_id, least(message.record_time, (
        SELECT min(former.record_time) FROM session.messages_history AS former
        WHERE former.tenant_id = :tenant_id AND former.message_id = message.message_id)) AS known_time
FROM session.messages AS message
WHERE message.tenant_id = :tenant_id AND message.message_id = ANY (:message_ids::uuid[])
    AND message.message_id BETWEEN :first_of_message_ids AND :last_of_message_ids;

-- purge_messages --
-- Purge messages.
DELETE FROM session.messages
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[])
    AND message_id BETWEEN :first_of_message_ids AND :last_of_message_ids
RETURNING message_id, session_id, sequence, is_active;

-- purge_messages_history --
-- Purge the former versions of messages.
DELETE FROM session.messages_history
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[]);

-- purge_message_order --
-- Purge the positions of messages.
DELETE FROM session.message_order
USING unnest(:session_ids::text[], :sequences::bigint[]) AS purged (session_id, sequence)
WHERE message_order.tenant_id = :tenant_id
    AND message_order.session_id = purged.session_id AND message_order.sequence = purged.sequence;

-- purge_documents --
-- Delete the documents of messages; their postings and vectors are deleted by cascade.
DELETE FROM recall.documents
WHERE tenant_id = :tenant_id AND item_id = ANY (:message_ids::uuid[]);

-- decrement_message_counts --
-- Subtract purged messages from sessions' counts, and clear the summaries that were taken from them. `counts` is zero for
-- deleted sessions.
UPDATE session.sessions
SET message_count = message_count - purged.count, summary = NULL, revision = revision + 1
FROM unnest(:session_ids::text[], :counts::bigint[]) AS purged (session_id, count)
WHERE sessions.tenant_id = :tenant_id AND sessions.session_id = purged.session_id;

-- clear_former_summaries --
-- Clear the former summaries of sessions, some of which may have been taken from purged messages.
UPDATE session.sessions_history
SET summary = NULL
WHERE tenant_id = :tenant_id AND session_id = ANY (:session_ids::text[]);

-- clear_responses --
-- Clear the saved responses that show sessions, of one space or, in a transaction of all spaces, of any: a repeated request
-- gets an empty response and has no effect.
UPDATE session.requests
SET response = '', fingerprint = '', session_id = NULL
WHERE tenant_id = :tenant_id AND session_id = ANY (:session_ids::text[])
    AND (session_space_id IS NULL OR skein.space_id() IS NULL OR session_space_id = skein.space_id());

-- detach_states_of_session --
-- Keep the states that agents have in a session as their states outside of sessions, of those that have none there.
UPDATE session.agent_states
SET session_id = '', revision = revision + 1
WHERE tenant_id = :tenant_id AND session_id = :session_id AND session_id <> ''
    AND NOT EXISTS (
        SELECT FROM session.agent_states AS own
        WHERE own.tenant_id = :tenant_id AND own.agent_id = agent_states.agent_id AND own.session_id = '');

-- purge_states_of_session --
-- Purge the agent states of a session.
DELETE FROM session.agent_states
WHERE tenant_id = :tenant_id AND session_id = :session_id AND session_id <> '';

-- purge_session --
-- Purge a session; its properties are deleted by cascade.
DELETE FROM session.sessions
WHERE tenant_id = :tenant_id AND session_id = :session_id;

-- purge_session_history --
-- Purge what is kept of a session as it was.
DELETE FROM session.sessions_history
WHERE tenant_id = :tenant_id AND session_id = :session_id;

-- sessions_of_subject --
-- Find a subject's sessions, deleted or not.
SELECT session_id
FROM session.sessions
WHERE tenant_id = :tenant_id AND subject_id = :subject_id
ORDER BY session_id
LIMIT :limit;

-- count_rows_of_sessions --
-- Count the rows of sessions, and the ledgers for a subject, each kind up to a limit; with `keeps_states` only states of agents that have another
-- outside of sessions.
SELECT
    (SELECT count(*) FROM (
        SELECT FROM session.messages
        WHERE tenant_id = :tenant_id AND session_id = ANY (:session_ids::text[]) LIMIT :limit) AS counted) AS messages,
    (SELECT count(*) FROM (
        SELECT FROM session.archived_messages
        WHERE tenant_id = :tenant_id AND session_id = ANY (:session_ids) LIMIT :limit) AS counted) AS archived_messages,
    (SELECT count(*) FROM (
        SELECT FROM session.agent_states
        WHERE tenant_id = :tenant_id AND session_id = ANY (:session_ids) AND session_id <> ''
            AND (NOT :keeps_states::boolean OR EXISTS (
                SELECT FROM session.agent_states AS own
                WHERE own.tenant_id = :tenant_id AND own.agent_id = agent_states.agent_id AND own.session_id = ''))
        LIMIT :limit) AS counted) AS states,
    (SELECT count(*) FROM (
        SELECT FROM session.items
        WHERE tenant_id = :tenant_id AND session_id = ANY (:session_ids) LIMIT :limit) AS counted) AS items,
    (SELECT count(*) FROM (
        SELECT FROM session.context_ledgers
        WHERE tenant_id = :tenant_id AND session_id = ANY (:session_ids) AND session_id <> ''
            AND subject_id IS DISTINCT FROM nullif(:subject_id::text, '')
        UNION ALL
        SELECT FROM session.context_ledgers
        WHERE tenant_id = :tenant_id AND subject_id = :subject_id AND subject_id <> ''
        LIMIT :limit) AS counted) AS ledgers;

-- count_messages_naming_subject --
-- Count the messages of a subject in other sessions, archived ones too, up to a limit.
SELECT count(*) FROM (
    SELECT FROM session.messages AS message
    WHERE message.tenant_id = :tenant_id AND message.subject_id = :subject_id
        AND NOT message.session_id = ANY (:session_ids::text[])
    UNION ALL
    SELECT FROM session.archived_messages AS message
    WHERE message.tenant_id = :tenant_id AND message.subject_id = :subject_id
        AND NOT message.session_id = ANY (:session_ids)
    LIMIT :limit) AS counted;

-- insert_erasures --
-- Insert digests of purged names, so that the memory service clears access log rows that are written later. The rows of
-- a tenant share a secret while there are any.
INSERT INTO memory.erasures (tenant_id, erasure_id, secret, digest, erase_time)
VALUES (:tenant_id, :erasure_id, :secret, :digest, :erase_time);

-- read_erasure_secret --
-- Return the secret of a tenant's records of erasures, if it has any.
SELECT earlier.secret
FROM memory.erasures AS earlier
WHERE earlier.tenant_id = :tenant_id
ORDER BY earlier.erasure_id
LIMIT 1;

-- erase_receipts_of_sessions --
-- Erase the requests of the receipts of contexts that had the recent window of some sessions, before the access log
-- forgets which these were. Receipts of contexts about other subjects lose theirs as well; with
-- a space, none of those that did not reach it.
UPDATE recall.receipts
SET request = NULL, query = NULL, request_id = '', subject_ids = '{}'
WHERE tenant_id = :tenant_id AND request IS NOT NULL AND request_id IN (
    SELECT about.request_id FROM memory.access_log AS about
    WHERE about.tenant_id = :tenant_id AND about.session_id = ANY (:session_ids::text[])
        AND about.method = 'GetRecentWindow'
        AND (:space_id::uuid IS NULL
             OR :space_id = ANY (coalesce(about.space_ids, '{00000000-0000-0000-0000-000000000000}'::uuid[]))));

-- erase_receipts_of_subject --
-- Erase the requests of the receipts that have an item about a person; a receipt's context goes with it.
UPDATE recall.receipts
SET request = NULL, query = NULL, request_id = '', subject_ids = '{}'
WHERE tenant_id = :tenant_id AND request IS NOT NULL AND receipt_id IN (
    SELECT about.receipt_id FROM recall.receipts AS about
    WHERE about.tenant_id = :tenant_id AND about.request IS NOT NULL AND :subject_id::text = ANY (about.subject_ids));

-- has_namesake --
-- Return whether a session of another space has an id.
SELECT EXISTS (
    SELECT FROM session.sessions
    WHERE tenant_id = :tenant_id AND session_id = :session_id AND space_id <> :space_id::uuid);

-- purge_access_log_of_session --
-- Clear a session's rows of the access log: names, subject, request data, client address and request id. Rows about
-- other subjects stay, because callers choose the names of sessions. With a space, so do those of calls that did not reach
-- it.
UPDATE memory.access_log
SET subject_id = NULL, session_id = NULL, claimed_session_id = NULL, request_data = NULL, client_address = NULL,
    request_id = ''
WHERE tenant_id = :tenant_id AND access_event_id = ANY (ARRAY(
    SELECT about.access_event_id FROM memory.access_log AS about
    WHERE about.tenant_id = :tenant_id AND about.session_id = :session_id
        AND (about.subject_id IS NULL OR about.subject_id = :subject_id::text)
    UNION
    SELECT claimed.access_event_id FROM memory.access_log AS claimed
    WHERE claimed.tenant_id = :tenant_id AND claimed.claimed_session_id = :session_id
        AND (claimed.subject_id IS NULL OR claimed.subject_id = :subject_id)))
    AND (:space_id::uuid IS NULL
         OR :space_id = ANY (coalesce(space_ids, '{00000000-0000-0000-0000-000000000000}'::uuid[])));

-- purge_access_log_of_subject --
-- Clear a subject's rows of the access log: names, request data, client address and request id.
UPDATE memory.access_log
SET subject_id = NULL, session_id = NULL, claimed_session_id = NULL, request_data = NULL, client_address = NULL,
    request_id = ''
WHERE tenant_id = :tenant_id AND access_event_id = ANY (ARRAY(
    SELECT about.access_event_id FROM memory.access_log AS about
    WHERE about.tenant_id = :tenant_id AND about.subject_id = :subject_id
    LIMIT :count));

-- find_sources --
-- Return which of some messages memories were made of, now or formerly.
SELECT source_id
FROM memory.sources
WHERE tenant_id = :tenant_id AND source_id = ANY (:message_ids::uuid[])
UNION
SELECT source_id
FROM memory.sources_history
WHERE tenant_id = :tenant_id AND source_id = ANY (:message_ids)
ORDER BY source_id;

-- drop_pending_memories --
-- Remove the memories that wait for approval and name purged messages as their sources.
DELETE FROM memory.pending_memories
WHERE tenant_id = :tenant_id AND source_ids && :message_ids::uuid[];

-- read_authors --
-- Read the names of the authors of messages, which may be rated.
SELECT message_id, created_by, updated_by, sender_id, name, role, agent_id
FROM session.messages
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[])
    AND message_id BETWEEN :first_of_message_ids AND :last_of_message_ids;

-- read_ratings --
-- Read the trust in sources.
SELECT source_key, trust
FROM memory.source_trust
WHERE tenant_id = :tenant_id AND source_key = ANY (:source_keys::text[]);

-- mark_sources_erased --
-- Mark messages as erased sources: of each only its trust stays.
UPDATE memory.sources
SET erased_trust = gone.trust, start_character = NULL, end_character = NULL
FROM unnest(:source_ids::uuid[], :trusts::double precision[]) AS gone (source_id, trust)
WHERE sources.tenant_id = :tenant_id AND sources.source_id = gone.source_id AND sources.erased_trust IS NULL;

-- mark_former_sources_erased --
-- Mark messages as erased among former sources.
UPDATE memory.sources_history
SET erased_trust = gone.trust, start_character = NULL, end_character = NULL
FROM unnest(:source_ids::uuid[], :trusts::double precision[]) AS gone (source_id, trust)
WHERE sources_history.tenant_id = :tenant_id AND sources_history.source_id = gone.source_id
    AND sources_history.erased_trust IS NULL;

-- note_rescores --
-- Note messages from which memories derive whose trust is to be computed again.
INSERT INTO memory.trust_work (tenant_id, memory_id, after_id)
VALUES (:tenant_id, :memory_id, :after_id)
ON CONFLICT ON CONSTRAINT trust_work_pkey DO UPDATE
SET after_id = excluded.after_id;
