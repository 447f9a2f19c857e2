-- next_memory_ids --
-- Return the ids of memories, deleted ones too, in order, after the id `after_id`.
SELECT memory_id
FROM memory.memories
WHERE tenant_id = :tenant_id AND memory_id > :after_id
ORDER BY memory_id
LIMIT :count;

-- find_other_spaces --
-- Return the spaces of memories that lie in another than the default one.
SELECT memory_id, space_id
FROM memory.memories
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
    AND memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids
    AND space_id <> '00000000-0000-0000-0000-000000000000';

-- versions_as_of --
-- Read the versions of a time, of memories that changed after it. Older releases recorded a decay at the update_time
-- before it, so of overlapping versions the first one counts.
SELECT DISTINCT ON (memory_id)
       memory_id, external_id, type, title, key, content, data, source, source_agent, agent_id, subject_id, session_id,
       scope, level, confidence, importance, expire_time, archive_time, valid_from_time, valid_to_time, metadata,
       revision, create_time, update_time, greatest(record_time, update_time) AS record_time, delete_time, created_by,
       updated_by, tags
FROM memory.versions
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]) 
    AND greatest(record_time, update_time) <= :at AND until_time > :at
ORDER BY memory_id, revision;

-- next_link_ids --
-- Return the ids of links in order, after the id `after_id`.
SELECT link_id
FROM memory.links
WHERE tenant_id = :tenant_id AND link_id > :after_id
ORDER BY link_id
LIMIT :count;

-- revisions_as_of --
-- Read the revisions of a time, of some items that changed after it.
SELECT item_id, revision, memory_id, other_memory_id, state, from_time
FROM memory.revisions
WHERE tenant_id = :tenant_id AND kind = :kind AND item_id = ANY (:item_ids::text[]) AND from_time <= :at
    AND until_time > :at;

-- revisions_between --
-- Read the revisions of a time, of items of a range of ids that changed or were deleted after it.
SELECT item_id, revision, memory_id, other_memory_id, state, from_time
FROM memory.revisions
WHERE tenant_id = :tenant_id AND kind = :kind AND item_id > :after_id AND item_id <= :last_id AND from_time <= :at
    AND until_time > :at;

-- agents_of_blocks --
-- Return the agents of some blocks.
SELECT block_id, agent_id
FROM memory.block_agents
WHERE tenant_id = :tenant_id AND block_id = ANY (:block_ids::text[])
ORDER BY block_id, agent_id;

-- next_block_ids --
-- Return the ids of blocks, deleted ones too, in order, after the id `after_id`.
SELECT block_id
FROM memory.blocks
WHERE tenant_id = :tenant_id AND block_id > :after_id
ORDER BY block_id
LIMIT :count;

-- read_blocks --
-- Read blocks by id, deleted ones too, in no order.
SELECT block_id, label, value, max_characters, description, read_only, is_template, template_name, subject_id, metadata,
       revision, create_time, update_time, greatest(record_time, update_time) AS record_time, delete_time, created_by,
       updated_by, writers
FROM memory.blocks
WHERE tenant_id = :tenant_id AND block_id = ANY (:block_ids::text[]);

-- next_resolutions --
-- Read resolutions of conflicts in the order of their pairs, after a pair.
SELECT resolution_id, a_memory_id, b_memory_id, status, canonical_memory_id, note, link_id, closed_time, revision,
       create_time, update_time, created_by, updated_by
FROM memory.conflict_resolutions
WHERE tenant_id = :tenant_id AND (a_memory_id, b_memory_id) > (:after_a::uuid, :after_b::uuid)
ORDER BY a_memory_id, b_memory_id
LIMIT :count;

-- delete_resolution --
-- Delete the resolution of a conflict.
DELETE FROM memory.conflict_resolutions
WHERE tenant_id = :tenant_id AND a_memory_id = :a_memory_id AND b_memory_id = :b_memory_id;

-- read_source_trusts --
-- Read the trust in some sources.
SELECT source_key, trust, notes, revision, create_time, update_time, created_by, updated_by
FROM memory.source_trust
WHERE tenant_id = :tenant_id AND source_key = ANY (:source_keys::text[]);

-- insert_snapshot --
-- Insert a snapshot.
INSERT INTO memory.snapshots
    (tenant_id, snapshot_id, label, summary, state, as_of_time, horizon, counts, policy, create_time, created_by)
VALUES
    (:tenant_id, :snapshot_id, :label, :summary, :state, :as_of_time, :horizon, :counts, :policy, :create_time,
     :created_by);

-- get_snapshot --
-- Read a snapshot.
SELECT snapshot_id, label, summary, state, as_of_time, horizon, last_kind, last_item_id, counts, policy, create_time,
       created_by, space_id
FROM memory.snapshots
WHERE tenant_id = :tenant_id AND snapshot_id = :snapshot_id;

-- lock_snapshot --
-- Read and lock a snapshot.
SELECT snapshot_id, label, summary, state, as_of_time, horizon, last_kind, last_item_id, counts, policy, create_time,
       created_by, space_id
FROM memory.snapshots
WHERE tenant_id = :tenant_id AND snapshot_id = :snapshot_id
FOR NO KEY UPDATE;

-- list_snapshots --
-- Read the newest snapshots of two states that are older than one, in order.
SELECT snapshot_id, label, summary, state, as_of_time, horizon, last_kind, last_item_id, counts, policy, create_time,
       created_by, space_id
FROM memory.snapshots
WHERE tenant_id = :tenant_id AND snapshot_id < :before_id AND state = ANY (:states::text[])
ORDER BY snapshot_id DESC
LIMIT :count;

-- unfinished_snapshots --
-- Return the oldest snapshots that are being created or deleted, and their spaces.
SELECT snapshot_id, space_id
FROM memory.snapshots
WHERE tenant_id = :tenant_id AND state = ANY (ARRAY['creating', 'deleting'])
ORDER BY snapshot_id
LIMIT :count;

-- surplus_snapshots --
-- Return the ready snapshots that are older than the `kept` newest ones.
SELECT snapshot_id
FROM memory.snapshots
WHERE tenant_id = :tenant_id AND state = 'ready'
ORDER BY snapshot_id DESC
OFFSET :kept
LIMIT :count;

-- move_snapshot --
-- Store the progress of a snapshot.
UPDATE memory.snapshots
SET state = :state, last_kind = :last_kind, last_item_id = :last_item_id, counts = :counts
WHERE tenant_id = :tenant_id AND snapshot_id = :snapshot_id;

-- drop_snapshots --
-- Mark snapshots as being deleted; their items are removed in batches.
UPDATE memory.snapshots
SET state = 'deleting'
WHERE tenant_id = :tenant_id AND snapshot_id = ANY (:snapshot_ids::uuid[]) AND state <> 'deleting';

-- delete_snapshot_items --
-- Remove some items of a snapshot.
DELETE FROM memory.snapshot_items
USING (
    SELECT kind, item_id FROM memory.snapshot_items
    WHERE tenant_id = :tenant_id AND snapshot_id = :snapshot_id LIMIT :count
) AS picked
WHERE snapshot_items.tenant_id = :tenant_id AND snapshot_items.snapshot_id = :snapshot_id
    AND snapshot_items.kind = picked.kind AND snapshot_items.item_id = picked.item_id;

-- delete_snapshot --
-- Remove a snapshot whose items are gone.
DELETE FROM memory.snapshots
WHERE tenant_id = :tenant_id AND snapshot_id = :snapshot_id;

-- insert_snapshot_items --
-- Copy items into a snapshot; existing ones stay.
INSERT INTO memory.snapshot_items (tenant_id, snapshot_id, kind, item_id, memory_id, other_memory_id, content)
VALUES (:tenant_id, :snapshot_id, :kind, :item_id, :memory_id, :other_memory_id, :content)
ON CONFLICT ON CONSTRAINT snapshot_items_pkey DO NOTHING;

-- next_snapshot_items --
-- Read items of one kind of a snapshot in order, after the id `after_id`.
SELECT item_id, memory_id, other_memory_id, content
FROM memory.snapshot_items
WHERE tenant_id = :tenant_id AND snapshot_id = :snapshot_id AND kind = :kind AND item_id > :after_id
ORDER BY item_id
LIMIT :count;

-- get_snapshot_items --
-- Read some items of one kind of a snapshot.
SELECT item_id, memory_id, other_memory_id, content
FROM memory.snapshot_items
WHERE tenant_id = :tenant_id AND snapshot_id = :snapshot_id AND kind = :kind AND item_id = ANY (:item_ids::text[]);

-- get_snapshot_links --
-- Read the links of a snapshot that lead from some memories.
SELECT item_id, content
FROM memory.snapshot_items
WHERE tenant_id = :tenant_id AND snapshot_id = :snapshot_id AND kind = 'link' AND memory_id = ANY (:memory_ids::uuid[]);
