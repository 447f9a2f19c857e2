-- The access log: who read and changed which memory.

-- One row for a call, or one for each memory that it touched. Rows have ids alone: no content, and no reference to rows
-- that may be purged.
CREATE TABLE memory.access_log (
    tenant_id uuid NOT NULL
        CONSTRAINT access_log_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    access_event_id uuid NOT NULL,
    operation text NOT NULL
        CONSTRAINT access_log_operation_known CHECK (operation IN ('create', 'read', 'update', 'delete', 'search')),
    method text NOT NULL,
    principal text NOT NULL,
    memory_id uuid,
    session_id text,
    agent_id text,
    subject_id text,
    item_count integer NOT NULL,
    -- A search that returned no hit, neither a memory nor a message.
    found_nothing boolean NOT NULL DEFAULT false,
    request_data jsonb,
    -- NULL while a strictly audited call runs, and for good when the process ended during the call.
    success boolean,
    error_code text,
    error_reason text,
    client_address text,
    request_id text NOT NULL,
    create_time timestamptz NOT NULL,
    -- What the caller claimed; agent_id is verified.
    claimed_agent_id text,
    claimed_session_id text,
    -- The calls that a row stands for: refused ones are counted together when they are many.
    call_count integer NOT NULL DEFAULT 1,
    CONSTRAINT access_log_pkey PRIMARY KEY (tenant_id, access_event_id)
) PARTITION BY RANGE (access_event_id);
CREATE INDEX access_log_memory ON memory.access_log (tenant_id, memory_id, access_event_id) WHERE memory_id IS NOT NULL;
CREATE INDEX access_log_session ON memory.access_log (tenant_id, session_id, access_event_id) WHERE session_id IS NOT NULL;
CREATE INDEX access_log_agent ON memory.access_log (tenant_id, agent_id, access_event_id) WHERE agent_id IS NOT NULL;
CREATE INDEX access_log_operation ON memory.access_log (tenant_id, operation, access_event_id);
CREATE INDEX access_log_refused ON memory.access_log (tenant_id, access_event_id) WHERE success IS NOT true;
CREATE INDEX access_log_unanswered ON memory.access_log (tenant_id, access_event_id)
    WHERE found_nothing;
CREATE INDEX access_log_claimed_agent ON memory.access_log (tenant_id, claimed_agent_id, access_event_id)
    WHERE claimed_agent_id IS NOT NULL;
CREATE INDEX access_log_claimed_session ON memory.access_log (tenant_id, claimed_session_id, access_event_id)
    WHERE claimed_session_id IS NOT NULL;
CREATE INDEX access_log_subject ON memory.access_log (tenant_id, subject_id, access_event_id) WHERE subject_id IS NOT NULL;

-- Searches whose query text was recorded (policy audit_query_text).
CREATE INDEX access_log_words ON memory.access_log (tenant_id, request_id)
    WHERE request_data @? '$.**.query ? (@.type() == "string")';
ALTER TABLE memory.access_log ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.access_log FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.access_log
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON memory.access_log TO skein_memory;
GRANT SELECT, INSERT, UPDATE ON memory.access_log TO skein_recall, skein_session;

-- The key of a tenant's query hashes. The erasure of a person deletes it, so that guesses cannot be tested against
-- older hashes. The next search creates another key.
CREATE TABLE memory.access_keys (
    tenant_id uuid NOT NULL
        CONSTRAINT access_keys_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    secret bytea NOT NULL CONSTRAINT access_keys_secret_length CHECK (octet_length(secret) = 32),
    CONSTRAINT access_keys_pkey PRIMARY KEY (tenant_id)
);
ALTER TABLE memory.access_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.access_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.access_keys
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, DELETE ON memory.access_keys TO skein_memory;
GRANT SELECT, INSERT ON memory.access_keys TO skein_recall, skein_session;

-- Drop the months of the access log that end before a time, for all tenants; return how many.
CREATE FUNCTION memory.drop_access_log(before timestamptz) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = ''
SET timezone = 'UTC'
SET lock_timeout = '5s'
AS $$
DECLARE
    child name;
    dropped integer := 0;
BEGIN
    FOR child IN
        SELECT c.relname FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'memory.access_log'::regclass
            AND to_timestamp(right(c.relname, 8), '"y"YYYY"m"MM') + interval '1 month' <= before
        ORDER BY c.relname
    LOOP
        EXECUTE format('ALTER TABLE memory.access_log DETACH PARTITION memory.%I', child);
        EXECUTE format('DROP TABLE memory.%I', child);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END
$$;
REVOKE ALL ON FUNCTION memory.drop_access_log(timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memory.drop_access_log(timestamptz) TO skein_memory;

-- Create a month's partitions: of memories for every month from 2015 on, of the access log for the present and future
-- months. Return whether one was missing.
CREATE FUNCTION memory.ensure_month(month timestamptz) RETURNS boolean
LANGUAGE sql SECURITY DEFINER
SET search_path = ''
RETURN (
    CASE WHEN month < '2015-01-01T00:00:00Z' THEN 0 ELSE skein.make_month('memory.memories', month)::integer END
    + CASE WHEN month < now() - interval '2 months' THEN 0 ELSE skein.make_month('memory.access_log', month)::integer END
) > 0;
REVOKE ALL ON FUNCTION memory.ensure_month(timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memory.ensure_month(timestamptz) TO skein_memory;

-- Refresh the planner's statistics of one table unless they are newer than a time; return whether it did. Statistics
-- contain values of rows, also of purged ones. Call it once per transaction, because readers of the event log wait for
-- it. Postgres 18 can clear the statistics of an empty table, and leave partitions out.
CREATE FUNCTION memory.refresh_statistics(schema_name text, table_name text, before timestamptz) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = ''
SET lock_timeout = '5s'
AS $$
DECLARE
    found record;
    is_new boolean := to_regprocedure('pg_catalog.pg_clear_attribute_stats(text,text,text,boolean)') IS NOT NULL;
BEGIN
    SELECT n.nspname, c.relname, c.oid, c.relkind = 'p' AS inherited INTO found
    FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    LEFT JOIN pg_catalog.pg_stat_all_tables AS s ON s.relid = c.oid
    WHERE n.nspname IN ('memory', 'session', 'recall', 'tenancy') AND c.relkind IN ('r', 'p') AND c.reltuples >= 0
        AND n.nspname = schema_name AND c.relname = table_name
        AND coalesce(greatest(s.last_analyze, s.last_autoanalyze), '-infinity') < before;
    IF found.oid IS NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('ANALYZE %s %I.%I', CASE WHEN is_new AND found.inherited THEN 'ONLY' ELSE '' END,
                   found.nspname, found.relname);
    -- ANALYZE does not update the statistics of an empty table.
    IF is_new AND (SELECT c.reltuples FROM pg_catalog.pg_class AS c WHERE c.oid = found.oid) = 0 THEN
        PERFORM pg_catalog.pg_clear_attribute_stats(
            found.nspname::text, c.relname::text, a.attname::text, found.inherited)
        FROM pg_catalog.pg_attribute AS a
        JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
        WHERE a.attnum > 0 AND NOT a.attisdropped AND (a.attrelid = found.oid OR a.attrelid IN (
            SELECT i.indexrelid FROM pg_catalog.pg_index AS i
            WHERE i.indrelid = found.oid AND i.indexprs IS NOT NULL AND NOT found.inherited));
    END IF;
    RETURN true;
END
$$;
REVOKE ALL ON FUNCTION memory.refresh_statistics(text, text, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memory.refresh_statistics(text, text, timestamptz) TO skein_memory;
