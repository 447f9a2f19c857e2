-- read_search_state --
-- Split a query into its terms, each with the worker's last count, and read by what a cache of the tenant's documents
-- is proved: number and length of all documents of each kind, as query_terms counts them, and the documents of a
-- transaction and later ones, up to a number. Sessions whose title has a term come with the position of the term; a
-- term of more than :titles titles says nothing. Without a vector no vectors are compared; else the chunks of another
-- transaction and later ones, up to a number. The result is one row of arrays, with the size of the backlog as
-- `count_pending` has it.
WITH term AS MATERIALIZED (
    SELECT lexeme, row_number() OVER (ORDER BY positions[1])::integer AS ordinal
    FROM unnest(to_tsvector(('pg_catalog.' || :language::text)::regconfig, :words::text))
    WHERE char_length(lexeme) <= 200
    ORDER BY positions[1]
    LIMIT :terms
)
SELECT coalesce(:server_start::timestamptz, pg_postmaster_start_time()) AS server, query.*, corpus.*, changed.*, titled.*, compared.*, (
           SELECT count(*)::integer
           FROM (SELECT FROM recall.documents AS d WHERE d.tenant_id = :tenant_id AND d.pending LIMIT :most_pending) AS waiting
       ) AS pending_count
FROM (
    SELECT array_agg(term.lexeme ORDER BY term.ordinal) AS terms,
           array_agg(known.documents ORDER BY term.ordinal) AS known_documents
    FROM term
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(f.documents), 0)::bigint AS documents
        FROM recall.frequencies AS f
        WHERE f.tenant_id = :tenant_id AND f.term = term.lexeme AND f.kind = ANY (:kinds::text[])
    ) AS known
) AS query
CROSS JOIN (
    SELECT array_agg(kind) AS corpus_kinds, array_agg(documents) AS corpus_documents, array_agg(length) AS corpus_lengths
    FROM (
        SELECT each.kind, sum(each.documents)::bigint AS documents, sum(each.length)::bigint AS length
        FROM (
            SELECT c.kind, c.documents, c.length
            FROM recall.corpora AS c
            WHERE c.tenant_id = :tenant_id
            UNION ALL
            SELECT fresh.kind, 1, fresh.length
            FROM recall.documents AS fresh
            WHERE fresh.tenant_id = :tenant_id AND NOT fresh.is_counted
            UNION ALL
            SELECT gone.kind, -gone.documents, -gone.length
            FROM recall.removals AS gone
            WHERE gone.tenant_id = :tenant_id
        ) AS each
        GROUP BY each.kind
    ) AS of_kind
) AS corpus
CROSS JOIN (
    SELECT array_agg(item_id) AS changed_items, array_agg(transaction) AS changed_transactions
    FROM (
        SELECT d.item_id, d.transaction
        FROM recall.documents AS d
        WHERE d.tenant_id = :tenant_id AND d.transaction >= :horizon
        ORDER BY d.transaction
        LIMIT :most_changed
    ) AS change
) AS changed
CROSS JOIN (
    SELECT array_agg(title.session_id) AS titled_sessions, array_agg(title.ordinal) AS titled_terms
    FROM (
        SELECT run.session_id, term.ordinal, count(*) OVER (PARTITION BY term.ordinal) AS count
        FROM term
        CROSS JOIN LATERAL (
            SELECT t.session_id
            FROM session.title_terms AS t
            WHERE t.tenant_id = :tenant_id AND t.term = term.lexeme
            LIMIT :titles + 1
        ) AS run
    ) AS title
    WHERE title.count <= :titles
) AS titled
CROSS JOIN (
    SELECT array_agg(chunk.item_id) AS new_items, array_agg(chunk.kind) AS new_kinds,
           array_agg(chunk.cosine) AS new_cosines
    FROM (
        SELECT v.item_id, v.kind,
               -(v.embedding OPERATOR(public.<#>) :vector::public.halfvec)
                   - coalesce(v.rest OPERATOR(public.<#>) :rest::public.halfvec, 0) AS cosine
        FROM recall.{table} AS v
        WHERE :vector IS NOT NULL AND v.tenant_id = :tenant_id AND v.transaction >= :vector_horizon
            AND v.kind = ANY (:kinds::text[])
        LIMIT :most_vectors
    ) AS chunk
) AS compared;

-- read_documents_with_postings --
-- Read documents as searches measure them, with their postings as arrays. It is planned for its tenant: by a plan for any
-- tenant, the index by term would be read for each document.
SELECT d.item_id, d.kind, d.length, d.session_id, d.is_question, d.role IS NOT DISTINCT FROM 'assistant' AS is_assistant,
       d.mentions_time, d.transaction, posting.terms, posting.frequencies, posting.header_frequencies
FROM unnest(:item_ids::uuid[]) AS requested (item_id)
JOIN recall.documents AS d ON d.tenant_id = :tenant_id AND d.item_id = requested.item_id
CROSS JOIN LATERAL (
    SELECT array_agg(p.term) AS terms, array_agg(p.frequency) AS frequencies,
           array_agg(p.header_frequency) AS header_frequencies
    FROM recall.postings AS p
    WHERE p.tenant_id = :tenant_id AND p.item_id = d.item_id
) AS posting;

-- documents_after --
-- Read some of a tenant's documents, in order of their ids.
SELECT d.item_id, d.kind, d.length, d.session_id, d.is_question, d.role IS NOT DISTINCT FROM 'assistant' AS is_assistant,
       d.mentions_time, d.transaction
FROM recall.documents AS d
WHERE d.tenant_id = :tenant_id AND d.item_id > :item_id
ORDER BY d.item_id
LIMIT :count;

-- postings_after --
-- Read the postings of some of a tenant's terms, in order of the terms: 24 bytes for each, the id of the item and both
-- counts.
SELECT p.term, string_agg(uuid_send(p.item_id) || int4send(p.frequency) || int4send(p.header_frequency), '') AS postings
FROM recall.postings AS p
WHERE p.tenant_id = :tenant_id AND p.term > :term
GROUP BY p.term
ORDER BY p.term
LIMIT :count;

-- count_documents --
-- Count a tenant's documents, up to a number.
SELECT count(*)
FROM (SELECT FROM recall.documents AS d WHERE d.tenant_id = :tenant_id LIMIT :most) AS counted;

-- list_document_ids --
-- Read the ids of all of a tenant's documents: 16 bytes for each.
SELECT coalesce(string_agg(uuid_send(d.item_id), ''), '') AS item_ids
FROM recall.documents AS d
WHERE d.tenant_id = :tenant_id;

-- list_changed_documents --
-- Find the documents of a transaction and later ones, up to a number.
SELECT d.item_id, d.transaction
FROM recall.documents AS d
WHERE d.tenant_id = :tenant_id AND d.transaction >= :horizon
ORDER BY d.transaction
LIMIT :most_changed;
