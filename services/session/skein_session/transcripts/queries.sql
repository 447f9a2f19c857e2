-- messages_of_agent --
-- Look at up to a window of an agent's messages in a range of ids, newest first; `is_match` says which have the subject.
-- A message without a subject matches no subject_id.
SELECT message_id, (is_active AND (:subject_id::text IS NULL OR subject_id IS NOT DISTINCT FROM :subject_id)) AS is_match
FROM session.messages
WHERE tenant_id = :tenant_id AND agent_id = :agent_id AND message_id >= :from_id AND message_id < :before_id
ORDER BY message_id DESC
LIMIT :window;

-- messages_of_subject --
-- Look at up to a window of a person's messages in a range of ids, newest first; `is_match` says which are not deleted.
SELECT message_id, is_active AS is_match
FROM session.messages
WHERE tenant_id = :tenant_id AND subject_id = :subject_id AND message_id >= :from_id AND message_id < :before_id
ORDER BY message_id DESC
LIMIT :window;
