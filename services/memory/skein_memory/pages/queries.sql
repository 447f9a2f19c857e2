-- insert_page --
-- Store a page.
INSERT INTO memory.pages
    (tenant_id, page_id, subject_id, entity_memory_id, is_pinned, question, revision, create_time, update_time, created_by,
     updated_by)
VALUES
    (:tenant_id, :page_id, :subject_id, :entity_memory_id, :is_pinned, :question, :revision, :create_time, :update_time,
     :created_by, :updated_by);

-- get_page --
-- Read a page.
SELECT page_id, subject_id, entity_memory_id, is_pinned, question, revision, create_time, update_time, created_by, updated_by
FROM memory.pages
WHERE tenant_id = :tenant_id AND page_id = :page_id;

-- lock_page --
-- Read and lock a page.
SELECT page_id, subject_id, entity_memory_id, is_pinned, question, revision, create_time, update_time, created_by, updated_by
FROM memory.pages
WHERE tenant_id = :tenant_id AND page_id = :page_id
FOR NO KEY UPDATE;

-- list_pages --
-- Read pages that are pinned, or those that are not, in the order of their ids.
SELECT page_id, subject_id, entity_memory_id, is_pinned, question, revision, create_time, update_time, created_by, updated_by
FROM memory.pages
WHERE tenant_id = :tenant_id AND is_pinned = :is_pinned AND page_id > :after_id
ORDER BY page_id
LIMIT :count;

-- update_page --
-- Store a page's next revision.
UPDATE memory.pages
SET subject_id = :subject_id, entity_memory_id = :entity_memory_id, is_pinned = :is_pinned, question = :question,
    revision = :revision, update_time = :update_time, updated_by = :updated_by
WHERE tenant_id = :tenant_id AND page_id = :page_id;

-- delete_page --
-- Remove a page.
DELETE FROM memory.pages
WHERE tenant_id = :tenant_id AND page_id = :page_id;

-- purge_pages --
-- Remove the pages about a subject, and those about some entities.
DELETE FROM memory.pages
WHERE tenant_id = :tenant_id AND (subject_id = :subject_id OR entity_memory_id = ANY (:memory_ids::uuid[]))
RETURNING page_id;

-- list_profiles --
-- Read the subjects with facts, in their order. The index is read once for each subject, and not for each memory, and in
-- the months after an id alone.
WITH RECURSIVE people AS (
    (SELECT memories.subject_id FROM memory.memories
     WHERE memories.tenant_id = :tenant_id AND memories.subject_id > :after_id AND memories.memory_id > :before_first_id
     ORDER BY memories.subject_id LIMIT 1)
    UNION ALL
    SELECT (SELECT memories.subject_id FROM memory.memories
            WHERE memories.tenant_id = :tenant_id AND memories.subject_id > people.subject_id
                AND memories.memory_id > :before_first_id
            ORDER BY memories.subject_id LIMIT 1)
    FROM people
    WHERE people.subject_id IS NOT NULL
)
SELECT people.subject_id
FROM people
WHERE people.subject_id IS NOT NULL AND EXISTS (
    SELECT FROM memory.memories AS fact
    WHERE fact.tenant_id = :tenant_id AND fact.subject_id = people.subject_id AND fact.type = ANY (:types::text[])
        AND fact.memory_id > :before_first_id AND fact.is_active AND fact.archive_time IS NULL AND (fact.expire_time IS NULL OR fact.expire_time > :at)
        AND (fact.valid_from_time IS NULL OR fact.valid_from_time <= :at)
        AND (fact.valid_to_time IS NULL OR fact.valid_to_time > :at))
LIMIT :count;

-- list_entity_memories --
-- Name a memory that stands for an entity, its aliases, and the newest of the memories that are linked most strongly with
-- each of them.
WITH named AS (
    SELECT coalesce((SELECT alias.canonical_memory_id FROM memory.aliases AS alias
                     WHERE alias.tenant_id = :tenant_id AND alias.alias_memory_id = :memory_id), :memory_id) AS memory_id
), entity AS (
    SELECT named.memory_id FROM named
    UNION ALL
    SELECT of_named.alias_memory_id FROM named
    CROSS JOIN LATERAL (
        SELECT alias.alias_memory_id FROM memory.aliases AS alias
        WHERE alias.tenant_id = :tenant_id AND alias.canonical_memory_id = named.memory_id
        ORDER BY alias.alias_memory_id LIMIT :alias_count
    ) AS of_named
)
SELECT entity.memory_id FROM entity
UNION
SELECT linked.memory_id FROM entity
CROSS JOIN LATERAL (
    (SELECT link.to_memory_id AS memory_id FROM memory.trusted_links AS link
     WHERE link.tenant_id = :tenant_id AND link.from_memory_id = entity.memory_id
     ORDER BY link.weight DESC, link.link_id DESC LIMIT :link_count)
    UNION ALL
    (SELECT link.from_memory_id FROM memory.trusted_links AS link
     WHERE link.tenant_id = :tenant_id AND link.to_memory_id = entity.memory_id
     ORDER BY link.weight DESC, link.link_id DESC LIMIT :link_count)
) AS linked
ORDER BY memory_id DESC
LIMIT :count;

-- find_superseded --
-- Return those of some memories that another one supersedes; neither a distrusted memory nor the link of a distrusted
-- principal supersedes any.
SELECT DISTINCT link.to_memory_id AS memory_id
FROM memory.trusted_links AS link
JOIN memory.memories AS newer ON newer.tenant_id = :tenant_id AND newer.memory_id = link.from_memory_id
WHERE link.tenant_id = :tenant_id AND link.to_memory_id = ANY (:memory_ids::uuid[]) AND link.relation = 'supersedes'
    AND newer.is_active AND (newer.expire_time IS NULL OR newer.expire_time > :at)
    AND NOT EXISTS (SELECT FROM memory.trust AS stored
                    WHERE stored.tenant_id = :tenant_id AND stored.memory_id = link.from_memory_id AND stored.trust < 0.5);

-- find_unsaid --
-- Return those of some facts that extractors found whose message is deleted, purged, or was changed after they were
-- found: the worker has not followed it yet.
SELECT source.memory_id
FROM memory.sources AS source
LEFT JOIN session.messages AS message ON message.tenant_id = :tenant_id AND message.message_id = source.source_id
WHERE source.tenant_id = :tenant_id AND source.memory_id = ANY (:memory_ids::uuid[]) AND source.kind = 'message'
    AND (source.erased_trust IS NOT NULL OR NOT message.is_active OR message.update_time > source.record_time);
