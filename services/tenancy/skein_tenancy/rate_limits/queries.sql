-- list_rates --
-- Read the rate limits that were set for a tenant or its organization, by kind.
SELECT kind, least(max_amount, max_organization_amount) AS max_amount
FROM tenancy.quotas
WHERE tenant_id = :tenant_id AND kind = ANY (:kinds::text[]) AND (max_amount IS NOT NULL OR max_organization_amount IS NOT NULL);

-- acquire_rate_limit --
-- Take up to `requested` calls from a bucket; return the number and what remains. A new bucket is full. A refill time after
-- `max_refill_time` comes from a clock that was ahead, so the bucket refills from now on. A row holds what was there before
-- its latest lease: Citus refuses
-- a subquery in DO UPDATE, and so few expressions stand twice.
INSERT INTO tenancy.rate_limit_buckets AS bucket
    (tenant_id, caller, tokens, leased, refill_time, hour_time, hour_count, day_time, day_count)
VALUES
    (:tenant_id, :caller, :burst::double precision,
     greatest(0, floor(least(:requested::integer, :burst, :max_per_hour::bigint, :max_per_day::bigint))), :at,
     :hour_time, 0, :day_time, 0)
ON CONFLICT ON CONSTRAINT rate_limit_buckets_pkey DO UPDATE SET
    tokens = least(:burst, bucket.tokens - bucket.leased + :rate::double precision
                           * greatest(0, extract(epoch FROM :at::timestamptz - bucket.refill_time))),
    leased = greatest(0, floor(least(
        :requested,
        :burst,
        bucket.tokens - bucket.leased + :rate
            * greatest(0, extract(epoch FROM :at - bucket.refill_time)),
        :max_per_hour - CASE WHEN bucket.hour_time = :hour_time THEN bucket.hour_count + bucket.leased ELSE 0 END,
        :max_per_day - CASE WHEN bucket.day_time = :day_time THEN bucket.day_count + bucket.leased ELSE 0 END))),
    refill_time = CASE WHEN bucket.refill_time > :max_refill_time::timestamptz THEN :at
                       ELSE greatest(:at, bucket.refill_time) END,
    hour_time = :hour_time,
    hour_count = CASE WHEN bucket.hour_time = :hour_time THEN bucket.hour_count + bucket.leased ELSE 0 END,
    day_time = :day_time,
    day_count = CASE WHEN bucket.day_time = :day_time THEN bucket.day_count + bucket.leased ELSE 0 END
RETURNING leased, tokens - leased AS tokens, hour_count + leased AS hour_count, day_count + leased AS day_count;

-- delete_idle_rate_limits --
-- Delete the buckets of a tenant that were not used for some time; they are full again.
DELETE FROM tenancy.rate_limit_buckets
WHERE tenant_id = :tenant_id AND refill_time < :idle_since;
