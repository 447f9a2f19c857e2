-- Sessions and messages: the transcript, each turn once.

CREATE SCHEMA session;
GRANT USAGE ON SCHEMA session TO skein_session;

CREATE TABLE session.sessions (
    tenant_id uuid NOT NULL
        CONSTRAINT sessions_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    session_id text NOT NULL CONSTRAINT sessions_session_id_length CHECK (char_length(session_id) BETWEEN 1 AND 255),
    title text,
    state text NOT NULL
        CONSTRAINT sessions_state_known CHECK (state IN ('active', 'paused', 'completed', 'ended', 'hidden')),
    session_type text NOT NULL,
    subject_id text,
    agent_id text,
    metadata jsonb,
    summary text,
    end_reason text,
    message_count bigint NOT NULL DEFAULT 0 CONSTRAINT sessions_message_count_natural CHECK (message_count >= 0),
    last_sequence bigint NOT NULL DEFAULT 0,
    revision bigint NOT NULL DEFAULT 1,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL,
    end_time timestamptz,
    created_by text NOT NULL,
    is_active boolean NOT NULL DEFAULT true,
    CONSTRAINT sessions_pkey PRIMARY KEY (tenant_id, session_id)
);
CREATE INDEX sessions_update_time ON session.sessions (tenant_id, update_time DESC, session_id);
CREATE INDEX sessions_subject ON session.sessions (tenant_id, subject_id, update_time DESC) WHERE subject_id IS NOT NULL;
CREATE INDEX sessions_agent ON session.sessions (tenant_id, agent_id, update_time DESC) WHERE agent_id IS NOT NULL;

-- Partitioned by month of the UUIDv7 message_id.
CREATE TABLE session.messages (
    tenant_id uuid NOT NULL
        CONSTRAINT messages_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    message_id uuid NOT NULL,
    session_id text NOT NULL,
    sequence bigint NOT NULL,
    external_id text,
    role text NOT NULL CONSTRAINT messages_role_known CHECK (role IN ('user', 'assistant', 'system', 'tool')),
    content text NOT NULL,
    name text,
    subject_id text,
    agent_id text,
    parts jsonb,
    tool_calls jsonb,
    tool_call_id text,
    tool_returns jsonb,
    model text,
    step_id text,
    group_id text,
    sender_id text,
    offline_thread_id text,
    metadata jsonb,
    create_time timestamptz NOT NULL,
    created_by text NOT NULL,
    is_active boolean NOT NULL DEFAULT true,
    CONSTRAINT messages_pkey PRIMARY KEY (tenant_id, message_id),
    CONSTRAINT messages_session_fkey FOREIGN KEY (tenant_id, session_id)
        REFERENCES session.sessions (tenant_id, session_id) ON DELETE CASCADE
) PARTITION BY RANGE (message_id);
CREATE INDEX messages_session ON session.messages (tenant_id, session_id, sequence);
CREATE INDEX messages_agent ON session.messages (tenant_id, agent_id, message_id) WHERE agent_id IS NOT NULL;

-- What is older than the first month that gets a partition of its own.
CREATE TABLE session.messages_before_2015 PARTITION OF session.messages
    FOR VALUES FROM (MINVALUE) TO ('014aa2ca-b000-0000-0000-000000000000');
ALTER TABLE session.messages_before_2015 ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.messages_before_2015 FORCE ROW LEVEL SECURITY;

-- The place of each message in its session. It is unique over all months, which a partitioned table cannot promise.
CREATE TABLE session.message_order (
    tenant_id uuid NOT NULL,
    session_id text NOT NULL,
    sequence bigint NOT NULL,
    message_id uuid NOT NULL,
    CONSTRAINT message_order_pkey PRIMARY KEY (tenant_id, session_id, sequence),
    CONSTRAINT message_order_session_fkey FOREIGN KEY (tenant_id, session_id)
        REFERENCES session.sessions (tenant_id, session_id) ON DELETE CASCADE
);

CREATE TABLE session.message_external_ids (
    tenant_id uuid NOT NULL,
    external_id text NOT NULL,
    message_id uuid NOT NULL,
    CONSTRAINT message_external_ids_pkey PRIMARY KEY (tenant_id, external_id),
    CONSTRAINT message_external_ids_message_fkey FOREIGN KEY (tenant_id, message_id)
        REFERENCES session.messages (tenant_id, message_id) ON DELETE CASCADE
);
CREATE INDEX message_external_ids_message ON session.message_external_ids (tenant_id, message_id);

-- Answers to requests that carry a request_id, so that a repeated one has one effect.
CREATE TABLE session.requests (
    tenant_id uuid NOT NULL
        CONSTRAINT requests_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    principal text NOT NULL,
    method text NOT NULL,
    request_id text NOT NULL,
    fingerprint bytea NOT NULL,
    response bytea NOT NULL,
    create_time timestamptz NOT NULL,
    CONSTRAINT requests_pkey PRIMARY KEY (tenant_id, principal, method, request_id)
);
CREATE INDEX requests_create_time ON session.requests (tenant_id, create_time);
ALTER TABLE session.sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.sessions
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE session.messages ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.messages FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.messages
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE session.message_order ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.message_order FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.message_order
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE session.message_external_ids ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.message_external_ids FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.message_external_ids
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE session.requests ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.requests FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.requests
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

GRANT SELECT, INSERT, UPDATE, DELETE ON
    session.sessions, session.messages, session.message_order, session.message_external_ids, session.requests
    TO skein_session;

-- Make a month's partition of messages; true when it was missing. Months before 2015 share one partition.
CREATE FUNCTION session.ensure_month(month timestamptz) RETURNS boolean
LANGUAGE sql SECURITY DEFINER
SET search_path = ''
RETURN CASE WHEN month < '2015-01-01T00:00:00Z' THEN false ELSE skein.make_month('session.messages', month) END;
REVOKE ALL ON FUNCTION session.ensure_month(timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION session.ensure_month(timestamptz) TO skein_session;

SELECT session.ensure_month(now() + make_interval(months => ahead)) FROM generate_series(0, 3) AS ahead;
