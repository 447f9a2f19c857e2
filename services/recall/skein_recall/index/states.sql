-- find_named_items --
-- Find memories or messages by ids that other systems gave them.
SELECT e.external_id, e.memory_id AS item_id FROM memory.external_ids AS e
WHERE :kind::text = 'memory' AND e.tenant_id = :tenant_id AND e.external_id = ANY (:names::text[])
UNION ALL
SELECT e.external_id, e.message_id FROM session.message_external_ids AS e
WHERE :kind::text = 'message' AND e.tenant_id = :tenant_id AND e.external_id = ANY (:names::text[]);

-- read_documents --
-- Read what the index knows of items that can be recalled at a time.
SELECT d.item_id, d.kind, d.revision, d.pending
FROM recall.documents AS d
WHERE d.tenant_id = :tenant_id AND d.item_id = ANY (:item_ids::uuid[]) AND d.kind = :kind
    AND (d.expire_time IS NULL OR d.expire_time > :at);

-- read_vector_origins --
-- Read which provider made the vectors that callers brought for items.
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
