-- read_contents --
-- Return the contents of memories and of their earlier versions, with their types.
SELECT contents.type, contents.content, contents.data
FROM (
    SELECT type, content, data FROM memory.memories
    WHERE memories.tenant_id = :tenant_id AND memories.memory_id = ANY (:memory_ids::uuid[])
    AND memories.memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids
    UNION ALL
    SELECT type, content, data FROM memory.versions
    WHERE versions.tenant_id = :tenant_id AND versions.memory_id = ANY (:memory_ids::uuid[])
) AS contents
WHERE contents.content <> '' OR contents.data IS NOT NULL;

-- insert_salt --
-- Insert the salt of a tenant's tombstones, unless there is one.
INSERT INTO memory.tombstone_salts (tenant_id, salt)
VALUES (:tenant_id, :salt)
ON CONFLICT ON CONSTRAINT tombstone_salts_pkey DO NOTHING;

-- read_salt --
-- Read the salt of a tenant's tombstones.
SELECT salt FROM memory.tombstone_salts WHERE tenant_id = :tenant_id;

-- insert_tombstones --
-- Insert the digests of purged items; existing ones stay as they are.
INSERT INTO memory.tombstones (tenant_id, digest, create_time)
VALUES (:tenant_id, :digest, :create_time)
ON CONFLICT ON CONSTRAINT tombstones_pkey DO NOTHING;

-- renew_tombstones --
-- Insert the digests of purged items; existing ones get the new time.
INSERT INTO memory.tombstones (tenant_id, digest, create_time)
VALUES (:tenant_id, :digest, :create_time)
ON CONFLICT ON CONSTRAINT tombstones_pkey DO UPDATE SET create_time = excluded.create_time;

-- find_tombstones --
-- Return which of some digests belong to purged items.
SELECT digest FROM memory.tombstones
WHERE tenant_id = :tenant_id AND digest = ANY (:digests::bytea[]);

-- external_ids_of --
-- Return the external ids of memories.
SELECT external_id FROM memory.external_ids
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- list_tombstones --
-- Return the digests that a purge at a time wrote, or renewed.
SELECT digest FROM memory.tombstones
WHERE tenant_id = :tenant_id AND create_time = :create_time
ORDER BY digest;
