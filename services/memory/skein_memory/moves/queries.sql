-- find_alias_apart --
-- Find a memory that is not among some, and is an alias of one of them or has one of them as its alias.
SELECT CASE WHEN alias_memory_id = ANY (:memory_ids::uuid[]) THEN canonical_memory_id ELSE alias_memory_id END AS memory_id
FROM memory.aliases
WHERE tenant_id = :tenant_id
    AND (alias_memory_id = ANY (:memory_ids)) <> (canonical_memory_id = ANY (:memory_ids))
    AND (alias_memory_id = ANY (:memory_ids) OR canonical_memory_id = ANY (:memory_ids))
LIMIT 1;

-- move_memories --
-- Put memories into a space.
UPDATE memory.memories
SET space_id = :space_id
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- move_links --
-- Put the ends of links that are among some memories into a space.
UPDATE memory.links
SET from_space_id = CASE WHEN from_memory_id = ANY (:memory_ids::uuid[]) THEN :space_id::uuid ELSE from_space_id END,
    to_space_id = CASE WHEN to_memory_id = ANY (:memory_ids) THEN :space_id ELSE to_space_id END
WHERE tenant_id = :tenant_id AND (from_memory_id = ANY (:memory_ids) OR to_memory_id = ANY (:memory_ids));

-- move_versions --
-- Put the former versions of memories into a space: reads of the past use today's rights.
UPDATE memory.versions
SET space_id = :space_id
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- move_tasks --
-- Put the rows of tasks and objectives into a space.
UPDATE memory.tasks
SET space_id = :space_id
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- move_pending_changes --
-- Put changes of memories that wait for approval into a space.
UPDATE memory.pending_memories
SET space_id = :space_id
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- move_changes --
-- Put the events of memories into a space.
UPDATE memory.changes
SET space_id = :space_id
WHERE tenant_id = :tenant_id AND entity_id = ANY (:entity_ids::text[]) AND entity_type = 'memory';

-- move_documents --
-- Put memories into a space in the search index, whose postings and vectors follow their document.
UPDATE recall.documents
SET space_id = :space_id
WHERE tenant_id = :tenant_id AND item_id = ANY (:memory_ids::uuid[]);

-- move_former_documents --
-- Put the former documents of memories into a space.
UPDATE recall.documents_history
SET space_id = :space_id
WHERE tenant_id = :tenant_id AND item_id = ANY (:memory_ids::uuid[]);

-- list_agents_of_block --
-- Read the agents that carry a block, in order.
SELECT agent_id
FROM memory.block_agents
WHERE tenant_id = :tenant_id AND block_id = :block_id
ORDER BY agent_id;

-- move_block --
-- Put a block with its agents, revisions and events into a space. In one statement, because the keys of these rows have the
-- space. The transaction sees both spaces.
WITH attachments AS (
    UPDATE memory.block_agents
    SET space_id = :space_id
    WHERE tenant_id = :tenant_id AND block_id = :block_id AND space_id = :source_id
), former_attachments AS (
    UPDATE memory.block_agents_history
    SET space_id = :space_id
    WHERE tenant_id = :tenant_id AND block_id = :block_id AND space_id = :source_id
), revisions AS (
    UPDATE memory.revisions
    SET space_id = :space_id
    WHERE tenant_id = :tenant_id AND kind = 'block' AND item_id = :block_id AND space_id = :source_id
), events AS (
    UPDATE memory.changes
    SET space_id = :space_id
    WHERE tenant_id = :tenant_id AND entity_id = :block_id AND entity_type = 'block' AND space_id = :source_id
)
UPDATE memory.blocks
SET space_id = :space_id
WHERE tenant_id = :tenant_id AND block_id = :block_id AND space_id = :source_id;
