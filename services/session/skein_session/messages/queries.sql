-- advance_session --
-- Assign the next sequence numbers of a session and lock its row, which orders concurrent appends without gaps. No row
-- comes back when the session is missing, closed or idle. An import goes on though its session was idle before.
UPDATE session.sessions
SET last_sequence = last_sequence + :count::bigint,
    message_count = message_count + :count::bigint,
    -- The messages of the batch are inserted with the session's agent and subject.
    inherited_sequence = CASE WHEN inherited_sequence = last_sequence
        THEN last_sequence + :count::bigint ELSE inherited_sequence END,
    title = coalesce(title, :title),
    update_time = greatest(update_time, :update_time),
    active_time = greatest(active_time, :active_time)
WHERE tenant_id = :tenant_id AND session_id = :session_id AND is_active
    AND (state NOT IN ('ended', 'hidden') OR (:is_import::boolean AND state = 'ended' AND end_reason = 'idle'))
    AND (:idle_cutoff::timestamptz IS NULL OR :is_import OR state <> 'active' OR active_time > :idle_cutoff)
RETURNING last_sequence, agent_id, subject_id, title;

-- insert_messages --
-- Insert messages.
INSERT INTO session.messages
    (tenant_id, message_id, session_id, sequence, external_id, role, content, name, subject_id, agent_id, parts,
     tool_calls, tool_call_id, tool_returns, model, step_id, group_id, sender_id, offline_thread_id, metadata,
     create_time, update_time, created_by, pending_approval)
VALUES
    (:tenant_id, :message_id::uuid, :session_id::text, :sequence::bigint, :external_id::text, :role::text,
     :content::text, :name::text, :subject_id::text, :agent_id::text, :parts::jsonb, :tool_calls::jsonb,
     :tool_call_id::text, :tool_returns::jsonb, :model::text, :step_id::text, :group_id::text, :sender_id::text,
     :offline_thread_id::text, :metadata::jsonb, :create_time::timestamptz, :update_time::timestamptz,
     :created_by::text, :pending_approval::boolean);

-- insert_message_order --
-- Insert the positions of messages in their session.
INSERT INTO session.message_order (tenant_id, session_id, sequence, message_id)
VALUES (:tenant_id, :session_id::text, :sequence::bigint, :message_id::uuid);

-- insert_message_external_ids --
-- Insert the external ids of messages.
INSERT INTO session.message_external_ids (tenant_id, external_id, message_id)
VALUES (:tenant_id, :external_id::text, :message_id::uuid);

-- find_taken_external_id --
-- Find one of some external ids that a message has.
SELECT external_id
FROM session.message_external_ids
WHERE tenant_id = :tenant_id AND external_id = ANY (:external_ids::text[])
ORDER BY external_id
LIMIT 1;

-- message_id_of_external_id --
-- Find the message of an external id; of those in several spaces the first one.
SELECT message_id
FROM session.message_external_ids
WHERE tenant_id = :tenant_id AND external_id = :external_id
ORDER BY space_id
LIMIT 1;

-- read_messages --
-- Read messages by ids, in no order, without deleted ones. With the array the planner skips the partitions of other
-- months: with many years fifty times faster than a join.
SELECT message_id, session_id, sequence, external_id, role, content, name, subject_id, agent_id, parts, tool_calls,
    tool_call_id, tool_returns, model, step_id, group_id, sender_id, offline_thread_id, metadata, create_time,
    created_by, revision, update_time, updated_by, pending_approval
FROM session.messages
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[])
    AND message_id BETWEEN :first_of_message_ids AND :last_of_message_ids
    AND is_active;

-- read_message_revision --
-- Read one revision of a message, deleted or not: the present one or a former one.
SELECT message_id, session_id, sequence, external_id, role, content, name, subject_id, agent_id, parts, tool_calls,
    tool_call_id, tool_returns, model, step_id, group_id, sender_id, offline_thread_id, metadata, create_time,
    created_by, revision, update_time, updated_by, pending_approval
FROM session.messages
WHERE tenant_id = :tenant_id AND message_id = :message_id::uuid AND revision = :revision::bigint
UNION ALL
SELECT message_id, session_id, sequence, external_id, role, content, name, subject_id, agent_id, parts, tool_calls,
    tool_call_id, tool_returns, model, step_id, group_id, sender_id, offline_thread_id, metadata, create_time,
    created_by, revision, update_time, updated_by, pending_approval
FROM session.messages_history
WHERE tenant_id = :tenant_id AND message_id = :message_id AND revision = :revision
LIMIT 1;

-- order_after --
-- Read positions of a session after a sequence number.
SELECT sequence, message_id
FROM session.message_order
WHERE tenant_id = :tenant_id AND session_id = :session_id AND sequence > :sequence
ORDER BY sequence
LIMIT :limit;

-- order_before --
-- Read positions of a session before a sequence number, in descending order.
SELECT sequence, message_id
FROM session.message_order
WHERE tenant_id = :tenant_id AND session_id = :session_id AND sequence < :sequence
ORDER BY sequence DESC
LIMIT :limit;

-- delete_message --
-- Delete a message; no row comes back when it is deleted already.
UPDATE session.messages
SET is_active = false
WHERE tenant_id = :tenant_id AND message_id = :message_id AND is_active
RETURNING sequence, pending_approval;

-- find_deleted_message --
-- Find a deleted message.
SELECT message_id, session_id
FROM session.messages
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[])
    AND message_id BETWEEN :first_of_message_ids AND :last_of_message_ids
    AND NOT is_active
LIMIT 1;

-- undelete_message --
-- Bring a deleted message back; no row comes back when it is not deleted.
UPDATE session.messages
SET is_active = true
WHERE tenant_id = :tenant_id AND message_id = :message_id AND NOT is_active
RETURNING message_id, session_id, sequence, external_id, role, content, name, subject_id, agent_id, parts, tool_calls,
    tool_call_id, tool_returns, model, step_id, group_id, sender_id, offline_thread_id, metadata, create_time,
    created_by, revision, update_time, updated_by, pending_approval;

-- increment_message_count --
-- Add an undeleted message to a session's count and lock the session.
UPDATE session.sessions
SET message_count = message_count + 1
WHERE tenant_id = :tenant_id AND session_id = :session_id AND is_active
RETURNING archive_time;

-- delete_message_order --
-- Delete the position of a deleted message, so that lists do not scan it; the message keeps its sequence number.
DELETE FROM session.message_order
WHERE tenant_id = :tenant_id AND session_id = :session_id AND sequence = :sequence;

-- decrement_message_count --
-- Subtract one deleted message from a session's count and lock the session. A call that waited for a concurrent
-- deletion of the same message finds no message afterwards and rolls back.
UPDATE session.sessions
SET message_count = greatest(message_count - 1, 0)
WHERE tenant_id = :tenant_id AND session_id = :session_id AND is_active
RETURNING message_count;

-- find_expired_pending_messages --
-- Find messages that wait for approval and have not changed since a time, oldest first.
SELECT message_id
FROM session.messages
WHERE tenant_id = :tenant_id AND pending_approval AND is_active AND coalesce(update_time, create_time) <= :before
ORDER BY message_id
LIMIT :count;

-- insert_message_changes --
-- Insert events of messages that wait, or were decided on, into the tenant's log.
INSERT INTO memory.changes
    (tenant_id, change_id, event_type, entity_type, entity_id, summary, principal, create_time)
VALUES
    (:tenant_id, :change_id, :event_type, 'message', :entity_id, :summary, :principal, :create_time);

-- touch_session --
-- Set a session's update_time and lock its row before a change of its messages.
UPDATE session.sessions
SET update_time = greatest(update_time, :at)
WHERE tenant_id = :tenant_id AND session_id = :session_id AND is_active
RETURNING session_id;

-- retitle_session --
-- Replace a title that was taken from a message.
UPDATE session.sessions
SET title = :title, revision = revision + 1
WHERE tenant_id = :tenant_id AND session_id = :session_id AND title = :before;

-- update_message --
-- Change the listed fields; no row comes back when the message is deleted or has another revision (0 is any).
UPDATE session.messages
SET content = CASE WHEN 'content' = ANY (:fields::text[]) THEN :content ELSE content END,
    name = CASE WHEN 'name' = ANY (:fields::text[]) THEN :name ELSE name END,
    parts = CASE WHEN 'parts' = ANY (:fields::text[]) THEN :parts ELSE parts END,
    tool_calls = CASE WHEN 'tool_calls' = ANY (:fields::text[]) THEN :tool_calls ELSE tool_calls END,
    tool_returns = CASE WHEN 'tool_returns' = ANY (:fields::text[]) THEN :tool_returns ELSE tool_returns END,
    metadata = CASE WHEN 'metadata' = ANY (:fields::text[]) THEN :metadata ELSE metadata END,
    pending_approval = CASE WHEN 'pending_approval' = ANY (:fields::text[]) THEN :pending_approval
        ELSE pending_approval END,
    revision = revision + 1,
    update_time = :at,
    updated_by = :updated_by
WHERE tenant_id = :tenant_id AND message_id = :message_id AND is_active
    AND (:revision::bigint = 0 OR revision = :revision)
RETURNING message_id, session_id, sequence, external_id, role, content, name, subject_id, agent_id, parts, tool_calls,
    tool_call_id, tool_returns, model, step_id, group_id, sender_id, offline_thread_id, metadata, create_time,
    created_by, revision, update_time, updated_by, pending_approval;

-- read_stream_positions --
-- Read the states and the last sequence numbers of sessions, for streams.
SELECT session_id, state, last_sequence, archive_time
FROM session.sessions
WHERE tenant_id = :tenant_id AND session_id = ANY (:session_ids::text[]) AND is_active;
