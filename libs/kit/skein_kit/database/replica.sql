-- log_position --
-- Read the position of this server in the write-ahead log, in bytes: written by a primary, replayed by a replica.
SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END
        - '0/0'::pg_lsn)::bigint;
