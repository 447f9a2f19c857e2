-- count_aliases --
-- Count a tenant's aliases, up to so many; in a tenant with spaces those of visible memories.
SELECT count(*) FROM (
    SELECT FROM memory.aliases
    WHERE tenant_id = :tenant_id AND (coalesce(current_setting('skein.spaces', true), '') = '' OR (
        SELECT count(*) FROM memory.memories AS named
        WHERE named.tenant_id = :tenant_id
            AND named.memory_id IN (aliases.alias_memory_id, aliases.canonical_memory_id)) = 2)
    LIMIT :most) AS these;

-- find_review_candidates --
-- Find memories that may need a review: up to `count` each of the most important of each level, those of the lowest
-- confidence, and the oldest. Each level is a constant. So the planner knows that an index of importance alone may
-- read a whole tenant to find a few memories of a level.
(SELECT memory_id FROM memory.memories
 WHERE tenant_id = :tenant_id AND level = 'strategic' AND is_active AND archive_time IS NULL
 ORDER BY importance DESC LIMIT :count)
UNION
(SELECT memory_id FROM memory.memories
 WHERE tenant_id = :tenant_id AND level = 'tactical' AND is_active AND archive_time IS NULL
 ORDER BY importance DESC LIMIT :count)
UNION
(SELECT memory_id FROM memory.memories
 WHERE tenant_id = :tenant_id AND level = 'operational' AND is_active AND archive_time IS NULL
 ORDER BY importance DESC LIMIT :count)
UNION
(SELECT memory_id FROM memory.memories
 WHERE tenant_id = :tenant_id AND level = 'contextual' AND is_active AND archive_time IS NULL
 ORDER BY importance DESC LIMIT :count)
UNION
(SELECT memory_id FROM memory.memories
 WHERE tenant_id = :tenant_id AND is_active AND archive_time IS NULL
 ORDER BY confidence LIMIT :count)
UNION
(SELECT memory_id FROM memory.memories
 WHERE tenant_id = :tenant_id AND is_active AND archive_time IS NULL
 ORDER BY memory_id LIMIT :count);

-- list_kinds --
-- Read of the newest memories of a range of ids what they are counted by.
SELECT memory_id, type, scope, level, importance
FROM memory.memories
WHERE tenant_id = :tenant_id AND memory_id >= :from_id AND memory_id < :before_id
    AND is_active AND archive_time IS NULL AND (expire_time IS NULL OR expire_time > :at)
ORDER BY memory_id DESC
LIMIT :count;

-- list_tags_since --
-- Read the tags of the newest memories down to one.
SELECT memory_id, tag
FROM memory.tags
WHERE tenant_id = :tenant_id AND memory_id >= :from_id
    AND (coalesce(current_setting('skein.spaces', true), '') = '' OR EXISTS (
        SELECT FROM memory.memories AS tagged
        WHERE tagged.tenant_id = :tenant_id AND tagged.memory_id = tags.memory_id))
ORDER BY memory_id DESC
LIMIT :count;

-- list_newest_links --
-- Read the relations and the memories of the newest links; in a tenant with spaces those of visible memories.
SELECT relation, from_memory_id, to_memory_id
FROM memory.links
WHERE tenant_id = :tenant_id AND (coalesce(current_setting('skein.spaces', true), '') = '' OR (
    SELECT count(*) FROM memory.memories AS named
    WHERE named.tenant_id = :tenant_id AND named.memory_id IN (links.from_memory_id, links.to_memory_id)) = 2)
ORDER BY link_id DESC
LIMIT :count;

-- count_expired --
-- Count the memories that have expired and are not erased yet, up to so many.
SELECT count(*) FROM (
    SELECT FROM memory.memories
    WHERE tenant_id = :tenant_id AND expire_time <= :at AND is_active LIMIT :most) AS these;

-- count_memories_and_links --
-- Count the memories that are neither deleted nor expired, and the links; in a tenant with spaces, visible ones.
SELECT (SELECT count(*) FROM memory.memories
        WHERE tenant_id = :tenant_id AND is_active AND (expire_time IS NULL OR expire_time > :at)) AS memories,
       (SELECT count(*) FROM memory.links
        WHERE tenant_id = :tenant_id AND (coalesce(current_setting('skein.spaces', true), '') = '' OR (
            SELECT count(*) FROM memory.memories AS named
            WHERE named.tenant_id = :tenant_id
                AND named.memory_id IN (links.from_memory_id, links.to_memory_id)) = 2)) AS links;

-- read_totals --
-- Read how many memories and links a tenant has.
SELECT kind, sum(amount)::bigint AS amount
FROM memory.usage
WHERE tenant_id = :tenant_id AND kind IN ('memories', 'links')
GROUP BY kind;
