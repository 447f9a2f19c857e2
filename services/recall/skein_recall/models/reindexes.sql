-- start_reindex --
-- Begin a reindex, or let the one that stands look at everything again.
INSERT INTO recall.reindexes AS r
    (reindex_id, model, only_tenant_id, texts_per_second, settle_time, whole, next_time, create_time, created_by)
VALUES (:reindex_id, :model, :only_tenant_id, :texts_per_second, :settle_time, :whole, :at, :at, :created_by)
ON CONFLICT (model, coalesce(only_tenant_id, '00000000-0000-0000-0000-000000000000'::uuid)) WHERE cancel_time IS NULL
DO UPDATE SET settle_time = excluded.settle_time, whole = r.whole OR excluded.whole,
    texts_per_second = CASE WHEN :keeps_rate THEN r.texts_per_second ELSE excluded.texts_per_second END
RETURNING reindex_id;

-- cancel_reindex --
-- End a reindex; its model is followed no longer.
UPDATE recall.reindexes
SET cancel_time = coalesce(cancel_time, :at)
WHERE reindex_id = :reindex_id
RETURNING model, cancel_time = :at AS now;

-- reserve_texts --
-- Take a place in the queue of a reindex's texts, over all processes; return when it is these texts' turn.
UPDATE recall.reindexes
SET next_time = greatest(next_time, :at) + make_interval(secs => :texts::double precision / texts_per_second)
WHERE reindex_id = :reindex_id
RETURNING next_time - make_interval(secs => :texts::double precision / texts_per_second) AS turn;

-- list_reindexes --
-- List reindexes, the newest first, each with how far all tenants together are. A tenant is done when a look that began
-- after everybody followed the model found nothing to do.
SELECT r.reindex_id, r.model, r.only_tenant_id, r.texts_per_second, r.settle_time, r.create_time, r.created_by,
       r.cancel_time, r.whole, tenants.tenants, coalesce(sums.done, 0) AS done, coalesce(sums.documents, 0) AS documents,
       coalesce(sums.seen, 0) AS seen, coalesce(sums.embedded, 0) AS embedded, coalesce(sums.missing, 0) AS missing
FROM recall.reindexes AS r
CROSS JOIN LATERAL (
    SELECT count(*) AS tenants
    FROM tenancy.tenants AS t
    WHERE t.is_active AND (r.only_tenant_id IS NULL OR t.tenant_id = r.only_tenant_id)
) AS tenants
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (
               WHERE d.finished AND NOT d.stale AND d.made = 0 AND d.look_time >= r.settle_time
           ) AS done,
           sum(d.documents)::bigint AS documents, sum(least(d.seen, d.documents))::bigint AS seen,
           sum(d.embedded)::bigint AS embedded, sum(d.missing)::bigint AS missing
    FROM recall.reindexed AS d
    JOIN tenancy.tenants AS t ON t.tenant_id = d.tenant_id AND t.is_active
    WHERE d.reindex_id = r.reindex_id
) AS sums
WHERE (:reindex_id::uuid IS NULL OR r.reindex_id = :reindex_id)
    AND (:model::text IS NULL OR (r.model = :model AND r.cancel_time IS NULL AND r.only_tenant_id IS NULL))
    AND (:before::uuid IS NULL OR r.reindex_id < :before)
ORDER BY r.reindex_id DESC
LIMIT :limit;

-- list_due_tenants --
-- List tenants in which a reindex is not done, by their ids.
SELECT t.tenant_id
FROM tenancy.tenants AS t
WHERE t.is_active AND t.tenant_id > :after AND EXISTS (
    SELECT FROM recall.reindexes AS r
    WHERE r.cancel_time IS NULL AND (r.only_tenant_id IS NULL OR r.only_tenant_id = t.tenant_id)
        AND NOT EXISTS (
            SELECT FROM recall.reindexed AS d
            WHERE d.tenant_id = t.tenant_id AND d.reindex_id = r.reindex_id
                AND d.finished AND NOT d.stale AND d.made = 0 AND d.look_time >= r.settle_time
        )
)
ORDER BY t.tenant_id
LIMIT :limit;

-- due_reindexes --
-- Read the reindexes that are not done in one tenant, the oldest first, with how far each is; the columns of one that has
-- not begun are null.
SELECT r.reindex_id, r.model, r.settle_time, d.look_time, d.after_id, d.finished, d.stale, d.made
FROM recall.reindexes AS r
LEFT JOIN recall.reindexed AS d ON d.tenant_id = :tenant_id AND d.reindex_id = r.reindex_id
WHERE r.cancel_time IS NULL AND (r.only_tenant_id IS NULL OR r.only_tenant_id = :tenant_id)
    AND (d.finished AND NOT d.stale AND d.made = 0 AND d.look_time >= r.settle_time) IS NOT TRUE
ORDER BY r.reindex_id;

-- counted_documents --
-- Count a tenant's documents, as far as the worker counted them.
SELECT coalesce(sum(c.documents), 0)::bigint AS documents
FROM recall.corpora AS c
WHERE c.tenant_id = :tenant_id;

-- begin_look --
-- Begin a look at all documents of a tenant.
INSERT INTO recall.reindexed AS d
    (tenant_id, reindex_id, look_time, after_id, documents, seen, made, missing, finished, stale, embedded)
VALUES (:tenant_id, :reindex_id, :at, '00000000-0000-0000-0000-000000000000', :documents, 0, 0, 0, false, false, 0)
ON CONFLICT ON CONSTRAINT reindexed_pkey DO UPDATE
SET look_time = excluded.look_time, after_id = excluded.after_id, documents = excluded.documents, seen = 0, made = 0,
    missing = 0, finished = false, stale = false;

-- look_on --
-- Look at some documents after one, in order of their ids: which lack vectors in a table. Those whose vectors the backlog
-- still has to make are the backlog's, which makes those of every model.
SELECT d.item_id, d.kind, d.revision, NOT d.pending AND NOT EXISTS (
    SELECT FROM recall.{table} AS v WHERE v.tenant_id = :tenant_id AND v.item_id = d.item_id
) AS lacks
FROM recall.documents AS d
WHERE d.tenant_id = :tenant_id AND d.item_id > :after
ORDER BY d.item_id
LIMIT :limit;

-- advance_look --
-- Say that a look is further, unless somebody else said so before.
UPDATE recall.reindexed
SET after_id = :to, seen = seen + :seen, made = made + :made, missing = missing + :missing,
    embedded = embedded + :made, finished = :finished
WHERE tenant_id = :tenant_id AND reindex_id = :reindex_id AND look_time = :look_time AND after_id = :after;

-- standing_reindexes --
-- Find the reindexes by which some models are followed in a tenant.
SELECT r.reindex_id
FROM recall.reindexes AS r
WHERE r.model = ANY (:models::text[]) AND r.cancel_time IS NULL
    AND (r.only_tenant_id IS NULL OR r.only_tenant_id = :tenant_id)
ORDER BY r.reindex_id;

-- no_longer_whole --
-- Say of reindexes that their models have not everything any more.
UPDATE recall.reindexes
SET whole = false
WHERE reindex_id = ANY (:reindex_ids::uuid[]) AND whole;

-- need_another_look --
-- Say that items were written which did not get a model's vectors.
INSERT INTO recall.reindexed AS d
    (tenant_id, reindex_id, look_time, after_id, documents, seen, made, missing, finished, stale, embedded)
VALUES (:tenant_id, :reindex_id, to_timestamp(0), '00000000-0000-0000-0000-000000000000', 0, 0, 0, 0, true, true, 0)
ON CONFLICT ON CONSTRAINT reindexed_pkey DO UPDATE SET stale = true;
