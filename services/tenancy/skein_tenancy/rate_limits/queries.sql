-- list_rates --
-- Read the rate limits that were set for a tenant or its organization, by kind.
SELECT kind, least(max_amount, max_organization_amount) AS max_amount
FROM tenancy.quotas
WHERE tenant_id = :tenant_id AND kind = ANY (:kinds::text[]) AND (max_amount IS NOT NULL OR max_organization_amount IS NOT NULL);

-- acquire_rate_limit --
-- Take up to `requested` calls from a bucket; return the number and what remains. A new bucket is full. A refill time more
-- than a minute ahead comes from a clock that was ahead, so the bucket refills from now on.
INSERT INTO tenancy.rate_limit_buckets AS bucket
    (tenant_id, caller, tokens, leased, refill_time, hour_time, hour_count, day_time, day_count)
VALUES
    (:tenant_id, :caller,
     :burst::double precision
         - greatest(0, floor(least(:requested::integer, :burst, :max_per_hour::bigint, :max_per_day::bigint))),
     greatest(0, floor(least(:requested, :burst, :max_per_hour, :max_per_day))), :at,
     :hour_time, greatest(0, floor(least(:requested, :burst, :max_per_hour, :max_per_day))),
     :day_time, greatest(0, floor(least(:requested, :burst, :max_per_hour, :max_per_day))))
ON CONFLICT ON CONSTRAINT rate_limit_buckets_pkey DO UPDATE
    SET (tokens, leased, refill_time, hour_time, hour_count, day_time, day_count) = (
        SELECT lease.tokens - lease.leased, lease.leased,
               CASE WHEN bucket.refill_time > :at::timestamptz + interval '1 minute' THEN :at
                    ELSE greatest(:at, bucket.refill_time) END,
               :hour_time, lease.hour_count + lease.leased, :day_time, lease.day_count + lease.leased
        FROM (
            SELECT refilled.tokens, refilled.hour_count, refilled.day_count,
                   greatest(0, floor(least(:requested, refilled.tokens, :max_per_hour - refilled.hour_count,
                                           :max_per_day - refilled.day_count)))::integer AS leased
            FROM (
                SELECT least(:burst, bucket.tokens + :rate::double precision
                             * greatest(0, extract(epoch FROM :at::timestamptz - bucket.refill_time))) AS tokens,
                       CASE WHEN bucket.hour_time = :hour_time THEN bucket.hour_count ELSE 0 END AS hour_count,
                       CASE WHEN bucket.day_time = :day_time THEN bucket.day_count ELSE 0 END AS day_count
            ) AS refilled
        ) AS lease)
RETURNING leased, tokens, hour_count, day_count;

-- delete_idle_rate_limits --
-- Delete the buckets of a tenant that were not used for some time; they are full again.
DELETE FROM tenancy.rate_limit_buckets
WHERE tenant_id = :tenant_id AND refill_time < :idle_since;
