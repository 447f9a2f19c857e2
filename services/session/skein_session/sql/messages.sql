-- advance_session --
-- Take the next sequence numbers of a session that takes messages, and hold its row until the transaction ends: that
-- puts concurrent appends in order, without gaps. No row comes back when the session is gone or closed.
UPDATE session.sessions
SET last_sequence = last_sequence + :count::bigint,
    message_count = message_count + :count::bigint,
    title = coalesce(title, :title),
    update_time = greatest(update_time, :at)
WHERE tenant_id = :tenant_id AND session_id = :session_id AND is_active AND state NOT IN ('ended', 'archived')
RETURNING last_sequence;

-- insert_messages --
-- Store messages.
INSERT INTO session.messages
    (tenant_id, message_id, session_id, sequence, external_id, role, content, name, subject_id, agent_id, parts,
     tool_calls, tool_call_id, tool_returns, model, step_id, group_id, sender_id, offline_thread_id, metadata,
     create_time, created_by)
VALUES
    (:tenant_id, :message_id, :session_id, :sequence, :external_id, :role, :content, :name, :subject_id, :agent_id,
     :parts, :tool_calls, :tool_call_id, :tool_returns, :model, :step_id, :group_id, :sender_id, :offline_thread_id,
     :metadata, :create_time, :created_by);

-- insert_message_order --
-- Give messages their places in a session.
INSERT INTO session.message_order (tenant_id, session_id, sequence, message_id)
VALUES (:tenant_id, :session_id, :sequence, :message_id);

-- insert_message_external_ids --
-- Give messages the ids that their callers know them by.
INSERT INTO session.message_external_ids (tenant_id, external_id, message_id)
VALUES (:tenant_id, :external_id, :message_id);

-- taken_external_id --
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
    tool_call_id, tool_returns, model, step_id, group_id, sender_id, offline_thread_id, metadata, create_time, created_by
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

-- count_message_out --
-- Count a session's messages without one that is being deleted, and hold its row, as every change of its messages does.
UPDATE session.sessions
SET message_count = message_count - 1
WHERE tenant_id = :tenant_id AND session_id = :session_id AND is_active
RETURNING message_count;
