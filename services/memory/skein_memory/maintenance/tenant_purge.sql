-- purge_tenant_pending_rows --
-- Remove some of the rows that wait for a memory in cold storage of a deleted tenant.
DELETE FROM memory.pending_rows
WHERE tenant_id = :tenant_id AND pending_row_id = ANY (ARRAY(
    SELECT pending_row_id FROM memory.pending_rows WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_archived --
-- Remove some of the lists of archives of a deleted tenant.
DELETE FROM memory.archived_memories
WHERE tenant_id = :tenant_id AND memory_id = ANY (ARRAY(
    SELECT memory_id FROM memory.archived_memories WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_archives --
-- Remove some of the archives of a deleted tenant.
DELETE FROM memory.archives
WHERE tenant_id = :tenant_id AND archive_id = ANY (ARRAY(
    SELECT archive_id FROM memory.archives WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_deliveries --
-- Remove some of the deliveries of a deleted tenant.
DELETE FROM memory.deliveries
WHERE tenant_id = :tenant_id AND delivery_id = ANY (ARRAY(
    SELECT delivery_id FROM memory.deliveries WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_pages --
-- Remove some of the pages of a deleted tenant.
DELETE FROM memory.pages
WHERE tenant_id = :tenant_id AND page_id = ANY (ARRAY(
    SELECT page_id FROM memory.pages WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_webhooks --
-- Remove some of the webhooks that a deleted tenant has; return the master key of each that has one.
DELETE FROM memory.webhooks
WHERE tenant_id = :tenant_id AND webhook_id = ANY (ARRAY(
    SELECT webhook_id FROM memory.webhooks WHERE tenant_id = :tenant_id LIMIT :count))
RETURNING master_key;

-- purge_tenant_access_log --
-- Remove some of the accesses, of all months, of a deleted tenant.
DELETE FROM memory.access_log
WHERE tenant_id = :tenant_id AND access_event_id = ANY (ARRAY(
    SELECT access_event_id FROM memory.access_log WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_changes --
-- Remove some of the events of a deleted tenant.
DELETE FROM memory.changes
WHERE tenant_id = :tenant_id AND change_id = ANY (ARRAY(
    SELECT change_id FROM memory.changes WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_versions --
-- Remove some of the earlier versions of memories of a deleted tenant.
DELETE FROM memory.versions
USING (
    SELECT memory_id, revision FROM memory.versions WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE versions.tenant_id = :tenant_id
    AND versions.memory_id = picked.memory_id AND versions.revision = picked.revision;

-- purge_tenant_revisions --
-- Remove some of the earlier states of links, aliases, trust, conflicts and blocks of a deleted tenant.
DELETE FROM memory.revisions
USING (
    SELECT kind, item_id, revision FROM memory.revisions WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE revisions.tenant_id = :tenant_id
    AND revisions.kind = picked.kind AND revisions.item_id = picked.item_id AND revisions.revision = picked.revision;

-- purge_tenant_access_counts --
-- Remove some of the counts of use of a deleted tenant.
DELETE FROM memory.access_counts
WHERE tenant_id = :tenant_id AND memory_id = ANY (ARRAY(
    SELECT memory_id FROM memory.access_counts WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_conflict_resolutions --
-- Remove some of the resolutions of a deleted tenant.
DELETE FROM memory.conflict_resolutions
USING (
    SELECT a_memory_id, b_memory_id FROM memory.conflict_resolutions WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE conflict_resolutions.tenant_id = :tenant_id
    AND conflict_resolutions.a_memory_id = picked.a_memory_id AND conflict_resolutions.b_memory_id = picked.b_memory_id;

-- purge_tenant_aliases --
-- Remove some of the aliases of a deleted tenant.
DELETE FROM memory.aliases
WHERE tenant_id = :tenant_id AND alias_memory_id = ANY (ARRAY(
    SELECT alias_memory_id FROM memory.aliases WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_source_trust --
-- Remove some of the trust in sources of a deleted tenant.
DELETE FROM memory.source_trust
WHERE tenant_id = :tenant_id AND source_key = ANY (ARRAY(
    SELECT source_key FROM memory.source_trust WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_links --
-- Remove some of the links of a deleted tenant.
DELETE FROM memory.links
WHERE tenant_id = :tenant_id AND link_id = ANY (ARRAY(
    SELECT link_id FROM memory.links WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_source_trust_history --
-- Remove some of the former trust in sources of a deleted tenant.
DELETE FROM memory.source_trust_history
USING (
    SELECT source_key, until_time FROM memory.source_trust_history WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE source_trust_history.tenant_id = :tenant_id
    AND source_trust_history.source_key = picked.source_key AND source_trust_history.until_time = picked.until_time;

-- purge_tenant_sources_history --
-- Remove some of the former sources of memories of a deleted tenant.
DELETE FROM memory.sources_history
USING (
    SELECT memory_id, position, until_time FROM memory.sources_history WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE sources_history.tenant_id = :tenant_id AND sources_history.memory_id = picked.memory_id
    AND sources_history.position = picked.position AND sources_history.until_time = picked.until_time;

-- purge_tenant_sources --
-- Remove some of the sources of memories of a deleted tenant.
DELETE FROM memory.sources
USING (
    SELECT memory_id, position FROM memory.sources WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE sources.tenant_id = :tenant_id AND sources.memory_id = picked.memory_id AND sources.position = picked.position;

-- purge_tenant_trust --
-- Remove some of the trust of memories of a deleted tenant.
DELETE FROM memory.trust
WHERE tenant_id = :tenant_id AND memory_id = ANY (ARRAY(
    SELECT memory_id FROM memory.trust WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_trust_history --
-- Remove some of the former trust of memories of a deleted tenant.
DELETE FROM memory.trust_history
USING (
    SELECT memory_id, until_time FROM memory.trust_history WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE trust_history.tenant_id = :tenant_id
    AND trust_history.memory_id = picked.memory_id AND trust_history.until_time = picked.until_time;

-- purge_tenant_aliases_history --
-- Remove some of the former aliases of a deleted tenant.
DELETE FROM memory.aliases_history
USING (
    SELECT alias_memory_id, until_time FROM memory.aliases_history WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE aliases_history.tenant_id = :tenant_id
    AND aliases_history.alias_memory_id = picked.alias_memory_id AND aliases_history.until_time = picked.until_time;

-- purge_tenant_conflict_resolutions_history --
-- Remove some of the former resolutions of a deleted tenant.
DELETE FROM memory.conflict_resolutions_history AS former
USING (
    SELECT a_memory_id, b_memory_id, until_time FROM memory.conflict_resolutions_history
    WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE former.tenant_id = :tenant_id AND former.a_memory_id = picked.a_memory_id
    AND former.b_memory_id = picked.b_memory_id AND former.until_time = picked.until_time;

-- purge_tenant_archived_sources --
-- Remove some of what archived memories of a deleted tenant were made of.
DELETE FROM memory.archived_sources
WHERE tenant_id = :tenant_id AND memory_id = ANY (ARRAY(
    SELECT memory_id FROM memory.archived_sources WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_lineage_purges --
-- Remove some of the memories that purges of people would follow in a deleted tenant.
DELETE FROM memory.lineage_purges
WHERE tenant_id = :tenant_id AND memory_id = ANY (ARRAY(
    SELECT memory_id FROM memory.lineage_purges WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_trust_work --
-- Remove some of the work on trust of a deleted tenant.
DELETE FROM memory.trust_work
WHERE tenant_id = :tenant_id AND memory_id = ANY (ARRAY(
    SELECT memory_id FROM memory.trust_work WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_tags --
-- Remove some of the tags of a deleted tenant.
DELETE FROM memory.tags
USING (
    SELECT memory_id, tag FROM memory.tags WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE tags.tenant_id = :tenant_id AND tags.memory_id = picked.memory_id AND tags.tag = picked.tag;

-- purge_tenant_properties --
-- Remove some of the properties of a deleted tenant.
DELETE FROM memory.properties
USING (
    SELECT memory_id, name, value FROM memory.properties WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE properties.tenant_id = :tenant_id
    AND properties.memory_id = picked.memory_id AND properties.name = picked.name AND properties.value = picked.value;

-- purge_tenant_tombstones --
-- Remove some of the tombstones of a deleted tenant.
DELETE FROM memory.tombstones
WHERE tenant_id = :tenant_id AND digest = ANY (ARRAY(
    SELECT digest FROM memory.tombstones WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_tombstone_salts --
-- Remove the salt of the tombstones that a deleted tenant had.
DELETE FROM memory.tombstone_salts
WHERE tenant_id = :tenant_id AND salt = ANY (ARRAY(
    SELECT salt FROM memory.tombstone_salts WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_external_ids --
-- Remove some of the ids in other systems of a deleted tenant.
DELETE FROM memory.external_ids
WHERE tenant_id = :tenant_id AND external_id = ANY (ARRAY(
    SELECT external_id FROM memory.external_ids WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_fact_keys --
-- Remove some of the keys of facts of a deleted tenant.
DELETE FROM memory.fact_keys
WHERE tenant_id = :tenant_id AND memory_id = ANY (ARRAY(
    SELECT memory_id FROM memory.fact_keys WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_memories --
-- Remove some of the memories, of all months, of a deleted tenant.
DELETE FROM memory.memories
WHERE tenant_id = :tenant_id AND memory_id = ANY (ARRAY(
    SELECT memory_id FROM memory.memories WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_oldest_memory --
-- Remove the bound of the ids of a deleted tenant.
DELETE FROM memory.oldest_memories
WHERE tenant_id = :tenant_id AND tenant_id = ANY (ARRAY(
    SELECT tenant_id FROM memory.oldest_memories WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_usage --
-- Remove some of the counters of a deleted tenant.
DELETE FROM memory.usage
USING (
    SELECT kind, slot FROM memory.usage WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE usage.tenant_id = :tenant_id AND usage.kind = picked.kind AND usage.slot = picked.slot;

-- purge_tenant_requests --
-- Remove some of the stored answers of a deleted tenant.
DELETE FROM memory.requests
USING (
    SELECT principal, method, request_id FROM memory.requests WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE requests.tenant_id = :tenant_id
    AND requests.principal = picked.principal AND requests.method = picked.method
    AND requests.request_id = picked.request_id;

-- purge_tenant_block_agents_history --
-- Remove some of the rows that tell which agents of a deleted tenant carried which blocks.
DELETE FROM memory.block_agents_history
USING (
    SELECT agent_id, block_id, until_time FROM memory.block_agents_history WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE block_agents_history.tenant_id = :tenant_id
    AND block_agents_history.agent_id = picked.agent_id AND block_agents_history.block_id = picked.block_id
    AND block_agents_history.until_time = picked.until_time;

-- purge_tenant_block_agents --
-- Remove some of the attachments of blocks of a deleted tenant.
DELETE FROM memory.block_agents
USING (
    SELECT agent_id, block_id FROM memory.block_agents WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE block_agents.tenant_id = :tenant_id
    AND block_agents.agent_id = picked.agent_id AND block_agents.block_id = picked.block_id;

-- purge_tenant_blocks --
-- Remove some of the blocks of a deleted tenant.
DELETE FROM memory.blocks
WHERE tenant_id = :tenant_id AND block_id = ANY (ARRAY(
    SELECT block_id FROM memory.blocks WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_snapshot_items --
-- Remove some of the items of snapshots of a deleted tenant.
DELETE FROM memory.snapshot_items
USING (
    SELECT snapshot_id, kind, item_id FROM memory.snapshot_items WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE snapshot_items.tenant_id = :tenant_id
    AND snapshot_items.snapshot_id = picked.snapshot_id AND snapshot_items.kind = picked.kind
    AND snapshot_items.item_id = picked.item_id;

-- purge_tenant_snapshots --
-- Remove some of the snapshots of a deleted tenant.
DELETE FROM memory.snapshots
WHERE tenant_id = :tenant_id AND snapshot_id = ANY (ARRAY(
    SELECT snapshot_id FROM memory.snapshots WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_erasures --
-- Remove some of the records of erasures of a deleted tenant.
DELETE FROM memory.erasures
WHERE tenant_id = :tenant_id AND erasure_id = ANY (ARRAY(
    SELECT erasure_id FROM memory.erasures WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_access_keys --
-- Remove the key of a deleted tenant's hashes.
DELETE FROM memory.access_keys
WHERE tenant_id = :tenant_id AND tenant_id IN (
    SELECT tenant_id FROM memory.access_keys WHERE tenant_id = :tenant_id LIMIT :count);
