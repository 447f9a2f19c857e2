-- spaces_of_memories --
-- Find the spaces in which some memories lie.
SELECT DISTINCT space_id
FROM memory.memories
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
    AND memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids
ORDER BY space_id;

-- find_facts_of_purged --
-- Find memories that were made of any of some purged messages.
SELECT DISTINCT memory_id
FROM memory.sources
WHERE tenant_id = :tenant_id AND source_id = ANY (:message_ids::uuid[]) AND erased_trust IS NOT NULL
ORDER BY memory_id
LIMIT :count;
