-- lease_requests --
-- Take as many calls from an allowance as are wanted and there, and say how many that is and what is left. A bucket that
-- nobody asked before is full. One that was refilled a minute from now was so by a clock that was ahead: it is refilled
-- from now on, and not only then.
INSERT INTO tenancy.allowances AS known
    (tenant_id, caller, tokens, granted, refill_time, hour_time, hour_count, day_time, day_count)
VALUES
    (:tenant_id, :caller,
     :burst::double precision - greatest(0, floor(least(:wanted::integer, :burst, :hour_most::bigint, :day_most::bigint))),
     greatest(0, floor(least(:wanted, :burst, :hour_most, :day_most))), :at,
     :hour_time, greatest(0, floor(least(:wanted, :burst, :hour_most, :day_most))),
     :day_time, greatest(0, floor(least(:wanted, :burst, :hour_most, :day_most))))
ON CONFLICT ON CONSTRAINT allowances_pkey DO UPDATE
    SET (tokens, granted, refill_time, hour_time, hour_count, day_time, day_count) = (
        SELECT room.tokens - room.granted, room.granted, CASE WHEN known.refill_time > :at::timestamptz + interval '1 minute' THEN :at
                    ELSE greatest(:at, known.refill_time) END,
               :hour_time, room.hour_count + room.granted, :day_time, room.day_count + room.granted
        FROM (
            SELECT refilled.tokens, refilled.hour_count, refilled.day_count,
                   greatest(0, floor(least(:wanted, refilled.tokens, :hour_most - refilled.hour_count,
                                           :day_most - refilled.day_count)))::integer AS granted
            FROM (
                SELECT least(:burst, known.tokens + :rate::double precision
                             * greatest(0, extract(epoch FROM :at::timestamptz - known.refill_time))) AS tokens,
                       CASE WHEN known.hour_time = :hour_time THEN known.hour_count ELSE 0 END AS hour_count,
                       CASE WHEN known.day_time = :day_time THEN known.day_count ELSE 0 END AS day_count
            ) AS refilled
        ) AS room)
RETURNING granted, tokens, hour_count, day_count;

-- delete_idle_allowances --
-- Forget the allowances of a tenant that nobody has asked for some time; their buckets are full again.
DELETE FROM tenancy.allowances
WHERE tenant_id = :tenant_id AND refill_time < :idle_since;
