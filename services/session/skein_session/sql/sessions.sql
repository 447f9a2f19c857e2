-- insert_session --
-- Open a session; no row comes back when the id is taken, be it by a deleted session.
INSERT INTO session.sessions
    (tenant_id, session_id, title, state, session_type, subject_id, agent_id, metadata, summary, create_time,
     update_time, created_by)
VALUES
    (:tenant_id, :session_id, :title, :state, :session_type, :subject_id, :agent_id, :metadata, :summary,
     :create_time, :update_time, :created_by)
ON CONFLICT ON CONSTRAINT sessions_pkey DO NOTHING
RETURNING session_id, title, state, session_type, subject_id, agent_id, metadata, summary, end_reason, message_count,
    last_sequence, revision, create_time, update_time, end_time, created_by;

-- open_session --
-- Open a session for its first messages, unless somebody did; one that is being opened by another call is waited for.
INSERT INTO session.sessions
    (tenant_id, session_id, state, session_type, agent_id, create_time, update_time, created_by)
VALUES (:tenant_id, :session_id, 'active', :session_type, :agent_id, :at, :at, :created_by)
ON CONFLICT ON CONSTRAINT sessions_pkey DO NOTHING;

-- get_session --
-- Read a session that is not deleted.
SELECT session_id, title, state, session_type, subject_id, agent_id, metadata, summary, end_reason, message_count,
    last_sequence, revision, create_time, update_time, end_time, created_by
FROM session.sessions
WHERE tenant_id = :tenant_id AND session_id = :session_id AND is_active;

-- list_sessions --
-- Read sessions that are not deleted, newest update first, from after a place down to a floor.
SELECT session_id, title, state, session_type, subject_id, agent_id, metadata, summary, end_reason, message_count,
    last_sequence, revision, create_time, update_time, end_time, created_by
FROM session.sessions
WHERE tenant_id = :tenant_id AND is_active
    AND (:state::text IS NULL OR state = :state)
    AND (:subject_id::text IS NULL OR subject_id = :subject_id)
    AND (:agent_id::text IS NULL OR agent_id = :agent_id)
    AND (:floor::timestamptz IS NULL OR update_time > :floor)
    -- The first of these two is what the index can use.
    AND (:after_time::timestamptz IS NULL OR update_time <= :after_time)
    AND (:after_time::timestamptz IS NULL OR update_time < :after_time OR session_id > :after_id::text)
ORDER BY update_time DESC, session_id
LIMIT :limit;

-- update_session --
-- Change the fields named; no row comes back when the session is gone, has another revision than the one given (0 is
-- any), or has ended and would change its state.
UPDATE session.sessions
SET title = CASE WHEN 'title' = ANY (:fields::text[]) THEN :title ELSE title END,
    state = CASE WHEN 'state' = ANY (:fields::text[]) THEN :state ELSE state END,
    session_type = CASE WHEN 'session_type' = ANY (:fields::text[]) THEN :session_type ELSE session_type END,
    subject_id = CASE WHEN 'subject_id' = ANY (:fields::text[]) THEN :subject_id ELSE subject_id END,
    agent_id = CASE WHEN 'agent_id' = ANY (:fields::text[]) THEN :agent_id ELSE agent_id END,
    metadata = CASE WHEN 'metadata' = ANY (:fields::text[]) THEN :metadata ELSE metadata END,
    summary = CASE WHEN 'summary' = ANY (:fields::text[]) THEN :summary ELSE summary END,
    revision = revision + 1,
    update_time = greatest(update_time, :at)
WHERE tenant_id = :tenant_id AND session_id = :session_id AND is_active
    AND (:revision::bigint = 0 OR revision = :revision)
    AND NOT (state IN ('ended', 'archived') AND 'state' = ANY (:fields::text[]))
RETURNING session_id, title, state, session_type, subject_id, agent_id, metadata, summary, end_reason, message_count,
    last_sequence, revision, create_time, update_time, end_time, created_by;

-- end_session --
-- Close a session; no row comes back when it is gone or closed already.
UPDATE session.sessions
SET state = 'ended',
    end_time = :at,
    end_reason = :end_reason,
    summary = coalesce(:summary, summary),
    revision = revision + 1,
    update_time = greatest(update_time, :at)
WHERE tenant_id = :tenant_id AND session_id = :session_id AND is_active AND state NOT IN ('ended', 'archived')
RETURNING session_id, title, state, session_type, subject_id, agent_id, metadata, summary, end_reason, message_count,
    last_sequence, revision, create_time, update_time, end_time, created_by;

-- delete_session --
-- Take a session away; its row keeps the id. No row comes back when it is gone already. The row's lock keeps appends and
-- deletions out until the transaction ends.
UPDATE session.sessions
SET is_active = false, revision = revision + 1, update_time = greatest(update_time, :at)
WHERE tenant_id = :tenant_id AND session_id = :session_id AND is_active
RETURNING session_id;

-- id_range_of_session --
-- Read the lowest and the highest message_id of a session, so that reading its messages opens their months alone.
SELECT
    (SELECT message_id FROM session.message_order
     WHERE tenant_id = :tenant_id AND session_id = :session_id ORDER BY message_id LIMIT 1) AS lowest,
    (SELECT message_id FROM session.message_order
     WHERE tenant_id = :tenant_id AND session_id = :session_id ORDER BY message_id DESC LIMIT 1) AS highest;

-- delete_messages_of_session --
-- Take all messages of a session away.
UPDATE session.messages
SET is_active = false
WHERE tenant_id = :tenant_id AND session_id = :session_id AND is_active
    AND message_id BETWEEN :lowest AND :highest;

-- delete_order_of_session --
-- Forget the places of a session's messages; each message keeps its sequence number.
DELETE FROM session.message_order
WHERE tenant_id = :tenant_id AND session_id = :session_id;

-- delete_documents_of_session --
-- Take a session's messages out of the search index, with their postings and vectors.
DELETE FROM recall.documents
WHERE tenant_id = :tenant_id AND session_id = :session_id AND kind = 'message';
