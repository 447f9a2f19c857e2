-- purge_tenant_message_external_ids --
-- Remove some of the ids of messages in other systems that a deleted tenant has.
DELETE FROM session.message_external_ids
WHERE tenant_id = :tenant_id AND external_id = ANY (ARRAY(
    SELECT external_id FROM session.message_external_ids WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_message_order --
-- Remove some of the places of messages that a deleted tenant has.
DELETE FROM session.message_order
WHERE tenant_id = :tenant_id AND (session_id, sequence) IN (
    SELECT session_id, sequence FROM session.message_order WHERE tenant_id = :tenant_id LIMIT :count);

-- purge_tenant_messages --
-- Remove some of the messages, of all months, that a deleted tenant has.
DELETE FROM session.messages
WHERE tenant_id = :tenant_id AND message_id = ANY (ARRAY(
    SELECT message_id FROM session.messages WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_session_properties --
-- Remove some of what the sessions of a deleted tenant are found by.
DELETE FROM session.session_properties
WHERE tenant_id = :tenant_id AND (path, value, session_id) IN (
    SELECT path, value, session_id FROM session.session_properties WHERE tenant_id = :tenant_id LIMIT :count);

-- purge_tenant_sessions --
-- Remove some of the sessions that a deleted tenant has.
DELETE FROM session.sessions
WHERE tenant_id = :tenant_id AND session_id = ANY (ARRAY(
    SELECT session_id FROM session.sessions WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_usage --
-- Remove some of the counters that a deleted tenant has.
DELETE FROM session.usage
WHERE tenant_id = :tenant_id AND (kind, slot) IN (
    SELECT kind, slot FROM session.usage WHERE tenant_id = :tenant_id LIMIT :count);

-- purge_tenant_requests --
-- Remove some of the stored answers that a deleted tenant has.
DELETE FROM session.requests
WHERE tenant_id = :tenant_id AND (principal, method, request_id) IN (
    SELECT principal, method, request_id FROM session.requests WHERE tenant_id = :tenant_id LIMIT :count);

-- purge_tenant_items --
-- Remove some of the short-term items that a deleted tenant has.
DELETE FROM session.items
WHERE tenant_id = :tenant_id AND (session_id, key) IN (
    SELECT session_id, key FROM session.items WHERE tenant_id = :tenant_id LIMIT :count);

-- purge_tenant_agent_states --
-- Remove some of the agent states that a deleted tenant has.
DELETE FROM session.agent_states
WHERE tenant_id = :tenant_id AND (agent_id, session_id) IN (
    SELECT agent_id, session_id FROM session.agent_states WHERE tenant_id = :tenant_id LIMIT :count);

-- purge_tenant_tombstones --
-- Remove some of the tombstones that a deleted tenant has.
DELETE FROM session.tombstones
WHERE tenant_id = :tenant_id AND digest = ANY (ARRAY(
    SELECT digest FROM session.tombstones WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_tombstone_salts --
-- Remove what the tombstones of a deleted tenant were salted with.
DELETE FROM session.tombstone_salts
WHERE tenant_id = :tenant_id AND salt IN (
    SELECT salt FROM session.tombstone_salts WHERE tenant_id = :tenant_id LIMIT :count);

-- purge_tenant_archived_messages --
-- Remove some of what is known of stored messages that a deleted tenant has.
DELETE FROM session.stored_messages
WHERE tenant_id = :tenant_id AND message_id = ANY (ARRAY(
    SELECT message_id FROM session.stored_messages WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_archived_sessions --
-- Remove some of what is known of stored sessions that a deleted tenant has.
DELETE FROM session.stored_sessions
WHERE tenant_id = :tenant_id AND session_id = ANY (ARRAY(
    SELECT session_id FROM session.stored_sessions WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_pending_files --
-- Forget some of the files that a deleted tenant had.
DELETE FROM session.leaving_files
WHERE tenant_id = :tenant_id AND file_id = ANY (ARRAY(
    SELECT file_id FROM session.leaving_files WHERE tenant_id = :tenant_id LIMIT :count));
