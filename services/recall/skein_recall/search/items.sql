-- get_memories --
-- Read memories that may be recalled, in no order. Those that are no longer valid and those that another memory in the
-- index supersedes are left out unless requested; neither a distrusted memory nor the link of a distrusted
-- principal supersedes any. Each id is looked up by itself in the index that begins with it, in the months between the
-- first and the last one. For an array of ids the planner would choose another index and read all of a tenant. For the
-- same reason the links are ordered by the columns of the index that begins with the memory that they lead to.
SELECT e.memory_id, e.external_id, e.type, e.title, e.key, e.content, e.data, e.source, e.source_agent, e.agent_id,
       e.subject_id, e.session_id, e.scope, e.level, e.confidence, e.importance, e.expire_time, e.valid_from_time,
       e.valid_to_time, e.metadata, e.content_hash, e.revision, e.create_time, e.update_time, e.created_by, e.updated_by,
       greatest(e.record_time, e.update_time) AS record_time,
       ARRAY(
           SELECT t.tag FROM memory.tags AS t
           WHERE t.tenant_id = :tenant_id AND t.memory_id = e.memory_id
           ORDER BY t.position, t.tag COLLATE "C"
       ) AS tags,
       (SELECT s.trust FROM memory.trust AS s
        WHERE s.tenant_id = :tenant_id AND s.memory_id = e.memory_id) AS trust
FROM unnest(:memory_ids::uuid[]) AS requested (memory_id)
CROSS JOIN LATERAL (
    SELECT e.* FROM memory.memories AS e
    WHERE e.tenant_id = :tenant_id AND e.memory_id = requested.memory_id
        AND e.memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids
    OFFSET 0
) AS e
WHERE e.is_active
    AND e.archive_time IS NULL
    AND (e.expire_time IS NULL OR e.expire_time > :at)
    AND (:show_superseded OR (
        (e.valid_to_time IS NULL OR e.valid_to_time > :at)
        AND (
            SELECT l.link_id
            FROM memory.trusted_links AS l
            JOIN recall.documents AS d ON d.tenant_id = :tenant_id AND d.item_id = l.from_memory_id
            WHERE l.tenant_id = :tenant_id AND l.to_memory_id = e.memory_id AND l.relation = 'supersedes'
                AND (d.expire_time IS NULL OR d.expire_time > :at)
                AND NOT EXISTS (
                    SELECT FROM memory.trust AS s
                    WHERE s.tenant_id = :tenant_id AND s.memory_id = l.from_memory_id AND s.trust < 0.5)
            ORDER BY l.weight DESC, l.link_id DESC
            LIMIT 1
        ) IS NULL
    ));

-- filter_memories --
-- Return the memories that pass a condition.
SELECT memories.memory_id AS item_id
FROM unnest(:item_ids::uuid[]) AS requested (item_id)
CROSS JOIN LATERAL (
    SELECT memories.* FROM memory.memories
    WHERE memories.tenant_id = :tenant_id AND memories.memory_id = requested.item_id
        AND memories.memory_id BETWEEN :first_of_item_ids AND :last_of_item_ids
    OFFSET 0
) AS memories
WHERE {condition};

-- scan_memories --
-- Test memories in the order of their array, within a budget: `passes` is null beyond it.
SELECT memories.memory_id AS item_id, ({condition}) AS passes
FROM unnest(:item_ids::uuid[]) WITH ORDINALITY AS requested (item_id, ordinal)
CROSS JOIN LATERAL (
    SELECT memories.* FROM memory.memories
    WHERE memories.tenant_id = :tenant_id AND memories.memory_id = requested.item_id
        AND memories.memory_id BETWEEN :first_of_item_ids AND :last_of_item_ids
    OFFSET 0
) AS memories
ORDER BY requested.ordinal;

-- filter_messages --
-- Return the messages that pass a condition.
SELECT messages.message_id AS item_id
FROM unnest(:item_ids::uuid[]) AS requested (item_id)
CROSS JOIN LATERAL (
    SELECT messages.* FROM session.messages
    WHERE messages.tenant_id = :tenant_id AND messages.message_id = requested.item_id
        AND messages.message_id BETWEEN :first_of_item_ids AND :last_of_item_ids
    OFFSET 0
) AS messages
WHERE {condition};

-- scan_messages --
-- Test messages in the order of their array, within a budget: `passes` is null beyond it.
SELECT messages.message_id AS item_id, ({condition}) AS passes
FROM unnest(:item_ids::uuid[]) WITH ORDINALITY AS requested (item_id, ordinal)
CROSS JOIN LATERAL (
    SELECT messages.* FROM session.messages
    WHERE messages.tenant_id = :tenant_id AND messages.message_id = requested.item_id
        AND messages.message_id BETWEEN :first_of_item_ids AND :last_of_item_ids
    OFFSET 0
) AS messages
ORDER BY requested.ordinal;

-- get_messages --
-- Read messages that may be recalled, in no order. Whether the tenant rates a source is found once for all of them; the
-- order of the index keeps the planner from reading the ratings of other tenants.
SELECT m.message_id, m.external_id, m.session_id, m.sequence, m.role, m.content, m.name, m.subject_id, m.agent_id,
       m.parts, m.tool_calls, m.tool_call_id, m.tool_returns, m.model, m.step_id, m.group_id, m.sender_id,
       m.offline_thread_id, m.metadata, m.create_time, m.created_by, m.revision, m.update_time, m.updated_by,
       m.pending_approval,
       NULL::double precision AS trust,
       (SELECT s.source_key FROM memory.source_trust AS s
        WHERE s.tenant_id = :tenant_id
        ORDER BY s.source_key
        LIMIT 1) IS NOT NULL AS has_ratings
FROM unnest(:message_ids::uuid[]) AS requested (message_id)
CROSS JOIN LATERAL (
    SELECT m.* FROM session.messages AS m
    WHERE m.tenant_id = :tenant_id AND m.message_id = requested.message_id
        AND m.message_id BETWEEN :first_of_message_ids AND :last_of_message_ids
    OFFSET 0
) AS m
WHERE m.is_active AND NOT m.pending_approval;

-- read_ratings --
-- Read the trust in sources.
SELECT s.source_key, s.trust
FROM memory.source_trust AS s
WHERE s.tenant_id = :tenant_id AND s.source_key = ANY (:source_keys::text[]);
