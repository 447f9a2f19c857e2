-- has_tenant --
-- Return whether a tenant exists.
SELECT EXISTS (SELECT FROM tenancy.tenants AS t WHERE t.tenant_id = :only_tenant_id);

-- start_reindex --
-- Start a reindex, or have a running one of the model scan once more.
INSERT INTO recall.reindexes AS r
    (reindex_id, model, only_tenant_id, texts_per_second, settle_time, is_complete, next_time, create_time, created_by)
VALUES (:reindex_id, :model, :only_tenant_id, :texts_per_second, :settle_time, :is_complete, :at, :at, :created_by)
ON CONFLICT (model, coalesce(only_tenant_id, '00000000-0000-0000-0000-000000000000'::uuid)) WHERE cancel_time IS NULL
DO UPDATE SET settle_time = excluded.settle_time, is_complete = r.is_complete OR excluded.is_complete,
    texts_per_second = CASE WHEN :keep_rate THEN r.texts_per_second ELSE excluded.texts_per_second END
RETURNING reindex_id;

-- cancel_reindex --
-- Cancel a reindex; its model is followed no longer.
UPDATE recall.reindexes
SET cancel_time = coalesce(cancel_time, :at)
WHERE reindex_id = :reindex_id
RETURNING model, cancel_time = :at AS was_running;

-- lock_next_time --
-- Return when a reindex may embed the next texts, and its rate, and keep others from reserving until the transaction ends.
SELECT greatest(next_time, :at) AS start_time, texts_per_second
FROM recall.reindexes
WHERE reindex_id = :reindex_id
FOR NO KEY UPDATE;

-- set_next_time --
-- Set when a reindex may embed the texts after those that were reserved.
UPDATE recall.reindexes
SET next_time = :next_time
WHERE reindex_id = :reindex_id;

-- list_reindexes --
-- List reindexes, the newest first, each with its progress over all tenants. A tenant is done when a scan found nothing to
-- embed that began after every process followed the model.
WITH listed AS MATERIALIZED (
    SELECT r.reindex_id, r.model, r.only_tenant_id, r.texts_per_second, r.settle_time, r.create_time, r.created_by,
           r.cancel_time, r.is_complete
    FROM recall.reindexes AS r
    WHERE (:reindex_id::uuid IS NULL OR r.reindex_id = :reindex_id)
        AND (:model::text IS NULL OR (r.model = :model AND r.cancel_time IS NULL AND r.only_tenant_id IS NULL))
        AND (:before::uuid IS NULL OR r.reindex_id < :before)
    ORDER BY r.reindex_id DESC
    LIMIT :limit
), active AS MATERIALIZED (
    SELECT count(*) AS tenants FROM tenancy.tenants AS t WHERE t.is_active
), sums AS MATERIALIZED (
    SELECT d.reindex_id,
           count(*) FILTER (
               WHERE d.is_finished AND NOT d.is_stale AND d.scan_embedded = 0 AND d.scan_time >= r.settle_time
           ) AS done,
           sum(d.documents)::bigint AS documents, sum(least(d.seen, d.documents))::bigint AS seen,
           sum(d.embedded)::bigint AS embedded, sum(d.missing)::bigint AS missing
    FROM recall.reindex_progress AS d
    JOIN tenancy.tenants AS t ON t.tenant_id = d.tenant_id AND t.is_active
    JOIN listed AS r ON r.reindex_id = d.reindex_id
    GROUP BY d.reindex_id
)
SELECT r.reindex_id, r.model, r.only_tenant_id, r.texts_per_second, r.settle_time, r.create_time, r.created_by,
       r.cancel_time, r.is_complete,
       CASE WHEN r.only_tenant_id IS NULL THEN active.tenants
            WHEN own.tenant_id IS NULL THEN 0
            ELSE 1 END AS tenants,
       coalesce(sums.done, 0) AS done_tenants, coalesce(sums.documents, 0) AS documents,
       coalesce(sums.seen, 0) AS seen, coalesce(sums.embedded, 0) AS embedded, coalesce(sums.missing, 0) AS missing
FROM listed AS r
CROSS JOIN active
LEFT JOIN tenancy.tenants AS own ON own.tenant_id = r.only_tenant_id AND own.is_active
LEFT JOIN sums ON sums.reindex_id = r.reindex_id
ORDER BY r.reindex_id DESC;

-- count_limited_tenants --
-- Count the active tenants in which a reindex is not done, and whose job `reindex` is paused or limited.
SELECT count(*) AS tenants
FROM tenancy.jobs AS j
JOIN tenancy.tenants AS t ON t.tenant_id = j.tenant_id AND t.is_active
LEFT JOIN recall.reindex_progress AS d ON d.tenant_id = j.tenant_id AND d.reindex_id = :reindex_id
WHERE j.kind = 'reindex'
    AND (j.pause_time IS NOT NULL OR j.items_per_second IS NOT NULL OR j.max_cost_per_day IS NOT NULL)
    AND (d.is_finished AND NOT d.is_stale AND d.scan_embedded = 0 AND d.scan_time >= :settle_time) IS NOT TRUE;

-- has_work --
-- Return whether a reindex is not cancelled, and whether tenants may have chosen a model.
SELECT EXISTS (SELECT FROM recall.reindexes WHERE cancel_time IS NULL) AS has_reindexes,
       EXISTS (SELECT FROM recall.embedding_models WHERE offer_time IS NOT NULL) AS has_choices;

-- list_choosing_tenants --
-- List the next tenants by id whose policy wants another model than they search.
SELECT recall.list_choosing_tenants(:after, :limit) AS tenant_id;

-- list_own_reindexes --
-- List the running reindexes of one tenant alone, the oldest first, and whether each is done.
SELECT r.reindex_id, r.model, r.is_of_choice,
       (d.is_finished AND NOT d.is_stale AND d.scan_embedded = 0 AND d.scan_time >= r.settle_time) IS TRUE AS is_done
FROM recall.reindexes AS r
LEFT JOIN recall.reindex_progress AS d ON d.tenant_id = :tenant_id AND d.reindex_id = r.reindex_id
WHERE r.only_tenant_id = :tenant_id AND r.cancel_time IS NULL
ORDER BY r.reindex_id;

-- start_own_reindex --
-- Start the reindex of a tenant that chose a model, unless one runs.
INSERT INTO recall.reindexes
    (reindex_id, model, only_tenant_id, texts_per_second, settle_time, is_complete, next_time, create_time, created_by,
     is_of_choice)
VALUES (:reindex_id, :model, :only_tenant_id, :texts_per_second, :settle_time, false, :at, :at, :created_by, true)
ON CONFLICT (model, coalesce(only_tenant_id, '00000000-0000-0000-0000-000000000000'::uuid)) WHERE cancel_time IS NULL
DO NOTHING;

-- settle_reindex --
-- Have a reindex scan once more, after a time.
UPDATE recall.reindexes
SET settle_time = :settle_time
WHERE reindex_id = :reindex_id;

-- list_tenant_dues --
-- List the next tenants by id, and whether a reindex is not done in each.
WITH page AS MATERIALIZED (
    SELECT t.tenant_id
    FROM tenancy.tenants AS t
    WHERE t.is_active AND t.tenant_id > :after
    ORDER BY t.tenant_id
    LIMIT :limit
), done AS MATERIALIZED (
    SELECT d.tenant_id, d.reindex_id, d.scan_time
    FROM recall.reindex_progress AS d
    WHERE d.tenant_id IN (SELECT page.tenant_id FROM page)
        AND d.is_finished AND NOT d.is_stale AND d.scan_embedded = 0
)
SELECT page.tenant_id, bool_or(r.reindex_id IS NOT NULL AND done.tenant_id IS NULL) AS is_due
FROM page
LEFT JOIN recall.reindexes AS r
    ON r.cancel_time IS NULL AND (r.only_tenant_id IS NULL OR r.only_tenant_id = page.tenant_id)
LEFT JOIN done
    ON done.tenant_id = page.tenant_id AND done.reindex_id = r.reindex_id AND done.scan_time >= r.settle_time
GROUP BY page.tenant_id
ORDER BY page.tenant_id;

-- list_pending_reindexes --
-- Read the reindexes that are not done in one tenant, the oldest first, with the latest scan of each: nulls before the
-- first.
SELECT r.reindex_id, r.model, r.settle_time, d.scan_time, d.after_id, d.is_finished,
       d.is_stale, d.scan_embedded AS embedded_count
FROM recall.reindexes AS r
LEFT JOIN recall.reindex_progress AS d ON d.tenant_id = :tenant_id AND d.reindex_id = r.reindex_id
WHERE r.cancel_time IS NULL AND (r.only_tenant_id IS NULL OR r.only_tenant_id = :tenant_id)
    AND (d.is_finished AND NOT d.is_stale AND d.scan_embedded = 0 AND d.scan_time >= r.settle_time) IS NOT TRUE
ORDER BY r.reindex_id;

-- counted_documents --
-- Read a tenant's number of documents, as the worker counted them last.
SELECT coalesce(sum(c.documents), 0)::bigint AS documents
FROM recall.corpora AS c
WHERE c.tenant_id = :tenant_id;

-- begin_scan --
-- Begin a scan of a tenant's documents.
INSERT INTO recall.reindex_progress AS d
    (tenant_id, reindex_id, scan_time, after_id, documents, seen, scan_embedded, missing, is_finished, is_stale, embedded)
VALUES (:tenant_id, :reindex_id, :at, '00000000-0000-0000-0000-000000000000', :documents, 0, 0, 0, false, false, 0)
ON CONFLICT ON CONSTRAINT reindex_progress_pkey DO UPDATE
SET scan_time = excluded.scan_time, after_id = excluded.after_id, documents = excluded.documents, seen = 0, scan_embedded = 0,
    missing = 0, is_finished = false, is_stale = false;

-- count_remaining --
-- Count the documents that the unfinished scans of a tenant have yet to read, of reindexes that are not cancelled.
SELECT coalesce(sum(greatest(d.documents - d.seen, 0)), 0)::bigint AS remaining
FROM recall.reindexes AS r
JOIN recall.reindex_progress AS d ON d.tenant_id = :tenant_id AND d.reindex_id = r.reindex_id
WHERE r.cancel_time IS NULL AND NOT d.is_finished;

-- read_scan_page --
-- Read the next documents by id, and which of them lack vectors in a table, or codes of tokens beside vectors that the
-- cluster computed. Documents of the backlog do not count as lacking: it gets them the vectors of every model. Tell too
-- which have the words of a lower version of the rule.
SELECT d.item_id, d.kind, d.revision, NOT d.pending AND NOT EXISTS (
    SELECT FROM recall.{table} AS v
    WHERE v.tenant_id = :tenant_id AND v.item_id = d.item_id AND (
        NOT :with_tokens::boolean OR v.tokens IS NOT NULL
        OR (SELECT p.recall_token_vectors FROM tenancy.policies AS p WHERE p.tenant_id = :tenant_id) IS FALSE
        OR EXISTS (
            SELECT FROM recall.vector_origins AS o
            WHERE o.tenant_id = :tenant_id AND o.item_id = d.item_id AND o.model = :model
        )
    )
) AS lacks, d.words_version < :words_version::smallint AS has_old_words
FROM recall.documents AS d
WHERE d.tenant_id = :tenant_id AND d.item_id > :after
ORDER BY d.item_id
LIMIT :limit;

-- advance_scan --
-- Record the progress of a scan, unless another process recorded it before.
UPDATE recall.reindex_progress
SET after_id = :to, seen = seen + :seen, scan_embedded = scan_embedded + :embedded, missing = missing + :missing,
    embedded = embedded + :embedded, is_finished = :is_finished
WHERE tenant_id = :tenant_id AND reindex_id = :reindex_id AND scan_time = :scan_time AND after_id = :after;
