-- find_memories --
-- Return which of some ids belong to a memory, deleted or not.
SELECT memory_id
FROM memory.memories
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
    AND memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids;

-- lock_aliases --
-- Take the lock of a tenant's aliases, because one alias depends on others.
INSERT INTO memory.usage AS known (tenant_id, kind, slot, amount)
VALUES (:tenant_id, 'aliases', 0, 0)
ON CONFLICT ON CONSTRAINT usage_pkey DO UPDATE SET amount = known.amount;

-- get_aliases --
-- Read the aliases of some memories.
SELECT alias_memory_id, canonical_memory_id, confidence, note, revision, create_time, update_time, created_by,
       updated_by
FROM memory.aliases
WHERE tenant_id = :tenant_id AND alias_memory_id = ANY (:memory_ids::uuid[]);

-- list_aliases --
-- Read aliases in the order of their ids, of all memories.
SELECT alias_memory_id, canonical_memory_id, confidence, note, revision, create_time, update_time, created_by,
       updated_by
FROM memory.aliases
WHERE tenant_id = :tenant_id AND alias_memory_id > :after
ORDER BY alias_memory_id
LIMIT :count;

-- list_aliases_of --
-- Read the aliases of one memory in the order of their ids.
SELECT alias_memory_id, canonical_memory_id, confidence, note, revision, create_time, update_time, created_by,
       updated_by
FROM memory.aliases
WHERE tenant_id = :tenant_id AND canonical_memory_id = :canonical_memory_id AND alias_memory_id > :after
ORDER BY alias_memory_id
LIMIT :count;

-- put_alias --
-- Store an alias.
INSERT INTO memory.aliases
    (tenant_id, alias_memory_id, canonical_memory_id, confidence, note, revision, create_time, update_time, created_by,
     updated_by)
VALUES
    (:tenant_id, :alias_memory_id, :canonical_memory_id, :confidence, :note, :revision, :create_time, :update_time,
     :created_by, :updated_by)
ON CONFLICT ON CONSTRAINT aliases_pkey DO UPDATE
SET canonical_memory_id = excluded.canonical_memory_id, confidence = excluded.confidence, note = excluded.note,
    revision = excluded.revision, update_time = excluded.update_time, updated_by = excluded.updated_by;

-- delete_alias --
-- Delete an alias.
DELETE FROM memory.aliases
WHERE tenant_id = :tenant_id AND alias_memory_id = :alias_memory_id;
