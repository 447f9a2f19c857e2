-- What the server knows of everybody's transactions and of its replicas, as numbers for the worker's metrics. Who may see
-- it sees everybody's statements as well, so it is the owner that does, and only these two functions show some of it.

CREATE FUNCTION worker.measure_transactions(OUT oldest double precision, OUT oldest_write double precision)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = ''
AS $$
BEGIN
    -- Without it others' transactions look as if there were none.
    IF NOT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') THEN
        RAISE insufficient_privilege USING MESSAGE = 'skein_owner lacks pg_read_all_stats';
    END IF;
    SELECT coalesce(max(seconds) FILTER (WHERE is_here), 0), coalesce(max(seconds) FILTER (WHERE writes), 0)
    INTO oldest, oldest_write
    FROM (
        SELECT extract(epoch FROM clock_timestamp() - xact_start) AS seconds, datname = current_database() AS is_here,
            backend_xid IS NOT NULL AS writes
        FROM pg_stat_activity
        WHERE backend_type = 'client backend' AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
        UNION ALL
        SELECT extract(epoch FROM clock_timestamp() - prepared), database = current_database(), true
        FROM pg_prepared_xacts
    ) AS at_work;
END
$$;
REVOKE ALL ON FUNCTION worker.measure_transactions() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION worker.measure_transactions() TO skein_worker;

-- A replica is called by its slot, else by its application_name. One that is away keeps its slot: nobody knows for how
-- long it is behind, but by how much.
CREATE FUNCTION worker.measure_replicas() RETURNS TABLE (name text, seconds double precision, bytes double precision)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = ''
AS $$
DECLARE
    here pg_lsn;
BEGIN
    IF NOT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') THEN
        RAISE insufficient_privilege USING MESSAGE = 'skein_owner lacks pg_read_all_stats';
    END IF;
    IF pg_is_in_recovery() THEN
        RETURN;
    END IF;
    here := pg_current_wal_lsn();
    RETURN QUERY
        SELECT coalesce(slots.slot_name::text, replicas.application_name),
            -- What it said last is no more true once it says nothing any more.
            CASE WHEN reached >= here THEN 0
                 ELSE greatest(extract(epoch FROM replicas.replay_lag),
                               extract(epoch FROM clock_timestamp() - replicas.reply_time)) END::double precision,
            greatest(here - reached, 0)::double precision
        FROM pg_stat_replication AS replicas
        CROSS JOIN LATERAL (SELECT coalesce(replicas.replay_lsn, replicas.flush_lsn)) AS last (reached)
        LEFT JOIN pg_replication_slots AS slots ON slots.active_pid = replicas.pid
        -- A backup that is being made is no replica.
        WHERE replicas.state <> 'backup' AND reached IS NOT NULL AND slots.temporary IS NOT TRUE
        UNION ALL
        SELECT slots.slot_name::text, NULL, greatest(here - slots.restart_lsn, 0)::double precision
        FROM pg_replication_slots AS slots
        WHERE NOT slots.active AND NOT slots.temporary AND slots.restart_lsn IS NOT NULL;
END
$$;
REVOKE ALL ON FUNCTION worker.measure_replicas() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION worker.measure_replicas() TO skein_worker;
