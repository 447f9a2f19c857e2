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

SELECT memory.ensure_month(now() + make_interval(months => ahead)) FROM generate_series(0, 3) AS ahead;
SELECT skein.make_month('memory.access_log', now() + make_interval(months => ahead))
FROM generate_series(-1, 3) AS ahead;
