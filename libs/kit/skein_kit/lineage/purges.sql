-- find_made_of --
-- Find the memories that were made of messages and memories, now or formerly, in cold storage too.
SELECT memory_id FROM memory.sources
WHERE tenant_id = :tenant_id AND source_id = ANY (:source_ids::uuid[]) AND role = 'part'
UNION
SELECT memory_id FROM memory.sources_history
WHERE tenant_id = :tenant_id AND source_id = ANY (:source_ids) AND role = 'part'
UNION
SELECT memory_id FROM memory.archived_sources
WHERE tenant_id = :tenant_id AND source_id = ANY (:source_ids);

-- note_lineage_purges --
-- Note memories that the purge of a person follows.
INSERT INTO memory.lineage_purges (tenant_id, memory_id)
VALUES (:tenant_id, :memory_id)
ON CONFLICT ON CONSTRAINT lineage_purges_pkey DO NOTHING;
