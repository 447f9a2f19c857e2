-- insert_session --
-- Insert a session; no row comes back when the id exists, even of a deleted session.
INSERT INTO session.sessions
    (tenant_id, session_id, title, state, session_type, subject_id, agent_id, metadata, summary, create_time,
     update_time, active_time, created_by)
VALUES
    (:tenant_id, :session_id, :title, :state, :session_type, :subject_id, :agent_id, :metadata, :summary,
     :create_time, :update_time, :active_time, :created_by)
ON CONFLICT ON CONSTRAINT sessions_pkey DO NOTHING
RETURNING session_id, title, state, session_type, subject_id, agent_id, metadata, summary, end_reason, message_count,
    last_sequence, revision, create_time, update_time, end_time, hide_time, hidden_state, active_time,
    created_by, archive_time;

-- insert_session_if_missing --
-- Insert a session for its first messages, unless it exists; waits for a concurrent insert of the same id.
INSERT INTO session.sessions
    (tenant_id, session_id, state, session_type, agent_id, subject_id, create_time, update_time, active_time,
     created_by)
VALUES
    (:tenant_id, :session_id, 'active', :session_type, :agent_id, :subject_id, :create_time,
     greatest(:create_time::timestamptz, :update_time::timestamptz), :active_time, :created_by)
ON CONFLICT ON CONSTRAINT sessions_pkey DO NOTHING;

-- get_session --
-- Read a session that is not deleted.
SELECT session_id, title, state, session_type, subject_id, agent_id, metadata, summary, end_reason, message_count,
    last_sequence, revision, create_time, update_time, end_time, hide_time, hidden_state, active_time,
    created_by, archive_time
FROM session.sessions
WHERE tenant_id = :tenant_id AND session_id = :session_id AND is_active;

-- space_of_session --
-- Find the space of a session, among those that the call reaches: of sessions with one id, the first one that is not deleted.
SELECT space_id
FROM session.sessions
WHERE tenant_id = :tenant_id AND session_id = :session_id
ORDER BY is_active DESC, space_id
LIMIT 1;

-- list_sessions --
-- Scan a window of sessions that are not deleted, newest update first, and return those that match. The parameters
-- `of_...` choose the index to scan; the other conditions filter within the window. At least one row comes back, with
-- the size and the end of the window. Hidden sessions have an index of their own, hence the two halves.
WITH candidates AS (
    (SELECT session_id, space_id, update_time, state, session_type, subject_id, agent_id, create_time
     FROM session.sessions
     WHERE :current::boolean AND tenant_id = :tenant_id AND is_active AND state <> 'hidden'
         AND (:of_subject_id::text IS NULL OR subject_id = :of_subject_id)
         AND (:of_agent_id::text IS NULL OR agent_id = :of_agent_id)
         AND (:of_session_type::text IS NULL OR session_type = :of_session_type AND session_type <> 'conversation')
         AND (:of_session_ids::text[] IS NULL OR session_id = ANY (:of_session_ids))
         -- The index serves the first of these two conditions.
         AND (:after_time::timestamptz IS NULL OR update_time <= :after_time)
         AND (:after_time::timestamptz IS NULL OR update_time < :after_time
             OR (session_id, space_id) > (:after_id::text, :after_space_id::uuid))
     ORDER BY update_time DESC, session_id, space_id
     LIMIT :window)
    UNION ALL
    (SELECT session_id, space_id, update_time, state, session_type, subject_id, agent_id, create_time
     FROM session.sessions
     WHERE :hidden::boolean AND tenant_id = :tenant_id AND is_active AND state = 'hidden'
         AND (:of_subject_id::text IS NULL OR subject_id = :of_subject_id)
         AND (:of_agent_id::text IS NULL OR agent_id = :of_agent_id)
         AND (:of_session_type::text IS NULL OR session_type = :of_session_type AND session_type <> 'conversation')
         AND (:of_session_ids::text[] IS NULL OR session_id = ANY (:of_session_ids))
         -- The index serves the first of these two conditions.
         AND (:after_time::timestamptz IS NULL OR update_time <= :after_time)
         AND (:after_time::timestamptz IS NULL OR update_time < :after_time
             OR (session_id, space_id) > (:after_id::text, :after_space_id::uuid))
     ORDER BY update_time DESC, session_id, space_id
     LIMIT :window)
), scanned AS MATERIALIZED (
    SELECT session_id, space_id, update_time, state, session_type, subject_id, agent_id, create_time
    FROM candidates
    ORDER BY update_time DESC, session_id, space_id
    LIMIT :window
), matching AS (
    SELECT session_id, space_id
    FROM scanned
    WHERE (:states::text[] IS NULL OR state = ANY (:states))
        AND (:session_type::text IS NULL OR session_type = :session_type)
        AND (:subject_id::text IS NULL OR subject_id = :subject_id)
        AND (:agent_id::text IS NULL OR agent_id = :agent_id)
        AND (:start_time::timestamptz IS NULL OR create_time >= :start_time)
        AND (:end_time::timestamptz IS NULL OR create_time < :end_time)
        -- Five conditions: one over arrays of paths and values was no faster.
        AND (:path_1::text IS NULL OR EXISTS (
            SELECT FROM session.session_properties AS property
            WHERE property.tenant_id = :tenant_id AND property.path = :path_1 AND property.value = :value_1
                AND property.session_id = scanned.session_id AND property.space_id = scanned.space_id))
        AND (:path_2::text IS NULL OR EXISTS (
            SELECT FROM session.session_properties AS property
            WHERE property.tenant_id = :tenant_id AND property.path = :path_2 AND property.value = :value_2
                AND property.session_id = scanned.session_id AND property.space_id = scanned.space_id))
        AND (:path_3::text IS NULL OR EXISTS (
            SELECT FROM session.session_properties AS property
            WHERE property.tenant_id = :tenant_id AND property.path = :path_3 AND property.value = :value_3
                AND property.session_id = scanned.session_id AND property.space_id = scanned.space_id))
        AND (:path_4::text IS NULL OR EXISTS (
            SELECT FROM session.session_properties AS property
            WHERE property.tenant_id = :tenant_id AND property.path = :path_4 AND property.value = :value_4
                AND property.session_id = scanned.session_id AND property.space_id = scanned.space_id))
        AND (:path_5::text IS NULL OR EXISTS (
            SELECT FROM session.session_properties AS property
            WHERE property.tenant_id = :tenant_id AND property.path = :path_5 AND property.value = :value_5
                AND property.session_id = scanned.session_id AND property.space_id = scanned.space_id))
    ORDER BY update_time DESC, session_id, space_id
    LIMIT :limit
)
SELECT edge.scanned_count, edge.newest_update_time, edge.last_time, edge.last_id, edge.last_space_id,
    page.session_id, page.space_id, page.title,
    page.state, page.session_type, page.subject_id, page.agent_id, page.metadata, page.summary, page.end_reason,
    page.message_count,
    page.last_sequence, page.revision, page.create_time, page.update_time, page.end_time, page.hide_time,
    page.archive_time, page.hidden_state, page.active_time, page.created_by
FROM (
    SELECT (SELECT count(*) FROM scanned) AS scanned_count,
        (SELECT max(update_time) FROM scanned) AS newest_update_time,
        last.update_time AS last_time, last.session_id AS last_id, last.space_id AS last_space_id
    FROM (SELECT) AS one
    LEFT JOIN LATERAL (
        SELECT update_time, session_id, space_id FROM scanned ORDER BY update_time, session_id DESC, space_id DESC LIMIT 1
    ) AS last ON true
) AS edge
LEFT JOIN (
    SELECT session.*
    FROM matching, session.sessions AS session
    WHERE session.tenant_id = :tenant_id AND session.session_id = matching.session_id
        AND session.space_id = matching.space_id
) AS page ON true
ORDER BY page.update_time DESC, page.session_id, page.space_id;

-- list_sessions_second_pass --
-- Scan a window of sessions that were updated after a time and created before another, in the order of their ids, which
-- no update changes. Returns the same columns as list_sessions.
WITH candidates AS (
    (SELECT session_id, space_id, update_time, state, session_type, subject_id, agent_id, create_time
     FROM session.sessions
     WHERE :current::boolean AND tenant_id = :tenant_id AND is_active AND state <> 'hidden'
         AND (:of_subject_id::text IS NULL OR subject_id = :of_subject_id)
         AND (:of_agent_id::text IS NULL OR agent_id = :of_agent_id)
         AND (:of_session_type::text IS NULL OR session_type = :of_session_type AND session_type <> 'conversation')
         AND (:of_session_ids::text[] IS NULL OR session_id = ANY (:of_session_ids))
         AND update_time > :updated_after AND create_time <= :created_until
         AND (session_id, space_id) > (:after_id::text, :after_space_id::uuid)
     ORDER BY session_id, space_id
     LIMIT :window)
    UNION ALL
    (SELECT session_id, space_id, update_time, state, session_type, subject_id, agent_id, create_time
     FROM session.sessions
     WHERE :hidden::boolean AND tenant_id = :tenant_id AND is_active AND state = 'hidden'
         AND (:of_subject_id::text IS NULL OR subject_id = :of_subject_id)
         AND (:of_agent_id::text IS NULL OR agent_id = :of_agent_id)
         AND (:of_session_type::text IS NULL OR session_type = :of_session_type AND session_type <> 'conversation')
         AND (:of_session_ids::text[] IS NULL OR session_id = ANY (:of_session_ids))
         AND update_time > :updated_after AND create_time <= :created_until
         AND (session_id, space_id) > (:after_id::text, :after_space_id::uuid)
     ORDER BY session_id, space_id
     LIMIT :window)
), scanned AS MATERIALIZED (
    SELECT session_id, space_id, update_time, state, session_type, subject_id, agent_id, create_time
    FROM candidates
    ORDER BY session_id, space_id
    LIMIT :window
), matching AS (
    SELECT session_id, space_id
    FROM scanned
    WHERE (:states::text[] IS NULL OR state = ANY (:states))
        AND (:session_type::text IS NULL OR session_type = :session_type)
        AND (:subject_id::text IS NULL OR subject_id = :subject_id)
        AND (:agent_id::text IS NULL OR agent_id = :agent_id)
        AND (:start_time::timestamptz IS NULL OR create_time >= :start_time)
        AND (:end_time::timestamptz IS NULL OR create_time < :end_time)
        AND (:path_1::text IS NULL OR EXISTS (
            SELECT FROM session.session_properties AS property
            WHERE property.tenant_id = :tenant_id AND property.path = :path_1 AND property.value = :value_1
                AND property.session_id = scanned.session_id AND property.space_id = scanned.space_id))
        AND (:path_2::text IS NULL OR EXISTS (
            SELECT FROM session.session_properties AS property
            WHERE property.tenant_id = :tenant_id AND property.path = :path_2 AND property.value = :value_2
                AND property.session_id = scanned.session_id AND property.space_id = scanned.space_id))
        AND (:path_3::text IS NULL OR EXISTS (
            SELECT FROM session.session_properties AS property
            WHERE property.tenant_id = :tenant_id AND property.path = :path_3 AND property.value = :value_3
                AND property.session_id = scanned.session_id AND property.space_id = scanned.space_id))
        AND (:path_4::text IS NULL OR EXISTS (
            SELECT FROM session.session_properties AS property
            WHERE property.tenant_id = :tenant_id AND property.path = :path_4 AND property.value = :value_4
                AND property.session_id = scanned.session_id AND property.space_id = scanned.space_id))
        AND (:path_5::text IS NULL OR EXISTS (
            SELECT FROM session.session_properties AS property
            WHERE property.tenant_id = :tenant_id AND property.path = :path_5 AND property.value = :value_5
                AND property.session_id = scanned.session_id AND property.space_id = scanned.space_id))
    ORDER BY session_id, space_id
    LIMIT :limit
)
SELECT edge.scanned_count, edge.newest_update_time, edge.last_time, edge.last_id, edge.last_space_id,
    page.session_id, page.space_id, page.title,
    page.state, page.session_type, page.subject_id, page.agent_id, page.metadata, page.summary, page.end_reason,
    page.message_count,
    page.last_sequence, page.revision, page.create_time, page.update_time, page.end_time, page.hide_time,
    page.archive_time, page.hidden_state, page.active_time, page.created_by
FROM (
    SELECT (SELECT count(*) FROM scanned) AS scanned_count,
        (SELECT max(update_time) FROM scanned) AS newest_update_time,
        NULL::timestamptz AS last_time, last.session_id AS last_id, last.space_id AS last_space_id
    FROM (SELECT) AS one
    LEFT JOIN LATERAL (
        SELECT session_id, space_id FROM scanned ORDER BY session_id DESC, space_id DESC LIMIT 1
    ) AS last ON true
) AS edge
LEFT JOIN (
    SELECT session.*
    FROM matching, session.sessions AS session
    WHERE session.tenant_id = :tenant_id AND session.session_id = matching.session_id
        AND session.space_id = matching.space_id
) AS page ON true
ORDER BY page.session_id, page.space_id;

-- sessions_with_property --
-- Find sessions that have a property, up to a limit.
SELECT session_id
FROM session.session_properties
WHERE tenant_id = :tenant_id AND path = :path AND value = :value
LIMIT :count;

-- insert_session_properties --
-- Insert the properties that lists filter by.
INSERT INTO session.session_properties (tenant_id, path, value, session_id)
VALUES (:tenant_id, :path, :value, :session_id);

-- delete_session_properties --
-- Delete a session's properties.
DELETE FROM session.session_properties
WHERE tenant_id = :tenant_id AND session_id = :session_id;

-- analyse_title --
-- Return the terms of a title.
SELECT term.lexeme
FROM unnest(to_tsvector(('pg_catalog.' || :language::text)::regconfig, :title::text)) AS term;

-- insert_title_terms --
-- Insert terms of a session's title.
INSERT INTO session.title_terms (tenant_id, term, session_id)
VALUES (:tenant_id, :term, :session_id);

-- delete_title_terms --
-- Delete the terms of a session's title.
DELETE FROM session.title_terms
WHERE tenant_id = :tenant_id AND session_id = :session_id;

-- update_session --
-- Change the listed fields; no row comes back when the session is missing, has another revision (0 is any), or is
-- closed and `fields` has its state.
UPDATE session.sessions
SET title = CASE WHEN 'title' = ANY (:fields::text[]) THEN :title ELSE title END,
    state = CASE WHEN 'state' = ANY (:fields::text[]) THEN :state ELSE state END,
    session_type = CASE WHEN 'session_type' = ANY (:fields::text[]) THEN :session_type ELSE session_type END,
    subject_id = CASE WHEN 'subject_id' = ANY (:fields::text[]) THEN :subject_id ELSE subject_id END,
    agent_id = CASE WHEN 'agent_id' = ANY (:fields::text[]) THEN :agent_id ELSE agent_id END,
    metadata = CASE WHEN 'metadata' = ANY (:fields::text[]) THEN :metadata ELSE metadata END,
    summary = CASE WHEN 'summary' = ANY (:fields::text[]) THEN :summary ELSE summary END,
    revision = revision + 1,
    update_time = greatest(update_time, :at),
    -- Messages without an agent or subject inherit the first that the session gets.
    inherited_sequence = CASE
        WHEN 'agent_id' = ANY (:fields::text[]) AND agent_id IS NULL AND :agent_id IS NOT NULL THEN 0
        WHEN 'subject_id' = ANY (:fields::text[]) AND subject_id IS NULL AND :subject_id IS NOT NULL THEN 0
        ELSE inherited_sequence END,
    -- Resuming a session restarts its idle time.
    active_time = CASE WHEN 'state' = ANY (:fields::text[]) AND :state = 'active' AND state <> 'active'
        THEN greatest(active_time, :at) ELSE active_time END
WHERE tenant_id = :tenant_id AND session_id = :session_id AND is_active
    AND (:revision::bigint = 0 OR revision = :revision)
    AND NOT (state IN ('ended', 'hidden') AND 'state' = ANY (:fields::text[]))
RETURNING session_id, title, state, session_type, subject_id, agent_id, metadata, summary, end_reason, message_count,
    last_sequence, revision, create_time, update_time, end_time, hide_time, hidden_state, active_time,
    created_by, archive_time,
    inherited_sequence < last_sequence AND (agent_id IS NOT NULL OR subject_id IS NOT NULL) AS has_uninherited;

-- lock_session --
-- Read a session that is not deleted, and lock its row against changes of it and its messages.
SELECT session_id, title, state, session_type, subject_id, agent_id, metadata, summary, end_reason, message_count,
    last_sequence, revision, create_time, update_time, end_time, hide_time, hidden_state, active_time,
    created_by, archive_time
FROM session.sessions
WHERE tenant_id = :tenant_id AND session_id = :session_id AND is_active
FOR NO KEY UPDATE;

-- set_session_state --
-- Set the state of a session that the transaction has locked. Null keeps end_time, end_reason and summary.
UPDATE session.sessions
SET state = :state,
    hidden_state = :hidden_state,
    hide_time = :hide_time,
    end_time = coalesce(:end_time, end_time),
    end_reason = coalesce(:end_reason, end_reason),
    summary = coalesce(:summary, summary),
    active_time = CASE WHEN :state = 'active' THEN greatest(active_time, :at) ELSE active_time END,
    revision = revision + 1,
    update_time = greatest(update_time, :at)
WHERE tenant_id = :tenant_id AND session_id = :session_id
RETURNING session_id, title, state, session_type, subject_id, agent_id, metadata, summary, end_reason, message_count,
    last_sequence, revision, create_time, update_time, end_time, hide_time, hidden_state, active_time,
    created_by, archive_time;

-- end_idle_sessions --
-- End active sessions that were last used before a time, longest idle first; sessions that are used concurrently stay.
UPDATE session.sessions
SET state = 'ended', end_time = :at, end_reason = 'idle', revision = revision + 1,
    update_time = greatest(update_time, :at)
WHERE tenant_id = :tenant_id AND is_active AND state = 'active' AND active_time <= :idle_cutoff
    AND session_id IN (
        SELECT session_id FROM session.sessions
        WHERE tenant_id = :tenant_id AND is_active AND state = 'active' AND active_time <= :idle_cutoff
        ORDER BY active_time
        LIMIT :count
        FOR NO KEY UPDATE SKIP LOCKED);

-- delete_session --
-- Delete a session, whose row keeps the id. No row comes back when it is deleted already. The lock keeps out concurrent
-- appends and deletions.
UPDATE session.sessions
SET is_active = false, revision = revision + 1, update_time = greatest(update_time, :at)
WHERE tenant_id = :tenant_id AND session_id = :session_id AND is_active
RETURNING session_id;

-- id_range_of_session --
-- Read the lowest and the highest message id of a session, which limit later statements to the partitions of its
-- months.
SELECT
    (SELECT message_id FROM session.message_order
     WHERE tenant_id = :tenant_id AND session_id = :session_id ORDER BY message_id LIMIT 1) AS lowest,
    (SELECT message_id FROM session.message_order
     WHERE tenant_id = :tenant_id AND session_id = :session_id ORDER BY message_id DESC LIMIT 1) AS highest;

-- delete_messages_of_session --
-- Delete all messages of a session.
UPDATE session.messages
SET is_active = false
WHERE tenant_id = :tenant_id AND session_id = :session_id AND is_active
    AND message_id BETWEEN :lowest AND :highest;

-- delete_order_of_session --
-- Delete the positions of a session's messages; each message keeps its sequence number.
DELETE FROM session.message_order
WHERE tenant_id = :tenant_id AND session_id = :session_id;

-- delete_documents_of_session --
-- Delete the documents of a session's messages; their postings and vectors are deleted by cascade.
DELETE FROM recall.documents
WHERE tenant_id = :tenant_id AND session_id = :session_id AND kind = 'message';

-- lock_session_to_move --
-- Lock a session, deleted or not, against changes of it and of what refers to it.
SELECT session_id
FROM session.sessions
WHERE tenant_id = :tenant_id AND session_id = :session_id
FOR UPDATE;

-- move_session --
-- Put a session with all that refers to it into a space. In one statement, because the keys of all these rows have the
-- space. The transaction sees both spaces.
WITH own AS MATERIALIZED (
    SELECT message_id FROM session.messages
    WHERE tenant_id = :tenant_id AND session_id = :session_id AND space_id = :source_id
    UNION ALL
    SELECT message_id FROM session.archived_messages
    WHERE tenant_id = :tenant_id AND session_id = :session_id AND space_id = :source_id
), of_session AS (
    UPDATE session.sessions
    SET space_id = :space_id
    WHERE tenant_id = :tenant_id AND session_id = :session_id AND space_id = :source_id
), former AS (
    UPDATE session.sessions_history
    SET space_id = :space_id
    WHERE tenant_id = :tenant_id AND session_id = :session_id AND space_id = :source_id
), messages AS (
    UPDATE session.messages
    SET space_id = :space_id
    WHERE tenant_id = :tenant_id AND session_id = :session_id AND space_id = :source_id
), former_messages AS (
    UPDATE session.messages_history
    SET space_id = :space_id
    WHERE tenant_id = :tenant_id AND session_id = :session_id AND space_id = :source_id
), positions AS (
    UPDATE session.message_order
    SET space_id = :space_id
    WHERE tenant_id = :tenant_id AND session_id = :session_id AND space_id = :source_id
), names AS (
    UPDATE session.message_external_ids
    SET space_id = :space_id
    WHERE tenant_id = :tenant_id AND message_id IN (SELECT message_id FROM own) AND space_id = :source_id
), properties AS (
    UPDATE session.session_properties
    SET space_id = :space_id
    WHERE tenant_id = :tenant_id AND session_id = :session_id AND space_id = :source_id
), terms AS (
    UPDATE session.title_terms
    SET space_id = :space_id
    WHERE tenant_id = :tenant_id AND session_id = :session_id AND space_id = :source_id
), former_terms AS (
    UPDATE session.title_terms_history
    SET space_id = :space_id
    WHERE tenant_id = :tenant_id AND session_id = :session_id AND space_id = :source_id
), states AS (
    UPDATE session.agent_states
    SET space_id = :space_id
    WHERE tenant_id = :tenant_id AND session_id = :session_id AND space_id = :source_id
), items AS (
    UPDATE session.items
    SET space_id = :space_id
    WHERE tenant_id = :tenant_id AND session_id = :session_id AND space_id = :source_id
), files AS (
    UPDATE session.archived_sessions
    SET space_id = :space_id
    WHERE tenant_id = :tenant_id AND session_id = :session_id AND space_id = :source_id
), pending_files AS (
    UPDATE session.unreferenced_files
    SET space_id = :space_id
    WHERE tenant_id = :tenant_id AND session_id = :session_id AND space_id = :source_id
), stored_messages AS (
    UPDATE session.archived_messages
    SET space_id = :space_id
    WHERE tenant_id = :tenant_id AND session_id = :session_id AND space_id = :source_id
), queued AS (
    UPDATE session.extractions
    SET space_id = :space_id
    WHERE tenant_id = :tenant_id AND session_id = :session_id AND space_id = :source_id
), queued_messages AS (
    UPDATE session.extraction_messages
    SET space_id = :space_id
    WHERE tenant_id = :tenant_id AND message_id IN (SELECT message_id FROM own)
), failures AS (
    UPDATE session.extraction_failures
    SET space_id = :space_id
    WHERE tenant_id = :tenant_id AND message_id IN (SELECT message_id FROM own)
), documents AS (
    UPDATE recall.documents
    SET space_id = :space_id
    WHERE tenant_id = :tenant_id AND session_id = :session_id AND space_id = :source_id AND kind = 'message'
), former_documents AS (
    UPDATE recall.documents_history
    SET space_id = :space_id
    WHERE tenant_id = :tenant_id AND session_id = :session_id AND space_id = :source_id AND kind = 'message'
), events AS (
    UPDATE memory.changes
    SET space_id = :space_id
    WHERE tenant_id = :tenant_id AND entity_id IN (SELECT message_id::text FROM own) AND entity_type = 'message'
)
UPDATE session.requests
SET session_space_id = :space_id
WHERE tenant_id = :tenant_id AND session_id = :session_id AND session_space_id = :source_id;

-- lock_session_shared --
-- Read a session that is not deleted, and lock its row against deletion.
SELECT session_id
FROM session.sessions
WHERE tenant_id = :tenant_id AND session_id = :session_id AND is_active
FOR SHARE;

-- next_session_to_inherit --
-- Lock and read one session that has messages without its agent or subject; locked sessions are skipped.
SELECT session_id, agent_id, subject_id, inherited_sequence, last_sequence
FROM session.sessions
WHERE tenant_id = :tenant_id AND is_active AND inherited_sequence < last_sequence
    AND (agent_id IS NOT NULL OR subject_id IS NOT NULL)
    AND (:session_id::text IS NULL OR session_id = :session_id)
ORDER BY session_id
LIMIT 1
FOR NO KEY UPDATE SKIP LOCKED;

-- inherit_messages --
-- Set the session's agent and subject on messages without.
UPDATE session.messages
SET agent_id = coalesce(agent_id, :agent_id), subject_id = coalesce(subject_id, :subject_id)
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[])
    AND (agent_id IS NULL OR subject_id IS NULL);

-- inherit_documents --
-- Set the session's agent and subject on documents without.
UPDATE recall.documents
SET agent_id = coalesce(agent_id, :agent_id), subject_id = coalesce(subject_id, :subject_id)
WHERE tenant_id = :tenant_id AND item_id = ANY (:message_ids::uuid[]) AND kind = 'message'
    AND (agent_id IS NULL OR subject_id IS NULL);

-- mark_inherited --
-- Set the sequence number up to which a session's messages have its agent and subject.
UPDATE session.sessions
SET inherited_sequence = :sequence
WHERE tenant_id = :tenant_id AND session_id = :session_id;
