-- measure_server --
-- The database's size, how much of the range of transaction ids is used up, and how its log is archived: the age is
-- that of what nobody has a copy of yet, 0 when that is nothing, null when nothing is archived at all.
SELECT
    pg_database_size(current_database()) AS bytes,
    (SELECT max(greatest(age(datfrozenxid), mxid_age(datminmxid))) FROM pg_database) / 2147483648.0 AS wraparound,
    CASE WHEN archiving THEN failed_count END AS archive_failures,
    CASE
        WHEN NOT archiving OR pg_is_in_recovery() THEN NULL
        -- Less than a page after the last file that was archived: what a server writes that has nothing to do.
        WHEN last_archived_wal ~ '^[0-9A-F]{24}' AND pg_current_wal_insert_lsn() - '0/0'::pg_lsn
            < ((SELECT segment_number FROM pg_split_walfile_name(left(last_archived_wal, 24))) + 1)
            * (SELECT setting::bigint FROM pg_settings WHERE name = 'wal_segment_size') + 8192
        THEN 0
        ELSE extract(epoch FROM clock_timestamp() - coalesce(last_archived_time, pg_postmaster_start_time()))
    END AS archive_age
FROM pg_stat_archiver, (SELECT current_setting('archive_mode') <> 'off' AS archiving) AS setting;

-- measure_transactions --
-- How long the oldest transaction has been at work, and the oldest that writes: the event log ends before that one.
SELECT oldest, oldest_write FROM worker.measure_transactions();

-- measure_replicas --
-- How far each replica is behind.
SELECT name, seconds, bytes FROM worker.measure_replicas();

-- measure_tables --
-- The size of each table with its indexes; partitions count as their table's.
SELECT n.nspname AS schema, whole.relname AS table, sum(pg_total_relation_size(part.oid))::bigint AS bytes
FROM pg_class AS part
JOIN pg_class AS whole ON whole.oid = coalesce(pg_partition_root(part.oid), part.oid)
JOIN pg_namespace AS n ON n.oid = whole.relnamespace
JOIN pg_roles AS owner ON owner.oid = n.nspowner AND owner.rolname = 'skein_owner'
WHERE part.relkind = 'r'
GROUP BY n.nspname, whole.relname;

-- measure_queue --
-- The jobs that wait or work, by kind, and for how long the oldest that is due has waited.
SELECT entrypoint, status::text AS status, count(*) AS jobs,
    max(extract(epoch FROM clock_timestamp() - execute_after))
        FILTER (WHERE status = 'queued' AND execute_after <= clock_timestamp()) AS oldest
FROM worker.pgqueuer
GROUP BY entrypoint, status;
