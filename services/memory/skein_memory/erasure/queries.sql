-- purge_memory_versions --
-- Remove what memories said before.
DELETE FROM memory.versions
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- purge_memory_revisions --
-- Remove earlier states of what names memories.
DELETE FROM memory.revisions
WHERE tenant_id = :tenant_id
    AND (memory_id = ANY (:memory_ids::uuid[]) OR other_memory_id = ANY (:memory_ids::uuid[]));

-- purge_memory_accesses --
-- Remove how often memories were used.
DELETE FROM memory.accesses
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- purge_memory_links --
-- Remove the links of memories, both ways.
DELETE FROM memory.links
WHERE tenant_id = :tenant_id
    AND (from_memory_id = ANY (:memory_ids::uuid[]) OR to_memory_id = ANY (:memory_ids::uuid[]));

-- purge_memory_tags --
-- Remove the tags of memories.
DELETE FROM memory.tags
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- purge_memory_properties --
-- Remove the properties of memories.
DELETE FROM memory.properties
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- purge_memory_external_ids --
-- Remove the ids that memories have in other systems.
DELETE FROM memory.external_ids
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- purge_memory_fact_keys --
-- Remove the keys that facts hold.
DELETE FROM memory.fact_keys
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- purge_memory_documents --
-- Take memories out of the search index; their postings and vectors go with them.
DELETE FROM recall.documents
WHERE tenant_id = :tenant_id AND item_id = ANY (:memory_ids::uuid[]);

-- purge_memory_entries --
-- Remove memories; whatever else hangs on them goes with them.
DELETE FROM memory.entries
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- clear_responses --
-- Empty the stored answers that speak of memories: repeated, the request gets an answer without them and does nothing.
-- Answers are kept for a day; each is looked through once, however many memories are asked for.
UPDATE memory.requests
SET response = '', fingerprint = ''
WHERE tenant_id = :tenant_id AND create_time >= :since_time AND response <> ''
    AND method <> ALL (:spared::text[])
    AND EXISTS (
        SELECT FROM regexp_matches(
            encode(response, 'escape'), '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}', 'g') AS found (ids)
        WHERE found.ids[1] = ANY (:names::text[]));

-- read_contents --
-- Return what memories say and have said, with its type.
SELECT said.type, said.content, said.data
FROM (
    SELECT type, content, data FROM memory.entries
    WHERE entries.tenant_id = :tenant_id AND entries.memory_id = ANY (:memory_ids::uuid[])
    UNION ALL
    SELECT type, content, data FROM memory.versions
    WHERE versions.tenant_id = :tenant_id AND versions.memory_id = ANY (:memory_ids::uuid[])
) AS said
WHERE said.content <> '' OR said.data IS NOT NULL;

-- insert_salt --
-- Give a tenant the salt of its tombstones, unless it has one.
INSERT INTO memory.tombstone_salts (tenant_id, salt)
VALUES (:tenant_id, :salt)
ON CONFLICT ON CONSTRAINT tombstone_salts_pkey DO NOTHING;

-- read_salt --
-- Read the salt of a tenant's tombstones.
SELECT salt FROM memory.tombstone_salts WHERE tenant_id = :tenant_id;

-- insert_tombstones --
-- Remember the digests of what was purged; those that are there stay.
INSERT INTO memory.tombstones (tenant_id, digest, create_time)
VALUES (:tenant_id, :digest, :create_time)
ON CONFLICT ON CONSTRAINT tombstones_pkey DO NOTHING;

-- renew_tombstones --
-- Remember the digests of what was purged, and that of what is there already it was done again.
INSERT INTO memory.tombstones (tenant_id, digest, create_time)
VALUES (:tenant_id, :digest, :create_time)
ON CONFLICT ON CONSTRAINT tombstones_pkey DO UPDATE SET create_time = excluded.create_time;

-- find_tombstones --
-- Return those of some digests that belong to what was purged.
SELECT digest FROM memory.tombstones
WHERE tenant_id = :tenant_id AND digest = ANY (:digests::bytea[]);

-- external_ids_of --
-- Return the ids that memories have in other systems.
SELECT external_id FROM memory.external_ids
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- purge_memory_secrets --
-- Remove the secrets of memories of the vault.
DELETE FROM memory.secrets
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- purge_memory_waiting --
-- Remove what names memories and waits for others from cold storage.
DELETE FROM memory.waiting
WHERE tenant_id = :tenant_id
    AND (memory_id = ANY (:memory_ids::uuid[]) OR other_memory_id = ANY (:memory_ids::uuid[]));

-- purge_memory_tasks --
-- Remove memories from the lists of tasks.
DELETE FROM memory.tasks
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- purge_memory_aliases --
-- Remove what memories are names of, and what has them as a name.
DELETE FROM memory.aliases
WHERE tenant_id = :tenant_id
    AND (alias_memory_id = ANY (:memory_ids::uuid[]) OR canonical_memory_id = ANY (:memory_ids::uuid[]));

-- purge_memory_conflict_resolutions --
-- Remove how conflicts of memories were resolved.
DELETE FROM memory.conflict_resolutions
WHERE tenant_id = :tenant_id
    AND (a_memory_id = ANY (:memory_ids::uuid[]) OR b_memory_id = ANY (:memory_ids::uuid[]));

-- purge_memory_snapshot_items --
-- Remove what snapshots copied of memories, and of what names them.
DELETE FROM memory.snapshot_items
WHERE tenant_id = :tenant_id AND (memory_id = ANY (:memory_ids::uuid[]) OR other_memory_id = ANY (:memory_ids::uuid[]));

-- oldest_memories --
-- Look at the oldest memories of a range of ids, and say which were not recorded since a time either.
SELECT memory_id, greatest(record_time, update_time) < :before AS goes
FROM memory.entries
WHERE tenant_id = :tenant_id AND memory_id > :after_id AND memory_id < :before_id
ORDER BY memory_id
LIMIT :scan;

-- find_blocks_of_subject --
-- Return the blocks that are about a person, or were, in the order of their ids, from the one after `after_id` on.
SELECT found.block_id
FROM (
    (SELECT block_id FROM memory.blocks
     WHERE blocks.tenant_id = :tenant_id AND blocks.subject_id = :subject_id AND blocks.subject_id <> ''
         AND blocks.block_id > :after_id
     ORDER BY block_id
     LIMIT :count)
    UNION
    (SELECT DISTINCT item_id COLLATE "C" AS block_id FROM memory.revisions
     WHERE revisions.tenant_id = :tenant_id AND revisions.subject_id = :subject_id AND revisions.kind = 'block'
         AND revisions.item_id COLLATE "C" > :after_id
     ORDER BY block_id
     LIMIT :count)
) AS found
ORDER BY found.block_id
LIMIT :count;

-- lock_blocks --
-- Keep others from changing, copying and attaching blocks, and say whom they are about and which are not deleted.
SELECT block_id, subject_id, delete_time IS NULL AS is_active
FROM memory.blocks
WHERE tenant_id = :tenant_id AND block_id = ANY (:block_ids::text[])
ORDER BY block_id
FOR UPDATE;

-- lock_blocks_with_agents --
-- Keep others from removing blocks for good while they are copied.
SELECT block_id
FROM memory.blocks
WHERE tenant_id = :tenant_id AND block_id = ANY (:block_ids::text[])
ORDER BY block_id
FOR KEY SHARE;

-- purge_memory_block_revisions --
-- Remove what blocks said before: some of them all of it, the others what they said while they were about a person.
DELETE FROM memory.revisions
WHERE tenant_id = :tenant_id AND kind = 'block' AND item_id = ANY (:block_ids::text[])
    AND (item_id = ANY (:own_ids::text[]) OR subject_id = :subject_id);

-- purge_memory_block_copies --
-- Remove what snapshots copied of blocks.
DELETE FROM memory.snapshot_items
WHERE tenant_id = :tenant_id AND kind = 'block' AND item_id = ANY (:block_ids::text[]);

-- purge_memory_block_agents --
-- Take blocks from every agent.
DELETE FROM memory.block_agents
WHERE tenant_id = :tenant_id AND block_id = ANY (:block_ids::text[]);

-- purge_memory_blocks --
-- Remove blocks.
DELETE FROM memory.blocks
WHERE tenant_id = :tenant_id AND block_id = ANY (:block_ids::text[]);

-- clear_block_responses --
-- Empty the stored answers that show blocks: repeated, the request gets an answer without them and does nothing.
UPDATE memory.requests
SET response = '', fingerprint = ''
WHERE tenant_id = :tenant_id AND create_time >= :since_time AND response <> ''
    AND EXISTS (
        SELECT FROM unnest(:names::bytea[]) AS shown (name)
        WHERE position(shown.name IN requests.response) > 0);
