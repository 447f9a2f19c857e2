-- purge_message_external_ids --
-- Remove some of the ids of messages in other systems that a deleted tenant has.
DELETE FROM session.message_external_ids
WHERE tenant_id = :tenant_id AND external_id = ANY (ARRAY(
    SELECT external_id FROM session.message_external_ids WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_message_order --
-- Remove some of the places of messages that a deleted tenant has.
DELETE FROM session.message_order
WHERE tenant_id = :tenant_id AND (session_id, sequence) IN (
    SELECT session_id, sequence FROM session.message_order WHERE tenant_id = :tenant_id LIMIT :count);

-- purge_messages --
-- Remove some of the messages, of all months, that a deleted tenant has.
DELETE FROM session.messages
WHERE tenant_id = :tenant_id AND message_id = ANY (ARRAY(
    SELECT message_id FROM session.messages WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_sessions --
-- Remove some of the sessions that a deleted tenant has.
DELETE FROM session.sessions
WHERE tenant_id = :tenant_id AND session_id = ANY (ARRAY(
    SELECT session_id FROM session.sessions WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_usage --
-- Remove some of the counters that a deleted tenant has.
DELETE FROM session.usage
WHERE tenant_id = :tenant_id AND (kind, slot) IN (
    SELECT kind, slot FROM session.usage WHERE tenant_id = :tenant_id LIMIT :count);

-- purge_requests --
-- Remove some of the stored answers that a deleted tenant has.
DELETE FROM session.requests
WHERE tenant_id = :tenant_id AND (principal, method, request_id) IN (
    SELECT principal, method, request_id FROM session.requests WHERE tenant_id = :tenant_id LIMIT :count);
