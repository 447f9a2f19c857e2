-- add_search_counts --
-- Add to a tenant's counts of searches of one day and duration.
INSERT INTO recall.search_counts (tenant_id, day, max_milliseconds, search_count, unanswered_count)
VALUES (:tenant_id, :day, :max_milliseconds, :search_count, :unanswered_count)
ON CONFLICT ON CONSTRAINT search_counts_pkey DO UPDATE
SET search_count = search_counts.search_count + excluded.search_count,
    unanswered_count = search_counts.unanswered_count + excluded.unanswered_count;

-- drop_search_counts --
-- Remove a tenant's counts of searches of the days before one.
DELETE FROM recall.search_counts WHERE tenant_id = :tenant_id AND day < :before;

-- list_search_counts --
-- Read a tenant's counts of searches of some days, in order. A day has at most ten rows, and days are kept for so long.
SELECT day, max_milliseconds, search_count, unanswered_count
FROM recall.search_counts
WHERE tenant_id = :tenant_id AND day BETWEEN :first_day AND :last_day
ORDER BY day, max_milliseconds;

-- purge_search_counts --
-- Remove some of a deleted tenant's counts of searches.
DELETE FROM recall.search_counts
USING (
    SELECT day, max_milliseconds FROM recall.search_counts WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE search_counts.tenant_id = :tenant_id
    AND search_counts.day = picked.day AND search_counts.max_milliseconds = picked.max_milliseconds;
