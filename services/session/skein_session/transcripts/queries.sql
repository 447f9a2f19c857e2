-- messages_of_agent --
-- Scan a window of an agent's messages within a range of ids, newest first. `is_match` is true for messages that are
-- not deleted and have the subject, null is any subject, and that wait for approval or do not.
SELECT message_id,
    (is_active AND pending_approval = :pending_approval
        AND (:subject_id::text IS NULL OR subject_id IS NOT DISTINCT FROM :subject_id)) AS is_match
FROM session.messages
WHERE tenant_id = :tenant_id AND agent_id = :agent_id AND message_id >= :from_id AND message_id < :before_id
ORDER BY message_id DESC
LIMIT :window;

-- messages_of_subject --
-- Scan a window of a subject's messages within a range of ids, newest first. `is_match` is true for messages that are
-- not deleted, and that wait for approval or do not.
SELECT message_id, (is_active AND pending_approval = :pending_approval) AS is_match
FROM session.messages
WHERE tenant_id = :tenant_id AND subject_id = :subject_id AND message_id >= :from_id AND message_id < :before_id
ORDER BY message_id DESC
LIMIT :window;

-- messages_that_wait --
-- Scan a window of the messages that wait for approval within a range of ids, newest first. `is_match` is true for messages
-- that are not deleted.
SELECT message_id, is_active AS is_match
FROM session.messages
WHERE tenant_id = :tenant_id AND pending_approval AND message_id >= :from_id AND message_id < :before_id
ORDER BY message_id DESC
LIMIT :window;

-- read_summary --
-- Read the summary of a session that is not deleted.
SELECT summary
FROM session.sessions
WHERE tenant_id = :tenant_id AND session_id = :session_id AND is_active;

-- read_archive_time --
-- Read when the messages of a session went to cold storage.
SELECT archive_time
FROM session.sessions
WHERE tenant_id = :tenant_id AND session_id = :session_id;

-- shown_before --
-- Find messages of a session before a sequence number that are not deleted, in descending order.
SELECT sequence, message_id
FROM session.messages
WHERE tenant_id = :tenant_id AND session_id = :session_id AND sequence < :sequence AND is_active
ORDER BY sequence DESC
LIMIT :limit;

-- shown_after --
-- Find messages of a session after a sequence number that are not deleted.
SELECT sequence, message_id
FROM session.messages
WHERE tenant_id = :tenant_id AND session_id = :session_id AND sequence > :sequence AND is_active
ORDER BY sequence
LIMIT :limit;
