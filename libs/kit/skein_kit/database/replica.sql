-- log_position --
-- How far the write-ahead log of this server goes, in bytes: written here, or replayed from another. Of no tenant.
SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END
        - '0/0'::pg_lsn)::bigint;
