-- find_external_ids --
-- Return the memories that external ids stand for.
SELECT external_id, memory_id
FROM memory.external_ids
WHERE tenant_id = :tenant_id AND external_id = ANY (:external_ids::text[]);

-- claim_external_ids --
-- Take external ids for memories; those that others hold are passed over.
INSERT INTO memory.external_ids (tenant_id, external_id, memory_id)
VALUES (:tenant_id, :external_id, :memory_id)
ON CONFLICT ON CONSTRAINT external_ids_pkey DO NOTHING;

-- claim_fact_keys --
-- Take the keys of facts; those that other facts hold are passed over.
INSERT INTO memory.fact_keys (tenant_id, key, memory_id)
VALUES (:tenant_id, :key, :memory_id)
ON CONFLICT ON CONSTRAINT fact_keys_pkey DO NOTHING;

-- find_fact_keys --
-- Return the facts that hold keys.
SELECT key, memory_id
FROM memory.fact_keys
WHERE tenant_id = :tenant_id AND key = ANY (:keys::text[]);

-- free_fact_key --
-- Give up the key that a memory holds.
DELETE FROM memory.fact_keys
WHERE tenant_id = :tenant_id AND key = :key AND memory_id = :memory_id;
