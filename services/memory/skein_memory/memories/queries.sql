-- insert_memories --
-- Store memories.
INSERT INTO memory.memories
    (tenant_id, memory_id, external_id, type, title, key, content, data, source, source_agent, agent_id, subject_id,
     session_id, scope, level, confidence, importance, expire_time, archive_time, valid_from_time, valid_to_time,
     metadata, content_hash, words, fingerprint, create_time, update_time, record_time, created_by, updated_by,
     text_revision, decay_time)
VALUES
    (:tenant_id, :memory_id::uuid, :external_id::text, :type::text, :title::text, :key::text, :content::text,
     :data::jsonb, :source::text, :source_agent::text, :agent_id::text, :subject_id::text, :session_id::text,
     :scope::text, :level::text, :confidence::float8, :importance::float8, :expire_time::timestamptz,
     :archive_time::timestamptz, :valid_from_time::timestamptz, :valid_to_time::timestamptz, :metadata::jsonb,
     :content_hash::bytea, :words::text, :fingerprint::uuid, :create_time::timestamptz,
     :update_time::timestamptz, :record_time::timestamptz, :created_by::text, :updated_by::text, 1, :update_time);

-- get_memories --
-- Read memories by id, deleted ones too, in no order. The ids must be values, so that only their months are planned.
SELECT memory_id, external_id, type, title, key, content, data, source, source_agent, agent_id, subject_id, session_id,
       scope, level, confidence, importance, expire_time, archive_time, valid_from_time, valid_to_time, metadata,
       revision, create_time, update_time, greatest(record_time, update_time) AS record_time, delete_time, created_by,
       updated_by, data IS NOT NULL AND text_revision IS DISTINCT FROM revision AS is_outdated,
       ARRAY(SELECT tag FROM memory.tags WHERE tags.tenant_id = :tenant_id AND tags.memory_id = memories.memory_id
             ORDER BY position, tag COLLATE "C") AS tags
FROM memory.memories
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
    AND memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids;

-- count_memories_of_all_times --
-- Count the memories and their former versions.
SELECT (SELECT count(*) FROM memory.memories WHERE tenant_id = :tenant_id)
    + (SELECT count(*) FROM memory.versions WHERE tenant_id = :tenant_id);

-- lock_memory --
-- Lock a memory, deleted or not. Read it by another statement afterwards: this one would show the tags of before the
-- wait.
SELECT memory_id
FROM memory.memories
WHERE tenant_id = :tenant_id AND memory_id = :memory_id
FOR NO KEY UPDATE;

-- lock_memories --
-- Lock memories in the order of their ids.
SELECT memory_id
FROM memory.memories
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
    AND memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids
ORDER BY memory_id
FOR NO KEY UPDATE;

-- find_active --
-- Return which of some ids belong to a memory that is not deleted.
SELECT memory_id
FROM memory.memories
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
    AND memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids
    AND is_active;

-- find_visible --
-- Return which of some ids belong to a memory that is neither deleted nor expired.
SELECT memory_id
FROM memory.memories
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
    AND memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids
    AND is_active
    AND (expire_time IS NULL OR expire_time > :at);

-- find_unexpired --
-- Return which of some ids belong to a memory of the caller's that has not expired, deleted or not.
SELECT memory_id
FROM memory.memories
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
    AND memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids
    AND (expire_time IS NULL OR expire_time > :at);

-- lock_expired --
-- Lock the expired ones of some memories, in the order of their ids.
SELECT memory_id
FROM memory.memories
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
    AND memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids
    AND expire_time <= :at
ORDER BY memory_id
FOR NO KEY UPDATE;

-- longest_expired --
-- Find memories that expired before a time, the first to expire first.
SELECT memory_id
FROM memory.memories
WHERE tenant_id = :tenant_id AND expire_time <= :before
ORDER BY expire_time
LIMIT :count;

-- count_long_expired --
-- Count memories that expired before a time, up to a number.
SELECT count(*) AS count
FROM (
    SELECT FROM memory.memories WHERE tenant_id = :tenant_id AND expire_time <= :before LIMIT :count
) AS due;

-- update_memory --
-- Store a memory's next revision. The idle time of a decayed memory starts again.
UPDATE memory.memories
SET type = :type, title = :title, key = :key, content = :content, data = :data, source = :source,
    source_agent = :source_agent, agent_id = :agent_id, subject_id = :subject_id, session_id = :session_id,
    scope = :scope, level = :level, confidence = :confidence, importance = :importance, expire_time = :expire_time,
    archive_time = :archive_time, valid_from_time = :valid_from_time, valid_to_time = :valid_to_time,
    metadata = :metadata, content_hash = :content_hash, words = :words, fingerprint = :fingerprint,
    is_active = :is_active, delete_time = :delete_time, revision = :revision, text_revision = :revision,
    update_time = :update_time, record_time = :record_time, updated_by = :updated_by,
    decay_time = CASE WHEN decay_periods > 0 OR decay_time IS NULL THEN :update_time ELSE decay_time END,
    decay_periods = 0
WHERE tenant_id = :tenant_id AND memory_id = :memory_id;

-- lock_outdated --
-- Find and lock some memories with data that an older release wrote. Skip locked ones: the change that has the lock
-- updates them.
SELECT memory_id, words
FROM memory.memories
WHERE tenant_id = :tenant_id AND data IS NOT NULL AND text_revision IS DISTINCT FROM revision
LIMIT :count
FOR NO KEY UPDATE SKIP LOCKED;

-- update_text --
-- Store the searched text of a memory's data, and its hashes, by the rules of this release. This is no change by a
-- caller.
UPDATE memory.memories
SET words = :words, content_hash = :content_hash, fingerprint = :fingerprint, text_revision = revision
WHERE tenant_id = :tenant_id AND memory_id = :memory_id;

-- find_external_ids --
-- Return the memories of external ids.
SELECT external_id, memory_id
FROM memory.external_ids
WHERE tenant_id = :tenant_id AND external_id = ANY (:external_ids::text[]);

-- claim_external_ids --
-- Claim external ids for memories; skip those that other memories hold.
INSERT INTO memory.external_ids (tenant_id, external_id, memory_id)
VALUES (:tenant_id, :external_id, :memory_id)
ON CONFLICT ON CONSTRAINT external_ids_pkey DO NOTHING;

-- claim_fact_keys --
-- Claim fact keys; skip those that other facts about the same subject hold.
INSERT INTO memory.fact_keys (tenant_id, subject_id, key, folded_key, memory_id)
VALUES (:tenant_id, :subject_id, :key, :folded_key, :memory_id)
ON CONFLICT ON CONSTRAINT fact_keys_pkey DO NOTHING;

-- find_fact_keys --
-- Return the facts that hold keys. Keys come as two lists, and each row has the place of its key; the subject '' is
-- none.
SELECT requested.place, holder.memory_id
FROM unnest(:subject_ids::text[], :folded_keys::text[]) WITH ORDINALITY AS requested (subject_id, folded_key, place)
CROSS JOIN LATERAL (
    SELECT memory_id FROM memory.fact_keys
    WHERE fact_keys.tenant_id = :tenant_id
        AND CASE WHEN fact_keys.subject_id IS NULL THEN '' ELSE fact_keys.subject_id END = requested.subject_id
        AND CASE WHEN fact_keys.folded_key IS NULL THEN fact_keys.key ELSE fact_keys.folded_key END = requested.folded_key
    LIMIT 1) AS holder;

-- release_fact_key --
-- Delete the fact key of a memory.
DELETE FROM memory.fact_keys
WHERE tenant_id = :tenant_id AND memory_id = :memory_id;

-- insert_tags --
-- Insert tags of memories.
INSERT INTO memory.tags (tenant_id, memory_id, tag, position)
VALUES (:tenant_id, :memory_id::uuid, :tag::text, :position::smallint);

-- place_tags --
-- Insert the tags of a memory, and update the places of existing ones.
INSERT INTO memory.tags (tenant_id, memory_id, tag, position)
VALUES (:tenant_id, :memory_id, :tag, :position)
ON CONFLICT ON CONSTRAINT tags_pkey DO UPDATE
SET position = excluded.position
WHERE tags.position IS DISTINCT FROM excluded.position;

-- delete_tags --
-- Delete tags of a memory.
DELETE FROM memory.tags
WHERE tenant_id = :tenant_id AND memory_id = :memory_id AND tag = ANY (:tags::text[]);

-- list_over_capacity --
-- Find memories beyond the capacity of a level: those after the most important ones that fit, of equals the older.
SELECT memory_id
FROM memory.memories
WHERE tenant_id = :tenant_id AND level = :level AND is_active AND archive_time IS NULL
    AND (expire_time IS NULL OR expire_time > :at)
ORDER BY importance DESC, memory_id DESC
OFFSET :capacity
LIMIT :count;

-- list_least_important --
-- Find the least important memories, archived ones too, up to an importance; of equals the older. Each part is read
-- in order from its own index.
SELECT memory_id
FROM (
    (SELECT memory_id, importance FROM memory.memories
     WHERE tenant_id = :tenant_id AND level = 'strategic' AND is_active AND archive_time IS NULL
         AND importance <= :importance
     ORDER BY importance, memory_id LIMIT :count)
    UNION ALL
    (SELECT memory_id, importance FROM memory.memories
     WHERE tenant_id = :tenant_id AND level = 'tactical' AND is_active AND archive_time IS NULL
         AND importance <= :importance
     ORDER BY importance, memory_id LIMIT :count)
    UNION ALL
    (SELECT memory_id, importance FROM memory.memories
     WHERE tenant_id = :tenant_id AND level = 'operational' AND is_active AND archive_time IS NULL
         AND importance <= :importance
     ORDER BY importance, memory_id LIMIT :count)
    UNION ALL
    (SELECT memory_id, importance FROM memory.memories
     WHERE tenant_id = :tenant_id AND level = 'contextual' AND is_active AND archive_time IS NULL
         AND importance <= :importance
     ORDER BY importance, memory_id LIMIT :count)
    UNION ALL
    (SELECT memory_id, importance FROM memory.memories
     WHERE tenant_id = :tenant_id AND is_active AND archive_time IS NOT NULL AND importance <= :importance
     ORDER BY importance, memory_id LIMIT :count)
) AS least
ORDER BY importance, memory_id
LIMIT :count;

-- lock_free_memories --
-- Lock those of some memories that no other transaction has locked.
SELECT memory_id
FROM memory.memories
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
    AND memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids
    AND is_active
ORDER BY memory_id
FOR NO KEY UPDATE SKIP LOCKED;

-- read_oldest_memory --
-- Return the id that no memory of the tenant is below.
SELECT memory_id
FROM memory.oldest_memories
WHERE tenant_id = :tenant_id;

-- lower_oldest_memory --
-- Lower the id that no memory of the tenant is below.
INSERT INTO memory.oldest_memories AS known (tenant_id, memory_id)
VALUES (:tenant_id, :memory_id)
ON CONFLICT ON CONSTRAINT oldest_memories_pkey DO UPDATE
    SET memory_id = excluded.memory_id WHERE excluded.memory_id < known.memory_id;

-- count_memories --
-- Return how many memories the quota counts.
SELECT coalesce(sum(amount), 0)::bigint AS used
FROM memory.usage
WHERE tenant_id = :tenant_id AND kind = 'memories';

-- insert_properties --
-- Insert scalar properties of memories.
INSERT INTO memory.properties (tenant_id, memory_id, name, value)
VALUES (:tenant_id, :memory_id::uuid, :name::text, :value::text);

-- delete_properties --
-- Delete the properties of a memory.
DELETE FROM memory.properties
WHERE tenant_id = :tenant_id AND memory_id = :memory_id;

-- find_other_documents --
-- Return which of some ids the search index has for an item that is no memory.
SELECT item_id
FROM recall.documents
WHERE tenant_id = :tenant_id AND item_id = ANY (:item_ids::uuid[]) AND kind <> 'memory';

-- find_by_fingerprint --
-- Find the newest memories with one fingerprint that are neither deleted nor archived.
SELECT memory_id
FROM memory.memories
WHERE tenant_id = :tenant_id AND fingerprint = :fingerprint AND is_active AND archive_time IS NULL
ORDER BY memory_id DESC
LIMIT :count;
