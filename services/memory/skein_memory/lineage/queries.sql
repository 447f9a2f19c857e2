-- read_sources --
-- Read the sources of memories, in order.
SELECT memory_id, position, kind, role, source_id, name, erased_trust, start_character, end_character
FROM memory.sources
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
ORDER BY memory_id, position;

-- insert_sources --
-- Insert sources of memories.
INSERT INTO memory.sources (
    tenant_id, memory_id, position, kind, role, source_id, name, name_key, erased_trust, start_character, end_character)
VALUES
    (:tenant_id, :memory_id::uuid, :position::smallint, :kind::text, :role::text, :source_id::uuid, :name::text,
     :name_key::text, :erased_trust::float8, :start_character::integer, :end_character::integer);

-- delete_declared_sources --
-- Delete the sources of a memory that callers declared.
DELETE FROM memory.sources
WHERE tenant_id = :tenant_id AND memory_id = :memory_id AND position >= 0 AND position < :first_added;

-- replace_repeats --
-- Take the confirmation by equal texts from a memory whose text changes, and from those that it confirms.
UPDATE memory.sources
SET role = 'replaced'
WHERE tenant_id = :tenant_id AND (memory_id = :memory_id OR source_id = :memory_id) AND role = 'repeat'
RETURNING memory_id;

-- delete_sources --
-- Delete the sources of a memory, but for its principals.
DELETE FROM memory.sources
WHERE tenant_id = :tenant_id AND memory_id = :memory_id AND position >= 0;

-- delete_writer --
-- Delete the writer of a memory's text, so that the principal that created it counts.
DELETE FROM memory.sources
WHERE tenant_id = :tenant_id AND memory_id = :memory_id AND position = -1;

-- find_former_writer --
-- Return who wrote a text that a memory had before; no row for a text that no kept version has.
SELECT coalesce(
    (SELECT former.name FROM memory.sources_history AS former
     WHERE former.tenant_id = :tenant_id AND former.memory_id = :memory_id AND former.position = -1
         AND former.record_time < version.until_time
     ORDER BY former.record_time DESC LIMIT 1), version.updated_by) AS name
FROM (
    SELECT updated_by, until_time
    FROM memory.versions
    WHERE tenant_id = :tenant_id AND memory_id = :memory_id AND type = :type AND content = :content
        AND data IS NOT DISTINCT FROM :data::jsonb
    ORDER BY revision
    LIMIT 1
) AS version;

-- read_lineage_memories --
-- Read what the trust of memories depends on, and what a lineage shows of them, deleted ones too.
SELECT memory_id, type, title, key, left(content, 200) AS beginning, source, source_agent, scope, agent_id, subject_id,
       session_id, created_by, create_time,
       is_active AND (expire_time IS NULL OR expire_time > :at) AS is_visible
FROM memory.memories
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
    AND memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids;

-- read_lineage_messages --
-- Read the authors of messages, and how long their contents are.
SELECT message_id, session_id, name, sender_id, role, agent_id, subject_id, created_by, updated_by, create_time,
       is_active, char_length(content) AS character_count
FROM session.messages
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[])
    AND message_id BETWEEN :first_of_message_ids AND :last_of_message_ids;

-- read_stored_trust --
-- Read the stored trust of memories; those without a row have the neutral one.
SELECT memory_id, trust
FROM memory.trust
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- put_trust --
-- Store the trust of memories.
INSERT INTO memory.trust (tenant_id, memory_id, trust)
VALUES (:tenant_id, :memory_id, :trust)
ON CONFLICT ON CONSTRAINT trust_pkey DO UPDATE
SET trust = excluded.trust;

-- delete_trust --
-- Delete the stored trust of memories that have the neutral one again.
DELETE FROM memory.trust
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- put_principal --
-- Store which principal wrote a part of a memory; nothing changes where it did before.
INSERT INTO memory.sources (tenant_id, memory_id, position, kind, role, name, name_key)
VALUES (:tenant_id, :memory_id, :position, :kind, 'part', :name, :name_key)
ON CONFLICT ON CONSTRAINT sources_pkey DO UPDATE
SET name = excluded.name, name_key = excluded.name_key
WHERE sources.name <> excluded.name;

-- note_rescores --
-- Note memories from which others derive whose trust is to be computed again, or a name whose rating changes.
INSERT INTO memory.trust_work (tenant_id, memory_id, source_key, after_id)
VALUES (:tenant_id, :memory_id, :source_key, :after_id)
ON CONFLICT ON CONSTRAINT trust_work_pkey DO UPDATE
SET after_id = excluded.after_id;

-- lock_rescore --
-- Take one row of the work; skip those of another process.
SELECT memory_id, source_key, after_id
FROM memory.trust_work
WHERE tenant_id = :tenant_id
ORDER BY memory_id, source_key
LIMIT 1
FOR UPDATE SKIP LOCKED;

-- lock_unlocked --
-- Lock those of some memories that no other transaction has locked, deleted ones too.
SELECT memory_id
FROM memory.memories
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
    AND memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids
ORDER BY memory_id
FOR NO KEY UPDATE SKIP LOCKED;

-- continue_rescore --
-- Store how far the work of one row has come.
UPDATE memory.trust_work
SET after_id = :after_id
WHERE tenant_id = :tenant_id AND memory_id = :memory_id AND source_key = :source_key;

-- delete_rescore --
-- Delete a row of the work that is done.
DELETE FROM memory.trust_work
WHERE tenant_id = :tenant_id AND memory_id = :memory_id AND source_key = :source_key;

-- walk_memory_ids --
-- Read the ids of memories after one, in order.
SELECT memory_id
FROM memory.memories
WHERE tenant_id = :tenant_id AND memory_id > :after_id
ORDER BY memory_id
LIMIT :count;

-- walk_derived_ids --
-- Read the ids of memories with sources after one, in order.
SELECT DISTINCT memory_id
FROM memory.sources
WHERE tenant_id = :tenant_id AND memory_id > :after_id AND position >= 0
ORDER BY memory_id
LIMIT :count;

-- list_names --
-- Read the different principals, sources and agents of a tenant's memories, as they are written. Each step of a
-- recursion finds the next name in an index, however many memories the last one has. It opens the months after an id.
WITH RECURSIVE creator AS (
    (SELECT e.created_by AS name FROM memory.memories AS e
     WHERE e.tenant_id = :tenant_id AND e.memory_id > :before_first_id ORDER BY e.created_by LIMIT 1)
    UNION ALL
    SELECT (SELECT e.created_by FROM memory.memories AS e
            WHERE e.tenant_id = :tenant_id AND e.memory_id > :before_first_id
                AND e.created_by > creator.name ORDER BY e.created_by LIMIT 1)
    FROM creator
    WHERE creator.name IS NOT NULL
),
source AS (
    (SELECT e.source AS name FROM memory.memories AS e
     WHERE e.tenant_id = :tenant_id AND e.memory_id > :before_first_id
         AND e.source IS NOT NULL ORDER BY e.source LIMIT 1)
    UNION ALL
    SELECT (SELECT e.source FROM memory.memories AS e
            WHERE e.tenant_id = :tenant_id AND e.memory_id > :before_first_id
                AND e.source > source.name ORDER BY e.source LIMIT 1)
    FROM source
    WHERE source.name IS NOT NULL
),
agent AS (
    (SELECT e.source_agent AS name FROM memory.memories AS e
     WHERE e.tenant_id = :tenant_id AND e.memory_id > :before_first_id
         AND e.source_agent IS NOT NULL ORDER BY e.source_agent LIMIT 1)
    UNION ALL
    SELECT (SELECT e.source_agent FROM memory.memories AS e
            WHERE e.tenant_id = :tenant_id AND e.memory_id > :before_first_id
                AND e.source_agent > agent.name ORDER BY e.source_agent LIMIT 1)
    FROM agent
    WHERE agent.name IS NOT NULL
)
SELECT known.field, known.name
FROM (
    SELECT 'created_by' AS field, creator.name FROM creator
    UNION ALL
    SELECT 'source', source.name FROM source
    UNION ALL
    SELECT 'source_agent', agent.name FROM agent
) AS known
WHERE known.name IS NOT NULL
LIMIT :count;

-- find_made_by --
-- Find memories, after one, that a source wrote or that name it: the principals, sources and agents are its spellings.
-- The comparison of rows keeps the planner to the index of the name, whatever it expects of the others.
SELECT DISTINCT made.memory_id
FROM (
    SELECT found.memory_id
    FROM unnest(:creators::text[]) AS known (name)
    CROSS JOIN LATERAL (
        SELECT e.memory_id FROM memory.memories AS e
        WHERE e.tenant_id = :tenant_id AND e.memory_id > :before_first_id
            AND (e.created_by, e.memory_id) > (known.name, :after_id::uuid)
            AND e.created_by <= known.name
        ORDER BY e.created_by, e.memory_id
        LIMIT :count
    ) AS found
    UNION ALL
    SELECT found.memory_id
    FROM unnest(:sources::text[]) AS known (name)
    CROSS JOIN LATERAL (
        SELECT e.memory_id FROM memory.memories AS e
        WHERE e.tenant_id = :tenant_id AND e.memory_id > :before_first_id
            AND (e.source, e.memory_id) > (known.name, :after_id::uuid)
            AND e.source <= known.name
        ORDER BY e.source, e.memory_id
        LIMIT :count
    ) AS found
    UNION ALL
    SELECT found.memory_id
    FROM unnest(:source_agents::text[]) AS known (name)
    CROSS JOIN LATERAL (
        SELECT e.memory_id FROM memory.memories AS e
        WHERE e.tenant_id = :tenant_id AND e.memory_id > :before_first_id
            AND (e.source_agent, e.memory_id) > (known.name, :after_id::uuid)
            AND e.source_agent <= known.name
        ORDER BY e.source_agent, e.memory_id
        LIMIT :count
    ) AS found
    UNION ALL
    (
        SELECT s.memory_id FROM memory.sources AS s
        WHERE s.tenant_id = :tenant_id AND (s.name_key, s.memory_id) > (:source_key::text, :after_id::uuid)
            AND s.name_key <= :source_key::text
        ORDER BY s.name_key, s.memory_id
        LIMIT :count
    )
) AS made
ORDER BY made.memory_id
LIMIT :count;

-- walk_message_sources --
-- Read the ids of messages after one, in order, from which memories derive.
SELECT DISTINCT source_id
FROM memory.sources
WHERE tenant_id = :tenant_id AND kind = 'message' AND source_id > :after_id
ORDER BY source_id
LIMIT :count;

-- find_derived --
-- Find memories, after one, that were made of a message or memory.
SELECT DISTINCT memory_id
FROM memory.sources
WHERE tenant_id = :tenant_id AND source_id = :source_id AND memory_id > :after_id
ORDER BY memory_id
LIMIT :count;

-- find_derived_of_some --
-- Find memories that were made of any of some messages or memories.
SELECT DISTINCT memory_id
FROM memory.sources
WHERE tenant_id = :tenant_id AND source_id = ANY (:source_ids::uuid[])
LIMIT :count;

-- find_used_sources --
-- Return which of some memories others were made of.
SELECT DISTINCT source_id
FROM memory.sources
WHERE tenant_id = :tenant_id AND source_id = ANY (:source_ids::uuid[])
ORDER BY source_id;

-- mark_erased --
-- Mark sources as erased: of each only its trust stays.
UPDATE memory.sources
SET erased_trust = gone.trust, start_character = NULL, end_character = NULL
FROM unnest(:source_ids::uuid[], :trusts::double precision[]) AS gone (source_id, trust)
WHERE sources.tenant_id = :tenant_id AND sources.source_id = gone.source_id AND sources.erased_trust IS NULL
RETURNING sources.source_id;

-- mark_former_erased --
-- Mark former sources as erased: of each only its trust stays.
UPDATE memory.sources_history
SET erased_trust = gone.trust, start_character = NULL, end_character = NULL
FROM unnest(:source_ids::uuid[], :trusts::double precision[]) AS gone (source_id, trust)
WHERE sources_history.tenant_id = :tenant_id AND sources_history.source_id = gone.source_id
    AND sources_history.erased_trust IS NULL;

-- purge_memory_sources_history --
-- Purge what memories were made of formerly.
DELETE FROM memory.sources_history
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- purge_memory_sources --
-- Purge what memories were made of.
DELETE FROM memory.sources
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- purge_memory_trust --
-- Purge the trust of memories.
DELETE FROM memory.trust
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- purge_memory_trust_history --
-- Purge the former trust of memories.
DELETE FROM memory.trust_history
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);
