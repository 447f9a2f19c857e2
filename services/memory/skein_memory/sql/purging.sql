-- purge_changes --
-- Remove some of the events that a deleted tenant has.
DELETE FROM memory.changes
WHERE tenant_id = :tenant_id AND change_id = ANY (ARRAY(
    SELECT change_id FROM memory.changes WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_versions --
-- Remove some of the earlier versions of memories that a deleted tenant has.
DELETE FROM memory.versions
WHERE tenant_id = :tenant_id AND (memory_id, revision) IN (
    SELECT memory_id, revision FROM memory.versions WHERE tenant_id = :tenant_id LIMIT :count);

-- purge_revisions --
-- Remove some of the earlier states of links, aliases, trust, conflicts and blocks that a deleted tenant has.
DELETE FROM memory.revisions
WHERE tenant_id = :tenant_id AND (kind, item_id, revision) IN (
    SELECT kind, item_id, revision FROM memory.revisions WHERE tenant_id = :tenant_id LIMIT :count);

-- purge_accesses --
-- Remove some of the counts of use that a deleted tenant has.
DELETE FROM memory.accesses
WHERE tenant_id = :tenant_id AND memory_id = ANY (ARRAY(
    SELECT memory_id FROM memory.accesses WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_links --
-- Remove some of the links that a deleted tenant has.
DELETE FROM memory.links
WHERE tenant_id = :tenant_id AND link_id = ANY (ARRAY(
    SELECT link_id FROM memory.links WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tags --
-- Remove some of the tags that a deleted tenant has.
DELETE FROM memory.tags
WHERE tenant_id = :tenant_id AND (memory_id, tag) IN (
    SELECT memory_id, tag FROM memory.tags WHERE tenant_id = :tenant_id LIMIT :count);

-- purge_external_ids --
-- Remove some of the ids in other systems that a deleted tenant has.
DELETE FROM memory.external_ids
WHERE tenant_id = :tenant_id AND external_id = ANY (ARRAY(
    SELECT external_id FROM memory.external_ids WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_fact_keys --
-- Remove some of the keys of facts that a deleted tenant has.
DELETE FROM memory.fact_keys
WHERE tenant_id = :tenant_id AND key = ANY (ARRAY(
    SELECT key FROM memory.fact_keys WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_entries --
-- Remove some of the memories, of all months, that a deleted tenant has.
DELETE FROM memory.entries
WHERE tenant_id = :tenant_id AND memory_id = ANY (ARRAY(
    SELECT memory_id FROM memory.entries WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_usage --
-- Remove some of the counters that a deleted tenant has.
DELETE FROM memory.usage
WHERE tenant_id = :tenant_id AND (kind, slot) IN (
    SELECT kind, slot FROM memory.usage WHERE tenant_id = :tenant_id LIMIT :count);

-- purge_requests --
-- Remove some of the stored answers that a deleted tenant has.
DELETE FROM memory.requests
WHERE tenant_id = :tenant_id AND (principal, method, request_id) IN (
    SELECT principal, method, request_id FROM memory.requests WHERE tenant_id = :tenant_id LIMIT :count);
