-- insert_receipt --
-- Insert receipts of answers and of contexts. A repeated one changes nothing.
INSERT INTO recall.receipts (
    tenant_id, receipt_id, is_context, principal, request_id, content, key_id, signature, request, query, subject_ids
)
VALUES (
    :tenant_id, :receipt_id, :is_context, :principal, :request_id, :content, :key_id, :signature, :request, :query,
    :subject_ids
)
ON CONFLICT DO NOTHING;

-- get_receipt --
-- Read a receipt, and after it that of its context, if it has one.
SELECT is_context, content, key_id, signature, request, query
FROM recall.receipts
WHERE tenant_id = :tenant_id AND receipt_id = :receipt_id
ORDER BY is_context;

-- list_receipts --
-- List receipts of all principals, newest first, of a range of ids, which are in the order of time.
SELECT tenant_id, receipt_id, content, key_id, signature, request, query
FROM recall.receipts
WHERE tenant_id = :tenant_id AND NOT is_context AND receipt_id >= :from_id AND receipt_id < :before_id
ORDER BY receipt_id DESC
LIMIT :count;

-- list_receipts_of_principal --
-- List receipts of one principal, newest first, of a range of ids, which are in the order of time.
SELECT tenant_id, receipt_id, content, key_id, signature, request, query
FROM recall.receipts
WHERE tenant_id = :tenant_id AND NOT is_context AND principal = :principal AND receipt_id >= :from_id AND receipt_id < :before_id
ORDER BY receipt_id DESC
LIMIT :count;

-- list_contexts --
-- Read the receipts of contexts that were made of some answers.
SELECT receipt_id, content, key_id, signature, request
FROM recall.receipts
WHERE tenant_id = :tenant_id AND is_context AND receipt_id = ANY (:receipt_ids::uuid[]);

-- ensure_month --
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

-- list_archived_items --
-- List those of some items that are in cold storage.
SELECT archived.memory_id AS item_id
FROM memory.archived_memories AS archived
WHERE archived.tenant_id = :tenant_id AND archived.memory_id = ANY (:item_ids::uuid[])
UNION ALL
SELECT archived.message_id
FROM session.archived_messages AS archived
WHERE archived.tenant_id = :tenant_id AND archived.message_id = ANY (:item_ids);

-- list_hidden_items --
-- List those of some memories and messages that lie in other spaces than some, deleted and archived ones too, and memories
-- that an agent does not see, deleted ones too; '' sees those of all agents.
SELECT known.item_id
FROM recall.documents AS known
WHERE known.tenant_id = :tenant_id AND known.item_id = ANY (:item_ids::uuid[]) AND known.space_id <> ALL (:space_ids::uuid[])
UNION
SELECT former.item_id
FROM recall.documents_history AS former
WHERE former.tenant_id = :tenant_id AND former.item_id = ANY (:item_ids) AND former.space_id <> ALL (:space_ids)
UNION
SELECT entry.memory_id
FROM memory.memories AS entry
WHERE entry.tenant_id = :tenant_id AND entry.memory_id = ANY (:item_ids)
    AND entry.memory_id BETWEEN :first_of_item_ids AND :last_of_item_ids
    AND (entry.space_id <> ALL (:space_ids)
         OR (entry.scope = 'global' OR :agent_id::text IN ('', entry.agent_id)
             OR (entry.agent_id IS NULL AND entry.scope <> 'agent')) IS NOT TRUE)
UNION
SELECT archived.memory_id
FROM memory.archived_memories AS archived
WHERE archived.tenant_id = :tenant_id AND archived.memory_id = ANY (:item_ids) AND archived.space_id <> ALL (:space_ids)
UNION
SELECT entry.message_id
FROM session.messages AS entry
WHERE entry.tenant_id = :tenant_id AND entry.message_id = ANY (:item_ids)
    AND entry.message_id BETWEEN :first_of_item_ids AND :last_of_item_ids AND entry.space_id <> ALL (:space_ids)
UNION
SELECT archived.message_id
FROM session.archived_messages AS archived
WHERE archived.tenant_id = :tenant_id AND archived.message_id = ANY (:item_ids) AND archived.space_id <> ALL (:space_ids);

-- list_hidden_pins --
-- List those of some blocks and profiles that lie in other spaces than some, deleted ones too. An id is free in each space,
-- so each has its time of creation.
SELECT 'block' AS kind, block.block_id AS item_id, block.create_time
FROM memory.blocks AS block
WHERE block.tenant_id = :tenant_id AND block.block_id = ANY (:block_ids::text[]) AND block.space_id <> ALL (:space_ids::uuid[])
UNION
SELECT 'profile', person.subject_id, person.create_time
FROM tenancy.subjects AS person
WHERE person.tenant_id = :tenant_id AND person.subject_id = ANY (:subject_ids::text[]) AND person.space_id <> ALL (:space_ids)
UNION
SELECT 'profile', former.subject_id, former.create_time
FROM tenancy.subjects_history AS former
WHERE former.tenant_id = :tenant_id AND former.subject_id = ANY (:subject_ids) AND former.space_id <> ALL (:space_ids);

-- list_item_changes --
-- List the events of some items, oldest first, that one of two snapshots has and the other has not.
SELECT change.entity_id, change.transaction, change.event_type, change.principal, change.create_time
FROM memory.changes AS change
WHERE change.tenant_id = :tenant_id AND change.entity_id = ANY (:item_ids::text[])
    AND change.transaction >= :start AND change.transaction < :beyond
ORDER BY change.transaction, change.change_id
LIMIT :count;

-- list_unseen_times --
-- List the times at which calls recorded what a search of a former time did not see: of transactions from :beyond on, and
-- of :running ones. Former memories end at times of their own, which the events lead to.
WITH unseen AS MATERIALIZED (
    SELECT DISTINCT change.entity_id,
           NOT EXISTS (
               SELECT FROM memory.changes AS earlier
               WHERE earlier.tenant_id = :tenant_id AND earlier.entity_id = change.entity_id
                   AND earlier.transaction < :beyond AND earlier.transaction <> ALL (:running::bigint[])
           ) AS is_new
    FROM memory.changes AS change
    WHERE change.tenant_id = :tenant_id AND change.change_id >= :since_id AND change.change_id < :until_id
        AND (change.transaction >= :beyond OR change.transaction = ANY (:running))
        AND change.entity_type = 'memory'
),
found AS (
    SELECT d.record_time AS at, d.insert_transaction AS transaction
    FROM recall.documents AS d
    WHERE d.tenant_id = :tenant_id AND d.record_time >= :since AND d.record_time <= :until
    UNION ALL
    SELECT d.record_time, d.insert_transaction
    FROM recall.documents_history AS d
    WHERE d.tenant_id = :tenant_id AND d.until_time >= :since AND d.record_time >= :since AND d.record_time <= :until
    UNION ALL
    SELECT d.until_time, d.until_transaction
    FROM recall.documents_history AS d
    WHERE d.tenant_id = :tenant_id AND d.until_time >= :since AND d.until_time <= :until
    UNION ALL
    SELECT v.record_time, v.transaction
    FROM recall.{table} AS v
    WHERE v.tenant_id = :tenant_id AND v.transaction >= :start AND v.transaction < :last
    UNION ALL
    SELECT v.record_time, v.transaction
    FROM recall.{table}_history AS v
    WHERE v.tenant_id = :tenant_id AND v.kind IN ('memory', 'message') AND v.until_time >= :since
        AND v.record_time >= :since AND v.record_time <= :until
    UNION ALL
    SELECT v.until_time, v.until_transaction
    FROM recall.{table}_history AS v
    WHERE v.tenant_id = :tenant_id AND v.kind IN ('memory', 'message') AND v.until_time >= :since
        AND v.until_time <= :until
    UNION ALL
    SELECT version.until_time, version.until_transaction
    FROM unseen
    JOIN memory.versions AS version
        ON version.tenant_id = :tenant_id AND version.memory_id = unseen.entity_id::uuid
    UNION ALL
    SELECT min(greatest(known.record_time, known.update_time)), :beyond
    FROM unseen
    CROSS JOIN LATERAL (
        SELECT entry.record_time, entry.update_time FROM memory.memories AS entry
        WHERE entry.tenant_id = :tenant_id AND entry.memory_id = unseen.entity_id::uuid
        UNION ALL
        SELECT version.record_time, version.update_time FROM memory.versions AS version
        WHERE version.tenant_id = :tenant_id AND version.memory_id = unseen.entity_id::uuid
    ) AS known
    WHERE unseen.is_new
    GROUP BY unseen.entity_id
)
SELECT DISTINCT found.at
FROM found
WHERE found.at >= :since AND found.at <= :until
    AND (found.transaction >= :beyond OR found.transaction = ANY (:running));
