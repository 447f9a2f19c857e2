-- Agent states and short-term items, and what a purge leaves behind.

-- What an agent keeps in mind, in a session or in none. A session that is deleted keeps its id, so its states stay whole
-- and readable until they expire, are deleted, or are purged with it.
CREATE TABLE session.agent_states (
    tenant_id uuid NOT NULL
        CONSTRAINT agent_states_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    agent_id text NOT NULL CONSTRAINT agent_states_agent_id_length CHECK (char_length(agent_id) BETWEEN 1 AND 255),
    -- Empty: the agent's own, in no session.
    session_id text NOT NULL CONSTRAINT agent_states_session_id_length CHECK (char_length(session_id) <= 255),
    state_data jsonb NOT NULL CONSTRAINT agent_states_data_object CHECK (jsonb_typeof(state_data) = 'object'),
    revision bigint NOT NULL,
    expire_time timestamptz,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL,
    created_by text NOT NULL,
    updated_by text NOT NULL,
    CONSTRAINT agent_states_pkey PRIMARY KEY (tenant_id, agent_id, session_id)
);
CREATE INDEX agent_states_session ON session.agent_states (tenant_id, session_id, agent_id) WHERE session_id <> '';
CREATE INDEX agent_states_expire_time ON session.agent_states (tenant_id, expire_time) WHERE expire_time IS NOT NULL;
ALTER TABLE session.agent_states ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.agent_states FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.agent_states
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- Short-term items: values by key, each in a session and for a limited time.
CREATE TABLE session.items (
    tenant_id uuid NOT NULL,
    session_id text NOT NULL,
    key text NOT NULL CONSTRAINT items_key_length CHECK (char_length(key) BETWEEN 1 AND 255),
    value jsonb NOT NULL,
    expire_time timestamptz NOT NULL,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL,
    created_by text NOT NULL,
    CONSTRAINT items_pkey PRIMARY KEY (tenant_id, session_id, key),
    CONSTRAINT items_session_fkey FOREIGN KEY (tenant_id, session_id)
        REFERENCES session.sessions (tenant_id, session_id) ON DELETE CASCADE
);
CREATE INDEX items_expire_time ON session.items (tenant_id, expire_time);
ALTER TABLE session.items ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.items FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.items
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- What a tenant's tombstones are salted with, so that they say nothing to whoever guesses at what was purged.
CREATE TABLE session.tombstone_salts (
    tenant_id uuid NOT NULL
        CONSTRAINT tombstone_salts_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    salt bytea NOT NULL,
    CONSTRAINT tombstone_salts_pkey PRIMARY KEY (tenant_id)
);
ALTER TABLE session.tombstone_salts ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.tombstone_salts FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.tombstone_salts
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- Digests of the ids of purged sessions and of the external ids of purged messages: nothing takes their place.
CREATE TABLE session.tombstones (
    tenant_id uuid NOT NULL
        CONSTRAINT tombstones_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    digest bytea NOT NULL,
    create_time timestamptz NOT NULL,
    CONSTRAINT tombstones_pkey PRIMARY KEY (tenant_id, digest)
);
ALTER TABLE session.tombstones ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.tombstones FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.tombstones
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

GRANT SELECT, INSERT, UPDATE, DELETE ON
    session.agent_states, session.items, session.tombstone_salts, session.tombstones
    TO skein_session;

-- The session that a stored answer shows something of, so that a purge of the session finds the answer. Answers are kept
-- for a day: those that are there already are over by the time anybody can rely on it.
ALTER TABLE session.requests ADD COLUMN session_id text;
CREATE INDEX requests_session ON session.requests (tenant_id, session_id) WHERE session_id IS NOT NULL;

-- A person's sessions in an order that no update changes, deleted ones too: for export and erasure.
CREATE INDEX sessions_of_subject ON session.sessions (tenant_id, subject_id, session_id) WHERE subject_id IS NOT NULL;
