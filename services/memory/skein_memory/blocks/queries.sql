-- insert_block --
-- Store a block.
INSERT INTO memory.blocks
    (tenant_id, block_id, label, value, max_characters, description, read_only, is_template, template_name, subject_id,
     metadata, revision, create_time, update_time, record_time, delete_time, created_by, updated_by,
     writers)
VALUES
    (:tenant_id, :block_id, :label, :value, :max_characters, :description, :read_only, :is_template, :template_name,
     :subject_id, :metadata, :revision, :create_time, :update_time, :record_time, :delete_time, :created_by,
     :updated_by, :writers);

-- update_block --
-- Store a block's next revision.
UPDATE memory.blocks
SET label = :label, value = :value, max_characters = :max_characters, description = :description,
    read_only = :read_only, is_template = :is_template, template_name = :template_name, subject_id = :subject_id,
    metadata = :metadata, revision = :revision, update_time = :update_time, record_time = :record_time,
    delete_time = :delete_time, updated_by = :updated_by, writers = :writers
WHERE tenant_id = :tenant_id AND block_id = :block_id;

-- get_block --
-- Read a block, deleted or not.
SELECT block_id, label, value, max_characters, description, read_only, is_template, template_name, subject_id, metadata,
       revision, create_time, update_time, greatest(record_time, update_time) AS record_time, delete_time, created_by,
       updated_by, writers
FROM memory.blocks
WHERE tenant_id = :tenant_id AND block_id = :block_id;

-- lock_block --
-- Read and lock a block, deleted or not.
SELECT block_id, label, value, max_characters, description, read_only, is_template, template_name, subject_id, metadata,
       revision, create_time, update_time, greatest(record_time, update_time) AS record_time, delete_time, created_by,
       updated_by, writers
FROM memory.blocks
WHERE tenant_id = :tenant_id AND block_id = :block_id
FOR NO KEY UPDATE;

-- space_of_block --
-- Find the space of a block, among those that the call reaches: of blocks with one id, the first one that is not deleted.
SELECT space_id
FROM memory.blocks
WHERE tenant_id = :tenant_id AND block_id = :block_id
ORDER BY delete_time IS NOT NULL, space_id
LIMIT 1;

-- list_blocks --
-- Read blocks that pass a filter in the order of their ids and spaces; a null condition does not restrict.
SELECT block_id, space_id, label, value, max_characters, description, read_only, is_template, template_name, subject_id, metadata,
       revision, create_time, update_time, greatest(record_time, update_time) AS record_time, delete_time, created_by,
       updated_by, writers
FROM memory.blocks
WHERE tenant_id = :tenant_id AND (block_id, space_id) > (:after_id, :after_space_id::uuid)
    AND (:show_deleted::boolean OR delete_time IS NULL)
    AND (:label::text IS NULL OR label = :label)
    AND (:subject_id::text IS NULL OR (subject_id = :subject_id AND subject_id <> ''))
    AND (:template_name::text IS NULL OR template_name = :template_name)
    AND (:is_template::boolean IS NULL OR is_template = :is_template)
ORDER BY block_id, space_id
LIMIT :count;

-- list_agent_blocks --
-- Read blocks that an agent carries in the order of their ids and spaces: all, or those about one subject and without a subject.
-- An agent that is deleted carries none; with `as_of_time`, one that was deleted by then.
SELECT blocks.block_id, blocks.space_id, blocks.label, value, max_characters, description, read_only, is_template, template_name,
       blocks.subject_id, metadata, revision, create_time, update_time,
       greatest(blocks.record_time, update_time) AS record_time, delete_time, created_by, updated_by, writers
FROM memory.block_agents
JOIN memory.blocks ON blocks.tenant_id = :tenant_id AND blocks.block_id = block_agents.block_id
    AND blocks.space_id = block_agents.space_id
WHERE block_agents.tenant_id = :tenant_id AND block_agents.agent_id = :agent_id
    AND (block_agents.block_id, block_agents.space_id) > (:after_id, :after_space_id::uuid)
    AND (:subject_id::text IS NULL OR block_agents.subject_id = '' OR block_agents.subject_id = :subject_id)
    AND blocks.delete_time IS NULL
    AND NOT EXISTS (
        SELECT FROM tenancy.agents AS gone
        WHERE gone.tenant_id = :tenant_id AND gone.agent_id = :agent_id AND gone.delete_time IS NOT NULL
            AND (:as_of_time::timestamptz IS NULL OR gone.delete_time <= :as_of_time))
ORDER BY block_agents.block_id, block_agents.space_id
LIMIT :count;

-- measure_prompt_bytes --
-- Name the blocks that an agent carries about one subject and without a subject, with the bytes of their values and
-- their writers. A deleted
-- agent carries none; with `as_of_time`, one that was deleted by then.
SELECT blocks.block_id, blocks.space_id, blocks.label, blocks.subject_id, octet_length(value) AS bytes, writers
FROM memory.block_agents
JOIN memory.blocks ON blocks.tenant_id = :tenant_id AND blocks.block_id = block_agents.block_id
    AND blocks.space_id = block_agents.space_id
WHERE block_agents.tenant_id = :tenant_id AND block_agents.agent_id = :agent_id
    AND block_agents.subject_id = ANY (:subject_ids::text[])
    AND blocks.delete_time IS NULL
    AND NOT EXISTS (
        SELECT FROM tenancy.agents AS gone
        WHERE gone.tenant_id = :tenant_id AND gone.agent_id = :agent_id AND gone.delete_time IS NOT NULL
            AND (:as_of_time::timestamptz IS NULL OR gone.delete_time <= :as_of_time));

-- get_blocks --
-- Read blocks by id, in no order.
SELECT block_id, space_id, label, value, max_characters, description, read_only, is_template, template_name, subject_id, metadata,
       revision, create_time, update_time, greatest(record_time, update_time) AS record_time, delete_time, created_by,
       updated_by, writers
FROM memory.blocks
WHERE tenant_id = :tenant_id AND block_id = ANY (:block_ids::text[]) AND delete_time IS NULL;

-- lock_agent --
-- Take the lock of an agent's attachments, so that one transaction at a time counts and adds to them.
SELECT pg_advisory_xact_lock(hashtextextended(place.tenant_id::text || ' block_agents ' || place.agent_id, 0))
FROM (VALUES (:tenant_id::uuid, :agent_id::text)) AS place (tenant_id, agent_id);

-- count_agent_blocks --
-- Count an agent's blocks about one subject, or without a subject, that are not deleted.
SELECT count(*)
FROM memory.block_agents
JOIN memory.blocks ON blocks.tenant_id = :tenant_id AND blocks.block_id = block_agents.block_id
WHERE block_agents.tenant_id = :tenant_id AND block_agents.agent_id = :agent_id
    AND block_agents.subject_id = :subject_id AND blocks.delete_time IS NULL;

-- release_label --
-- Delete the attachments of deleted blocks with a label from an agent, so that another block can have it.
DELETE FROM memory.block_agents
WHERE tenant_id = :tenant_id AND agent_id = :agent_id AND subject_id = :subject_id AND label = :label
    AND block_id IN (SELECT blocks.block_id FROM memory.blocks
                     WHERE blocks.tenant_id = :tenant_id AND blocks.label = :label AND blocks.delete_time IS NOT NULL);

-- release_labels --
-- Delete the attachments of deleted blocks with a label from every agent of a block, so that this one can have it.
DELETE FROM memory.block_agents
WHERE tenant_id = :tenant_id AND label = :label AND subject_id = :subject_id
    AND agent_id IN (SELECT own.agent_id FROM memory.block_agents AS own
                     WHERE own.tenant_id = :tenant_id AND own.block_id = :block_id)
    AND block_id IN (SELECT blocks.block_id FROM memory.blocks
                     WHERE blocks.tenant_id = :tenant_id AND blocks.label = :label AND blocks.delete_time IS NOT NULL);

-- attach_block --
-- Attach a block to an agent, unless it is attached already, or another one with its label.
INSERT INTO memory.block_agents (tenant_id, agent_id, block_id, label, subject_id, attach_time, attached_by)
VALUES (:tenant_id, :agent_id, :block_id, :label, :subject_id, :attach_time, :attached_by)
ON CONFLICT DO NOTHING;

-- get_attachment --
-- Return whether an agent has a block.
SELECT block_id
FROM memory.block_agents
WHERE tenant_id = :tenant_id AND agent_id = :agent_id AND block_id = :block_id;

-- find_block_with_label --
-- Return another block with a label, of any agent that has this block.
SELECT other.block_id, other.agent_id
FROM memory.block_agents AS own
JOIN memory.block_agents AS other ON other.tenant_id = :tenant_id AND other.agent_id = own.agent_id
    AND other.label = :label AND other.subject_id = :subject_id AND other.block_id <> own.block_id
WHERE own.tenant_id = :tenant_id AND own.block_id = :block_id
LIMIT 1;

-- find_label_holder --
-- Return the block of an agent that has a label for a subject.
SELECT block_id
FROM memory.block_agents
WHERE tenant_id = :tenant_id AND agent_id = :agent_id AND label = :label AND subject_id = :subject_id;

-- detach_block --
-- Detach a block from an agent.
DELETE FROM memory.block_agents
WHERE tenant_id = :tenant_id AND agent_id = :agent_id AND block_id = :block_id;

-- deleted_agent --
-- Read an agent's id if the agent is deleted.
SELECT agent_id
FROM tenancy.agents
WHERE tenant_id = :tenant_id AND agent_id = :agent_id AND delete_time IS NOT NULL;

-- detach_purged_agents --
-- Detach some blocks from agents that are being purged.
DELETE FROM memory.block_agents
USING (
    SELECT own.agent_id, own.block_id
    FROM tenancy.agents AS gone
    JOIN memory.block_agents AS own ON own.tenant_id = :tenant_id AND own.agent_id = gone.agent_id
    WHERE gone.tenant_id = :tenant_id AND gone.purge_time IS NOT NULL
    ORDER BY own.agent_id, own.block_id
    LIMIT :count
) AS picked
WHERE block_agents.tenant_id = :tenant_id
    AND block_agents.agent_id = picked.agent_id AND block_agents.block_id = picked.block_id
RETURNING block_agents.agent_id, block_agents.block_id;

-- rename_attachments --
-- Update the label and the subject in all attachments of a block.
UPDATE memory.block_agents
SET label = :label, subject_id = :subject_id
WHERE tenant_id = :tenant_id AND block_id = :block_id;

-- list_block_agents --
-- Read the agents that a block is attached to, in the order of their ids.
SELECT agent_id, attach_time, attached_by
FROM memory.block_agents
WHERE tenant_id = :tenant_id AND block_id = :block_id AND agent_id > :after_id
ORDER BY agent_id
LIMIT :count;

-- list_revisions --
-- Read earlier revisions of an item, newest first, before one.
SELECT item_id, revision, state, from_time, until_time, changed_by
FROM memory.revisions
WHERE tenant_id = :tenant_id AND kind = :kind AND item_id = :item_id AND revision < :before_revision
ORDER BY revision DESC
LIMIT :count;

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

-- find_spaces_of_blocks --
-- Return the spaces in which some blocks are or were about a person, with the ids there.
SELECT space_id, block_id FROM memory.blocks
WHERE blocks.tenant_id = :tenant_id AND blocks.block_id = ANY (:block_ids::text[]) AND blocks.subject_id = :subject_id
UNION
SELECT space_id, item_id COLLATE "C" FROM memory.revisions
WHERE revisions.tenant_id = :tenant_id AND revisions.kind = 'block' AND revisions.item_id = ANY (:block_ids::text[])
    AND revisions.subject_id = :subject_id
ORDER BY 1, 2;

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
-- Purge the copies of blocks from snapshots and their counts.
WITH going AS MATERIALIZED (
    SELECT snapshot_id, kind, count(*) AS count
    FROM memory.snapshot_items
    WHERE tenant_id = :tenant_id AND kind = 'block' AND item_id = ANY (:block_ids::text[])
    GROUP BY snapshot_id, kind
), touched AS MATERIALIZED (
    -- In one order, so that two purges do not deadlock.
    SELECT snapshot_id FROM memory.snapshots
    WHERE tenant_id = :tenant_id AND snapshot_id IN (SELECT snapshot_id FROM going)
    ORDER BY snapshot_id
    FOR NO KEY UPDATE
), counted AS (
    UPDATE memory.snapshots AS snapshot
    SET counts = (
        SELECT coalesce(jsonb_object_agg(known.kind, known.count::bigint - coalesce(going.count, 0)), '{}')
        FROM jsonb_each_text(snapshot.counts) AS known (kind, count)
        LEFT JOIN going ON going.snapshot_id = snapshot.snapshot_id AND going.kind = known.kind
        WHERE known.count::bigint > coalesce(going.count, 0))
    WHERE snapshot.tenant_id = :tenant_id AND snapshot.snapshot_id IN (SELECT snapshot_id FROM touched)
)
DELETE FROM memory.snapshot_items
WHERE tenant_id = :tenant_id AND kind = 'block' AND item_id = ANY (:block_ids::text[]);

-- purge_memory_block_agents_history --
-- Purge which agents carried blocks that are purged, and of other blocks when they were about a person.
DELETE FROM memory.block_agents_history
WHERE tenant_id = :tenant_id AND block_id = ANY (:block_ids::text[])
    AND (block_id = ANY (:own_ids::text[]) OR (subject_id = :subject_id AND subject_id <> ''));

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
