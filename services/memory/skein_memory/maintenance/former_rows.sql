-- purge_old_revisions --
-- Purge some former revisions of blocks and of trust in sources that ended before a time.
DELETE FROM memory.revisions AS former
USING (
    SELECT kind, item_id, revision FROM memory.revisions
    WHERE tenant_id = :tenant_id AND kind IN ('block', 'source_trust') AND until_time < :before
    LIMIT :count
) AS picked
WHERE former.tenant_id = :tenant_id
    AND former.kind = picked.kind AND former.item_id = picked.item_id AND former.revision = picked.revision;

-- purge_old_block_agents --
-- Purge some former attachments of blocks that ended before a time.
DELETE FROM memory.block_agents_history AS former
USING (
    SELECT agent_id, block_id, until_time FROM memory.block_agents_history
    WHERE tenant_id = :tenant_id AND until_time < :before
    LIMIT :count
) AS picked
WHERE former.tenant_id = :tenant_id AND former.agent_id = picked.agent_id
    AND former.block_id = picked.block_id AND former.until_time = picked.until_time;

-- purge_old_source_trust --
-- Purge some former ratings of sources that ended before a time.
DELETE FROM memory.source_trust_history AS former
USING (
    SELECT source_key, until_time FROM memory.source_trust_history
    WHERE tenant_id = :tenant_id AND until_time < :before
    LIMIT :count
) AS picked
WHERE former.tenant_id = :tenant_id
    AND former.source_key = picked.source_key AND former.until_time = picked.until_time;
