-- insert_receipt --
-- Insert receipts of answers.
INSERT INTO recall.receipts (tenant_id, receipt_id, request_id, content, key_id, signature, request, query)
VALUES (:tenant_id, :receipt_id, :request_id, :content, :key_id, :signature, :request, :query);

-- get_receipt --
-- Read a receipt.
SELECT tenant_id, receipt_id, content, key_id, signature, request, query
FROM recall.receipts
WHERE tenant_id = :tenant_id AND receipt_id = :receipt_id;

-- ensure_receipt_month --
-- Create the partition of a month for receipts; return true if it was missing.
SELECT recall.ensure_month(:month);

-- drop_receipts --
-- Drop the months of receipts that end before a time, for all tenants; return how many.
SELECT recall.drop_receipts(:before);

-- purge_receipts --
-- Remove some of the receipts, of all months, of a deleted tenant.
DELETE FROM recall.receipts
WHERE tenant_id = :tenant_id AND receipt_id = ANY (ARRAY(
    SELECT receipt_id FROM recall.receipts WHERE tenant_id = :tenant_id LIMIT :count));

-- list_item_changes --
-- List the events of some items, oldest first, that one of two snapshots has and the other has not.
SELECT change.entity_id, change.transaction, change.event_type, change.principal, change.create_time
FROM memory.changes AS change
WHERE change.tenant_id = :tenant_id AND change.entity_id = ANY (:item_ids::text[])
    AND change.transaction >= :start AND change.transaction < :beyond
ORDER BY change.transaction, change.change_id
LIMIT :count;
