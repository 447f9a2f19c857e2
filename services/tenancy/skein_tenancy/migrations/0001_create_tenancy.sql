-- Tenancy: organizations, tenants, members, agents, tools, subjects, policies and quotas.
--
-- Row-level security is forced on every table of a tenant, in all schemas. A transaction sets `skein.tenant_id` and sees
-- the rows of that tenant; without it, it sees none. `skein.account_id` adds the rows of an account, `skein.operator` the
-- directory of tenants. The policies named `due` show rows of all tenants to the owner's functions `list_..._tenants`
-- alone, in transactions with `skein.operator`: these functions return the ids of tenants in which the worker has
-- something to do, so that it need not visit the others.
--
-- The restrictive policies named `space` leave out what lies in other spaces of the tenant than `skein.spaces` lists; without
-- the setting, all but the default space, whose id is the nil UUID. Tables without space_id have what lies in the default
-- space alone, or is read with its item alone. `skein.all_spaces` is for caches and purges.

CREATE SCHEMA tenancy;
GRANT USAGE ON SCHEMA tenancy TO skein_tenancy;

-- A service that adds rows reads the tenant's quota; tenancy reads the usage of all services.
GRANT USAGE ON SCHEMA tenancy TO skein_auth, skein_session, skein_memory;
GRANT USAGE ON SCHEMA tenancy TO skein_recall;

-- The lowest UUIDv7 of a time: months of id-ranged partitions begin at it.
CREATE FUNCTION skein.first_id(at timestamptz) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = ''
RETURN (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid;

-- Former rows. A table with a history has a column record_time, and beside it a table X_history with the same columns
-- and until_time: a former row was valid from record_time to until_time. The schema as_of has a view of each such table,
-- under its name, with the rows that were valid at skein.as_of_time(). So a statement reads what was known then when it
-- names the view in place of the table. Purges delete from both tables.
CREATE SCHEMA as_of;
GRANT USAGE ON SCHEMA as_of TO skein_tenancy, skein_memory, skein_session, skein_recall;

-- Whether this transaction keeps former rows. Purges do not, and neither do operators, whose deletion of a tenant
-- cascades to its rows.
CREATE FUNCTION skein.keeps_history() RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
RETURN current_setting('skein.keep_history', true) IS DISTINCT FROM 'off'
    AND current_setting('skein.operator', true) IS DISTINCT FROM 'on';

-- The time at which this transaction's rows are recorded: the arrival of the call, which is not after the update_time
-- that the call sets.
CREATE FUNCTION skein.write_time() RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
RETURN coalesce(nullif(current_setting('skein.write_time', true), '')::timestamptz, now());

-- The space of a row that a statement inserts: that of the transaction. A transaction that sees several spaces, or all of
-- them, must name one: the NULL of this function fails there.
CREATE FUNCTION skein.space_id() RETURNS uuid
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE
    WHEN current_setting('skein.all_spaces', true) = 'on' THEN NULL
    WHEN coalesce(current_setting('skein.spaces', true), '') = '' THEN '00000000-0000-0000-0000-000000000000'::uuid
    WHEN cardinality(current_setting('skein.spaces', true)::uuid[]) = 1 THEN (current_setting('skein.spaces', true)::uuid[])[1]
END;

-- The time that the views of as_of show; without the setting they are empty. Views read it in a subquery, once.
CREATE FUNCTION skein.as_of_time() RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
RETURN nullif(current_setting('skein.as_of_time', true), '')::timestamptz;

-- Times up to as_of_time at which transactions recorded rows that a replayed search did not see, because they committed
-- after it began; empty for any other reader.
CREATE FUNCTION skein.unseen_times() RETURNS timestamptz[]
LANGUAGE sql STABLE PARALLEL SAFE
RETURN coalesce(nullif(current_setting('skein.unseen_times', true), ''), '{}')::timestamptz[];

-- A time before which every former row that ended was seen to end: that of an index scan.
CREATE FUNCTION skein.first_unseen_time() RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
RETURN coalesce((SELECT min(t.at) - interval '1 microsecond' FROM unnest(skein.unseen_times()) AS t (at)), skein.as_of_time());

-- Of a statement's deleted rows, named `gone`, keep the former versions. The argument is the history, with its schema.
CREATE FUNCTION skein.keep_deleted() RETURNS trigger
LANGUAGE plpgsql
SET search_path = ''
AS $$
BEGIN
    IF skein.keeps_history() THEN
        EXECUTE 'INSERT INTO ' || TG_ARGV[0] || ' SELECT gone.*, skein.write_time() FROM gone'
            ' WHERE gone.record_time < skein.write_time()';
        -- What replaces the rows of a call that arrived later is not recorded before them.
        PERFORM set_config('skein.write_time', max(gone.record_time)::text, true) FROM gone
        HAVING max(gone.record_time) > skein.write_time();
    END IF;
    RETURN NULL;
END
$$;

-- Keep the former version of a row before its update, and set when the new one was recorded. A row that was changed by
-- a call that arrived later is not recorded before it. The argument is the history, with its schema.
CREATE FUNCTION skein.keep_updated() RETURNS trigger
LANGUAGE plpgsql
SET search_path = ''
AS $$
BEGIN
    IF NOT skein.keeps_history() THEN
        RETURN NEW;
    END IF;
    NEW.record_time := greatest(OLD.record_time, skein.write_time());
    IF OLD.record_time < NEW.record_time THEN
        EXECUTE 'INSERT INTO ' || TG_ARGV[0] || ' SELECT ($1).*, $2' USING OLD, NEW.record_time;
    END IF;
    RETURN NEW;
END
$$;
REVOKE ALL ON FUNCTION skein.keep_deleted(), skein.keep_updated() FROM PUBLIC;

-- Return whether Citus distributes a table. The extension has its setting once it is loaded, as it always is on Citus.
CREATE FUNCTION skein.is_distributed(relation regclass) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = ''
AS $$
DECLARE
    found_in_catalog boolean := false;
BEGIN
    IF current_setting('citus.version', true) IS NOT NULL THEN
        -- Elsewhere there is no such catalog.
        EXECUTE 'SELECT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = $1)'
        INTO found_in_catalog USING relation;
    END IF;
    RETURN found_in_catalog;
END
$$;
REVOKE ALL ON FUNCTION skein.is_distributed(regclass) FROM PUBLIC;

-- Create the partition of one month, if it is missing, for a table that is partitioned by UUIDv7. It runs as the owner
-- through the functions of each schema, which alone are granted. No role can access a partition directly: row-level
-- security is forced on it and it has no policy. One transaction at a time creates partitions: two of them may wait for
-- each other's locks of the tables that both refer to.
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
    bounds text := format('FOR VALUES FROM (%L) TO (%L)', skein.first_id(starts), skein.first_id(ends));
    -- The extension has this setting once it is loaded, as it always is on Citus.
    is_citus boolean := current_setting('citus.version', true) IS NOT NULL;
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
    IF is_citus THEN
        -- The shards' foreign keys lead to tables that the statement has locked on other connections.
        PERFORM set_config('citus.multi_shard_modify_mode', 'sequential', true);
        -- Citus refuses to attach a table with foreign keys. This locks the parent against reads for a moment.
        EXECUTE format('CREATE TABLE %I.%I PARTITION OF %s %s', schema_name, child, parent, bounds);
    ELSE
        EXECUTE format('CREATE TABLE %I.%I (LIKE %s INCLUDING DEFAULTS INCLUDING CONSTRAINTS)',
                       schema_name, child, parent);
    END IF;
    EXECUTE format('ALTER TABLE %I.%I ENABLE ROW LEVEL SECURITY', schema_name, child);
    EXECUTE format('ALTER TABLE %I.%I FORCE ROW LEVEL SECURITY', schema_name, child);
    IF NOT is_citus THEN
        EXECUTE format('ALTER TABLE %s ATTACH PARTITION %I.%I %s', parent, schema_name, child, bounds);
    END IF;
    RETURN true;
END
$$;
REVOKE ALL ON FUNCTION skein.make_month(regclass, timestamptz) FROM PUBLIC;

-- Keys that sign page tokens; all services share them.
CREATE TABLE skein.page_token_keys (
    key_id uuid DEFAULT gen_random_uuid() CONSTRAINT page_token_keys_pkey PRIMARY KEY,
    -- Two random UUIDs hold 244 random bits.
    secret bytea NOT NULL DEFAULT sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8'))
        CONSTRAINT page_token_keys_secret_length CHECK (octet_length(secret) = 32),
    create_time timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT ON skein.page_token_keys TO skein_auth, skein_tenancy, skein_session, skein_memory, skein_recall;

CREATE TABLE tenancy.organizations (
    organization_id uuid CONSTRAINT organizations_pkey PRIMARY KEY,
    display_name text NOT NULL,
    slug text NOT NULL,
    metadata jsonb,
    is_active boolean NOT NULL DEFAULT true,
    revision bigint NOT NULL DEFAULT 1,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL,
    delete_time timestamptz
);
CREATE UNIQUE INDEX organizations_slug_key ON tenancy.organizations (slug) WHERE is_active;

-- The directory of tenants: a tenant sees itself, the operator's transactions see all.
ALTER TABLE tenancy.organizations ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.organizations FORCE ROW LEVEL SECURITY;
CREATE POLICY operator ON tenancy.organizations USING (current_setting('skein.operator', true) = 'on');

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
    update_time timestamptz NOT NULL,
    -- When the purge of a deleted tenant begins. A deleted organization is purged with its last tenant.
    purge_time timestamptz
);
CREATE UNIQUE INDEX tenants_slug_key ON tenancy.tenants (organization_id, slug) WHERE is_active;
ALTER TABLE tenancy.tenants ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.tenants FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.tenants
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid
           OR current_setting('skein.operator', true) = 'on');

-- A reindex visits all tenants; it reads their ids alone.
GRANT SELECT (tenant_id, is_active) ON tenancy.tenants TO skein_recall;
-- A tenant's history begins when it was created.
GRANT SELECT (tenant_id, create_time) ON tenancy.tenants TO skein_session, skein_memory, skein_recall;

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
    -- A deleted agent keeps its row under a generated id, so that its own id can be used again.
    delete_time timestamptz,
    deleted_agent_id text,
    -- Ids of the messages in the agent's context window. The agent maintains them.
    message_ids text[] NOT NULL DEFAULT '{}',
    -- The row stays until the other services have purged everything of the agent.
    purge_time timestamptz,
    CONSTRAINT agents_pkey PRIMARY KEY (tenant_id, agent_id)
);
CREATE INDEX agents_purged ON tenancy.agents (tenant_id, purge_time) WHERE purge_time IS NOT NULL;
ALTER TABLE tenancy.agents ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.agents FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.agents
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- Rows of an agent in other services are valid while the agent is not deleted.
GRANT SELECT (tenant_id, agent_id, delete_time, purge_time) ON tenancy.agents
    TO skein_auth, skein_session, skein_memory;

-- Spaces of a tenant beside the default one, which has no row.
CREATE TABLE tenancy.spaces (
    tenant_id uuid NOT NULL
        CONSTRAINT spaces_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    space_id uuid NOT NULL,
    display_name text NOT NULL,
    description text,
    revision bigint NOT NULL DEFAULT 1,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL,
    created_by text NOT NULL,
    updated_by text NOT NULL,
    -- Grants show nothing before. NULL: the space was never granted, so nothing lies in it.
    open_time timestamptz,
    -- When a grant ended by a call last; NULL: never.
    grant_end_time timestamptz,
    CONSTRAINT spaces_pkey PRIMARY KEY (tenant_id, space_id),
    CONSTRAINT spaces_name_key UNIQUE (tenant_id, display_name)
);
ALTER TABLE tenancy.spaces ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.spaces FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.spaces
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- Who sees which space beside the default one.
CREATE TABLE tenancy.space_grants (
    tenant_id uuid NOT NULL,
    space_id uuid NOT NULL,
    -- account:<id>, api_key:<id>, service_account:<id>, agent:<id> or client:<id>.
    principal text NOT NULL CONSTRAINT space_grants_principal_length CHECK (char_length(principal) BETWEEN 3 AND 300),
    role text NOT NULL CONSTRAINT space_grants_role_known CHECK (role IN ('reader', 'writer', 'manager')),
    -- NULL: until it is revoked.
    expire_time timestamptz,
    -- The principal may grant the space to others, who may not.
    is_delegable boolean NOT NULL DEFAULT false,
    create_time timestamptz NOT NULL,
    created_by text NOT NULL,
    CONSTRAINT space_grants_pkey PRIMARY KEY (tenant_id, space_id, principal),
    CONSTRAINT space_grants_space_fkey FOREIGN KEY (tenant_id, space_id)
        REFERENCES tenancy.spaces (tenant_id, space_id) ON DELETE CASCADE
);
CREATE INDEX space_grants_of_principal ON tenancy.space_grants (tenant_id, principal, space_id);
ALTER TABLE tenancy.space_grants ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.space_grants FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.space_grants
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- Principals that see granted spaces alone, and not the default one. A row outlives its grants: the end of the last one
-- must not widen what the principal sees.
CREATE TABLE tenancy.space_bindings (
    tenant_id uuid NOT NULL
        CONSTRAINT space_bindings_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    principal text NOT NULL,
    create_time timestamptz NOT NULL,
    created_by text NOT NULL,
    CONSTRAINT space_bindings_pkey PRIMARY KEY (tenant_id, principal)
);
ALTER TABLE tenancy.space_bindings ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.space_bindings FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.space_bindings
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON tenancy.spaces, tenancy.space_grants, tenancy.space_bindings TO skein_tenancy;

-- Responses by request_id, so that a repeated request has one effect.
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

-- No reference to tenants: the requests of operators are stored under the nil tenant.
ALTER TABLE tenancy.requests ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.requests FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.requests
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON
    tenancy.organizations, tenancy.tenants, tenancy.agents, tenancy.requests TO skein_tenancy;

CREATE TABLE tenancy.memberships (
    tenant_id uuid NOT NULL
        CONSTRAINT memberships_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    account_id uuid NOT NULL,
    role text NOT NULL CONSTRAINT memberships_role_known CHECK (role IN ('owner', 'admin', 'member', 'viewer')),
    -- Copies from the time when the account joined, for lists.
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

-- An account sees its own memberships in every tenant; other callers see those of the transaction's tenant.
ALTER TABLE tenancy.memberships ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.memberships FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.memberships
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid
           OR account_id = nullif(current_setting('skein.account_id', true), '')::uuid);
GRANT SELECT (tenant_id, account_id, role) ON tenancy.memberships TO skein_auth, skein_memory;

CREATE TABLE tenancy.invitations (
    tenant_id uuid NOT NULL
        CONSTRAINT invitations_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    invitation_id uuid NOT NULL,
    email text NOT NULL CONSTRAINT invitations_email_lower CHECK (email = lower(email)),
    role text NOT NULL CONSTRAINT invitations_role_known CHECK (role IN ('owner', 'admin', 'member', 'viewer')),
    secret_hash bytea NOT NULL CONSTRAINT invitations_secret_hash_length CHECK (octet_length(secret_hash) = 32),
    -- The token was mailed to the address, so its holder owns the address. Otherwise the inviter has the token.
    mailed boolean NOT NULL DEFAULT false,
    create_time timestamptz NOT NULL,
    expire_time timestamptz NOT NULL,
    created_by text NOT NULL,
    use_time timestamptz,
    revoke_time timestamptz,
    grant_ids uuid[] NOT NULL DEFAULT '{}'
        CONSTRAINT invitations_grant_ids_known CHECK (array_position(grant_ids, NULL) IS NULL),
    CONSTRAINT invitations_pkey PRIMARY KEY (tenant_id, invitation_id)
);
CREATE INDEX invitations_expire_time ON tenancy.invitations (tenant_id, expire_time);
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
    -- Empty: the tenant's.
    timezone text NOT NULL DEFAULT '',
    profile jsonb,
    preferences jsonb,
    account_id uuid,
    revision bigint NOT NULL DEFAULT 1,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL,
    created_by text NOT NULL,
    updated_by text NOT NULL,
    delete_time timestamptz,
    -- The principals that each field has words of: {"profile": ["api_key:…"]}.
    writers jsonb NOT NULL,
    record_time timestamptz NOT NULL DEFAULT skein.write_time(),
    -- Earlier display names: the erasure of a person clears them from recorded queries, however old they are.
    former_names text[] NOT NULL DEFAULT '{}'
        CONSTRAINT subjects_former_names_count CHECK (cardinality(former_names) <= 100)
);
CREATE INDEX subjects_status ON tenancy.subjects (tenant_id, status, subject_id);

-- Made last: of indexes that cost the same in a table without statistics, the planner takes the youngest.
ALTER TABLE tenancy.subjects ADD CONSTRAINT subjects_pkey PRIMARY KEY (tenant_id, subject_id);
ALTER TABLE tenancy.subjects ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.subjects FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.subjects
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

CREATE TABLE tenancy.subjects_history (
    tenant_id uuid NOT NULL
        CONSTRAINT subjects_history_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    subject_id text NOT NULL,
    display_name text NOT NULL,
    status text NOT NULL,
    timezone text NOT NULL,
    profile jsonb,
    preferences jsonb,
    account_id uuid,
    revision bigint NOT NULL,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL,
    created_by text NOT NULL,
    updated_by text NOT NULL,
    delete_time timestamptz,
    writers jsonb NOT NULL,
    record_time timestamptz NOT NULL,
    former_names text[] NOT NULL,
    until_time timestamptz NOT NULL
);
CREATE INDEX subjects_history_subject ON tenancy.subjects_history (tenant_id, subject_id, until_time);
CREATE INDEX subjects_history_until ON tenancy.subjects_history (tenant_id, until_time);
ALTER TABLE tenancy.subjects_history ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.subjects_history FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.subjects_history
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE TRIGGER keep_updated BEFORE UPDATE ON tenancy.subjects
    FOR EACH ROW WHEN (OLD.revision IS DISTINCT FROM NEW.revision)
    EXECUTE FUNCTION skein.keep_updated('tenancy.subjects_history');
CREATE TRIGGER keep_deleted AFTER DELETE ON tenancy.subjects
    REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION skein.keep_deleted('tenancy.subjects_history');

CREATE VIEW as_of.subjects WITH (security_invoker = true) AS
SELECT tenant_id, subject_id, display_name, status, timezone, profile, preferences, account_id, revision, create_time,
    update_time, created_by, updated_by, delete_time, writers, record_time
FROM tenancy.subjects
WHERE record_time <= (SELECT skein.as_of_time())
UNION ALL
SELECT tenant_id, subject_id, display_name, status, timezone, profile, preferences, account_id, revision, create_time,
    update_time, created_by, updated_by, delete_time, writers, record_time
FROM tenancy.subjects_history
WHERE record_time <= (SELECT skein.as_of_time()) AND until_time > (SELECT skein.as_of_time());
GRANT SELECT ON as_of.subjects TO skein_tenancy;

-- The erasure of a person clears the display name, and former ones, from recorded queries.
GRANT SELECT (tenant_id, subject_id, display_name, former_names) ON tenancy.subjects TO skein_memory;
-- Questions about a person are read in the person's time zone, as of a time in that of then.
GRANT SELECT (tenant_id, subject_id, timezone, delete_time) ON tenancy.subjects TO skein_memory, skein_session;
GRANT SELECT (tenant_id, subject_id, timezone, delete_time, record_time) ON tenancy.subjects TO skein_recall;
GRANT SELECT (tenant_id, subject_id, timezone, delete_time, record_time, until_time) ON tenancy.subjects_history
    TO skein_recall;

-- The scalar values of profiles and preferences, one row each. Operators on JSON are not leakproof, so row-level
-- security would keep an index on JSON unused; equality of texts is leakproof.
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
    delete_time timestamptz,
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
        REFERENCES tenancy.agents (tenant_id, agent_id) ON DELETE CASCADE,
    CONSTRAINT agent_tools_tool_fkey FOREIGN KEY (tenant_id, tool_id)
        REFERENCES tenancy.tools (tenant_id, tool_id) ON DELETE CASCADE
);
CREATE INDEX agent_tools_tool ON tenancy.agent_tools (tenant_id, tool_id);
ALTER TABLE tenancy.agent_tools ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.agent_tools FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.agent_tools
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- One row for each tenant that changed its policy. NULL means the default of the code.
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
    update_time timestamptz NOT NULL,
    audit_strict boolean,
    audit_query_text boolean,
    session_idle_minutes integer,
    archive_days integer,
    webhook_max_failures integer,
    capacity_strategic integer,
    capacity_tactical integer,
    capacity_operational integer,
    capacity_contextual integer,
    enforce_level_capacities boolean,
    -- A text search configuration of Postgres.
    search_language text
        CONSTRAINT policies_search_language_known CHECK (search_language IN (
                'simple', 'arabic', 'armenian', 'basque', 'catalan', 'danish', 'dutch', 'english', 'finnish', 'french',
                'german', 'greek', 'hindi', 'hungarian', 'indonesian', 'irish', 'italian', 'lithuanian', 'nepali',
                'norwegian', 'portuguese', 'romanian', 'russian', 'serbian', 'spanish', 'swedish', 'tamil', 'turkish',
                'yiddish')),
    recall_fusion text
        CONSTRAINT policies_recall_fusion_known CHECK (recall_fusion IN ('scores', 'ranks')),
    -- Weights by signal, where they differ from the defaults.
    recall_weights jsonb
        CONSTRAINT policies_recall_weights_object CHECK (jsonb_typeof(recall_weights) = 'object'),
    recall_min_relevance double precision
        CONSTRAINT policies_recall_min_relevance_range CHECK (recall_min_relevance BETWEEN 0 AND 1),
    recall_min_best_relevance double precision
        CONSTRAINT policies_recall_min_best_relevance_range CHECK (recall_min_best_relevance BETWEEN 0 AND 1),
    recall_token_vectors boolean,
    -- Hours from the expiry of a memory to its purge. NULL means the default of the code.
    expiry_grace_hours integer
        CONSTRAINT policies_expiry_grace_hours_range CHECK (expiry_grace_hours BETWEEN 0 AND 8760),
    -- What the content guard does with secrets and personal data in texts that callers write, and kinds that it ignores.
    guard_secrets text
        CONSTRAINT policies_guard_secrets_known
            CHECK (guard_secrets IN ('keep', 'count', 'redact', 'seal', 'refuse')),
    guard_personal_data text
        CONSTRAINT policies_guard_personal_data_known
            CHECK (guard_personal_data IN ('keep', 'count', 'redact', 'refuse')),
    guard_ignored_kinds text[],
    -- Whose memories wait for approval, and for how many days.
    approval text CONSTRAINT policies_approval_known CHECK (approval IN ('none', 'agents', 'all')),
    approval_expiry_days integer
        CONSTRAINT policies_approval_expiry_days_range CHECK (approval_expiry_days BETWEEN 1 AND 3650),
    recall_receipts text
        CONSTRAINT policies_recall_receipts_known CHECK (recall_receipts IN ('off', 'sampled', 'all')),
    -- A name of the IANA time zone database.
    time_zone text CONSTRAINT policies_time_zone_short CHECK (length(time_zone) BETWEEN 1 AND 64),
    -- A model of recall.embedding_models that the tenant wants; NULL: the one that is active in the cluster.
    embedding_model text,
    -- What finds facts in messages, in those of which roles, and after how many messages or seconds of quiet.
    extraction text CONSTRAINT policies_extraction_known CHECK (extraction IN ('off', 'rules')),
    extraction_roles text[],
    extraction_messages integer
        CONSTRAINT policies_extraction_messages_range CHECK (extraction_messages BETWEEN 1 AND 1000),
    extraction_quiet_seconds integer
        CONSTRAINT policies_extraction_quiet_seconds_range CHECK (extraction_quiet_seconds BETWEEN 1 AND 86400),
    record_time timestamptz NOT NULL DEFAULT skein.write_time()
);
ALTER TABLE tenancy.policies ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.policies FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.policies
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
-- Recall looks for the tenants that chose a model.
CREATE INDEX policies_embedding_model ON tenancy.policies (tenant_id) WHERE embedding_model IS NOT NULL;
GRANT SELECT ON tenancy.policies TO skein_session, skein_memory;
GRANT SELECT ON tenancy.policies TO skein_recall;

-- Former policies. A tenant changes its policy and never deletes it.
CREATE TABLE tenancy.policies_history (
    LIKE tenancy.policies,
    until_time timestamptz NOT NULL,
    CONSTRAINT policies_history_tenant_fkey
        FOREIGN KEY (tenant_id) REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE
);
CREATE INDEX policies_history_until ON tenancy.policies_history (tenant_id, until_time);
ALTER TABLE tenancy.policies_history ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.policies_history FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.policies_history
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE TRIGGER keep_updated BEFORE UPDATE ON tenancy.policies
    FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*)
    EXECUTE FUNCTION skein.keep_updated('tenancy.policies_history');
CREATE VIEW as_of.policies WITH (security_invoker = true) AS
SELECT tenant_id, decay_days, max_inferred_edges, min_link_suggestion_score, retention_days, private_mode,
    snapshot_retention, path_max_hops, subgraph_default_radius, importance_formula, memory_types, revision, update_time,
    audit_strict, audit_query_text, session_idle_minutes, archive_days, webhook_max_failures, capacity_strategic,
    capacity_tactical, capacity_operational, capacity_contextual, enforce_level_capacities, search_language,
    recall_fusion, recall_weights, recall_min_relevance, recall_min_best_relevance, recall_token_vectors,
    expiry_grace_hours, guard_secrets, guard_personal_data, guard_ignored_kinds, approval, approval_expiry_days,
    recall_receipts, time_zone, embedding_model, extraction, extraction_roles, extraction_messages,
    extraction_quiet_seconds, record_time
FROM tenancy.policies
WHERE record_time <= (SELECT skein.as_of_time())
UNION ALL
SELECT tenant_id, decay_days, max_inferred_edges, min_link_suggestion_score, retention_days, private_mode,
    snapshot_retention, path_max_hops, subgraph_default_radius, importance_formula, memory_types, revision, update_time,
    audit_strict, audit_query_text, session_idle_minutes, archive_days, webhook_max_failures, capacity_strategic,
    capacity_tactical, capacity_operational, capacity_contextual, enforce_level_capacities, search_language,
    recall_fusion, recall_weights, recall_min_relevance, recall_min_best_relevance, recall_token_vectors,
    expiry_grace_hours, guard_secrets, guard_personal_data, guard_ignored_kinds, approval, approval_expiry_days,
    recall_receipts, time_zone, embedding_model, extraction, extraction_roles, extraction_messages,
    extraction_quiet_seconds, record_time
FROM tenancy.policies_history
WHERE record_time <= (SELECT skein.as_of_time()) AND until_time > (SELECT skein.as_of_time());
GRANT SELECT, INSERT, DELETE ON tenancy.policies_history TO skein_tenancy;
GRANT SELECT ON tenancy.policies_history, as_of.policies TO skein_session, skein_memory, skein_recall;

-- The most rows that a tenant may have, by kind. Each service reads them when it adds rows. A limit of an organization
-- binds its tenants through max_organization_amount, which tenancy updates from the usage of all of them.
CREATE TABLE tenancy.quotas (
    tenant_id uuid NOT NULL
        CONSTRAINT quotas_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    kind text NOT NULL,
    -- NULL: the organization's limit alone applies.
    max_amount bigint CONSTRAINT quotas_max_amount_not_negative CHECK (max_amount >= 0),
    -- What the organization leaves to this tenant; NULL: no limit.
    max_organization_amount bigint
        CONSTRAINT quotas_max_organization_amount_not_negative CHECK (max_organization_amount >= 0),
    -- Revision of all limits of the tenant together; 0: none was set for the tenant itself.
    revision bigint NOT NULL,
    update_time timestamptz NOT NULL,
    CONSTRAINT quotas_pkey PRIMARY KEY (tenant_id, kind)
);
ALTER TABLE tenancy.quotas ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.quotas FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.quotas
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid
           OR current_setting('skein.operator', true) = 'on');
GRANT SELECT ON tenancy.quotas TO skein_auth, skein_session, skein_memory;

CREATE TABLE tenancy.organization_quotas (
    organization_id uuid NOT NULL
        CONSTRAINT organization_quotas_organization_fkey
        REFERENCES tenancy.organizations (organization_id) ON DELETE CASCADE,
    kind text NOT NULL,
    -- NULL: the limit was removed.
    max_amount bigint CONSTRAINT organization_quotas_max_amount_not_negative CHECK (max_amount >= 0),
    revision bigint NOT NULL,
    update_time timestamptz NOT NULL,
    CONSTRAINT organization_quotas_pkey PRIMARY KEY (organization_id, kind)
);
ALTER TABLE tenancy.organization_quotas ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.organization_quotas FORCE ROW LEVEL SECURITY;
CREATE POLICY operator ON tenancy.organization_quotas USING (current_setting('skein.operator', true) = 'on');

-- Usage of a tenant's quota: the sum over a few slots, so that writers do not wait for each other.
CREATE TABLE tenancy.usage (
    tenant_id uuid NOT NULL
        CONSTRAINT usage_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    kind text NOT NULL,
    slot smallint NOT NULL,
    amount bigint NOT NULL,
    -- tenancy.collected_usage includes the amount.
    is_collected boolean NOT NULL DEFAULT false,
    CONSTRAINT usage_pkey PRIMARY KEY (tenant_id, kind, slot)
);
CREATE INDEX usage_uncollected ON tenancy.usage (tenant_id) WHERE NOT is_collected;
ALTER TABLE tenancy.usage ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.usage FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.usage
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid
           OR current_setting('skein.operator', true) = 'on');

-- The usage of tenants when it was last collected, for the sums of their organization.
CREATE TABLE tenancy.collected_usage (
    tenant_id uuid NOT NULL
        CONSTRAINT collected_usage_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    kind text NOT NULL,
    amount bigint NOT NULL,
    collect_time timestamptz NOT NULL,
    -- When a collection found another amount.
    change_time timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT collected_usage_pkey PRIMARY KEY (tenant_id, kind)
);
ALTER TABLE tenancy.collected_usage ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.collected_usage FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.collected_usage
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid
           OR current_setting('skein.operator', true) = 'on');

-- Rate limits: token buckets of tenants (the empty caller) and of their callers, with the calls of the current hour and
-- day. Callers without a tenant are stored under the nil tenant.
CREATE TABLE tenancy.rate_limit_buckets (
    tenant_id uuid NOT NULL,
    caller text NOT NULL,
    -- Tokens before the latest lease, and those that it took.
    tokens double precision NOT NULL,
    leased integer NOT NULL,
    -- When tokens were last refilled.
    refill_time timestamptz NOT NULL,
    -- Start of the current hour and day, and calls admitted since, without those of the latest lease.
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

-- Background work of tenants by kind: its pause, its limits and its progress. The services that do the work take batches
-- from the limits and record the progress; tenancy alone pauses, resumes and limits.
CREATE TABLE tenancy.jobs (
    tenant_id uuid NOT NULL
        CONSTRAINT jobs_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    kind text NOT NULL CONSTRAINT jobs_kind_known CHECK (kind IN (
        'embedding', 'reindex', 'decay', 'consolidation', 'import', 'retention', 'expiry', 'archive', 'session_archive',
        'summaries', 'extraction')),
    pause_time timestamptz,
    paused_by text NOT NULL DEFAULT '',
    -- NULL: no limit.
    items_per_second double precision CONSTRAINT jobs_items_per_second_positive CHECK (items_per_second > 0),
    max_cost_per_day bigint CONSTRAINT jobs_max_cost_per_day_not_negative CHECK (max_cost_per_day >= 0),
    -- The bucket of the rate: tokens at the refill time, negative after a batch that was larger than its grant.
    tokens double precision NOT NULL DEFAULT 0,
    refill_time timestamptz NOT NULL,
    -- Midnight (UTC) of the day whose cost is counted.
    day_time timestamptz NOT NULL,
    day_cost bigint NOT NULL DEFAULT 0 CONSTRAINT jobs_day_cost_not_negative CHECK (day_cost >= 0),
    -- The current run, or the last one.
    run_start_time timestamptz,
    done_count bigint NOT NULL DEFAULT 0 CONSTRAINT jobs_done_count_not_negative CHECK (done_count >= 0),
    -- NULL: unknown.
    remaining_count bigint CONSTRAINT jobs_remaining_count_not_negative CHECK (remaining_count >= 0),
    -- Items per second at the time of the last batch.
    recent_rate double precision NOT NULL DEFAULT 0 CONSTRAINT jobs_recent_rate_not_negative CHECK (recent_rate >= 0),
    last_batch_time timestamptz,
    is_running boolean NOT NULL DEFAULT false,
    CONSTRAINT jobs_pkey PRIMARY KEY (tenant_id, kind),
    CONSTRAINT jobs_pause_has_principal CHECK ((pause_time IS NULL) = (paused_by = ''))
);
ALTER TABLE tenancy.jobs ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.jobs FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenancy.jobs
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
-- An operator who switches the embedding model learns in how many tenants the reindex waits.
CREATE POLICY operator ON tenancy.jobs FOR SELECT TO skein_recall
    USING (current_setting('skein.operator', true) = 'on' AND kind = 'reindex');
GRANT SELECT, INSERT (tenant_id, kind, refill_time, day_time),
    UPDATE (tokens, refill_time, day_time, day_cost, run_start_time, done_count, remaining_count, recent_rate,
            last_batch_time, is_running)
    ON tenancy.jobs TO skein_session, skein_memory, skein_recall;

-- Reports of deletions. They outlive their tenants.
CREATE TABLE tenancy.deletions (
    tenant_id uuid NOT NULL,
    deletion_id uuid NOT NULL,
    organization_id uuid NOT NULL,
    state text NOT NULL CONSTRAINT deletions_state_known CHECK (state IN ('grace', 'purging', 'done', 'cancelled')),
    stage text NOT NULL DEFAULT '',
    -- Rows removed, by table.
    deleted_counts jsonb NOT NULL DEFAULT '{}',
    create_time timestamptz NOT NULL,
    purge_time timestamptz NOT NULL,
    finish_time timestamptz,
    created_by text NOT NULL,
    -- Auth has signed the certificate of the finished deletion.
    is_certified boolean NOT NULL DEFAULT false,
    CONSTRAINT deletions_pkey PRIMARY KEY (tenant_id, deletion_id)
);
CREATE INDEX deletions_due ON tenancy.deletions (purge_time) WHERE state <> 'cancelled' AND NOT is_certified;
ALTER TABLE tenancy.deletions ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenancy.deletions FORCE ROW LEVEL SECURITY;
CREATE POLICY operator ON tenancy.deletions USING (current_setting('skein.operator', true) = 'on');
GRANT SELECT, INSERT, UPDATE, DELETE ON
    tenancy.memberships, tenancy.invitations, tenancy.subjects, tenancy.subjects_history, tenancy.subject_properties,
    tenancy.tools,
    tenancy.agent_tools, tenancy.policies, tenancy.quotas, tenancy.organization_quotas, tenancy.usage,
    tenancy.collected_usage, tenancy.rate_limit_buckets, tenancy.deletions, tenancy.jobs TO skein_tenancy;

CREATE POLICY due ON tenancy.policies FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON tenancy.policies_history FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON tenancy.subjects_history FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON tenancy.agents FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON tenancy.invitations FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON tenancy.requests FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON tenancy.rate_limit_buckets FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');

-- Return tenants after one, by id, in which tenancy has expired rows, purged agents or idle rate limits.
CREATE FUNCTION tenancy.list_expiry_tenants(
    at timestamptz, requested_before timestamptz, idle_since timestamptz, retention_days integer, after uuid,
    size integer
) RETURNS SETOF uuid
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = ''
SET plan_cache_mode = force_custom_plan
AS $$
BEGIN
    RETURN QUERY
        SELECT p.tenant_id FROM tenancy.policies AS p
        WHERE p.tenant_id > after AND p.retention_days IS NOT NULL AND (EXISTS (
            SELECT FROM tenancy.subjects_history AS s
            WHERE s.tenant_id = p.tenant_id AND s.until_time < at - make_interval(days => p.retention_days)
        ) OR EXISTS (
            SELECT FROM tenancy.policies_history AS f
            WHERE f.tenant_id = p.tenant_id AND f.until_time < at - make_interval(days => p.retention_days)))
        UNION
        SELECT h.tenant_id FROM (
            SELECT s.tenant_id, s.until_time FROM tenancy.subjects_history AS s
            UNION ALL
            SELECT f.tenant_id, f.until_time FROM tenancy.policies_history AS f
        ) AS h
        WHERE h.tenant_id > after AND h.until_time < at - make_interval(days => list_expiry_tenants.retention_days)
            AND NOT EXISTS (
                SELECT FROM tenancy.policies AS p WHERE p.tenant_id = h.tenant_id AND p.retention_days IS NOT NULL)
        UNION
        SELECT i.tenant_id FROM tenancy.invitations AS i WHERE i.tenant_id > after AND i.expire_time <= at
        UNION
        SELECT r.tenant_id FROM tenancy.requests AS r WHERE r.tenant_id > after AND r.create_time < requested_before
        UNION
        SELECT b.tenant_id FROM tenancy.rate_limit_buckets AS b WHERE b.tenant_id > after AND b.refill_time < idle_since
        UNION
        SELECT a.tenant_id FROM tenancy.agents AS a WHERE a.tenant_id > after AND a.purge_time IS NOT NULL
        ORDER BY 1
        LIMIT size;
END
$$;

-- Return tenants after one, by id, whose usage changed since it was collected. With them those whose organization has
-- limits, and in it a tenant that changed later than their own collection: it leaves them another remainder.
CREATE FUNCTION tenancy.list_usage_tenants(after uuid, size integer) RETURNS SETOF uuid
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = ''
SET plan_cache_mode = force_custom_plan
AS $$
BEGIN
    RETURN QUERY
        SELECT u.tenant_id FROM auth.usage AS u WHERE u.tenant_id > after AND NOT u.is_collected
        UNION
        SELECT u.tenant_id FROM tenancy.usage AS u WHERE u.tenant_id > after AND NOT u.is_collected
        UNION
        SELECT u.tenant_id FROM session.usage AS u WHERE u.tenant_id > after AND NOT u.is_collected
        UNION
        SELECT u.tenant_id FROM memory.usage AS u WHERE u.tenant_id > after AND NOT u.is_collected
        UNION
        SELECT t.tenant_id FROM tenancy.tenants AS t
        WHERE t.tenant_id > after AND t.is_active AND NOT EXISTS (
            SELECT FROM tenancy.collected_usage AS c WHERE c.tenant_id = t.tenant_id AND c.kind = 'tenants')
        UNION
        SELECT t.tenant_id FROM (
            SELECT o.organization_id, max(greatest(o.update_time, c.change_time)) AS change_time
            FROM tenancy.tenants AS o
            LEFT JOIN tenancy.collected_usage AS c ON c.tenant_id = o.tenant_id
            WHERE o.organization_id IN (
                SELECT q.organization_id FROM tenancy.organization_quotas AS q WHERE q.max_amount IS NOT NULL)
            GROUP BY o.organization_id
        ) AS changed
        JOIN tenancy.tenants AS t ON t.organization_id = changed.organization_id
        JOIN tenancy.collected_usage AS own ON own.tenant_id = t.tenant_id AND own.kind = 'tenants'
        WHERE t.tenant_id > after AND t.is_active AND own.collect_time < changed.change_time
        ORDER BY 1
        LIMIT size;
END
$$;
REVOKE ALL ON FUNCTION
    tenancy.list_expiry_tenants(timestamptz, timestamptz, timestamptz, integer, uuid, integer),
    tenancy.list_usage_tenants(uuid, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    tenancy.list_expiry_tenants(timestamptz, timestamptz, timestamptz, integer, uuid, integer),
    tenancy.list_usage_tenants(uuid, integer) TO skein_tenancy;

INSERT INTO skein.page_token_keys DEFAULT VALUES;
