-- Organizations, tenants and agents: who exists, before anything can belong to them.

CREATE SCHEMA tenancy;
GRANT USAGE ON SCHEMA tenancy TO skein_tenancy;

-- The lowest UUIDv7 of a time: months of id-ranged partitions begin at it.
CREATE FUNCTION skein.first_id(at timestamptz) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = ''
RETURN (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid;

-- Make the partition of one month, if it is missing, for a table that is partitioned by UUIDv7. Runs as the owner through
-- the functions of each schema, which alone are granted. Direct access to a partition is denied to everybody: row-level
-- security is forced on it and it has no policy.
CREATE FUNCTION skein.make_month(parent regclass, month timestamptz) RETURNS boolean
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
BEGIN
    IF to_regclass(format('%I.%I', schema_name, child)) IS NOT NULL THEN
        RETURN false;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('skein.make_month'), hashtext(child));
    -- By a query: to_regclass would answer from a cache that waiting for the lock did not refresh.
    IF EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = schema_name AND c.relname = child) THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE %I.%I (LIKE %s INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', schema_name, child, parent);
    EXECUTE format('ALTER TABLE %I.%I ENABLE ROW LEVEL SECURITY', schema_name, child);
    EXECUTE format('ALTER TABLE %I.%I FORCE ROW LEVEL SECURITY', schema_name, child);
    EXECUTE format('ALTER TABLE %s ATTACH PARTITION %I.%I FOR VALUES FROM (%L) TO (%L)',
                   parent, schema_name, child, skein.first_id(starts), skein.first_id(ends));
    RETURN true;
END
$$;
REVOKE ALL ON FUNCTION skein.make_month(regclass, timestamptz) FROM PUBLIC;

CREATE TABLE tenancy.organizations (
    organization_id uuid CONSTRAINT organizations_pkey PRIMARY KEY,
    display_name text NOT NULL,
    slug text NOT NULL,
    metadata jsonb,
    is_active boolean NOT NULL DEFAULT true,
    revision bigint NOT NULL DEFAULT 1,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL
);
CREATE UNIQUE INDEX organizations_slug_key ON tenancy.organizations (slug) WHERE is_active;

CREATE TABLE tenancy.tenants (
    tenant_id uuid CONSTRAINT tenants_pkey PRIMARY KEY,
    organization_id uuid NOT NULL
        CONSTRAINT tenants_organization_fkey REFERENCES tenancy.organizations (organization_id),
    display_name text NOT NULL,
    slug text NOT NULL,
    metadata jsonb,
    is_active boolean NOT NULL DEFAULT true,
    revision bigint NOT NULL DEFAULT 1,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL
);
CREATE UNIQUE INDEX tenants_slug_key ON tenancy.tenants (organization_id, slug) WHERE is_active;

-- The directory of tenants: a tenant sees itself, the operator's transactions see all.
ALTER TABLE tenancy.organizations ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.organizations FORCE ROW LEVEL SECURITY;
CREATE POLICY operator ON tenancy.organizations USING (current_setting('skein.operator', true) = 'on');
ALTER TABLE tenancy.tenants ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.tenants FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.tenants
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid
           OR current_setting('skein.operator', true) = 'on');

CREATE TABLE tenancy.agents (
    tenant_id uuid NOT NULL
        CONSTRAINT agents_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    agent_id text NOT NULL CONSTRAINT agents_agent_id_length CHECK (char_length(agent_id) BETWEEN 1 AND 255),
    display_name text NOT NULL,
    agent_type text,
    description text,
    system_prompt text,
    topic text,
    metadata jsonb,
    llm_config jsonb,
    embedding_config jsonb,
    tool_rules jsonb,
    mcp_servers text[] NOT NULL DEFAULT '{}',
    revision bigint NOT NULL DEFAULT 1,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL,
    created_by text NOT NULL,
    updated_by text NOT NULL,
    -- A deleted agent keeps its row under an id that nobody chooses, so that its own may be used again.
    delete_time timestamptz,
    deleted_agent_id text,
    CONSTRAINT agents_pkey PRIMARY KEY (tenant_id, agent_id)
);
ALTER TABLE tenancy.agents ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.agents FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.agents
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- Answers to requests that carry a request_id, so that a repeated one has one effect.
CREATE TABLE tenancy.requests (
    tenant_id uuid NOT NULL,
    principal text NOT NULL,
    method text NOT NULL,
    request_id text NOT NULL,
    fingerprint bytea NOT NULL,
    response bytea NOT NULL,
    create_time timestamptz NOT NULL,
    CONSTRAINT requests_pkey PRIMARY KEY (tenant_id, principal, method, request_id)
);
CREATE INDEX requests_create_time ON tenancy.requests (tenant_id, create_time);
-- No reference to tenants: the operator's own requests are kept under the nil tenant.
ALTER TABLE tenancy.requests ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.requests FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.requests
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

GRANT SELECT, INSERT, UPDATE, DELETE ON
    tenancy.organizations, tenancy.tenants, tenancy.agents, tenancy.requests TO skein_tenancy;
