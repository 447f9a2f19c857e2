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
