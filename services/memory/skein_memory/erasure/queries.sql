-- purge_memory_versions --
-- Purge the earlier versions of memories.
DELETE FROM memory.versions
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- purge_memory_revisions --
-- Purge the earlier revisions of items that name memories.
DELETE FROM memory.revisions
WHERE tenant_id = :tenant_id
    AND (memory_id = ANY (:memory_ids::uuid[]) OR other_memory_id = ANY (:memory_ids::uuid[]));

-- purge_memory_accesses --
-- Purge the counts of accesses to memories.
DELETE FROM memory.accesses
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- purge_memory_links --
-- Purge the links of memories, in both directions.
DELETE FROM memory.links
WHERE tenant_id = :tenant_id
    AND (from_memory_id = ANY (:memory_ids::uuid[]) OR to_memory_id = ANY (:memory_ids::uuid[]));

-- purge_memory_tags --
-- Purge the tags of memories.
DELETE FROM memory.tags
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- purge_memory_properties --
-- Purge the properties of memories.
DELETE FROM memory.properties
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- purge_memory_external_ids --
-- Purge the external ids of memories.
DELETE FROM memory.external_ids
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- purge_memory_fact_keys --
-- Purge the fact keys of memories.
DELETE FROM memory.fact_keys
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- purge_memory_documents --
-- Purge memories from the search index; foreign keys purge their postings and vectors.
DELETE FROM recall.documents
WHERE tenant_id = :tenant_id AND item_id = ANY (:memory_ids::uuid[]);

-- purge_memory_entries --
-- Purge memories; foreign keys purge their remaining rows.
DELETE FROM memory.entries
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- clear_responses --
-- Empty the saved responses that name memories: a repeated request then gets an empty response and does nothing.
-- Responses live for a day; each is scanned once for all memories.
UPDATE memory.requests
SET response = '', fingerprint = ''
WHERE tenant_id = :tenant_id AND create_time >= :since_time AND response <> ''
    AND method <> ALL (:spared::text[])
    AND EXISTS (
        SELECT FROM regexp_matches(
            encode(response, 'escape'), '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}', 'g') AS found (ids)
        WHERE found.ids[1] = ANY (:names::text[]));

-- purge_memory_secrets --
-- Purge the secrets of memories.
DELETE FROM memory.secrets
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- purge_memory_waiting --
-- Purge rows that name memories and wait for others from cold storage.
DELETE FROM memory.waiting
WHERE tenant_id = :tenant_id
    AND (memory_id = ANY (:memory_ids::uuid[]) OR other_memory_id = ANY (:memory_ids::uuid[]));

-- purge_memory_tasks --
-- Purge the task rows of memories.
DELETE FROM memory.tasks
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- purge_memory_aliases --
-- Purge the aliases of memories, as alias and as canonical memory.
DELETE FROM memory.aliases
WHERE tenant_id = :tenant_id
    AND (alias_memory_id = ANY (:memory_ids::uuid[]) OR canonical_memory_id = ANY (:memory_ids::uuid[]));

-- purge_memory_conflict_resolutions --
-- Purge the resolutions of conflicts of memories.
DELETE FROM memory.conflict_resolutions
WHERE tenant_id = :tenant_id
    AND (a_memory_id = ANY (:memory_ids::uuid[]) OR b_memory_id = ANY (:memory_ids::uuid[]));

-- purge_memory_snapshot_items --
-- Purge the copies of memories, and of items that name them, from snapshots.
DELETE FROM memory.snapshot_items
WHERE tenant_id = :tenant_id AND (memory_id = ANY (:memory_ids::uuid[]) OR other_memory_id = ANY (:memory_ids::uuid[]));

-- oldest_memories --
-- Scan the oldest memories of a range of ids, each with whether it was recorded before a time.
SELECT memory_id, greatest(record_time, update_time) < :before AS goes
FROM memory.entries
WHERE tenant_id = :tenant_id AND memory_id > :after_id AND memory_id < :before_id
ORDER BY memory_id
LIMIT :scan;

-- find_blocks_of_subject --
-- Return the ids of the blocks that are or were about a person, in order, after the id `after_id`.
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
-- Lock blocks against changes, copies and attachments; return their subjects and which are not deleted.
SELECT block_id, subject_id, delete_time IS NULL AS is_active
FROM memory.blocks
WHERE tenant_id = :tenant_id AND block_id = ANY (:block_ids::text[])
ORDER BY block_id
FOR UPDATE;

-- lock_blocks_with_agents --
-- Lock blocks against a purge while they are copied.
SELECT block_id
FROM memory.blocks
WHERE tenant_id = :tenant_id AND block_id = ANY (:block_ids::text[])
ORDER BY block_id
FOR KEY SHARE;

-- purge_memory_block_revisions --
-- Purge earlier revisions of blocks: all of some blocks; of the others those about a person.
DELETE FROM memory.revisions
WHERE tenant_id = :tenant_id AND kind = 'block' AND item_id = ANY (:block_ids::text[])
    AND (item_id = ANY (:own_ids::text[]) OR subject_id = :subject_id);

-- purge_memory_block_copies --
-- Purge the copies of blocks from snapshots.
DELETE FROM memory.snapshot_items
WHERE tenant_id = :tenant_id AND kind = 'block' AND item_id = ANY (:block_ids::text[]);

-- purge_memory_block_agents --
-- Purge the attachments of blocks.
DELETE FROM memory.block_agents
WHERE tenant_id = :tenant_id AND block_id = ANY (:block_ids::text[]);

-- purge_memory_blocks --
-- Purge blocks.
DELETE FROM memory.blocks
WHERE tenant_id = :tenant_id AND block_id = ANY (:block_ids::text[]);

-- clear_block_responses --
-- Empty the saved responses that contain blocks: a repeated request then gets an empty response and does nothing.
UPDATE memory.requests
SET response = '', fingerprint = ''
WHERE tenant_id = :tenant_id AND create_time >= :since_time AND response <> ''
    AND EXISTS (
        SELECT FROM unnest(:names::bytea[]) AS shown (name)
        WHERE position(shown.name IN requests.response) > 0);
