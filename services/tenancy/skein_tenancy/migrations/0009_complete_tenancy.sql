-- Members, invitations, subjects, tools, policies, quotas and deletions: everything else that a directory of tenants knows.

-- When the rows of a deleted tenant begin to be removed; a deleted organization goes with its last tenant.
ALTER TABLE tenancy.tenants
    ADD COLUMN purge_time timestamptz;
ALTER TABLE tenancy.organizations
    ADD COLUMN delete_time timestamptz;

-- The messages that an agent has in mind, by their ids; which ones these are is the agent's business.
ALTER TABLE tenancy.agents
    ADD COLUMN message_ids text[] NOT NULL DEFAULT '{}';

CREATE TABLE tenancy.memberships (
    tenant_id uuid NOT NULL
        CONSTRAINT memberships_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    account_id uuid NOT NULL,
    role text NOT NULL CONSTRAINT memberships_role_known CHECK (role IN ('owner', 'admin', 'member', 'viewer')),
    -- As they were when the account joined, for lists.
    email text NOT NULL DEFAULT '',
    display_name text NOT NULL DEFAULT '',
    revision bigint NOT NULL DEFAULT 1,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL,
    created_by text NOT NULL,
    CONSTRAINT memberships_pkey PRIMARY KEY (tenant_id, account_id)
);
CREATE INDEX memberships_account ON tenancy.memberships (account_id, tenant_id);
CREATE INDEX memberships_owners ON tenancy.memberships (tenant_id) WHERE role = 'owner';
-- An account sees its own memberships in every tenant; everybody else those of the tenant at hand.
ALTER TABLE tenancy.memberships ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.memberships FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.memberships
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid
           OR account_id = nullif(current_setting('skein.account_id', true), '')::uuid);
CREATE TABLE tenancy.invitations (
    tenant_id uuid NOT NULL
        CONSTRAINT invitations_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    invitation_id uuid NOT NULL,
    email text NOT NULL CONSTRAINT invitations_email_lower CHECK (email = lower(email)),
    role text NOT NULL CONSTRAINT invitations_role_known CHECK (role IN ('owner', 'admin', 'member', 'viewer')),
    secret_hash bytea NOT NULL CONSTRAINT invitations_secret_hash_length CHECK (octet_length(secret_hash) = 32),
    -- It was sent to the address alone, so whoever has the token has the address; else the inviter has it.
    mailed boolean NOT NULL DEFAULT false,
    create_time timestamptz NOT NULL,
    expire_time timestamptz NOT NULL,
    created_by text NOT NULL,
    use_time timestamptz,
    revoke_time timestamptz,
    CONSTRAINT invitations_pkey PRIMARY KEY (tenant_id, invitation_id)
);
ALTER TABLE tenancy.invitations ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.invitations FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.invitations
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

CREATE TABLE tenancy.subjects (
    tenant_id uuid NOT NULL
        CONSTRAINT subjects_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    subject_id text NOT NULL CONSTRAINT subjects_subject_id_length CHECK (char_length(subject_id) BETWEEN 1 AND 255),
    display_name text NOT NULL,
    status text NOT NULL CONSTRAINT subjects_status_known CHECK (status IN ('active', 'inactive')),
    timezone text NOT NULL DEFAULT 'UTC',
    profile jsonb,
    preferences jsonb,
    account_id uuid,
    revision bigint NOT NULL DEFAULT 1,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL,
    created_by text NOT NULL,
    updated_by text NOT NULL,
    CONSTRAINT subjects_pkey PRIMARY KEY (tenant_id, subject_id)
);
CREATE INDEX subjects_status ON tenancy.subjects (tenant_id, status, subject_id);
ALTER TABLE tenancy.subjects ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.subjects FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.subjects
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- The scalar values of profiles and preferences, one row each: operators on JSON are not leakproof, so under row-level
-- security no index on JSON would be used; equality of texts is.
CREATE TABLE tenancy.subject_properties (
    tenant_id uuid NOT NULL,
    path text NOT NULL,
    -- JSON text of the scalar, or its SHA-256 ("sha256:...") when it is long.
    value text NOT NULL,
    subject_id text NOT NULL,
    CONSTRAINT subject_properties_pkey PRIMARY KEY (tenant_id, path, value, subject_id),
    CONSTRAINT subject_properties_subject_fkey FOREIGN KEY (tenant_id, subject_id)
        REFERENCES tenancy.subjects (tenant_id, subject_id) ON DELETE CASCADE
);
CREATE INDEX subject_properties_subject ON tenancy.subject_properties (tenant_id, subject_id);
ALTER TABLE tenancy.subject_properties ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.subject_properties FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.subject_properties
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

CREATE TABLE tenancy.tools (
    tenant_id uuid NOT NULL
        CONSTRAINT tools_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    tool_id text NOT NULL CONSTRAINT tools_tool_id_length CHECK (char_length(tool_id) BETWEEN 1 AND 255),
    name text NOT NULL,
    description text,
    json_schema jsonb,
    source_type text,
    source_code text,
    tags text[] NOT NULL DEFAULT '{}',
    metadata jsonb,
    revision bigint NOT NULL DEFAULT 1,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL,
    created_by text NOT NULL,
    updated_by text NOT NULL,
    CONSTRAINT tools_pkey PRIMARY KEY (tenant_id, tool_id),
    CONSTRAINT tools_name_key UNIQUE (tenant_id, name)
);
ALTER TABLE tenancy.tools ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.tools FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.tools
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

CREATE TABLE tenancy.agent_tools (
    tenant_id uuid NOT NULL,
    agent_id text NOT NULL,
    tool_id text NOT NULL,
    create_time timestamptz NOT NULL,
    created_by text NOT NULL,
    CONSTRAINT agent_tools_pkey PRIMARY KEY (tenant_id, agent_id, tool_id),
    CONSTRAINT agent_tools_agent_fkey FOREIGN KEY (tenant_id, agent_id)
        REFERENCES tenancy.agents (tenant_id, agent_id) ON UPDATE CASCADE ON DELETE CASCADE,
    CONSTRAINT agent_tools_tool_fkey FOREIGN KEY (tenant_id, tool_id)
        REFERENCES tenancy.tools (tenant_id, tool_id) ON DELETE CASCADE
);
CREATE INDEX agent_tools_tool ON tenancy.agent_tools (tenant_id, tool_id);
ALTER TABLE tenancy.agent_tools ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.agent_tools FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.agent_tools
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- One row for each tenant that changed something; NULL: the default, which stands in the code.
CREATE TABLE tenancy.policies (
    tenant_id uuid CONSTRAINT policies_pkey PRIMARY KEY
        CONSTRAINT policies_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    decay_days integer,
    max_inferred_edges integer,
    min_link_suggestion_score double precision,
    retention_days integer,
    private_mode boolean,
    snapshot_retention integer,
    path_max_hops integer,
    subgraph_default_radius integer,
    importance_formula text
        CONSTRAINT policies_importance_formula_known CHECK (importance_formula IN ('dynamic', 'weighted')),
    memory_types text[],
    revision bigint NOT NULL DEFAULT 1,
    update_time timestamptz NOT NULL
);
ALTER TABLE tenancy.policies ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.policies FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.policies
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- What a tenant may have at max_amount, by kind; every service reads its own tenant's rows when it adds something. A limit of
-- an organization binds its tenants through max_organization_amount, which is kept up to date from what all of them use.
CREATE TABLE tenancy.quotas (
    tenant_id uuid NOT NULL
        CONSTRAINT quotas_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    kind text NOT NULL,
    -- NULL: set by the organization's limit alone.
    max_amount bigint CONSTRAINT quotas_max_amount_not_negative CHECK (max_amount >= 0),
    -- What the organization leaves to this tenant; NULL: whatever it likes.
    max_organization_amount bigint CONSTRAINT quotas_max_organization_amount_not_negative CHECK (max_organization_amount >= 0),
    -- Of all limits of the tenant together; 0: nothing was set for the tenant itself.
    revision bigint NOT NULL,
    update_time timestamptz NOT NULL,
    CONSTRAINT quotas_pkey PRIMARY KEY (tenant_id, kind)
);
ALTER TABLE tenancy.quotas ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.quotas FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.quotas
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid
           OR current_setting('skein.operator', true) = 'on');

CREATE TABLE tenancy.organization_quotas (
    organization_id uuid NOT NULL
        CONSTRAINT organization_quotas_organization_fkey
        REFERENCES tenancy.organizations (organization_id) ON DELETE CASCADE,
    kind text NOT NULL,
    -- NULL: none any more.
    max_amount bigint CONSTRAINT organization_quotas_max_amount_not_negative CHECK (max_amount >= 0),
    revision bigint NOT NULL,
    update_time timestamptz NOT NULL,
    CONSTRAINT organization_quotas_pkey PRIMARY KEY (organization_id, kind)
);
ALTER TABLE tenancy.organization_quotas ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.organization_quotas FORCE ROW LEVEL SECURITY;
CREATE POLICY operator ON tenancy.organization_quotas USING (current_setting('skein.operator', true) = 'on');

-- How much of a tenant's quota is used: the sum over a few slots, so that writers do not wait for one another.
CREATE TABLE tenancy.usage (
    tenant_id uuid NOT NULL
        CONSTRAINT usage_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    kind text NOT NULL,
    slot smallint NOT NULL,
    amount bigint NOT NULL,
    CONSTRAINT usage_pkey PRIMARY KEY (tenant_id, kind, slot)
);
ALTER TABLE tenancy.usage ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.usage FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.usage
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid
           OR current_setting('skein.operator', true) = 'on');

-- The usage of tenants as it was last collected, for their organization's sums.
CREATE TABLE tenancy.collected_usage (
    tenant_id uuid NOT NULL
        CONSTRAINT collected_usage_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    kind text NOT NULL,
    amount bigint NOT NULL,
    collect_time timestamptz NOT NULL,
    CONSTRAINT collected_usage_pkey PRIMARY KEY (tenant_id, kind)
);
ALTER TABLE tenancy.collected_usage ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.collected_usage FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.collected_usage
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid
           OR current_setting('skein.operator', true) = 'on');

-- Allowances of calls: token buckets of tenants (the empty caller) and of their callers, and what the current hour and
-- day have used. Callers without a tenant are kept under the nil tenant.
CREATE TABLE tenancy.rate_limit_buckets (
    tenant_id uuid NOT NULL,
    caller text NOT NULL,
    tokens double precision NOT NULL,
    -- What was taken last.
    leased integer NOT NULL,
    -- When they were counted last.
    refill_time timestamptz NOT NULL,
    -- When the current hour and day began, and how many calls were let through since.
    hour_time timestamptz NOT NULL,
    hour_count bigint NOT NULL,
    day_time timestamptz NOT NULL,
    day_count bigint NOT NULL,
    CONSTRAINT rate_limit_buckets_pkey PRIMARY KEY (tenant_id, caller)
);
ALTER TABLE tenancy.rate_limit_buckets ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.rate_limit_buckets FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.rate_limit_buckets
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- Deletions outlive their tenants: they are the report.
CREATE TABLE tenancy.deletions (
    tenant_id uuid NOT NULL,
    deletion_id uuid NOT NULL,
    organization_id uuid NOT NULL,
    state text NOT NULL CONSTRAINT deletions_state_known CHECK (state IN ('grace', 'purging', 'done', 'undone')),
    stage text NOT NULL DEFAULT '',
    -- Rows removed, by table.
    deleted_counts jsonb NOT NULL DEFAULT '{}',
    create_time timestamptz NOT NULL,
    purge_time timestamptz NOT NULL,
    finish_time timestamptz,
    created_by text NOT NULL,
    CONSTRAINT deletions_pkey PRIMARY KEY (tenant_id, deletion_id)
);
CREATE INDEX deletions_due ON tenancy.deletions (purge_time) WHERE state IN ('grace', 'purging');
ALTER TABLE tenancy.deletions ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.deletions FORCE ROW LEVEL SECURITY;
CREATE POLICY operator ON tenancy.deletions USING (current_setting('skein.operator', true) = 'on');

GRANT SELECT, INSERT, UPDATE, DELETE ON
    tenancy.memberships, tenancy.invitations, tenancy.subjects, tenancy.subject_properties, tenancy.tools,
    tenancy.agent_tools, tenancy.policies, tenancy.quotas, tenancy.organization_quotas, tenancy.usage,
    tenancy.collected_usage, tenancy.rate_limit_buckets, tenancy.deletions TO skein_tenancy;

-- Whoever adds something reads how much of it the tenant may have; tenancy reads how much there is.
GRANT USAGE ON SCHEMA tenancy TO skein_auth, skein_session, skein_memory;
GRANT SELECT ON tenancy.quotas TO skein_auth, skein_session, skein_memory;
GRANT USAGE ON SCHEMA auth TO skein_tenancy;
GRANT SELECT ON auth.usage TO skein_tenancy;

-- Count what is there already: tenant by tenant, as row-level security binds the owner too.
DO $$
DECLARE
    tenant uuid;
    found bigint;
BEGIN
    PERFORM set_config('skein.operator', 'on', true);
    FOR tenant IN SELECT tenant_id FROM tenancy.tenants LOOP
        PERFORM set_config('skein.tenant_id', tenant::text, true);
        SELECT count(*) INTO found FROM tenancy.agents WHERE tenant_id = tenant AND delete_time IS NULL;
        IF found > 0 THEN
            INSERT INTO tenancy.usage (tenant_id, kind, slot, amount) VALUES (tenant, 'agents', 0, found);
        END IF;
    END LOOP;
    PERFORM set_config('skein.tenant_id', '', true), set_config('skein.operator', '', true);
END $$;
