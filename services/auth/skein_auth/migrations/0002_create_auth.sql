-- API keys and signing keys: auth is the only holder of secrets.

CREATE SCHEMA auth;
GRANT USAGE ON SCHEMA auth TO skein_auth;

-- A key's secret is kept as a SHA-256 only: it is random, so nothing slower is needed.
CREATE TABLE auth.api_keys (
    tenant_id uuid NOT NULL
        CONSTRAINT api_keys_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    api_key_id uuid NOT NULL,
    display_name text NOT NULL,
    permissions text[] NOT NULL,
    agent_id text,
    secret_hash bytea NOT NULL CONSTRAINT api_keys_secret_hash_length CHECK (octet_length(secret_hash) = 32),
    create_time timestamptz NOT NULL,
    expire_time timestamptz,
    revoke_time timestamptz,
    created_by text NOT NULL,
    CONSTRAINT api_keys_pkey PRIMARY KEY (tenant_id, api_key_id)
);
ALTER TABLE auth.api_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE auth.api_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON auth.api_keys
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- The operator's keys belong to no tenant.
CREATE TABLE auth.operator_keys (
    api_key_id uuid CONSTRAINT operator_keys_pkey PRIMARY KEY,
    display_name text NOT NULL,
    secret_hash bytea NOT NULL CONSTRAINT operator_keys_secret_hash_length CHECK (octet_length(secret_hash) = 32),
    create_time timestamptz NOT NULL,
    expire_time timestamptz,
    revoke_time timestamptz
);

-- Keys that sign identity tokens. The newest one signs; the others verify until expire_time.
CREATE TABLE auth.signing_keys (
    key_id text CONSTRAINT signing_keys_pkey PRIMARY KEY,
    public_jwk text NOT NULL,
    -- Encrypted under the system key.
    encrypted_private_jwk bytea NOT NULL,
    create_time timestamptz NOT NULL,
    expire_time timestamptz
);
-- One key signs at a time.
CREATE UNIQUE INDEX signing_keys_active_key ON auth.signing_keys ((true)) WHERE expire_time IS NULL;

-- Answers to requests that carry a request_id, so that a repeated one has one effect.
CREATE TABLE auth.requests (
    tenant_id uuid NOT NULL,
    principal text NOT NULL,
    method text NOT NULL,
    request_id text NOT NULL,
    fingerprint bytea NOT NULL,
    response bytea NOT NULL,
    create_time timestamptz NOT NULL,
    CONSTRAINT requests_pkey PRIMARY KEY (tenant_id, principal, method, request_id)
);
CREATE INDEX requests_create_time ON auth.requests (tenant_id, create_time);
-- No reference to tenants: the operator's own requests are kept under the nil tenant.
ALTER TABLE auth.requests ENABLE ROW LEVEL SECURITY;
ALTER TABLE auth.requests FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON auth.requests
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

GRANT SELECT, INSERT, UPDATE, DELETE ON
    auth.api_keys, auth.operator_keys, auth.signing_keys, auth.requests TO skein_auth;
