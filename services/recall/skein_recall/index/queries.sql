-- list_pending --
-- Find the oldest items whose vectors are still to be made, but for some.
SELECT d.item_id, d.kind, d.revision
FROM recall.documents AS d
WHERE d.tenant_id = :tenant_id AND d.pending AND d.item_id <> ALL (:passed_over::uuid[])
ORDER BY d.item_id
LIMIT :limit;

-- pending_backlog --
-- Count the items whose vectors are still to be made, up to a number, and name the oldest.
SELECT count(*)::integer AS count, (array_agg(waiting.item_id))[1] AS oldest_id
FROM (
    SELECT d.item_id
    FROM recall.documents AS d
    WHERE d.tenant_id = :tenant_id AND d.pending
    ORDER BY d.item_id
    LIMIT :limit
) AS waiting;

-- claim_documents --
-- Say whether items are still the backlog's, if they are still at these revisions, and keep others from touching them
-- until the transaction ends. They are locked in order of their ids, so that two callers with the same items wait for
-- one another.
WITH locked AS MATERIALIZED (
    SELECT d.item_id
    FROM unnest(:item_ids::uuid[], :revisions::bigint[]) AS given (item_id, revision)
    JOIN recall.documents AS d
        ON d.tenant_id = :tenant_id AND d.item_id = given.item_id AND d.revision = given.revision
    ORDER BY d.item_id
    FOR NO KEY UPDATE OF d
)
UPDATE recall.documents AS d
SET pending = :pending
FROM locked
WHERE d.tenant_id = :tenant_id AND d.item_id = locked.item_id
RETURNING d.item_id, d.kind;

-- delete_vectors --
-- Remove the vectors of items.
DELETE FROM recall.{table}
WHERE tenant_id = :tenant_id AND item_id = ANY (:item_ids::uuid[]);
