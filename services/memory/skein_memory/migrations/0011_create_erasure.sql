-- Tombstones of purged rows, and recent erasures of people.

-- The salt of a tenant's tombstones, so that a reader cannot test guesses of purged ids.
CREATE TABLE memory.tombstone_salts (
    tenant_id uuid NOT NULL
        CONSTRAINT tombstone_salts_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    salt bytea NOT NULL,
    CONSTRAINT tombstone_salts_pkey PRIMARY KEY (tenant_id)
);
ALTER TABLE memory.tombstone_salts ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.tombstone_salts FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.tombstone_salts
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- Digests of the ids and contents of purged memories. An import skips memories that match.
CREATE TABLE memory.tombstones (
    tenant_id uuid NOT NULL
        CONSTRAINT tombstones_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    digest bytea NOT NULL,
    create_time timestamptz NOT NULL,
    CONSTRAINT tombstones_pkey PRIMARY KEY (tenant_id, digest)
);
CREATE INDEX tombstones_create_time ON memory.tombstones (tenant_id, create_time);
ALTER TABLE memory.tombstones ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.tombstones FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.tombstones
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON memory.properties, memory.tombstone_salts, memory.tombstones TO skein_memory;

-- Digests of people and sessions that were erased a short time ago. Calls of that time are recorded seconds later, so
-- the access log is cleared once more before the row and its secret are removed. Recall drops cached data of these
-- tenants.
CREATE TABLE memory.erasures (
    tenant_id uuid NOT NULL
        CONSTRAINT erasures_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    erasure_id uuid NOT NULL,
    secret bytea NOT NULL CONSTRAINT erasures_secret_length CHECK (octet_length(secret) = 32),
    -- SHA-256 of the secret and "subject:" or "session:" with the name.
    digest bytea NOT NULL CONSTRAINT erasures_digest_length CHECK (octet_length(digest) = 32),
    erase_time timestamptz NOT NULL,
    CONSTRAINT erasures_pkey PRIMARY KEY (tenant_id, erasure_id)
);
ALTER TABLE memory.erasures ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.erasures FORCE ROW LEVEL SECURITY;

-- Recall reads the tenants of all rows.
CREATE POLICY tenant ON memory.erasures
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid
           OR current_setting('skein.operator', true) = 'on');
GRANT SELECT, INSERT, DELETE ON memory.erasures TO skein_memory;
GRANT SELECT, INSERT ON memory.erasures TO skein_session;
GRANT SELECT (tenant_id, erase_time) ON memory.erasures TO skein_recall;

CREATE POLICY due ON memory.memories FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON memory.requests FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON memory.changes FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON memory.webhooks FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON memory.deliveries FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON memory.trust_work FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON memory.snapshots FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON memory.archives FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON memory.tenant_keys FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON memory.pending_memories FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON memory.block_agents FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON memory.revisions FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON memory.block_agents_history FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON memory.source_trust_history FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');

-- Return tenants after one, by id, with active webhooks that have events to queue or deliveries to attempt. Webhooks of
-- grants are always due, because a grant may end in many ways.
CREATE FUNCTION memory.list_webhook_tenants(at timestamptz, after uuid, size integer)
RETURNS SETOF uuid
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = ''
SET plan_cache_mode = force_custom_plan
AS $$
BEGIN
    RETURN QUERY
        SELECT DISTINCT w.tenant_id FROM memory.webhooks AS w
        WHERE w.tenant_id > after AND w.is_active AND (
            w.grant_ids <> '{}'
            OR EXISTS (
                SELECT FROM memory.changes AS c
                WHERE c.tenant_id = w.tenant_id AND (c.transaction, c.change_id) > (w.transaction, w.change_id))
            OR EXISTS (
                SELECT FROM memory.deliveries AS d
                WHERE d.tenant_id = w.tenant_id AND d.webhook_id = w.webhook_id AND d.state = 'pending'
                    AND d.next_time <= at))
        ORDER BY w.tenant_id
        LIMIT size;
END
$$;

-- Return tenants after one, by id, with snapshots that are being created or deleted.
CREATE FUNCTION memory.list_snapshot_tenants(after uuid, size integer)
RETURNS SETOF uuid
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = ''
SET plan_cache_mode = force_custom_plan
AS $$
BEGIN
    RETURN QUERY
        SELECT DISTINCT s.tenant_id FROM memory.snapshots AS s
        WHERE s.tenant_id > after AND s.state <> 'ready'
        ORDER BY s.tenant_id
        LIMIT size;
END
$$;

-- Return tenants after one, by id, with expired rows, keys that another master key encrypts, or blocks of purged agents.
-- Tenants whose levels are capped are always due. `expired_before` is that of tenants whose policy sets no grace;
-- `master_key` is NULL without one.
CREATE FUNCTION memory.list_expiry_tenants(
    at timestamptz, requested_before timestamptz, finished_before timestamptz, expired_before timestamptz,
    master_key text, after uuid, size integer
) RETURNS SETOF uuid
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = ''
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    own record;
    found uuid[] := '{}';
BEGIN
    -- One by one, because an index serves no time that is computed from another table.
    FOR own IN
        SELECT p.tenant_id, p.expiry_grace_hours AS hours FROM tenancy.policies AS p
        WHERE p.tenant_id > after AND p.expiry_grace_hours IS NOT NULL ORDER BY p.tenant_id
    LOOP
        EXIT WHEN cardinality(found) = size;
        IF EXISTS (
            SELECT FROM memory.memories AS m
            WHERE m.tenant_id = own.tenant_id AND m.expire_time <= at - make_interval(hours => own.hours)
        ) THEN
            found := found || own.tenant_id;
        END IF;
    END LOOP;
    RETURN QUERY
        SELECT r.tenant_id FROM memory.requests AS r WHERE r.tenant_id > after AND r.create_time < requested_before
        UNION
        SELECT d.tenant_id FROM recall.documents AS d
        WHERE d.tenant_id > after AND d.kind = 'memory' AND d.expire_time <= at
        UNION
        SELECT m.tenant_id FROM memory.memories AS m
        WHERE m.tenant_id > after AND m.expire_time <= expired_before
            AND NOT EXISTS (
                SELECT FROM tenancy.policies AS p
                WHERE p.tenant_id = m.tenant_id AND p.expiry_grace_hours IS NOT NULL)
        UNION
        SELECT p.tenant_id FROM tenancy.policies AS p WHERE p.tenant_id > after AND p.enforce_level_capacities
        UNION
        SELECT k.tenant_id FROM memory.tenant_keys AS k
        WHERE k.tenant_id > after AND (k.master_key <> list_expiry_tenants.master_key OR EXISTS (
            SELECT FROM memory.tenant_keys AS o WHERE o.tenant_id = k.tenant_id AND o.key_id <> k.key_id))
        UNION
        SELECT w.tenant_id FROM memory.webhooks AS w
        WHERE w.tenant_id > after AND w.master_key <> list_expiry_tenants.master_key
        UNION
        SELECT d.tenant_id FROM memory.deliveries AS d WHERE d.tenant_id > after AND d.finish_time <= finished_before
        UNION
        SELECT b.tenant_id FROM tenancy.agents AS a
        JOIN memory.block_agents AS b ON b.tenant_id = a.tenant_id AND b.agent_id = a.agent_id
        WHERE a.tenant_id > after AND a.purge_time IS NOT NULL
        UNION
        SELECT e.tenant_id FROM memory.erasures AS e WHERE e.tenant_id > after
        UNION
        SELECT p.tenant_id FROM memory.pending_memories AS p WHERE p.tenant_id > after AND p.expire_time <= at
        UNION
        SELECT unnest(found)
        ORDER BY 1
        LIMIT size;
END
$$;

-- Return tenants after one, by id, with memories to archive, to purge by age, or to reindex. Tenants that archive are
-- always due, because files that no row names may remain. `retention_days` applies where the policy sets none.
CREATE FUNCTION memory.list_lifecycle_tenants(at timestamptz, retention_days integer, after uuid, size integer)
RETURNS SETOF uuid
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = ''
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    own record;
    found uuid[] := '{}';
BEGIN
    FOR own IN
        SELECT p.tenant_id, p.retention_days AS days FROM tenancy.policies AS p
        WHERE p.tenant_id > after AND p.retention_days IS NOT NULL ORDER BY p.tenant_id
    LOOP
        EXIT WHEN cardinality(found) = size;
        IF EXISTS (
            SELECT FROM memory.memories AS m
            WHERE m.tenant_id = own.tenant_id AND m.memory_id < skein.first_id(at - make_interval(days => own.days))
                AND m.update_time < at - make_interval(days => own.days)
        ) OR EXISTS (
            SELECT FROM memory.revisions AS r
            WHERE r.tenant_id = own.tenant_id AND r.kind IN ('block', 'source_trust')
                AND r.until_time < at - make_interval(days => own.days)
        ) OR EXISTS (
            SELECT FROM memory.block_agents_history AS b
            WHERE b.tenant_id = own.tenant_id AND b.until_time < at - make_interval(days => own.days)
        ) OR EXISTS (
            SELECT FROM memory.source_trust_history AS s
            WHERE s.tenant_id = own.tenant_id AND s.until_time < at - make_interval(days => own.days)
        ) THEN
            found := found || own.tenant_id;
        END IF;
    END LOOP;
    RETURN QUERY
        SELECT m.tenant_id FROM memory.memories AS m
        WHERE m.tenant_id > after AND m.data IS NOT NULL AND m.text_revision IS DISTINCT FROM m.revision
        UNION
        SELECT m.tenant_id FROM memory.memories AS m
        WHERE m.tenant_id > after
            AND m.memory_id < skein.first_id(at - make_interval(days => list_lifecycle_tenants.retention_days))
            AND m.update_time < at - make_interval(days => list_lifecycle_tenants.retention_days)
            AND NOT EXISTS (
                SELECT FROM tenancy.policies AS p WHERE p.tenant_id = m.tenant_id AND p.retention_days IS NOT NULL)
        UNION
        SELECT h.tenant_id FROM (
            SELECT r.tenant_id, r.until_time FROM memory.revisions AS r WHERE r.kind IN ('block', 'source_trust')
            UNION ALL
            SELECT b.tenant_id, b.until_time FROM memory.block_agents_history AS b
            UNION ALL
            SELECT s.tenant_id, s.until_time FROM memory.source_trust_history AS s
        ) AS h
        WHERE h.tenant_id > after
            AND h.until_time < at - make_interval(days => list_lifecycle_tenants.retention_days)
            AND NOT EXISTS (
                SELECT FROM tenancy.policies AS p WHERE p.tenant_id = h.tenant_id AND p.retention_days IS NOT NULL)
        UNION
        SELECT p.tenant_id FROM tenancy.policies AS p WHERE p.tenant_id > after AND p.archive_days > 0
        UNION
        SELECT a.tenant_id FROM memory.archives AS a WHERE a.tenant_id > after
        UNION
        SELECT unnest(found)
        ORDER BY 1
        LIMIT size;
END
$$;

-- Return tenants after one, by id, with memories whose idle time of `decay_days`, or of the policy's days, is over.
CREATE FUNCTION memory.list_decay_tenants(at timestamptz, decay_days integer, after uuid, size integer)
RETURNS SETOF uuid
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = ''
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    own record;
    found uuid[] := '{}';
BEGIN
    FOR own IN
        SELECT p.tenant_id, greatest(1, p.decay_days) AS days FROM tenancy.policies AS p
        WHERE p.tenant_id > after AND p.decay_days IS NOT NULL ORDER BY p.tenant_id
    LOOP
        EXIT WHEN cardinality(found) = size;
        IF EXISTS (
            SELECT FROM memory.memories AS m
            WHERE m.tenant_id = own.tenant_id AND m.decay_time <= at - make_interval(days => own.days)
                AND m.is_active AND m.archive_time IS NULL AND (m.expire_time IS NULL OR m.expire_time > at)
        ) THEN
            found := found || own.tenant_id;
        END IF;
    END LOOP;
    RETURN QUERY
        SELECT m.tenant_id FROM memory.memories AS m
        WHERE m.tenant_id > after AND m.decay_time <= at - make_interval(days => list_decay_tenants.decay_days)
            AND m.is_active AND m.archive_time IS NULL AND (m.expire_time IS NULL OR m.expire_time > at)
            AND NOT EXISTS (
                SELECT FROM tenancy.policies AS p WHERE p.tenant_id = m.tenant_id AND p.decay_days IS NOT NULL)
        UNION
        SELECT unnest(found)
        ORDER BY 1
        LIMIT size;
END
$$;

-- Return tenants after one, by id, with memories whose trust is to be computed again.
CREATE FUNCTION memory.list_trust_tenants(after uuid, size integer)
RETURNS SETOF uuid
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = ''
SET plan_cache_mode = force_custom_plan
AS $$
BEGIN
    RETURN QUERY
        SELECT DISTINCT w.tenant_id FROM memory.trust_work AS w
        WHERE w.tenant_id > after
        ORDER BY w.tenant_id
        LIMIT size;
END
$$;
REVOKE ALL ON FUNCTION
    memory.list_webhook_tenants(timestamptz, uuid, integer), memory.list_snapshot_tenants(uuid, integer),
    memory.list_expiry_tenants(timestamptz, timestamptz, timestamptz, timestamptz, text, uuid, integer),
    memory.list_lifecycle_tenants(timestamptz, integer, uuid, integer),
    memory.list_decay_tenants(timestamptz, integer, uuid, integer),
    memory.list_trust_tenants(uuid, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    memory.list_webhook_tenants(timestamptz, uuid, integer), memory.list_snapshot_tenants(uuid, integer),
    memory.list_expiry_tenants(timestamptz, timestamptz, timestamptz, timestamptz, text, uuid, integer),
    memory.list_lifecycle_tenants(timestamptz, integer, uuid, integer),
    memory.list_decay_tenants(timestamptz, integer, uuid, integer),
    memory.list_trust_tenants(uuid, integer) TO skein_memory;

SELECT memory.ensure_month(now() + make_interval(months => ahead)) FROM generate_series(0, 3) AS ahead;
SELECT skein.make_month('memory.access_log', now() + make_interval(months => ahead))
FROM generate_series(-1, 3) AS ahead;
