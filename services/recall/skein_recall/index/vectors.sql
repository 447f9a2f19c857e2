-- claim_documents --
-- Lock items that are still at these revisions, and put them into the backlog or take them out; tell with each whether the
-- tenant keeps codes of tokens. The locks are taken in order of the ids, so that two callers with the same items wait for
-- one another.
WITH locked AS MATERIALIZED (
    SELECT d.item_id
    FROM unnest(:item_ids::uuid[], :revisions::bigint[]) AS expected (item_id, revision)
    JOIN recall.documents AS d
        ON d.tenant_id = :tenant_id AND d.item_id = expected.item_id AND d.revision = expected.revision
    ORDER BY d.item_id
    FOR NO KEY UPDATE OF d
)
UPDATE recall.documents AS d
SET pending = :pending,
    embed_time = CASE WHEN :pending THEN NULL WHEN d.pending THEN :at::timestamptz ELSE d.embed_time END
FROM locked
WHERE d.tenant_id = :tenant_id AND d.item_id = locked.item_id
RETURNING d.item_id, d.kind, coalesce(
    (SELECT p.recall_token_vectors FROM tenancy.policies AS p WHERE p.tenant_id = :tenant_id), true
) AS keeps_tokens;

-- insert_missing_vectors --
-- Insert computed vectors of locked documents; skip chunks that are there.
INSERT INTO recall.{table} (tenant_id, item_id, chunk, kind, embedding, rest, tokens)
VALUES (:tenant_id, :item_id, :chunk, :kind, :embedding, :rest, :tokens)
ON CONFLICT (tenant_id, item_id, chunk) DO NOTHING;

-- delete_vectors --
-- Remove the vectors of items.
DELETE FROM recall.{table}
WHERE tenant_id = :tenant_id AND item_id = ANY (:item_ids::uuid[]);

-- delete_vectors_without_tokens --
-- Remove the vectors of items that have no codes of tokens, unless a caller brought them.
DELETE FROM recall.{table} AS v
WHERE v.tenant_id = :tenant_id AND v.item_id = ANY (:item_ids::uuid[]) AND v.tokens IS NULL
    AND NOT EXISTS (
        SELECT FROM recall.vector_origins AS o
        WHERE o.tenant_id = :tenant_id AND o.item_id = v.item_id AND o.model = :model
    );

-- document_of_external_id --
-- Find a memory or a message by the id that another system gave it.
SELECT e.memory_id AS item_id FROM memory.external_ids AS e
WHERE :kind::text = 'memory' AND e.tenant_id = :tenant_id AND e.external_id = :external_id
UNION ALL
SELECT e.message_id FROM session.message_external_ids AS e
WHERE :kind::text = 'message' AND e.tenant_id = :tenant_id AND e.external_id = :external_id;

-- lock_document --
-- Read and lock an item's document, which an agent must see; empty: no agent.
SELECT d.item_id, d.kind, d.revision, d.pending
FROM recall.documents AS d
WHERE d.tenant_id = :tenant_id AND d.item_id = :item_id
    AND (:agent_id::text = '' OR d.kind = 'message' OR d.scope = 'global' OR d.agent_id = :agent_id
         OR (d.agent_id IS NULL AND d.scope <> 'agent'))
FOR NO KEY UPDATE;

-- lock_documents --
-- Lock the documents of items that are still at these revisions, in order of their ids; tell with each whether the tenant
-- keeps codes of tokens.
SELECT d.item_id, d.kind, coalesce(
           (SELECT p.recall_token_vectors FROM tenancy.policies AS p WHERE p.tenant_id = :tenant_id), true
       ) AS keeps_tokens
FROM unnest(:item_ids::uuid[], :revisions::bigint[]) AS expected (item_id, revision)
JOIN recall.documents AS d
    ON d.tenant_id = :tenant_id AND d.item_id = expected.item_id AND d.revision = expected.revision
ORDER BY d.item_id
FOR NO KEY UPDATE OF d;

-- set_embedding_pending --
-- Put an item into the backlog, or take it out.
UPDATE recall.documents
SET pending = :pending,
    embed_time = CASE WHEN :pending THEN NULL WHEN pending THEN :at::timestamptz ELSE embed_time END
WHERE tenant_id = :tenant_id AND item_id = :item_id;

-- put_vector_origin --
-- Record which provider computed the vectors that a caller brought for an item.
INSERT INTO recall.vector_origins (tenant_id, item_id, model, provider, create_time)
VALUES (:tenant_id, :item_id, :model, :provider, :create_time)
ON CONFLICT ON CONSTRAINT vector_origins_pkey DO UPDATE
SET provider = excluded.provider, create_time = excluded.create_time;

-- items_with_vectors --
-- Find which of some items have vectors in a table.
SELECT DISTINCT v.item_id
FROM recall.{table} AS v
WHERE v.tenant_id = :tenant_id AND v.item_id = ANY (:item_ids::uuid[]);

-- active_reindexes --
-- Find the running reindexes of some models in a tenant.
SELECT r.reindex_id
FROM recall.reindexes AS r
WHERE r.model = ANY (:models::text[]) AND r.cancel_time IS NULL
    AND (r.only_tenant_id IS NULL OR r.only_tenant_id = :tenant_id)
ORDER BY r.reindex_id;

-- mark_incomplete --
-- Record that the models of reindexes lack vectors of some documents.
UPDATE recall.reindexes
SET is_complete = false
WHERE reindex_id = ANY (:reindex_ids::uuid[]) AND is_complete;

-- request_rescan --
-- Have a reindex scan a tenant once more: documents were written without vectors of its model.
INSERT INTO recall.reindex_progress AS d
    (tenant_id, reindex_id, scan_time, after_id, documents, seen, scan_embedded, missing, is_finished, is_stale, embedded)
VALUES (:tenant_id, :reindex_id, to_timestamp(0), '00000000-0000-0000-0000-000000000000', 0, 0, 0, 0, true, true, 0)
ON CONFLICT ON CONSTRAINT reindex_progress_pkey DO UPDATE SET is_stale = true;
