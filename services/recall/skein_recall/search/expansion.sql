-- aliases_state --
-- Return number and latest change of a tenant's newest aliases, to notice a change.
SELECT count(*) AS aliases, max(newest.update_time) AS update_time
FROM (
    SELECT a.update_time
    FROM memory.aliases AS a
    WHERE a.tenant_id = :tenant_id
    ORDER BY a.alias_memory_id DESC
    LIMIT :count
) AS newest;

-- list_entity_names --
-- Read the names in a tenant's newest aliases: the short texts of the alias and of its canonical memory. A canonical
-- memory with a long text has no name. An archived memory still is a name.
WITH pair AS MATERIALIZED (
    SELECT a.alias_memory_id, a.canonical_memory_id
    FROM memory.aliases AS a
    WHERE a.tenant_id = :tenant_id
    ORDER BY a.alias_memory_id DESC
    LIMIT :count
)
SELECT entity.entity_id, e.memory_id, e.name
FROM (
    SELECT pair.canonical_memory_id AS entity_id, pair.alias_memory_id AS memory_id FROM pair
    UNION
    SELECT pair.canonical_memory_id, pair.canonical_memory_id FROM pair
) AS entity
CROSS JOIN LATERAL (
    -- Each id is looked up by itself; a join would read all of the tenant's memories. The length in bytes is known
    -- without reading a long text.
    SELECT m.memory_id, CASE WHEN octet_length(coalesce(m.title, m.key, m.content)) <= :bytes
        THEN coalesce(m.title, m.key, m.content) ELSE '' END AS name
    FROM memory.memories AS m
    WHERE m.tenant_id = :tenant_id AND m.memory_id = entity.memory_id AND m.is_active
    OFFSET 0
) AS e
ORDER BY e.memory_id;

-- visible_names --
-- Return which memories a caller may see and still have a name, with the name's stems. The conditions are those of
-- get_memories, except that an archived memory still is a name.
SELECT memories.memory_id,
       tsvector_to_array(to_tsvector(('pg_catalog.' || :language::text)::regconfig, requested.words)) AS stems
FROM unnest(:memory_ids::uuid[], :names::text[], :words::text[]) AS requested (memory_id, name, words)
CROSS JOIN LATERAL (
    SELECT memories.* FROM memory.memories
    WHERE memories.tenant_id = :tenant_id AND memories.memory_id = requested.memory_id
        AND memories.memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids
    OFFSET 0
) AS memories
WHERE memories.is_active
    AND (memories.expire_time IS NULL OR memories.expire_time > :at)
    AND (memories.valid_to_time IS NULL OR memories.valid_to_time > :at)
    AND (requested.name = '' OR coalesce(memories.title, memories.key, memories.content) = requested.name)
    AND (
        SELECT l.link_id
        FROM memory.trusted_links AS l
        JOIN recall.documents AS d ON d.tenant_id = :tenant_id AND d.item_id = l.from_memory_id
        WHERE l.tenant_id = :tenant_id AND l.to_memory_id = memories.memory_id AND l.relation = 'supersedes'
            AND (d.expire_time IS NULL OR d.expire_time > :at)
            AND NOT EXISTS (
                SELECT FROM memory.trust AS s
                WHERE s.tenant_id = :tenant_id AND s.memory_id = l.from_memory_id AND s.trust < 0.5)
        ORDER BY l.weight DESC, l.link_id DESC
        LIMIT 1
    ) IS NULL
    AND ({condition});

-- near_terms --
-- Return terms of a tenant that may be near some others: those of ranges that have a fitting length, and those of some
-- guesses that exist, if only in the title of a session. Each step of the recursion finds the next term in the covering
-- index, however many documents the last one has; `most` steps are made in a range.
SELECT wanted.ordinal, near.term
FROM unnest(:ordinals::integer[], :starts::text[], :ends::text[], :shortest::integer[], :longest::integer[])
    AS wanted (ordinal, first, beyond, shortest, longest)
CROSS JOIN LATERAL (
    WITH RECURSIVE step AS (
        (
            SELECT p.term
            FROM recall.postings AS p
            WHERE p.tenant_id = :tenant_id AND p.term >= wanted.first AND p.term < wanted.beyond
            ORDER BY p.term
            LIMIT 1
        )
        UNION ALL
        SELECT (
            SELECT p.term
            FROM recall.postings AS p
            WHERE p.tenant_id = :tenant_id AND p.term > step.term AND p.term < wanted.beyond
            ORDER BY p.term
            LIMIT 1
        )
        FROM step
        WHERE step.term IS NOT NULL
    )
    SELECT step.term FROM step LIMIT :most
) AS near
WHERE char_length(near.term) BETWEEN wanted.shortest AND wanted.longest
UNION ALL
SELECT guess.ordinal, guess.term
FROM unnest(:guess_ordinals::integer[], :guesses::text[]) AS guess (ordinal, term)
CROSS JOIN LATERAL (
    (SELECT 1 FROM recall.postings AS p WHERE p.tenant_id = :tenant_id AND p.term = guess.term LIMIT 1)
    UNION ALL
    (SELECT 1 FROM session.title_terms AS t WHERE t.tenant_id = :tenant_id AND t.term = guess.term LIMIT 1)
) AS known;

-- count_terms --
-- Return the number of documents of each of some terms, as query_terms counts them.
SELECT term.lexeme AS term,
       greatest(known.documents, CASE WHEN known.documents < :most THEN (
           SELECT count(*)
           FROM (
               SELECT FROM recall.postings AS p
               WHERE p.tenant_id = :tenant_id AND p.term = term.lexeme AND p.kind = ANY (:kinds::text[])
               LIMIT :most
           ) AS run
       ) END) AS documents
FROM unnest(:terms::text[]) AS term (lexeme)
CROSS JOIN LATERAL (
    SELECT coalesce(sum(f.documents), 0)::bigint AS documents
    FROM recall.frequencies AS f
    WHERE f.tenant_id = :tenant_id AND f.term = term.lexeme AND f.kind = ANY (:kinds::text[])
) AS known;
