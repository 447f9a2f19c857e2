-- Functions and rights as Citus needs them; nothing changes elsewhere.
SET LOCAL lock_timeout = '5s';

-- Return whether Citus distributes a table. A server may have loaded the extension that this database has not created.
CREATE OR REPLACE FUNCTION skein.is_distributed(relation regclass) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = ''
AS $$
DECLARE
    found_in_catalog boolean := false;
BEGIN
    IF to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN
        -- Elsewhere there is no such catalog.
        EXECUTE 'SELECT EXISTS (SELECT FROM pg_catalog.pg_dist_partition WHERE logicalrelid = $1)'
        INTO found_in_catalog USING relation;
    END IF;
    RETURN found_in_catalog;
END
$$;

-- As before, with the same question of whether the table is distributed. A distributed one gives way sooner: Citus looks for
-- deadlocks every two seconds, and would end the write of a caller.
CREATE OR REPLACE FUNCTION skein.make_month(parent regclass, month timestamptz) RETURNS boolean
LANGUAGE plpgsql
SET search_path = ''
SET timezone = 'UTC'
SET lock_timeout = '5s'
AS $$
DECLARE
    starts timestamptz := date_trunc('month', month);
    ends timestamptz := date_trunc('month', month) + interval '1 month';
    schema_name text := (SELECT n.nspname FROM pg_catalog.pg_class c
                         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = parent);
    child text := (SELECT c.relname FROM pg_catalog.pg_class c WHERE c.oid = parent) || to_char(starts, '"_y"YYYY"m"MM');
    bounds text := format('FOR VALUES FROM (%L) TO (%L)', skein.first_id(starts), skein.first_id(ends));
    is_distributed boolean := skein.is_distributed(parent);
BEGIN
    IF to_regclass(format('%I.%I', schema_name, child)) IS NOT NULL THEN
        RETURN false;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('skein.make_month'), 0);
    -- A query, because to_regclass answers from a cache that waiting for the lock does not refresh.
    IF EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = schema_name AND c.relname = child) THEN
        RETURN false;
    END IF;
    IF is_distributed THEN
        -- The shards' foreign keys lead to tables that the statement has locked on other connections.
        PERFORM set_config('citus.multi_shard_modify_mode', 'sequential', true),
                set_config('lock_timeout', '500ms', true);
        -- Citus refuses to attach a table with foreign keys. This locks the parent against reads for a moment.
        EXECUTE format('CREATE TABLE %I.%I PARTITION OF %s %s', schema_name, child, parent, bounds);
    ELSE
        EXECUTE format('CREATE TABLE %I.%I (LIKE %s INCLUDING DEFAULTS INCLUDING CONSTRAINTS)',
                       schema_name, child, parent);
    END IF;
    EXECUTE format('ALTER TABLE %I.%I ENABLE ROW LEVEL SECURITY', schema_name, child);
    EXECUTE format('ALTER TABLE %I.%I FORCE ROW LEVEL SECURITY', schema_name, child);
    IF NOT is_distributed THEN
        EXECUTE format('ALTER TABLE %s ATTACH PARTITION %I.%I %s', parent, schema_name, child, bounds);
    END IF;
    RETURN true;
END
$$;

-- Citus names every column in the statement that it sends to a shard.
REVOKE INSERT (tenant_id, kind, refill_time, day_time) ON tenancy.jobs FROM skein_session, skein_memory, skein_recall;
GRANT INSERT ON tenancy.jobs TO skein_session, skein_memory, skein_recall;

-- Return tenants after one, by id, whose usage changed since it was collected. With them those whose organization has
-- limits, and in it a tenant that changed later than their own collection: it leaves them another remainder.
CREATE OR REPLACE FUNCTION tenancy.list_usage_tenants(after uuid, size integer) RETURNS SETOF uuid
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = ''
SET plan_cache_mode = force_custom_plan
AS $$
BEGIN
    RETURN QUERY
        WITH own AS MATERIALIZED (
            SELECT c.tenant_id, c.collect_time FROM tenancy.collected_usage AS c
            WHERE c.tenant_id > after AND c.kind = 'tenants'
        ), changes AS MATERIALIZED (
            SELECT c.tenant_id, max(c.change_time) AS change_time
            FROM tenancy.collected_usage AS c
            JOIN tenancy.tenants AS o ON o.tenant_id = c.tenant_id
            JOIN tenancy.organization_quotas AS q
                ON q.organization_id = o.organization_id AND q.max_amount IS NOT NULL
            GROUP BY c.tenant_id
        )
        SELECT u.tenant_id FROM auth.usage AS u WHERE u.tenant_id > after AND NOT u.is_collected
        UNION
        SELECT u.tenant_id FROM tenancy.usage AS u WHERE u.tenant_id > after AND NOT u.is_collected
        UNION
        SELECT u.tenant_id FROM session.usage AS u WHERE u.tenant_id > after AND NOT u.is_collected
        UNION
        SELECT u.tenant_id FROM memory.usage AS u WHERE u.tenant_id > after AND NOT u.is_collected
        UNION
        SELECT t.tenant_id FROM tenancy.tenants AS t
        WHERE t.tenant_id > after AND t.is_active AND t.tenant_id NOT IN (SELECT own.tenant_id FROM own)
        UNION
        SELECT t.tenant_id FROM (
            SELECT o.organization_id, max(greatest(o.update_time, changes.change_time)) AS change_time
            FROM tenancy.tenants AS o
            LEFT JOIN changes ON changes.tenant_id = o.tenant_id
            WHERE o.organization_id IN (
                SELECT q.organization_id FROM tenancy.organization_quotas AS q WHERE q.max_amount IS NOT NULL)
            GROUP BY o.organization_id
        ) AS changed
        JOIN tenancy.tenants AS t ON t.organization_id = changed.organization_id
        JOIN own ON own.tenant_id = t.tenant_id
        WHERE t.tenant_id > after AND t.is_active AND own.collect_time < changed.change_time
        ORDER BY 1
        LIMIT size;
END
$$;

-- A generic plan of a distributed table has no shard.
ALTER FUNCTION recall.list_backlog_tenants(bigint, uuid, integer) SET plan_cache_mode = force_custom_plan;

-- While a machine is away, auth lists all tenants instead of those with work, as the other services do.
GRANT SELECT (tenant_id) ON tenancy.tenants TO skein_auth;
