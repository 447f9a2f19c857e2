-- list_pending --
-- Find the oldest items of the backlog, except some.
SELECT d.item_id, d.kind, d.revision
FROM recall.documents AS d
WHERE d.tenant_id = :tenant_id AND d.pending AND d.item_id <> ALL (:excluded::uuid[])
ORDER BY d.item_id
LIMIT :limit;

-- filter_pending --
-- Find those of some items that are in the backlog in the revisions that they are given with.
SELECT d.item_id
FROM unnest(:item_ids::uuid[], :revisions::bigint[]) AS requested (item_id, revision)
JOIN recall.documents AS d
    ON d.tenant_id = :tenant_id AND d.item_id = requested.item_id AND d.revision = requested.revision AND d.pending;

-- pending_backlog --
-- Count the items of the backlog, up to a number, and name the oldest.
SELECT count(*)::integer AS count, (array_agg(waiting.item_id))[1] AS oldest_id
FROM (
    SELECT d.item_id
    FROM recall.documents AS d
    WHERE d.tenant_id = :tenant_id AND d.pending
    ORDER BY d.item_id
    LIMIT :limit
) AS waiting;

-- memory_texts --
-- Read the text of memories to embed, composed as the memory service does it.
SELECT e.memory_id AS item_id, concat_ws(': ', (
           SELECT d.speaker FROM recall.documents AS d
           WHERE d.tenant_id = :tenant_id AND d.item_id = requested.memory_id
       ), concat_ws(E'\n', nullif(e.title, ''), nullif(e.key, ''), nullif(e.content, ''), nullif(e.words, ''))) AS text
FROM unnest(:memory_ids::uuid[]) AS requested (memory_id)
CROSS JOIN LATERAL (
    SELECT e.* FROM memory.memories AS e
    WHERE e.tenant_id = :tenant_id AND e.memory_id = requested.memory_id
        AND e.memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids
    OFFSET 0
) AS e;

-- message_texts --
-- Read the text of messages to embed, composed as the session service does it.
SELECT m.message_id AS item_id, concat_ws(': ', nullif(m.name, ''), m.content) AS text
FROM unnest(:message_ids::uuid[]) AS requested (message_id)
CROSS JOIN LATERAL (
    SELECT m.* FROM session.messages AS m
    WHERE m.tenant_id = :tenant_id AND m.message_id = requested.message_id
        AND m.message_id BETWEEN :first_of_message_ids AND :last_of_message_ids
    OFFSET 0
) AS m;

-- memory_words --
-- Read the texts of memories whose words are searched; the memory service composes them likewise.
SELECT e.memory_id AS item_id, concat_ws(E'\n', nullif(e.content, ''), nullif(e.words, '')) AS text, e.title, e.key,
       e.subject_id, e.agent_id, e.source_agent,
       ARRAY(SELECT t.tag FROM memory.tags AS t WHERE t.tenant_id = :tenant_id AND t.memory_id = e.memory_id) AS tags
FROM unnest(:memory_ids::uuid[]) AS requested (memory_id)
CROSS JOIN LATERAL (
    SELECT e.* FROM memory.memories AS e
    WHERE e.tenant_id = :tenant_id AND e.memory_id = requested.memory_id
        AND e.memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids
    OFFSET 0
) AS e;

-- message_words --
-- Read the texts of messages whose words are searched; the session service composes them likewise.
SELECT m.message_id AS item_id, m.content AS text, m.name
FROM unnest(:message_ids::uuid[]) AS requested (message_id)
CROSS JOIN LATERAL (
    SELECT m.* FROM session.messages AS m
    WHERE m.tenant_id = :tenant_id AND m.message_id = requested.message_id
        AND m.message_id BETWEEN :first_of_message_ids AND :last_of_message_ids
    OFFSET 0
) AS m;

-- find_named_items --
-- Find memories or messages by ids that other systems gave them.
SELECT e.external_id, e.memory_id AS item_id FROM memory.external_ids AS e
WHERE :kind::text = 'memory' AND e.tenant_id = :tenant_id AND e.external_id = ANY (:names::text[])
UNION ALL
SELECT e.external_id, e.message_id FROM session.message_external_ids AS e
WHERE :kind::text = 'message' AND e.tenant_id = :tenant_id AND e.external_id = ANY (:names::text[]);

-- read_documents --
-- Read the documents of items that can be recalled at a time, and that an agent sees; empty: no agent.
SELECT d.item_id, d.kind, d.revision, d.pending
FROM recall.documents AS d
WHERE d.tenant_id = :tenant_id AND d.item_id = ANY (:item_ids::uuid[]) AND d.kind = :kind
    AND (d.expire_time IS NULL OR d.expire_time > :at)
    AND (:agent_id::text = '' OR d.kind = 'message' OR d.scope = 'global' OR d.agent_id = :agent_id
         OR (d.agent_id IS NULL AND d.scope <> 'agent'));

-- read_vector_origins --
-- Read which provider computed the vectors that callers brought for items.
SELECT o.item_id, o.model, o.provider, o.create_time
FROM recall.vector_origins AS o
WHERE o.tenant_id = :tenant_id AND o.item_id = ANY (:item_ids::uuid[]);

-- count_vectors_of_items --
-- Count the vectors that items have in a table.
SELECT v.item_id, count(*)::integer AS vector_count
FROM recall.{table} AS v
WHERE v.tenant_id = :tenant_id AND v.item_id = ANY (:item_ids::uuid[])
GROUP BY v.item_id;

-- read_vectors --
-- Read the vectors that items have in a table, in the order of their chunks.
SELECT v.item_id, v.embedding, v.rest
FROM recall.{table} AS v
WHERE v.tenant_id = :tenant_id AND v.item_id = ANY (:item_ids::uuid[])
ORDER BY v.item_id, v.chunk;
