-- set_summary --
-- Set the summary of a session; no row comes back when it is missing.
UPDATE session.sessions
SET summary = :summary, revision = revision + 1, update_time = greatest(update_time, :at)
WHERE tenant_id = :tenant_id AND session_id = :session_id AND is_active
RETURNING session_id, title, state, session_type, subject_id, agent_id, metadata, summary, end_reason, message_count,
    last_sequence, revision, create_time, update_time, end_time, hide_time, hidden_state, active_time,
    created_by, archive_time;

-- count_messages --
-- Count those of some messages that are not deleted.
SELECT count(*)
FROM session.messages
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[])
    AND message_id BETWEEN :first_of_message_ids AND :last_of_message_ids
    AND is_active;
