-- Sign-ins, the OAuth grants among them, and the clients that ask for grants.

-- Applications. Those that registered keep their row; a client-id metadata document is a row that is fetched anew.
CREATE TABLE auth.clients (
    client_id text CONSTRAINT clients_pkey PRIMARY KEY,
    source text NOT NULL CONSTRAINT clients_source_known CHECK (source IN ('registered', 'document')),
    client_name text NOT NULL,
    redirect_uris text[] NOT NULL,
    grant_types text[] NOT NULL,
    response_types text[] NOT NULL,
    token_endpoint_auth_method text NOT NULL
        CONSTRAINT clients_method_known
        CHECK (token_endpoint_auth_method IN ('none', 'client_secret_basic', 'client_secret_post')),
    scope text NOT NULL,
    client_uri text NOT NULL DEFAULT '',
    logo_uri text NOT NULL DEFAULT '',
    tos_uri text NOT NULL DEFAULT '',
    policy_uri text NOT NULL DEFAULT '',
    contacts text[] NOT NULL DEFAULT '{}',
    software_id text NOT NULL DEFAULT '',
    software_version text NOT NULL DEFAULT '',
    secret_hash bytea CONSTRAINT clients_secret_hash_length CHECK (octet_length(secret_hash) = 32),
    secret_expire_time timestamptz,
    registration_hash bytea CONSTRAINT clients_registration_hash_length CHECK (octet_length(registration_hash) = 32),
    -- Of a document: when it is fetched again.
    stale_time timestamptz,
    -- What anybody granted it before this is over: nobody sees all of an application's sign-ins at once.
    revoke_time timestamptz,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL,
    CONSTRAINT clients_secret_fits_method CHECK ((token_endpoint_auth_method = 'none') = (secret_hash IS NULL))
);

-- A sign-in of an account: its own, in no tenant (the nil tenant), or an application's grant in one. What is revoked,
-- and what refresh tokens descend from.
CREATE TABLE auth.auth_sessions (
    tenant_id uuid NOT NULL,
    auth_session_id uuid NOT NULL,
    account_id uuid NOT NULL
        CONSTRAINT auth_sessions_account_fkey REFERENCES auth.accounts (account_id) ON DELETE CASCADE,
    -- NULL: the account's own.
    client_id text CONSTRAINT auth_sessions_client_fkey REFERENCES auth.clients (client_id) ON DELETE CASCADE,
    -- What was granted: permissions and scopes of OpenID Connect.
    scopes text[] NOT NULL,
    resources text[] NOT NULL,
    nonce text NOT NULL DEFAULT '',
    address text NOT NULL DEFAULT '',
    user_agent text NOT NULL DEFAULT '',
    -- When the person proved who they are.
    auth_time timestamptz NOT NULL,
    create_time timestamptz NOT NULL,
    use_time timestamptz NOT NULL,
    -- No token of it lives longer.
    expire_time timestamptz NOT NULL,
    revoke_time timestamptz,
    revoke_reason text,
    CONSTRAINT auth_sessions_pkey PRIMARY KEY (tenant_id, auth_session_id),
    CONSTRAINT auth_sessions_tenant_is_the_application_s CHECK
        (client_id IS NOT NULL OR tenant_id = '00000000-0000-0000-0000-000000000000')
);
CREATE INDEX auth_sessions_account ON auth.auth_sessions (account_id, auth_session_id);
CREATE INDEX auth_sessions_client ON auth.auth_sessions (client_id) WHERE client_id IS NOT NULL;
CREATE INDEX auth_sessions_expire_time ON auth.auth_sessions (tenant_id, expire_time);
CREATE INDEX auth_sessions_revoke_time ON auth.auth_sessions (tenant_id, revoke_time) WHERE revoke_time IS NOT NULL;

-- At most one code leads to a sign-in, and it works once.
CREATE TABLE auth.authorization_codes (
    tenant_id uuid NOT NULL,
    code_id uuid NOT NULL,
    auth_session_id uuid NOT NULL,
    secret_hash bytea NOT NULL CONSTRAINT authorization_codes_secret_hash_length CHECK (octet_length(secret_hash) = 32),
    redirect_uri text NOT NULL,
    code_challenge text NOT NULL,
    create_time timestamptz NOT NULL,
    expire_time timestamptz NOT NULL,
    use_time timestamptz,
    CONSTRAINT authorization_codes_pkey PRIMARY KEY (tenant_id, code_id),
    CONSTRAINT authorization_codes_auth_session_key UNIQUE (tenant_id, auth_session_id),
    CONSTRAINT authorization_codes_auth_session_fkey FOREIGN KEY (tenant_id, auth_session_id)
        REFERENCES auth.auth_sessions (tenant_id, auth_session_id) ON DELETE CASCADE
);

-- Each token is replaced by the next one; of a sign-in only the last one lives.
CREATE TABLE auth.refresh_tokens (
    tenant_id uuid NOT NULL,
    refresh_token_id uuid NOT NULL,
    auth_session_id uuid NOT NULL,
    secret_hash bytea NOT NULL CONSTRAINT refresh_tokens_secret_hash_length CHECK (octet_length(secret_hash) = 32),
    create_time timestamptz NOT NULL,
    expire_time timestamptz NOT NULL,
    replace_time timestamptz,
    replaced_by uuid,
    CONSTRAINT refresh_tokens_pkey PRIMARY KEY (tenant_id, refresh_token_id),
    CONSTRAINT refresh_tokens_auth_session_fkey FOREIGN KEY (tenant_id, auth_session_id)
        REFERENCES auth.auth_sessions (tenant_id, auth_session_id) ON DELETE CASCADE,
    CONSTRAINT refresh_tokens_replaced CHECK ((replace_time IS NULL) = (replaced_by IS NULL))
);
-- No sequence of events leaves two live descendants: the database itself refuses the second.
CREATE UNIQUE INDEX refresh_tokens_live_key ON auth.refresh_tokens (tenant_id, auth_session_id) WHERE replace_time IS NULL;

-- A person sees their own sign-ins in every tenant; everybody else those of the tenant at hand.
ALTER TABLE auth.auth_sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE auth.auth_sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON auth.auth_sessions
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid
           OR account_id = nullif(current_setting('skein.account_id', true), '')::uuid);
ALTER TABLE auth.authorization_codes ENABLE ROW LEVEL SECURITY;
ALTER TABLE auth.authorization_codes FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON auth.authorization_codes
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE auth.refresh_tokens ENABLE ROW LEVEL SECURITY;
ALTER TABLE auth.refresh_tokens FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON auth.refresh_tokens
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- Devices that wait for a person's answer. Not a tenant's table: until the answer nobody knows which tenant it will be.
CREATE TABLE auth.device_codes (
    device_code_id uuid CONSTRAINT device_codes_pkey PRIMARY KEY,
    secret_hash bytea NOT NULL CONSTRAINT device_codes_secret_hash_length CHECK (octet_length(secret_hash) = 32),
    -- Letters only, without the hyphen.
    user_code text NOT NULL CONSTRAINT device_codes_user_code_key UNIQUE,
    client_id text NOT NULL
        CONSTRAINT device_codes_client_fkey REFERENCES auth.clients (client_id) ON DELETE CASCADE,
    scopes text[] NOT NULL,
    resources text[] NOT NULL,
    state text NOT NULL
        CONSTRAINT device_codes_state_known CHECK (state IN ('pending', 'approved', 'denied', 'used')),
    interval_seconds integer NOT NULL,
    poll_time timestamptz,
    create_time timestamptz NOT NULL,
    expire_time timestamptz NOT NULL,
    -- The sign-in that the answer made.
    approved_tenant_id uuid,
    approved_auth_session_id uuid,
    CONSTRAINT device_codes_approved CHECK
        ((state IN ('approved', 'used')) = (approved_tenant_id IS NOT NULL AND approved_auth_session_id IS NOT NULL))
);
CREATE INDEX device_codes_expire_time ON auth.device_codes (expire_time);
CREATE INDEX device_codes_client ON auth.device_codes (client_id);

GRANT SELECT, INSERT, UPDATE, DELETE ON
    auth.clients, auth.auth_sessions, auth.authorization_codes, auth.refresh_tokens, auth.device_codes TO skein_auth;
