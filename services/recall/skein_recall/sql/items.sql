-- get_memories --
-- Read memories that may be recalled, in no order: not, unless they are asked for, those that are no longer true and those
-- that another memory in the index supersedes. The ids must be values, so that only their months are planned.
SELECT e.memory_id, e.external_id, e.type, e.title, e.key, e.content, e.data, e.source, e.source_agent, e.agent_id,
       e.subject_id, e.session_id, e.scope, e.level, e.confidence, e.importance, e.expire_time, e.valid_from_time,
       e.valid_to_time, e.metadata, e.content_hash, e.revision, e.create_time, e.update_time, e.created_by, e.updated_by,
       ARRAY(
           SELECT t.tag FROM memory.tags AS t
           WHERE t.tenant_id = :tenant_id AND t.memory_id = e.memory_id
           ORDER BY t.tag
       ) AS tags
FROM memory.entries AS e
WHERE e.tenant_id = :tenant_id
    AND e.memory_id = ANY (:memory_ids::uuid[])
    AND e.is_active
    AND e.archive_time IS NULL
    AND (e.expire_time IS NULL OR e.expire_time > :at)
    AND (:show_superseded OR (
        (e.valid_to_time IS NULL OR e.valid_to_time > :at)
        AND NOT EXISTS (
            SELECT FROM memory.links AS l
            JOIN recall.documents AS d ON d.tenant_id = :tenant_id AND d.item_id = l.from_memory_id
            WHERE l.tenant_id = :tenant_id AND l.to_memory_id = e.memory_id AND l.relation = 'supersedes'
                AND (d.expire_time IS NULL OR d.expire_time > :at)
        )
    ));

-- passing_memories --
-- Return those of some memories that pass a condition. The ids must be values, so that only their months are planned.
SELECT entries.memory_id
FROM memory.entries
WHERE entries.tenant_id = :tenant_id AND entries.memory_id = ANY (:memory_ids::uuid[]) AND ({condition});

-- get_messages --
-- Read messages that may be recalled, in no order. The ids must be values, so that only their months are planned.
SELECT m.message_id, m.external_id, m.session_id, m.sequence, m.role, m.content, m.name, m.subject_id, m.agent_id,
       m.parts, m.tool_calls, m.tool_call_id, m.tool_returns, m.model, m.step_id, m.group_id, m.sender_id,
       m.offline_thread_id, m.metadata, m.create_time, m.created_by, m.revision, m.update_time, m.updated_by
FROM session.messages AS m
WHERE m.tenant_id = :tenant_id AND m.message_id = ANY (:message_ids::uuid[]) AND m.is_active;

-- memory_texts --
-- Read what is searched of memories, as the memory service puts it together.
SELECT e.memory_id AS item_id, concat_ws(E'\n', nullif(e.title, ''), nullif(e.key, ''), nullif(e.content, ''),
       nullif(e.words, '')) AS text
FROM memory.entries AS e
WHERE e.tenant_id = :tenant_id AND e.memory_id = ANY (:memory_ids::uuid[]);

-- message_texts --
-- Read what is searched of messages.
SELECT m.message_id AS item_id, m.content AS text
FROM session.messages AS m
WHERE m.tenant_id = :tenant_id AND m.message_id = ANY (:message_ids::uuid[]);
