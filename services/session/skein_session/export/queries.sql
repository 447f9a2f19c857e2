-- export_session --
-- Read a subject's next session, deleted or not, after another.
SELECT session_id, title, state, session_type, subject_id, agent_id, metadata, summary, end_reason, message_count,
    last_sequence, revision, create_time, update_time, end_time, hide_time, hidden_state, active_time, created_by,
    archive_time, is_active
FROM session.sessions
WHERE tenant_id = :tenant_id AND subject_id = :subject_id AND session_id > :after
ORDER BY session_id
LIMIT 1;

-- export_messages --
-- Read messages of a session, deleted or not, after a sequence number.
SELECT message_id, session_id, sequence, external_id, role, content, name, subject_id, agent_id, parts, tool_calls,
    tool_call_id, tool_returns, model, step_id, group_id, sender_id, offline_thread_id, metadata, create_time,
    created_by, revision, update_time, updated_by, pending_approval, is_active
FROM session.messages
WHERE tenant_id = :tenant_id AND session_id = :session_id AND sequence > :after
ORDER BY sequence
LIMIT :limit;

-- find_former_messages --
-- Return which of some messages have former versions.
SELECT DISTINCT message_id
FROM session.messages_history
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[]);

-- export_former_versions --
-- Read the newest former versions of a message.
SELECT message_id, session_id, sequence, external_id, role, content, name, subject_id, agent_id, parts, tool_calls,
    tool_call_id, tool_returns, model, step_id, group_id, sender_id, offline_thread_id, metadata, create_time,
    created_by, revision, update_time, updated_by, pending_approval, until_time
FROM session.messages_history
WHERE tenant_id = :tenant_id AND message_id = :message_id
ORDER BY until_time DESC
LIMIT :limit;

-- export_named_messages --
-- Read messages by ids, deleted or not.
SELECT message_id, session_id, sequence, external_id, role, content, name, subject_id, agent_id, parts, tool_calls,
    tool_call_id, tool_returns, model, step_id, group_id, sender_id, offline_thread_id, metadata, create_time,
    created_by, revision, update_time, updated_by, pending_approval, is_active
FROM session.messages
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[])
    AND message_id BETWEEN :first_of_message_ids AND :last_of_message_ids
ORDER BY message_id;
