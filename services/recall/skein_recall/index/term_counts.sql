-- counting_status --
-- Return whether there are documents to add to the counts, and removed ones to subtract. `stale` has the kinds of which so
-- many were removed that the frequencies are to be counted again.
SELECT EXISTS (SELECT FROM recall.documents AS d WHERE d.tenant_id = :tenant_id AND NOT d.is_counted) AS fresh,
       EXISTS (SELECT FROM recall.removals AS d WHERE d.tenant_id = :tenant_id) AS gone,
       ARRAY(
           SELECT c.kind
           FROM recall.corpora AS c
           WHERE c.tenant_id = :tenant_id AND c.removed > greatest(:min_documents::bigint, c.documents / 5)
           ORDER BY c.kind
       ) AS stale;

-- mark_counted --
-- Mark some uncounted documents as counted, except those that another process is counting.
UPDATE recall.documents AS d
SET is_counted = true
WHERE d.tenant_id = :tenant_id AND d.item_id = ANY (ARRAY(
    SELECT fresh.item_id
    FROM recall.documents AS fresh
    WHERE fresh.tenant_id = :tenant_id AND NOT fresh.is_counted
    ORDER BY fresh.kind, fresh.item_id
    LIMIT :count
    FOR NO KEY UPDATE SKIP LOCKED
))
RETURNING d.kind, d.item_id, d.length;

-- take_removed_documents --
-- Take some removed documents that are still counted, except those that another process is taking.
DELETE FROM recall.removals AS d
WHERE d.tenant_id = :tenant_id AND d.removal_id = ANY (ARRAY(
    SELECT gone.removal_id
    FROM recall.removals AS gone
    WHERE gone.tenant_id = :tenant_id
    ORDER BY gone.removal_id
    LIMIT :count
    FOR UPDATE SKIP LOCKED
))
RETURNING d.kind, d.documents, d.length;

-- add_to_corpus --
-- Add to the counts of one kind.
INSERT INTO recall.corpora AS c (tenant_id, kind, documents, length, removed)
VALUES (:tenant_id, :kind, :documents, :length, :removed)
ON CONFLICT ON CONSTRAINT corpora_pkey DO UPDATE
SET documents = c.documents + excluded.documents, length = c.length + excluded.length,
    removed = c.removed + excluded.removed;

-- terms_of_items --
-- Count in how many of some items each term occurs.
SELECT p.term, p.kind, count(*) AS documents
FROM recall.postings AS p
WHERE p.tenant_id = :tenant_id AND p.item_id = ANY (:item_ids::uuid[])
GROUP BY p.term, p.kind
ORDER BY p.term, p.kind;

-- add_to_frequencies --
-- Add to the frequencies of terms, and return the terms that have one.
UPDATE recall.frequencies AS f
SET documents = f.documents + more.documents
FROM unnest(:terms::text[], :kinds::text[], :documents::bigint[]) AS more (term, kind, documents)
WHERE f.tenant_id = :tenant_id AND f.term = more.term AND f.kind = more.kind
RETURNING f.term, f.kind;

-- frequent_terms --
-- Find the terms that occur in at least so many documents, with their number of counted documents. Uncounted ones are
-- added when they are counted.
SELECT queried.term, queried.kind, (
    SELECT count(*) FROM recall.postings AS p
    WHERE p.tenant_id = :tenant_id AND p.term = queried.term AND p.kind = queried.kind AND (p.item_id IN (
        SELECT fresh.item_id FROM recall.documents AS fresh
        WHERE fresh.tenant_id = :tenant_id AND NOT fresh.is_counted
    )) IS NOT TRUE
) AS documents
FROM unnest(:terms::text[], :kinds::text[]) AS queried (term, kind)
WHERE (
    SELECT count(*)
    FROM (
        SELECT FROM recall.postings AS p
        WHERE p.tenant_id = :tenant_id AND p.term = queried.term AND p.kind = queried.kind
        LIMIT :min_documents
    ) AS run
) >= :min_documents;

-- insert_frequencies --
-- Insert or replace the frequency of a term.
INSERT INTO recall.frequencies (tenant_id, term, kind, documents)
VALUES (:tenant_id, :term, :kind, :documents)
ON CONFLICT ON CONSTRAINT frequencies_pkey DO UPDATE SET documents = excluded.documents;

-- list_frequencies --
-- List the next terms of one kind that have a frequency, after those that were counted again already.
SELECT f.term
FROM recall.frequencies AS f
WHERE f.tenant_id = :tenant_id AND f.kind = :kind AND f.term > coalesce((
    SELECT c.recounted_to FROM recall.corpora AS c WHERE c.tenant_id = :tenant_id AND c.kind = :kind
), '')
ORDER BY f.term
LIMIT :count;

-- delete_frequencies --
-- Delete the frequencies of terms.
DELETE FROM recall.frequencies
WHERE tenant_id = :tenant_id AND kind = :kind AND term = ANY (:terms::text[]);

-- set_recount_position --
-- Record the last term of one kind that was counted again; null: all were.
UPDATE recall.corpora
SET recounted_to = :term::text, removed = CASE WHEN :term::text IS NULL THEN 0 ELSE removed END
WHERE tenant_id = :tenant_id AND kind = :kind;

-- delete_unused_frequencies --
-- Delete the frequencies of terms that no document has any more.
DELETE FROM recall.frequencies AS f
WHERE f.tenant_id = :tenant_id AND NOT EXISTS (
    SELECT FROM recall.postings AS p
    WHERE p.tenant_id = :tenant_id AND p.term = f.term AND p.kind = f.kind
);

-- list_backlog_tenants --
-- Read tenants, after one, with documents without vectors or with documents to count.
SELECT due.tenant_id
FROM recall.list_backlog_tenants(:min_removed, :after, :size) AS due (tenant_id);
