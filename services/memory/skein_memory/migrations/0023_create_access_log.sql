-- The access log: who read, wrote and searched what, by month.

-- A row for a call, or one for each memory that it touched. No content and no reference to what may be purged: ids alone.
CREATE TABLE memory.access_log (
    tenant_id uuid NOT NULL
        CONSTRAINT access_log_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    access_id uuid NOT NULL,
    operation text NOT NULL
        CONSTRAINT access_log_operation_known CHECK (operation IN ('create', 'read', 'update', 'delete', 'search')),
    method text NOT NULL,
    principal text NOT NULL,
    memory_id uuid,
    session_id text,
    agent_id text,
    subject_id text,
    item_count integer NOT NULL,
    request_data jsonb,
    -- Unknown while a strictly recorded call is at work, and for ever when it was cut off.
    success boolean,
    error_reason text,
    client_address text,
    request_id text NOT NULL,
    create_time timestamptz NOT NULL,
    CONSTRAINT access_log_pkey PRIMARY KEY (tenant_id, access_id)
) PARTITION BY RANGE (access_id);
CREATE INDEX access_log_memory ON memory.access_log (tenant_id, memory_id, access_id) WHERE memory_id IS NOT NULL;
CREATE INDEX access_log_session ON memory.access_log (tenant_id, session_id, access_id) WHERE session_id IS NOT NULL;
CREATE INDEX access_log_agent ON memory.access_log (tenant_id, agent_id, access_id) WHERE agent_id IS NOT NULL;
CREATE INDEX access_log_operation ON memory.access_log (tenant_id, operation, access_id);
CREATE INDEX access_log_refused ON memory.access_log (tenant_id, access_id) WHERE success IS NOT true;
ALTER TABLE memory.access_log ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.access_log FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.access_log
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON memory.access_log TO skein_memory;

-- What is searched is recorded by whoever searches.
GRANT USAGE ON SCHEMA memory TO skein_session;
GRANT SELECT, INSERT, UPDATE ON memory.access_log TO skein_recall, skein_session;
GRANT SELECT, INSERT, UPDATE ON memory.access_counts TO skein_recall;
GRANT USAGE ON SCHEMA tenancy TO skein_recall;
GRANT SELECT ON tenancy.policies TO skein_recall;

-- Make a month's partitions: of memories for every month from 2015 on, of the access log for those that are still to come.
-- True when one was missing.
CREATE OR REPLACE FUNCTION memory.ensure_month(month timestamptz) RETURNS boolean
LANGUAGE sql SECURITY DEFINER
SET search_path = ''
RETURN (
    CASE WHEN month < '2015-01-01T00:00:00Z' THEN 0 ELSE skein.make_month('memory.memories', month)::integer END
    + CASE WHEN month < now() - interval '2 months' THEN 0 ELSE skein.make_month('memory.access_log', month)::integer END
) > 0;

-- Take the months of the access log that end before a time out of it, for all tenants, and remove them; return how many.
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

SELECT skein.make_month('memory.access_log', now() + make_interval(months => ahead))
FROM generate_series(-1, 3) AS ahead;
