-- advance_session --
-- Take the next sequence numbers of a session that takes messages, and hold its row until the transaction ends: that
-- puts concurrent appends in order, without gaps. No row comes back when the session is gone or closed.
UPDATE session.sessions
SET last_sequence = last_sequence + :count::bigint,
    message_count = message_count + :count::bigint,
    -- The messages of the batch have the session's agent and subject when they are stored.
    inherited_sequence = CASE WHEN inherited_sequence = last_sequence
        THEN last_sequence + :count::bigint ELSE inherited_sequence END,
    title = coalesce(title, :title),
    update_time = greatest(update_time, :update_time),
    active_time = greatest(active_time, :at)
WHERE tenant_id = :tenant_id AND session_id = :session_id AND is_active AND state NOT IN ('ended', 'archived')
    AND (:idle_cutoff::timestamptz IS NULL OR state <> 'active' OR active_time > :idle_cutoff)
RETURNING last_sequence, agent_id, subject_id;

-- insert_messages --
-- Store messages.
INSERT INTO session.messages
    (tenant_id, message_id, session_id, sequence, external_id, role, content, name, subject_id, agent_id, parts,
     tool_calls, tool_call_id, tool_returns, model, step_id, group_id, sender_id, offline_thread_id, metadata,
     create_time, update_time, created_by)
VALUES
    (:tenant_id, :message_id, :session_id, :sequence, :external_id, :role, :content, :name, :subject_id, :agent_id,
     :parts, :tool_calls, :tool_call_id, :tool_returns, :model, :step_id, :group_id, :sender_id, :offline_thread_id,
     :metadata, :create_time, :update_time, :created_by);

-- insert_message_order --
-- Give messages their places in a session.
INSERT INTO session.message_order (tenant_id, session_id, sequence, message_id)
VALUES (:tenant_id, :session_id, :sequence, :message_id);

-- insert_message_external_ids --
-- Give messages the ids that their callers know them by.
INSERT INTO session.message_external_ids (tenant_id, external_id, message_id)
VALUES (:tenant_id, :external_id, :message_id);

-- find_taken_external_id --
-- Find one external id, of those given, that a message holds.
SELECT external_id
FROM session.message_external_ids
WHERE tenant_id = :tenant_id AND external_id = ANY (:external_ids::text[])
ORDER BY external_id
LIMIT 1;

-- message_id_of_external_id --
-- Find the message that holds an external id.
SELECT message_id
FROM session.message_external_ids
WHERE tenant_id = :tenant_id AND external_id = :external_id;

-- read_messages --
-- Read messages by their ids, in no order, without the deleted ones. The array lets the planner leave out all other
-- months: with many years of months that is fifty times faster than a join.
SELECT message_id, session_id, sequence, external_id, role, content, name, subject_id, agent_id, parts, tool_calls,
    tool_call_id, tool_returns, model, step_id, group_id, sender_id, offline_thread_id, metadata, create_time,
    created_by, revision, update_time, updated_by
FROM session.messages
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[]) AND is_active;

-- order_after --
-- Read places of a session from after a sequence number on.
SELECT sequence, message_id
FROM session.message_order
WHERE tenant_id = :tenant_id AND session_id = :session_id AND sequence > :sequence
ORDER BY sequence
LIMIT :limit;

-- order_before --
-- Read places of a session from before a sequence number back.
SELECT sequence, message_id
FROM session.message_order
WHERE tenant_id = :tenant_id AND session_id = :session_id AND sequence < :sequence
ORDER BY sequence DESC
LIMIT :limit;

-- delete_message --
-- Take one message away; no row comes back when it is gone already.
UPDATE session.messages
SET is_active = false
WHERE tenant_id = :tenant_id AND message_id = :message_id AND is_active
RETURNING sequence;

-- delete_message_order --
-- Forget the place of a deleted message, so that lists need not step over it; the message keeps its sequence number.
DELETE FROM session.message_order
WHERE tenant_id = :tenant_id AND session_id = :session_id AND sequence = :sequence;

-- decrement_message_count --
-- Count a session's messages without one that is being deleted, and hold its row, as every change of its messages does.
-- A call that waited for the row of another that deleted the last message counts nothing: it finds no message after this.
UPDATE session.sessions
SET message_count = greatest(message_count - 1, 0)
WHERE tenant_id = :tenant_id AND session_id = :session_id AND is_active
RETURNING message_count;

-- touch_session --
-- Say that a session's messages change, and hold its row, as every change of its messages does.
UPDATE session.sessions
SET update_time = greatest(update_time, :at)
WHERE tenant_id = :tenant_id AND session_id = :session_id AND is_active
RETURNING session_id;

-- retitle_session --
-- Give a session another title in place of the one that it took from a message.
UPDATE session.sessions
SET title = :title, revision = revision + 1
WHERE tenant_id = :tenant_id AND session_id = :session_id AND title = :before;

-- update_message --
-- Change the fields named; no row comes back when the message is gone or has another revision than the one given (0 is
-- any).
UPDATE session.messages
SET content = CASE WHEN 'content' = ANY (:fields::text[]) THEN :content ELSE content END,
    name = CASE WHEN 'name' = ANY (:fields::text[]) THEN :name ELSE name END,
    parts = CASE WHEN 'parts' = ANY (:fields::text[]) THEN :parts ELSE parts END,
    tool_calls = CASE WHEN 'tool_calls' = ANY (:fields::text[]) THEN :tool_calls ELSE tool_calls END,
    tool_returns = CASE WHEN 'tool_returns' = ANY (:fields::text[]) THEN :tool_returns ELSE tool_returns END,
    metadata = CASE WHEN 'metadata' = ANY (:fields::text[]) THEN :metadata ELSE metadata END,
    revision = revision + 1,
    update_time = :at,
    updated_by = :updated_by
WHERE tenant_id = :tenant_id AND message_id = :message_id AND is_active
    AND (:revision::bigint = 0 OR revision = :revision)
RETURNING message_id, session_id, sequence, external_id, role, content, name, subject_id, agent_id, parts, tool_calls,
    tool_call_id, tool_returns, model, step_id, group_id, sender_id, offline_thread_id, metadata, create_time,
    created_by, revision, update_time, updated_by;
