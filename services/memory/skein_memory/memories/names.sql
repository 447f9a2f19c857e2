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
-- Take the keys of facts; those that other facts about the same subject hold are passed over.
INSERT INTO memory.fact_keys (tenant_id, subject_id, key, folded_key, memory_id)
VALUES (:tenant_id, :subject_id, :key, :folded_key, :memory_id)
ON CONFLICT ON CONSTRAINT fact_keys_pkey DO NOTHING;

-- find_fact_keys --
-- Return the facts that hold keys, given as two lists, each with the place of its key; a subject of '' is none.
SELECT wanted.place, held.memory_id
FROM unnest(:subject_ids::text[], :folded_keys::text[]) WITH ORDINALITY AS wanted (subject_id, folded_key, place)
CROSS JOIN LATERAL (
    SELECT memory_id FROM memory.fact_keys
    WHERE fact_keys.tenant_id = :tenant_id
        AND CASE WHEN fact_keys.subject_id IS NULL THEN '' ELSE fact_keys.subject_id END = wanted.subject_id
        AND CASE WHEN fact_keys.folded_key IS NULL THEN fact_keys.key ELSE fact_keys.folded_key END = wanted.folded_key
    LIMIT 1) AS held;

-- release_fact_key --
-- Give up the key that a memory holds.
DELETE FROM memory.fact_keys
WHERE tenant_id = :tenant_id AND memory_id = :memory_id;
