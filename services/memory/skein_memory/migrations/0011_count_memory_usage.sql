-- How much of a tenant's quota is used, kept as rows come and go, so that nobody ever counts them.

-- The sum over a few slots, so that writers do not wait for one another.
CREATE TABLE memory.usage (
    tenant_id uuid NOT NULL
        CONSTRAINT usage_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    kind text NOT NULL,
    slot smallint NOT NULL,
    amount bigint NOT NULL,
    CONSTRAINT usage_pkey PRIMARY KEY (tenant_id, kind, slot)
);
ALTER TABLE memory.usage ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.usage FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.usage
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON memory.usage TO skein_memory;
GRANT USAGE ON SCHEMA memory TO skein_tenancy;
GRANT SELECT ON memory.usage TO skein_tenancy;

-- Count what is there already: tenant by tenant, as row-level security binds the owner too.
DO $$
DECLARE
    tenant uuid;
    found bigint;
BEGIN
    PERFORM set_config('skein.operator', 'on', true);
    FOR tenant IN SELECT tenant_id FROM tenancy.tenants LOOP
        PERFORM set_config('skein.tenant_id', tenant::text, true);
        SELECT count(*) INTO found FROM memory.memories WHERE tenant_id = tenant AND is_active;
        IF found > 0 THEN
            INSERT INTO memory.usage (tenant_id, kind, slot, amount) VALUES (tenant, 'memories', 0, found);
        END IF;
        SELECT count(*) INTO found FROM memory.links WHERE tenant_id = tenant;
        IF found > 0 THEN
            INSERT INTO memory.usage (tenant_id, kind, slot, amount) VALUES (tenant, 'links', 0, found);
        END IF;
    END LOOP;
    PERFORM set_config('skein.tenant_id', '', true), set_config('skein.operator', '', true);
END $$;
