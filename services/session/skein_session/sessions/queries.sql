-- insert_session --
-- Open a session; no row comes back when the id is taken, be it by a deleted session.
INSERT INTO session.sessions
    (tenant_id, session_id, title, state, session_type, subject_id, agent_id, metadata, summary, create_time,
     update_time, active_time, created_by)
VALUES
    (:tenant_id, :session_id, :title, :state, :session_type, :subject_id, :agent_id, :metadata, :summary,
     :create_time, :update_time, :active_time, :created_by)
ON CONFLICT ON CONSTRAINT sessions_pkey DO NOTHING
RETURNING session_id, title, state, session_type, subject_id, agent_id, metadata, summary, end_reason, message_count,
    last_sequence, revision, create_time, update_time, end_time, archive_time, archived_state, active_time,
    created_by, store_time;

-- insert_session_if_missing --
-- Open a session for its first messages, unless somebody did; one that is being opened by another call is waited for.
INSERT INTO session.sessions
    (tenant_id, session_id, state, session_type, agent_id, create_time, update_time, active_time, created_by)
VALUES
    (:tenant_id, :session_id, 'active', :session_type, :agent_id, :create_time,
     greatest(:create_time::timestamptz, :update_time::timestamptz), :at, :created_by)
ON CONFLICT ON CONSTRAINT sessions_pkey DO NOTHING;

-- get_session --
-- Read a session that is not deleted.
SELECT session_id, title, state, session_type, subject_id, agent_id, metadata, summary, end_reason, message_count,
    last_sequence, revision, create_time, update_time, end_time, archive_time, archived_state, active_time,
    created_by, store_time
FROM session.sessions
WHERE tenant_id = :tenant_id AND session_id = :session_id AND is_active;

-- participants_of_session --
-- Read the agent and the subject that a session's messages inherit.
SELECT agent_id, subject_id
FROM session.sessions
WHERE tenant_id = :tenant_id AND session_id = :session_id AND is_active;

-- set_document_participants --
-- Give the search index row of one message another agent and subject.
UPDATE recall.documents
SET agent_id = :agent_id, subject_id = :subject_id
WHERE tenant_id = :tenant_id AND item_id = :item_id;

-- list_sessions --
-- Look at up to a window of sessions that are not deleted, newest update first, from after a place on, and read those
-- that pass. The conditions `of_...` say what the window is taken of, so each must have an index; the others are held
-- against what lies in it. One row comes back at least: how many were looked at, and where the window ends. Archived
-- sessions lie in an index of their own, hence the two halves.
WITH candidates AS (
    (SELECT session_id, update_time, state, session_type, subject_id, agent_id, create_time
     FROM session.sessions
     WHERE :current::boolean AND tenant_id = :tenant_id AND is_active AND state <> 'archived'
         AND (:of_subject_id::text IS NULL OR subject_id = :of_subject_id)
         AND (:of_agent_id::text IS NULL OR agent_id = :of_agent_id)
         AND (:of_session_type::text IS NULL OR session_type = :of_session_type AND session_type <> 'conversation')
         AND (:of_session_ids::text[] IS NULL OR session_id = ANY (:of_session_ids))
         -- The first of these two is what the index can use.
         AND (:after_time::timestamptz IS NULL OR update_time <= :after_time)
         AND (:after_time::timestamptz IS NULL OR update_time < :after_time OR session_id > :after_id::text)
     ORDER BY update_time DESC, session_id
     LIMIT :window)
    UNION ALL
    (SELECT session_id, update_time, state, session_type, subject_id, agent_id, create_time
     FROM session.sessions
     WHERE :archived::boolean AND tenant_id = :tenant_id AND is_active AND state = 'archived'
         AND (:of_subject_id::text IS NULL OR subject_id = :of_subject_id)
         AND (:of_agent_id::text IS NULL OR agent_id = :of_agent_id)
         AND (:of_session_type::text IS NULL OR session_type = :of_session_type AND session_type <> 'conversation')
         AND (:of_session_ids::text[] IS NULL OR session_id = ANY (:of_session_ids))
         -- The first of these two is what the index can use.
         AND (:after_time::timestamptz IS NULL OR update_time <= :after_time)
         AND (:after_time::timestamptz IS NULL OR update_time < :after_time OR session_id > :after_id::text)
     ORDER BY update_time DESC, session_id
     LIMIT :window)
), scanned AS MATERIALIZED (
    SELECT session_id, update_time, state, session_type, subject_id, agent_id, create_time
    FROM candidates
    ORDER BY update_time DESC, session_id
    LIMIT :window
), matching AS (
    SELECT session_id
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
                AND property.session_id = scanned.session_id))
        AND (:path_2::text IS NULL OR EXISTS (
            SELECT FROM session.session_properties AS property
            WHERE property.tenant_id = :tenant_id AND property.path = :path_2 AND property.value = :value_2
                AND property.session_id = scanned.session_id))
        AND (:path_3::text IS NULL OR EXISTS (
            SELECT FROM session.session_properties AS property
            WHERE property.tenant_id = :tenant_id AND property.path = :path_3 AND property.value = :value_3
                AND property.session_id = scanned.session_id))
        AND (:path_4::text IS NULL OR EXISTS (
            SELECT FROM session.session_properties AS property
            WHERE property.tenant_id = :tenant_id AND property.path = :path_4 AND property.value = :value_4
                AND property.session_id = scanned.session_id))
        AND (:path_5::text IS NULL OR EXISTS (
            SELECT FROM session.session_properties AS property
            WHERE property.tenant_id = :tenant_id AND property.path = :path_5 AND property.value = :value_5
                AND property.session_id = scanned.session_id))
    ORDER BY update_time DESC, session_id
    LIMIT :limit
)
SELECT edge.scanned_count, edge.newest_update_time, edge.last_time, edge.last_id, page.session_id, page.title, page.state,
    page.session_type, page.subject_id, page.agent_id, page.metadata, page.summary, page.end_reason, page.message_count,
    page.last_sequence, page.revision, page.create_time, page.update_time, page.end_time, page.archive_time,
    page.store_time, page.archived_state, page.active_time, page.created_by
FROM (
    SELECT (SELECT count(*) FROM scanned) AS scanned_count,
        (SELECT max(update_time) FROM scanned) AS newest_update_time,
        (SELECT update_time FROM scanned ORDER BY update_time, session_id DESC LIMIT 1) AS last_time,
        (SELECT session_id FROM scanned ORDER BY update_time, session_id DESC LIMIT 1) AS last_id
) AS edge
LEFT JOIN (
    SELECT session.*
    FROM matching, session.sessions AS session
    WHERE session.tenant_id = :tenant_id AND session.session_id = matching.session_id
) AS page ON true
ORDER BY page.update_time DESC, page.session_id;

-- list_sessions_second_pass --
-- Look at up to a window of sessions that were updated after a time and are older than another, in order of their ids,
-- from after one on, and read those that pass, as above. Whatever is updated meanwhile keeps its place here.
WITH candidates AS (
    (SELECT session_id, update_time, state, session_type, subject_id, agent_id, create_time
     FROM session.sessions
     WHERE :current::boolean AND tenant_id = :tenant_id AND is_active AND state <> 'archived'
         AND (:of_subject_id::text IS NULL OR subject_id = :of_subject_id)
         AND (:of_agent_id::text IS NULL OR agent_id = :of_agent_id)
         AND (:of_session_type::text IS NULL OR session_type = :of_session_type AND session_type <> 'conversation')
         AND (:of_session_ids::text[] IS NULL OR session_id = ANY (:of_session_ids))
         AND update_time > :updated_after AND create_time <= :created_until AND session_id > :after_id
     ORDER BY session_id
     LIMIT :window)
    UNION ALL
    (SELECT session_id, update_time, state, session_type, subject_id, agent_id, create_time
     FROM session.sessions
     WHERE :archived::boolean AND tenant_id = :tenant_id AND is_active AND state = 'archived'
         AND (:of_subject_id::text IS NULL OR subject_id = :of_subject_id)
         AND (:of_agent_id::text IS NULL OR agent_id = :of_agent_id)
         AND (:of_session_type::text IS NULL OR session_type = :of_session_type AND session_type <> 'conversation')
         AND (:of_session_ids::text[] IS NULL OR session_id = ANY (:of_session_ids))
         AND update_time > :updated_after AND create_time <= :created_until AND session_id > :after_id
     ORDER BY session_id
     LIMIT :window)
), scanned AS MATERIALIZED (
    SELECT session_id, update_time, state, session_type, subject_id, agent_id, create_time
    FROM candidates
    ORDER BY session_id
    LIMIT :window
), matching AS (
    SELECT session_id
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
                AND property.session_id = scanned.session_id))
        AND (:path_2::text IS NULL OR EXISTS (
            SELECT FROM session.session_properties AS property
            WHERE property.tenant_id = :tenant_id AND property.path = :path_2 AND property.value = :value_2
                AND property.session_id = scanned.session_id))
        AND (:path_3::text IS NULL OR EXISTS (
            SELECT FROM session.session_properties AS property
            WHERE property.tenant_id = :tenant_id AND property.path = :path_3 AND property.value = :value_3
                AND property.session_id = scanned.session_id))
        AND (:path_4::text IS NULL OR EXISTS (
            SELECT FROM session.session_properties AS property
            WHERE property.tenant_id = :tenant_id AND property.path = :path_4 AND property.value = :value_4
                AND property.session_id = scanned.session_id))
        AND (:path_5::text IS NULL OR EXISTS (
            SELECT FROM session.session_properties AS property
            WHERE property.tenant_id = :tenant_id AND property.path = :path_5 AND property.value = :value_5
                AND property.session_id = scanned.session_id))
    ORDER BY session_id
    LIMIT :limit
)
SELECT edge.scanned_count, edge.newest_update_time, edge.last_time, edge.last_id, page.session_id, page.title, page.state,
    page.session_type, page.subject_id, page.agent_id, page.metadata, page.summary, page.end_reason, page.message_count,
    page.last_sequence, page.revision, page.create_time, page.update_time, page.end_time, page.archive_time,
    page.store_time, page.archived_state, page.active_time, page.created_by
FROM (
    SELECT (SELECT count(*) FROM scanned) AS scanned_count,
        (SELECT max(update_time) FROM scanned) AS newest_update_time,
        NULL::timestamptz AS last_time,
        (SELECT max(session_id) FROM scanned) AS last_id
) AS edge
LEFT JOIN (
    SELECT session.*
    FROM matching, session.sessions AS session
    WHERE session.tenant_id = :tenant_id AND session.session_id = matching.session_id
) AS page ON true
ORDER BY page.session_id;

-- sessions_with_property --
-- Find up to so many sessions that have a property.
SELECT session_id
FROM session.session_properties
WHERE tenant_id = :tenant_id AND path = :path AND value = :value
LIMIT :count;

-- insert_session_properties --
-- Make a session findable by its metadata.
INSERT INTO session.session_properties (tenant_id, path, value, session_id)
VALUES (:tenant_id, :path, :value, :session_id);

-- delete_session_properties --
-- Forget what a session is found by.
DELETE FROM session.session_properties
WHERE tenant_id = :tenant_id AND session_id = :session_id;

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
    update_time = greatest(update_time, :at),
    -- Messages that name no agent or subject take the first ones that the session gets.
    inherited_sequence = CASE
        WHEN 'agent_id' = ANY (:fields::text[]) AND agent_id IS NULL AND :agent_id IS NOT NULL THEN 0
        WHEN 'subject_id' = ANY (:fields::text[]) AND subject_id IS NULL AND :subject_id IS NOT NULL THEN 0
        ELSE inherited_sequence END,
    -- Whoever resumes a session begins its idle time anew.
    active_time = CASE WHEN 'state' = ANY (:fields::text[]) AND :state = 'active' AND state <> 'active'
        THEN greatest(active_time, :at) ELSE active_time END
WHERE tenant_id = :tenant_id AND session_id = :session_id AND is_active
    AND (:revision::bigint = 0 OR revision = :revision)
    AND NOT (state IN ('ended', 'archived') AND 'state' = ANY (:fields::text[]))
RETURNING session_id, title, state, session_type, subject_id, agent_id, metadata, summary, end_reason, message_count,
    last_sequence, revision, create_time, update_time, end_time, archive_time, archived_state, active_time,
    created_by, store_time,
    inherited_sequence < last_sequence AND (agent_id IS NOT NULL OR subject_id IS NOT NULL) AS has_uninherited;

-- lock_session --
-- Read a session that is not deleted and keep others from changing it, and its messages, until the transaction ends.
SELECT session_id, title, state, session_type, subject_id, agent_id, metadata, summary, end_reason, message_count,
    last_sequence, revision, create_time, update_time, end_time, archive_time, archived_state, active_time,
    created_by, store_time
FROM session.sessions
WHERE tenant_id = :tenant_id AND session_id = :session_id AND is_active
FOR NO KEY UPDATE;

-- set_session_state --
-- Bring a session that the transaction has locked into another state. What is null stays, but for the state that an
-- archived session goes back to and the time of archiving.
UPDATE session.sessions
SET state = :state,
    archived_state = :archived_state,
    archive_time = :archive_time,
    end_time = coalesce(:end_time, end_time),
    end_reason = coalesce(:end_reason, end_reason),
    summary = coalesce(:summary, summary),
    active_time = CASE WHEN :state = 'active' THEN greatest(active_time, :at) ELSE active_time END,
    revision = revision + 1,
    update_time = greatest(update_time, :at)
WHERE tenant_id = :tenant_id AND session_id = :session_id
RETURNING session_id, title, state, session_type, subject_id, agent_id, metadata, summary, end_reason, message_count,
    last_sequence, revision, create_time, update_time, end_time, archive_time, archived_state, active_time,
    created_by, store_time;

-- end_idle_sessions --
-- End some of the active sessions in which nobody has spoken since a time, those that are idle for longest first; one that
-- somebody speaks in meanwhile stays.
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

-- lock_session_shared --
-- Read a session that is not deleted, and keep others from deleting it until the transaction ends.
SELECT session_id
FROM session.sessions
WHERE tenant_id = :tenant_id AND session_id = :session_id AND is_active
FOR SHARE;
