-- nearest --
-- Find the chunks nearest to a vector by an exact scan of the index that covers the vectors. Vectors are of unit length,
-- so their negative inner product is minus the cosine.
SELECT v.item_id, v.kind, v.embedding OPERATOR(public.<#>) :vector::public.halfvec AS distance
FROM recall.{table} AS v
WHERE v.tenant_id = :tenant_id AND v.kind = ANY (:kinds::text[])
ORDER BY distance
LIMIT :count;

-- nearest_filtered --
-- Find the chunks nearest to a vector among the items that pass a filter. If these are few of the tenant's items, each is
-- looked up by itself, which costs as much as scanning one or two dozen. The ORDER BY makes the planner use the index
-- that begins with the item: the covering one would read all of the tenant's vectors each time. Otherwise the set is
-- tested as a hashed subplan: the IS TRUE prevents nested loops, as the planner cannot know the size of the set.
WITH allowed AS MATERIALIZED (
    SELECT d.item_id
    FROM recall.documents AS d
    WHERE d.tenant_id = :tenant_id AND d.kind = ANY (:kinds::text[]) AND ({condition})
),
chosen AS MATERIALIZED (
    -- Uncounted documents are missing here, so the scan is chosen in doubt.
    SELECT (SELECT count(*) FROM allowed) * 24 < there.documents - gone.documents AS one_by_one
    FROM (
        SELECT coalesce(sum(c.documents), 0) AS documents
        FROM recall.corpora AS c
        WHERE c.tenant_id = :tenant_id AND c.kind = ANY (:kinds::text[])
    ) AS there
    CROSS JOIN (
        SELECT coalesce(sum(d.documents), 0) AS documents
        FROM recall.removals AS d
        WHERE d.tenant_id = :tenant_id AND d.kind = ANY (:kinds::text[])
    ) AS gone
)
SELECT found.item_id, found.kind, found.embedding OPERATOR(public.<#>) :vector::public.halfvec AS distance
FROM (
    SELECT one.item_id, one.kind, one.embedding
    FROM allowed
    CROSS JOIN LATERAL (
        SELECT v.item_id, v.kind, v.embedding
        FROM recall.{table} AS v
        WHERE v.tenant_id = :tenant_id AND v.item_id = allowed.item_id
        ORDER BY v.item_id, v.chunk
        OFFSET 0
    ) AS one
    WHERE (SELECT chosen.one_by_one FROM chosen)
    UNION ALL
    SELECT v.item_id, v.kind, v.embedding
    FROM recall.{table} AS v
    WHERE NOT (SELECT chosen.one_by_one FROM chosen)
        AND v.tenant_id = :tenant_id AND v.kind = ANY (:kinds::text[])
        AND (v.item_id IN (SELECT allowed.item_id FROM allowed)) IS TRUE
) AS found
ORDER BY distance
LIMIT :count;

-- filter_ids --
-- Find the items that pass a filter, up to a number, as one binary value of their ids: 16 bytes each, in no order.
SELECT string_agg(uuid_send(found.item_id), ''::bytea) AS item_ids
FROM (
    SELECT d.item_id
    FROM recall.documents AS d
    WHERE d.tenant_id = :tenant_id AND d.kind = ANY (:kinds::text[]) AND ({condition})
    LIMIT :count
) AS found;

-- filter_candidates --
-- Find which of some items pass a filter, in the form of filter_ids.
SELECT string_agg(uuid_send(d.item_id), ''::bytea) AS item_ids
FROM (SELECT DISTINCT unnest(:item_ids::uuid[]) AS item_id OFFSET 0) AS candidate
JOIN recall.documents AS d ON d.tenant_id = :tenant_id AND d.item_id = candidate.item_id
WHERE d.kind = ANY (:kinds::text[]) AND ({condition});

-- similarities --
-- Compare items with a vector over all dimensions, each by its best chunk. Items without a vector are missing.
SELECT v.item_id,
       max(-(v.embedding OPERATOR(public.<#>) :vector::public.halfvec)
           - coalesce(v.rest OPERATOR(public.<#>) :rest::public.halfvec, 0)) AS similarity
FROM recall.{table} AS v
WHERE v.tenant_id = :tenant_id AND v.item_id = ANY (:item_ids::uuid[])
GROUP BY v.item_id;

-- tokens_of_items --
-- Read the codes of the tokens of some items: of each one's chunk that is nearest to a vector. Items without codes are
-- missing.
SELECT DISTINCT ON (v.item_id) v.item_id, v.tokens
FROM recall.{table} AS v
WHERE v.tenant_id = :tenant_id AND v.item_id = ANY (:item_ids::uuid[]) AND v.tokens IS NOT NULL
ORDER BY v.item_id, v.embedding OPERATOR(public.<#>) :vector::public.halfvec, v.chunk;

-- item_vectors --
-- Read an item's kind and its vectors, a row for each chunk; one row without a vector where it has none.
SELECT d.kind, v.embedding, v.rest
FROM recall.documents AS d
LEFT JOIN recall.{table} AS v ON v.tenant_id = :tenant_id AND v.item_id = d.item_id
WHERE d.tenant_id = :tenant_id AND d.item_id = :item_id
ORDER BY v.chunk;

-- count_pending --
-- Count the items of the backlog, up to a number.
SELECT count(*)::integer AS pending_count
FROM (SELECT FROM recall.documents AS d WHERE d.tenant_id = :tenant_id AND d.pending LIMIT :most_pending) AS waiting;

-- query_terms --
-- Split a query into its terms, each with its number of documents. It is counted here for a rare term; for others it is
-- the worker's last count. Each row also has number and length of all documents: counted and uncounted ones, minus
-- removed ones.
SELECT term.lexeme AS term,
       greatest(known.documents, CASE WHEN known.documents < :most THEN (
           SELECT count(*)
           FROM (
               SELECT FROM recall.postings AS p
               WHERE p.tenant_id = :tenant_id AND p.term = term.lexeme AND p.kind = ANY (:kinds::text[])
               LIMIT :most
           ) AS run
       ) END) AS documents,
       corpus.documents + fresh.documents - gone.documents AS corpus_documents,
       corpus.length + fresh.length - gone.length AS corpus_length
FROM (
    SELECT lexeme
    FROM unnest(to_tsvector(('pg_catalog.' || :language::text)::regconfig, :words::text))
    WHERE char_length(lexeme) <= 200
    ORDER BY positions[1]
    LIMIT :terms
) AS term
CROSS JOIN LATERAL (
    SELECT coalesce(sum(f.documents), 0)::bigint AS documents
    FROM recall.frequencies AS f
    WHERE f.tenant_id = :tenant_id AND f.term = term.lexeme AND f.kind = ANY (:kinds::text[])
) AS known
CROSS JOIN (
    SELECT coalesce(sum(c.documents), 0)::bigint AS documents, coalesce(sum(c.length), 0)::bigint AS length
    FROM recall.corpora AS c
    WHERE c.tenant_id = :tenant_id AND c.kind = ANY (:kinds::text[])
) AS corpus
CROSS JOIN (
    SELECT count(*) AS documents, coalesce(sum(d.length), 0)::bigint AS length
    FROM recall.documents AS d
    WHERE d.tenant_id = :tenant_id AND d.kind = ANY (:kinds::text[]) AND NOT d.is_counted
) AS fresh
CROSS JOIN (
    SELECT coalesce(sum(d.documents), 0)::bigint AS documents, coalesce(sum(d.length), 0)::bigint AS length
    FROM recall.removals AS d
    WHERE d.tenant_id = :tenant_id AND d.kind = ANY (:kinds::text[])
) AS gone;

-- match_terms --
-- Find the best items for some terms by BM25 (k1 = 0.9, b = 0.75: 1.9 is k1 + 1, 0.225 is k1 * (1 - b), and `per_stem` is
-- k1 * b / mean length). One numeric type and constants computed beforehand halve the time for thousands of postings.
SELECT p.item_id,
       1.9 * sum(weight.idf * p.frequency
                 / (p.frequency + (0.225::double precision + p.length * :per_stem::double precision))) AS bm25
FROM unnest(:terms::text[], :idfs::double precision[]) AS weight (term, idf)
CROSS JOIN LATERAL (
    SELECT run.item_id, (run.frequency + run.header_frequency)::double precision AS frequency,
           run.length::double precision AS length
    FROM recall.postings AS run
    WHERE run.tenant_id = :tenant_id AND run.term = weight.term AND run.kind = ANY (:kinds::text[])
) AS p
GROUP BY p.item_id
ORDER BY bm25 DESC, p.item_id
LIMIT :count;

-- match_terms_filtered --
-- Find the best items for some terms by BM25 among the items that pass a filter.
WITH allowed AS MATERIALIZED (
    SELECT d.item_id
    FROM recall.documents AS d
    WHERE d.tenant_id = :tenant_id AND d.kind = ANY (:kinds::text[]) AND ({condition})
)
SELECT p.item_id,
       1.9 * sum(weight.idf * p.frequency
                 / (p.frequency + (0.225::double precision + p.length * :per_stem::double precision))) AS bm25
FROM unnest(:terms::text[], :idfs::double precision[]) AS weight (term, idf)
CROSS JOIN LATERAL (
    SELECT run.item_id, (run.frequency + run.header_frequency)::double precision AS frequency,
           run.length::double precision AS length
    FROM recall.postings AS run
    WHERE run.tenant_id = :tenant_id AND run.term = weight.term AND run.kind = ANY (:kinds::text[])
        AND (run.item_id IN (SELECT allowed.item_id FROM allowed)) IS TRUE
) AS p
GROUP BY p.item_id
ORDER BY bm25 DESC, p.item_id
LIMIT :count;

-- measure_items --
-- Measure items and their neighbours: those of the same session, up to `reach` before and after each of the centres.
-- The order is that of the ids, which is that of time. The result is one row of arrays, several times as fast as
-- hundreds of rows. It has the size of the backlog too, as `count_pending`. The first array has the items. Each posting
-- has the item, the position of the term from 1 and its counts in text and header. Each item of a session whose title
-- has a term has its position and the term's; a term of more than :titles titles says nothing. The last array has the
-- previous item of each item around a centre. An item has changed when the transaction :horizon or a later one wrote
-- what a search measures of it. New vectors of an item are no change of it: compare_shortlist finds those.
WITH centre AS MATERIALIZED (
    SELECT d.item_id,
           ARRAY(
               SELECT b.item_id
               FROM recall.documents AS b
               WHERE b.tenant_id = :tenant_id AND b.session_id = d.session_id AND b.item_id < d.item_id
               ORDER BY b.item_id DESC
               LIMIT :reach
           ) AS before,
           ARRAY(
               SELECT a.item_id
               FROM recall.documents AS a
               WHERE a.tenant_id = :tenant_id AND a.session_id = d.session_id AND a.item_id > d.item_id
               ORDER BY a.item_id
               LIMIT :reach
           ) AS after
    FROM unnest(:centres::uuid[]) AS requested (item_id)
    JOIN recall.documents AS d ON d.tenant_id = :tenant_id AND d.item_id = requested.item_id
    WHERE d.session_id IS NOT NULL
), items AS MATERIALIZED (
    SELECT array_agg(d.item_id ORDER BY d.item_id) AS item_ids,
           array_agg(d.kind ORDER BY d.item_id) AS kinds,
           array_agg(d.length ORDER BY d.item_id) AS lengths,
           array_agg(d.session_id ORDER BY d.item_id) AS session_ids,
           array_agg(d.is_question ORDER BY d.item_id) AS is_question,
           array_agg(d.role IS NOT DISTINCT FROM 'assistant' ORDER BY d.item_id) AS is_assistant,
           array_agg(d.mentions_time ORDER BY d.item_id) AS mentions_time,
           array_agg(d.transaction >= :horizon::bigint ORDER BY d.item_id) AS changed
    FROM (
        SELECT unnest(:item_ids::uuid[]) AS item_id
        UNION
        SELECT unnest(centre.before || centre.after) FROM centre
    ) AS requested
    JOIN recall.documents AS d ON d.tenant_id = :tenant_id AND d.item_id = requested.item_id
    WHERE d.kind = ANY (:kinds::text[])
)
SELECT items.*, term_counts.*, titled.*, steps.*, (
           SELECT count(*)::integer
           FROM (SELECT FROM recall.documents AS d WHERE d.tenant_id = :tenant_id AND d.pending LIMIT :most_pending) AS waiting
       ) AS pending_count
FROM items
CROSS JOIN LATERAL (
    SELECT array_agg(found.item_id) AS posting_items, array_agg(found.term) AS posting_terms,
           array_agg(found.frequency) AS posting_counts, array_agg(found.header_frequency) AS header_counts
    FROM (
        -- The whole list of a rare term is read, which costs less than a lookup for each item. The items are tested as a
        -- hashed subplan, because the planner would join them by nested loops.
        SELECT p.item_id, query_term.ordinal::integer AS term, p.frequency, p.header_frequency
        FROM unnest(:terms::text[]) WITH ORDINALITY AS query_term (term, ordinal)
        CROSS JOIN LATERAL (
            SELECT run.item_id, run.frequency, run.header_frequency
            FROM recall.postings AS run
            WHERE run.tenant_id = :tenant_id AND run.term = query_term.term AND run.kind = ANY (:kinds::text[])
                AND (run.item_id IN (SELECT unnest(known.item_ids) FROM items AS known)) IS TRUE
            OFFSET 0
        ) AS p
        WHERE query_term.ordinal <= :rare
        UNION ALL
        -- The range of one item makes the planner use the index by term; it believes that an item has few words and
        -- would use the index by item.
        SELECT item.item_id, query_term.ordinal, p.frequency, p.header_frequency
        FROM unnest(:terms) WITH ORDINALITY AS query_term (term, ordinal)
        CROSS JOIN unnest(items.item_ids, items.kinds) AS item (item_id, kind)
        CROSS JOIN LATERAL (
            SELECT run.frequency, run.header_frequency
            FROM recall.postings AS run
            WHERE run.tenant_id = :tenant_id AND run.term = query_term.term AND run.kind = item.kind
                AND run.item_id BETWEEN item.item_id AND item.item_id
            LIMIT 1
        ) AS p
        WHERE query_term.ordinal > :rare
    ) AS found
) AS term_counts
CROSS JOIN LATERAL (
    SELECT array_agg(item.ordinal::integer) AS titled_items, array_agg(title.term) AS titled_terms
    FROM (
        SELECT run.session_id, query_term.ordinal::integer AS term,
               count(*) OVER (PARTITION BY query_term.ordinal) AS count
        FROM unnest(:terms::text[]) WITH ORDINALITY AS query_term (term, ordinal)
        CROSS JOIN LATERAL (
            SELECT t.session_id
            FROM session.title_terms AS t
            WHERE t.tenant_id = :tenant_id AND t.term = query_term.term
            LIMIT :titles + 1
        ) AS run
    ) AS title
    JOIN unnest(items.session_ids) WITH ORDINALITY AS item (session_id, ordinal) ON item.session_id = title.session_id
    WHERE title.count <= :titles
) AS titled
CROSS JOIN (
    SELECT array_agg(step.item_id) AS followers, array_agg(step.previous) AS previous
    FROM (
        SELECT one.item_id, lag(one.item_id) OVER (PARTITION BY centre.item_id ORDER BY one.item_id) AS previous
        FROM centre
        CROSS JOIN unnest(centre.before || centre.item_id || centre.after) AS one (item_id)
    ) AS step
    WHERE step.previous IS NOT NULL
) AS steps;

-- nearest_exact --
-- Compare every item that passes a filter with a vector, over all dimensions, each by its best chunk. It reads all of a
-- tenant's vectors: the measure of every other search.
SELECT v.item_id,
       max(-(v.embedding OPERATOR(public.<#>) :vector::public.halfvec)
           - coalesce(v.rest OPERATOR(public.<#>) :rest::public.halfvec, 0)) AS similarity
FROM recall.{table} AS v
JOIN recall.documents AS d ON d.tenant_id = :tenant_id AND d.item_id = v.item_id
WHERE v.tenant_id = :tenant_id AND v.kind = ANY (:kinds::text[]) AND ({condition})
GROUP BY v.item_id
ORDER BY similarity DESC, v.item_id
LIMIT :count;

-- count_documents_of_all_times --
-- Count the documents and their former versions.
SELECT (SELECT count(*) FROM recall.documents WHERE tenant_id = :tenant_id)
    + (SELECT count(*) FROM recall.documents_history WHERE tenant_id = :tenant_id);

-- count_purged --
-- Count the items that were known at a time and purged since, of at most :most rows.
SELECT coalesce(sum(purged.item_count), 0) AS item_count
FROM (
    SELECT item_count FROM recall.purged_items
    WHERE tenant_id = :tenant_id AND purge_time > :as_of_time AND known_time <= :as_of_time
    LIMIT :most
) AS purged;

-- read_log_position --
-- Return which transactions the statement sees: those below a number, and those below another one that do not run. The
-- tenant is not in it.
SELECT pg_snapshot_xmin(own.snapshot)::text::bigint + skein.transaction_base() AS start,
       pg_snapshot_xmax(own.snapshot)::text::bigint + skein.transaction_base() AS beyond,
       ARRAY(SELECT number::text::bigint + skein.transaction_base() FROM pg_snapshot_xip(own.snapshot) AS number)
           AS running
FROM (SELECT pg_current_snapshot() AS snapshot, :tenant_id::uuid AS tenant_id OFFSET 0) AS own;
