-- measure_server --
-- Return the database's size, the used share of transaction ids, and the state of the archive. The delay is that of the
-- oldest unarchived part of the log: 0 when all is archived, null when the server archives nothing.
SELECT
    pg_database_size(current_database()) AS bytes,
    (SELECT max(greatest(age(datfrozenxid), mxid_age(datminmxid))) FROM pg_database) / 2147483648.0 AS wraparound,
    CASE WHEN archiving THEN failed_count END AS archive_failures,
    CASE
        WHEN NOT archiving OR pg_is_in_recovery() THEN NULL
        -- An idle server writes less than a page after the last archived file.
        WHEN last_archived_wal ~ '^[0-9A-F]{24}' AND pg_current_wal_insert_lsn() - '0/0'::pg_lsn
            < ((SELECT segment_number FROM pg_split_walfile_name(left(last_archived_wal, 24))) + 1)
            * (SELECT setting::bigint FROM pg_settings WHERE name = 'wal_segment_size') + 8192
        THEN 0
        ELSE extract(epoch FROM clock_timestamp() - coalesce(last_archived_time, pg_postmaster_start_time()))
    END AS archive_delay
FROM pg_stat_archiver, (SELECT current_setting('archive_mode') <> 'off' AS archiving) AS setting;

-- measure_transactions --
-- Return the age of the oldest transaction and of the oldest that writes, at which the event log ends.
SELECT oldest, oldest_write FROM worker.measure_transactions();

-- measure_replicas --
-- Return how far each replica is behind.
SELECT name, seconds, bytes FROM worker.measure_replicas();

-- measure_machines --
-- Return what each machine of a Citus cluster says of itself.
SELECT machine, answers, bytes, wraparound, prepared FROM worker.measure_machines();

-- measure_tables --
-- Return the size of each table with its indexes and partitions.
SELECT n.nspname AS schema, whole.relname AS table, sum(pg_total_relation_size(part.oid))::bigint AS bytes
FROM pg_class AS part
JOIN pg_class AS whole ON whole.oid = coalesce(pg_partition_root(part.oid), part.oid)
JOIN pg_namespace AS n ON n.oid = whole.relnamespace
JOIN pg_roles AS owner ON owner.oid = n.nspowner AND owner.rolname = 'skein_owner'
WHERE part.relkind = 'r'
GROUP BY n.nspname, whole.relname;

-- measure_queue --
-- Count the jobs by kind and status, and return how long the oldest due one has waited.
SELECT entrypoint, status::text AS status, count(*) AS jobs,
    max(extract(epoch FROM clock_timestamp() - execute_after))
        FILTER (WHERE status = 'queued' AND execute_after <= clock_timestamp()) AS oldest
FROM worker.pgqueuer
GROUP BY entrypoint, status;
