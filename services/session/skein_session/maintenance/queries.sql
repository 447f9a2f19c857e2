-- purge_tenant_message_external_ids --
-- Purge external ids of a deleted tenant, up to a limit.
DELETE FROM session.message_external_ids
WHERE tenant_id = :tenant_id AND external_id = ANY (ARRAY(
    SELECT external_id FROM session.message_external_ids WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_message_order --
-- Purge positions of messages of a deleted tenant, up to a limit.
DELETE FROM session.message_order
USING (
    SELECT session_id, sequence FROM session.message_order WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE message_order.tenant_id = :tenant_id
    AND message_order.session_id = picked.session_id AND message_order.sequence = picked.sequence;

-- purge_tenant_messages --
-- Purge messages of all months of a deleted tenant, up to a limit.
DELETE FROM session.messages
WHERE tenant_id = :tenant_id AND message_id = ANY (ARRAY(
    SELECT message_id FROM session.messages WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_messages_history --
-- Purge former versions of messages of a deleted tenant, up to a limit.
DELETE FROM session.messages_history
USING (
    SELECT message_id, until_time FROM session.messages_history WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE messages_history.tenant_id = :tenant_id
    AND messages_history.message_id = picked.message_id AND messages_history.until_time = picked.until_time;

-- purge_tenant_session_properties --
-- Purge session properties of a deleted tenant, up to a limit.
DELETE FROM session.session_properties
USING (
    SELECT path, value, session_id FROM session.session_properties WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE session_properties.tenant_id = :tenant_id
    AND session_properties.path = picked.path AND session_properties.value = picked.value
    AND session_properties.session_id = picked.session_id;

-- purge_tenant_title_terms --
-- Purge terms of session titles of a deleted tenant, up to a limit.
DELETE FROM session.title_terms
USING (
    SELECT term, session_id FROM session.title_terms WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE title_terms.tenant_id = :tenant_id
    AND title_terms.term = picked.term AND title_terms.session_id = picked.session_id;

-- purge_tenant_title_terms_history --
-- Purge terms of former session titles of a deleted tenant, up to a limit.
DELETE FROM session.title_terms_history
USING (
    SELECT term, session_id, until_time FROM session.title_terms_history WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE title_terms_history.tenant_id = :tenant_id
    AND title_terms_history.term = picked.term AND title_terms_history.session_id = picked.session_id
    AND title_terms_history.until_time = picked.until_time;

-- purge_tenant_sessions --
-- Purge sessions of a deleted tenant, up to a limit.
DELETE FROM session.sessions
WHERE tenant_id = :tenant_id AND session_id = ANY (ARRAY(
    SELECT session_id FROM session.sessions WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_sessions_history --
-- Purge what is kept of sessions of a deleted tenant as they were, up to a limit.
DELETE FROM session.sessions_history
USING (
    SELECT session_id, record_time, until_time FROM session.sessions_history WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE sessions_history.tenant_id = :tenant_id
    AND sessions_history.session_id = picked.session_id AND sessions_history.record_time = picked.record_time
    AND sessions_history.until_time = picked.until_time;

-- purge_tenant_usage --
-- Purge usage counters of a deleted tenant, up to a limit.
DELETE FROM session.usage
USING (
    SELECT kind, slot FROM session.usage WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE usage.tenant_id = :tenant_id AND usage.kind = picked.kind AND usage.slot = picked.slot;

-- purge_tenant_requests --
-- Purge saved responses of a deleted tenant, up to a limit.
DELETE FROM session.requests
USING (
    SELECT principal, method, request_id FROM session.requests WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE requests.tenant_id = :tenant_id
    AND requests.principal = picked.principal AND requests.method = picked.method
    AND requests.request_id = picked.request_id;

-- purge_tenant_items --
-- Purge items of a deleted tenant, up to a limit.
DELETE FROM session.items
USING (
    SELECT session_id, key FROM session.items WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE items.tenant_id = :tenant_id AND items.session_id = picked.session_id AND items.key = picked.key;

-- purge_tenant_agent_states --
-- Purge agent states of a deleted tenant, up to a limit.
DELETE FROM session.agent_states
USING (
    SELECT agent_id, session_id FROM session.agent_states WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE agent_states.tenant_id = :tenant_id
    AND agent_states.agent_id = picked.agent_id AND agent_states.session_id = picked.session_id;

-- purge_tenant_context_ledgers --
-- Purge context ledgers of a deleted tenant, up to a limit.
DELETE FROM session.context_ledgers
USING (
    SELECT principal, agent_id, ledger_id FROM session.context_ledgers WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE context_ledgers.tenant_id = :tenant_id AND context_ledgers.principal = picked.principal
    AND context_ledgers.agent_id = picked.agent_id AND context_ledgers.ledger_id = picked.ledger_id;

-- purge_tenant_tombstones --
-- Purge tombstones of a deleted tenant, up to a limit.
DELETE FROM session.tombstones
WHERE tenant_id = :tenant_id AND digest = ANY (ARRAY(
    SELECT digest FROM session.tombstones WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_tombstone_salts --
-- Purge salts of tombstones of a deleted tenant, up to a limit.
DELETE FROM session.tombstone_salts
WHERE tenant_id = :tenant_id AND salt IN (
    SELECT salt FROM session.tombstone_salts WHERE tenant_id = :tenant_id LIMIT :count);

-- purge_tenant_archived_messages --
-- Purge rows of archived messages of a deleted tenant, up to a limit.
DELETE FROM session.archived_messages
WHERE tenant_id = :tenant_id AND message_id = ANY (ARRAY(
    SELECT message_id FROM session.archived_messages WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_archived_sessions --
-- Purge rows of archived sessions of a deleted tenant, up to a limit.
DELETE FROM session.archived_sessions
WHERE tenant_id = :tenant_id AND session_id = ANY (ARRAY(
    SELECT session_id FROM session.archived_sessions WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_pending_files --
-- Purge rows of pending files of a deleted tenant, up to a limit.
DELETE FROM session.unreferenced_files
WHERE tenant_id = :tenant_id AND file_id = ANY (ARRAY(
    SELECT file_id FROM session.unreferenced_files WHERE tenant_id = :tenant_id LIMIT :count));

-- ensure_month --
-- Create the partition of a month; true when it was missing.
SELECT session.ensure_month(:month);

-- list_expiry_tenants --
-- Read tenants, after one, with expired rows or sessions that are idle for too long.
SELECT due.tenant_id
FROM session.list_expiry_tenants(:at, :requested_before, :after, :size) AS due (tenant_id);

-- list_lifecycle_tenants --
-- Read tenants, after one, with messages that inherit, sessions to archive, or files to delete.
SELECT due.tenant_id
FROM session.list_lifecycle_tenants(:at, :after, :size) AS due (tenant_id);
