-- list_steps --
-- Read the strongest links of each of some memories, of equal ones the newest first: up to `fan` in each direction.
SELECT nears.near_id, steps.far_id, steps.link_id, steps.relation, steps.weight, steps.is_outgoing
FROM unnest(:memory_ids::uuid[]) AS nears (near_id)
CROSS JOIN LATERAL (
    (SELECT to_memory_id AS far_id, link_id, relation, weight, true AS is_outgoing
     FROM memory.links
     WHERE tenant_id = :tenant_id AND from_memory_id = nears.near_id AND weight >= :min_weight AND :outgoing::boolean
     ORDER BY weight DESC, link_id DESC
     LIMIT :fan)
    UNION ALL
    (SELECT from_memory_id, link_id, relation, weight, false
     FROM memory.links
     WHERE tenant_id = :tenant_id AND to_memory_id = nears.near_id AND weight >= :min_weight AND :incoming::boolean
     ORDER BY weight DESC, link_id DESC
     LIMIT :fan)
) AS steps;

-- list_related_steps --
-- Read the strongest links of each of some memories by some relations: up to `fan` in each direction and relation. Of
-- equally strong links the newest come first.
SELECT nears.near_id, steps.far_id, steps.link_id, steps.relation, steps.weight, steps.is_outgoing
FROM unnest(:memory_ids::uuid[]) AS nears (near_id)
CROSS JOIN unnest(:relations::text[]) AS requested (relation)
CROSS JOIN LATERAL (
    (SELECT to_memory_id AS far_id, link_id, relation, weight, true AS is_outgoing
     FROM memory.links
     WHERE tenant_id = :tenant_id AND from_memory_id = nears.near_id AND links.relation = requested.relation
         AND weight >= :min_weight AND :outgoing::boolean
     ORDER BY weight DESC, link_id DESC
     LIMIT :fan)
    UNION ALL
    (SELECT from_memory_id, link_id, relation, weight, false
     FROM memory.links
     WHERE tenant_id = :tenant_id AND to_memory_id = nears.near_id AND links.relation = requested.relation
         AND weight >= :min_weight AND :incoming::boolean
     ORDER BY weight DESC, link_id DESC
     LIMIT :fan)
) AS steps;

-- find_visible_node --
-- Return those of some ids that name a memory which lists would show: not deleted, archived or expired.
SELECT memory_id
FROM memory.memories
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
    AND memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids
    AND is_active AND archive_time IS NULL
    AND (expire_time IS NULL OR expire_time > :at);

-- get_visible_nodes --
-- Read what a drawing of the graph shows of memories, in no order; those that lists would not show are left out.
SELECT memory_id, type, left(title, 200) AS title,
       left(coalesce(nullif(title, ''), CASE WHEN type <> 'knowledge_vault' THEN nullif(content, '') END, key, ''), 200) AS name
FROM memory.memories
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
    AND memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids
    AND is_active AND archive_time IS NULL
    AND (expire_time IS NULL OR expire_time > :at);

-- get_nodes --
-- Read what a drawing of the graph shows of memories, in no order; deleted and expired ones are left out.
SELECT memory_id, type, left(title, 200) AS title,
       left(coalesce(nullif(title, ''), CASE WHEN type <> 'knowledge_vault' THEN nullif(content, '') END, key, ''), 200) AS name
FROM memory.memories
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
    AND memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids
    AND is_active
    AND (expire_time IS NULL OR expire_time > :at);

-- list_links_among --
-- Read links between memories of a set, in the order of their ends, without their metadata.
SELECT link_id, from_memory_id, to_memory_id, relation, label, weight, NULL::jsonb AS metadata, create_time, created_by,
       revision, coalesce(update_time, create_time) AS update_time, coalesce(updated_by, created_by) AS updated_by,
       greatest(record_time, update_time, create_time) AS record_time
FROM memory.links
WHERE tenant_id = :tenant_id AND from_memory_id = ANY (:memory_ids::uuid[]) AND to_memory_id = ANY (:memory_ids::uuid[])
    AND (:relations::text[] IS NULL OR relation = ANY (:relations)) AND weight >= :min_weight
ORDER BY from_memory_id, to_memory_id, relation
LIMIT :count;

-- list_links_of_steps --
-- Read links by their ids and the two memories of each, in no order, without their metadata. A former link is found by its
-- memories.
SELECT links.*
FROM unnest(:link_ids::uuid[], :near_ids::uuid[], :far_ids::uuid[]) AS steps (link_id, near_id, far_id)
CROSS JOIN LATERAL (
    (SELECT link_id, from_memory_id, to_memory_id, relation, label, weight, NULL::jsonb AS metadata, create_time,
            created_by, revision, coalesce(update_time, create_time) AS update_time,
            coalesce(updated_by, created_by) AS updated_by,
            greatest(record_time, update_time, create_time) AS record_time
     FROM memory.links
     WHERE tenant_id = :tenant_id AND from_memory_id = steps.near_id AND to_memory_id = steps.far_id
         AND links.link_id = steps.link_id
     LIMIT 1)
    UNION ALL
    (SELECT link_id, from_memory_id, to_memory_id, relation, label, weight, NULL::jsonb AS metadata, create_time,
            created_by, revision, coalesce(update_time, create_time) AS update_time,
            coalesce(updated_by, created_by) AS updated_by,
            greatest(record_time, update_time, create_time) AS record_time
     FROM memory.links
     WHERE tenant_id = :tenant_id AND from_memory_id = steps.far_id AND to_memory_id = steps.near_id
         AND links.link_id = steps.link_id
     LIMIT 1)
) AS links;

-- list_tags_of --
-- Read the tags of memories, up to `count` of each.
SELECT requested.memory_id, ARRAY(
    SELECT tag FROM memory.tags WHERE tags.tenant_id = :tenant_id AND tags.memory_id = requested.memory_id
    ORDER BY tag LIMIT :count) AS tags
FROM unnest(:memory_ids::uuid[]) AS requested (memory_id);

-- list_sharing --
-- Read the newest memories that carry each of some tags, up to `count` for each.
SELECT requested.tag, sharing.memory_id
FROM unnest(:tags::text[]) AS requested (tag)
CROSS JOIN LATERAL (
    SELECT memory_id
    FROM memory.tags
    WHERE tenant_id = :tenant_id AND tags.tag = requested.tag AND memory_id <> :memory_id
    ORDER BY memory_id DESC
    LIMIT :count) AS sharing;

-- list_sharing_of_all --
-- Read the newest memories that carry each of some tags, up to `count` for each, from all memories with these tags.
SELECT tag, memory_id
FROM (
    SELECT tag, memory_id, row_number() OVER (PARTITION BY tag ORDER BY memory_id DESC) AS place
    FROM memory.tags
    WHERE tenant_id = :tenant_id AND tag = ANY (:tags::text[]) AND memory_id <> :memory_id) AS sharing
WHERE place <= :count;

-- find_linked --
-- Return those of some memories that a memory is linked with, in either direction and by whatever relation.
SELECT to_memory_id AS memory_id
FROM memory.links
WHERE tenant_id = :tenant_id AND from_memory_id = :memory_id AND to_memory_id = ANY (:memory_ids::uuid[])
UNION
SELECT from_memory_id
FROM memory.links
WHERE tenant_id = :tenant_id AND from_memory_id = ANY (:memory_ids::uuid[]) AND to_memory_id = :memory_id;

-- get_candidates --
-- Read what is compared of memories: their beginnings, and which of some tags they carry. Those that lists would not show
-- are left out.
SELECT memory_id, type, title, left(content, 2000) AS content, source, create_time,
       ARRAY(SELECT tag FROM memory.tags
             WHERE tags.tenant_id = :tenant_id AND tags.memory_id = memories.memory_id AND tag = ANY (:tags::text[])
             ORDER BY tag) AS tags
FROM memory.memories
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
    AND memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids
    AND is_active AND archive_time IS NULL
    AND (expire_time IS NULL OR expire_time > :at);
