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
