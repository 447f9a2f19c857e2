-- document_of_external_id --
-- Find a memory or a message by the id that another system gave it.
SELECT e.memory_id AS item_id FROM memory.external_ids AS e
WHERE :kind::text = 'memory' AND e.tenant_id = :tenant_id AND e.external_id = :external_id
UNION ALL
SELECT e.message_id FROM session.message_external_ids AS e
WHERE :kind::text = 'message' AND e.tenant_id = :tenant_id AND e.external_id = :external_id;

-- lock_document --
-- Read what the index knows of an item, and keep others from changing it until the transaction ends.
SELECT d.item_id, d.kind, d.revision, d.pending
FROM recall.documents AS d
WHERE d.tenant_id = :tenant_id AND d.item_id = :item_id
FOR NO KEY UPDATE;

-- lock_documents --
-- The same for several items that are still at these revisions, in order of their ids.
SELECT d.item_id, d.kind
FROM unnest(:item_ids::uuid[], :revisions::bigint[]) AS given (item_id, revision)
JOIN recall.documents AS d
    ON d.tenant_id = :tenant_id AND d.item_id = given.item_id AND d.revision = given.revision
ORDER BY d.item_id
FOR NO KEY UPDATE OF d;

-- set_pending --
-- Say whether the backlog has to make vectors of an item.
UPDATE recall.documents
SET pending = :pending
WHERE tenant_id = :tenant_id AND item_id = :item_id;

-- put_vector_origin --
-- Note which provider made the vectors that a caller brought for an item.
INSERT INTO recall.vector_origins (tenant_id, item_id, model, provider, create_time)
VALUES (:tenant_id, :item_id, :model, :provider, :create_time)
ON CONFLICT ON CONSTRAINT vector_origins_pkey DO UPDATE
SET provider = excluded.provider, create_time = excluded.create_time;

-- items_with_vectors --
-- Find which of some items have vectors in a table.
SELECT DISTINCT v.item_id
FROM recall.{table} AS v
WHERE v.tenant_id = :tenant_id AND v.item_id = ANY (:item_ids::uuid[]);
