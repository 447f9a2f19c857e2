-- search --
-- Find candidates by meaning and by words in one pass, each with both measures: cosine distance of its best chunk (null
-- without a vector), BM25 (0 when no term matches) and the BM25 that no document can pass for this query.
--
-- The distance is exact: a scan of the index that covers the vectors. Statistics of terms are those of all the tenant's
-- items of the kinds asked, whatever the filter, so that a score means the same with and without one. Sets of items are
-- tested as hashed subplans (the IS TRUE keeps the planner from joining, which it would do by nested loops: it cannot
-- know how large these sets are). Without a vector or without terms that arm finds nothing. Where items have many chunks,
-- `chunks` of them may hold fewer items than there are: then all were read (chunks_read) and dense_items fall short.
WITH terms AS MATERIALIZED (
    SELECT term.lexeme AS term
    FROM unnest(to_tsvector('pg_catalog.english', :words::text)) AS term
    WHERE char_length(term.lexeme) <= 200
), corpus AS MATERIALIZED (
    SELECT count(*)::double precision AS documents, greatest(avg(d.length), 1)::double precision AS mean_length
    FROM recall.documents AS d
    WHERE d.tenant_id = :tenant_id AND d.kind = ANY (:kinds::text[])
), weights AS MATERIALIZED (
    SELECT terms.term, ln(1 + (corpus.documents - run.documents + 0.5) / (run.documents + 0.5)) AS idf
    FROM corpus CROSS JOIN terms CROSS JOIN LATERAL (
        SELECT count(*)::double precision AS documents
        FROM recall.postings AS p
        WHERE p.tenant_id = :tenant_id AND p.term = terms.term AND p.kind = ANY (:kinds::text[])
    ) AS run
), expired AS MATERIALIZED (
    SELECT d.item_id
    FROM recall.documents AS d
    WHERE d.tenant_id = :tenant_id AND d.expire_time <= :at
), allowed AS MATERIALIZED (
    SELECT d.item_id
    FROM recall.documents AS d
    WHERE d.tenant_id = :tenant_id
        AND d.kind = ANY (:kinds::text[])
        AND (d.expire_time IS NULL OR d.expire_time > :at)
        AND (:types::text[] IS NULL OR d.type = ANY (:types::text[]))
        AND (:scopes::text[] IS NULL OR d.scope = ANY (:scopes::text[]))
        AND (:source::text IS NULL OR d.source = :source::text)
        AND (:key::text IS NULL OR d.key = :key::text)
        AND (:min_importance::double precision IS NULL OR d.importance >= :min_importance::double precision)
        -- A message is of its session.
        AND (:sees::boolean IS NULL OR CASE coalesce(d.scope, 'session')
            WHEN 'global' THEN true
            WHEN 'agent' THEN d.agent_id = :seeing_agent_id::text
            WHEN 'user' THEN d.subject_id = :seeing_subject_id::text
                AND (d.agent_id IS NULL OR d.agent_id = coalesce(:seeing_agent_id::text, d.agent_id))
            ELSE d.session_id = :seeing_session_id::text
                AND (d.agent_id IS NULL OR d.agent_id = coalesce(:seeing_agent_id::text, d.agent_id))
                AND (d.subject_id IS NULL OR d.subject_id = coalesce(:seeing_subject_id::text, d.subject_id))
        END)
        AND (:agent_id::text IS NULL OR d.agent_id = :agent_id::text)
        AND (:subject_id::text IS NULL OR d.subject_id = :subject_id::text)
        AND (:session_id::text IS NULL OR d.session_id = :session_id::text)
        AND (:first_id::uuid IS NULL OR d.item_id >= :first_id::uuid)
        AND (:end_id::uuid IS NULL OR d.item_id < :end_id::uuid)
        AND (:tags_any::text[] IS NULL OR d.item_id = ANY (ARRAY(
            SELECT t.memory_id
            FROM memory.tags AS t
            WHERE t.tenant_id = :tenant_id AND t.tag = ANY (:tags_any::text[])
        )))
        AND (:tags_all::text[] IS NULL OR d.item_id = ANY (ARRAY(
            SELECT t.memory_id
            FROM memory.tags AS t
            WHERE t.tenant_id = :tenant_id AND t.tag = ANY (:tags_all::text[])
            GROUP BY t.memory_id
            HAVING count(*) = cardinality(:tags_all::text[])
        )))
), matches AS MATERIALIZED (
    -- 2.2 is k1 + 1, 0.25 and 0.75 are 1 - b and b.
    SELECT posting.item_id,
           sum(weights.idf * posting.frequency * 2.2
               / (posting.frequency + 1.2 * (0.25 + 0.75 * posting.length / corpus.mean_length))) AS bm25
    FROM corpus CROSS JOIN weights CROSS JOIN LATERAL (
        SELECT p.item_id, p.frequency, p.length
        FROM recall.postings AS p
        WHERE p.tenant_id = :tenant_id AND p.term = weights.term AND p.kind = ANY (:kinds::text[])
    ) AS posting
    GROUP BY posting.item_id
), lexical AS MATERIALIZED (
    SELECT m.item_id, m.bm25
    FROM matches AS m
    WHERE CASE WHEN :filtered THEN (m.item_id IN (SELECT allowed.item_id FROM allowed)) IS TRUE
               ELSE m.item_id NOT IN (SELECT expired.item_id FROM expired) END
    ORDER BY m.bm25 DESC, m.item_id
    LIMIT :candidates
), chunks AS MATERIALIZED (
    SELECT v.item_id, v.embedding OPERATOR(public.<=>) :vector::public.halfvec AS distance
    FROM recall.{table} AS v
    WHERE v.tenant_id = :tenant_id
        AND v.kind = ANY (:kinds::text[])
        AND :vector::public.halfvec IS NOT NULL
        AND CASE WHEN :filtered THEN (v.item_id IN (SELECT allowed.item_id FROM allowed)) IS TRUE
                 ELSE v.item_id NOT IN (SELECT expired.item_id FROM expired) END
    ORDER BY distance
    LIMIT :chunks
), dense AS MATERIALIZED (
    SELECT chunks.item_id, min(chunks.distance) AS distance
    FROM chunks
    GROUP BY chunks.item_id
    ORDER BY distance, chunks.item_id
    LIMIT :candidates
), found AS MATERIALIZED (
    SELECT signal.item_id, min(signal.distance) AS distance, coalesce(max(signal.bm25), 0) AS bm25
    FROM (
        SELECT dense.item_id, dense.distance, NULL::double precision AS bm25 FROM dense
        UNION ALL
        SELECT lexical.item_id, NULL, lexical.bm25 FROM lexical
        UNION ALL
        SELECT m.item_id, NULL, m.bm25 FROM matches AS m WHERE (m.item_id IN (SELECT dense.item_id FROM dense)) IS TRUE
    ) AS signal
    GROUP BY signal.item_id
)
SELECT found.item_id,
       d.kind,
       coalesce(found.distance, (
           SELECT min(v.embedding OPERATOR(public.<=>) :vector::public.halfvec)
           FROM recall.{table} AS v
           WHERE v.tenant_id = :tenant_id AND v.item_id = found.item_id AND :vector::public.halfvec IS NOT NULL
       )) AS distance,
       found.bm25,
       (SELECT coalesce(sum(weights.idf), 0) * 2.2 FROM weights) AS max_bm25,
       (SELECT count(*) FROM chunks) AS chunks_read,
       (SELECT count(*) FROM dense) AS dense_items
FROM found
JOIN recall.documents AS d ON d.tenant_id = :tenant_id AND d.item_id = found.item_id;
