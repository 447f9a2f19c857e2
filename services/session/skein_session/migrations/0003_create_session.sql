-- Session: sessions, messages, agent states, short-lived items and cold storage of messages.
-- 0001_create_tenancy.sql explains row-level security.

CREATE SCHEMA session;
GRANT USAGE ON SCHEMA session TO skein_session;
GRANT USAGE ON SCHEMA session TO skein_tenancy;

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
    -- Time of the last message, or of the creation or resumption. The idle time counts from it.
    active_time timestamptz NOT NULL DEFAULT now(),
    hide_time timestamptz,
    -- The state that a hidden session returns to.
    hidden_state text
        CONSTRAINT sessions_hidden_state_known CHECK (hidden_state IN ('active', 'paused', 'completed', 'ended')),
    -- Set while the messages are in cold storage.
    archive_time timestamptz,
    -- Messages up to this sequence inherit the session's agent and subject, where they name none of their own. The
    -- worker inherits for the others.
    inherited_sequence bigint NOT NULL DEFAULT 0,
    record_time timestamptz NOT NULL DEFAULT skein.write_time(),
    CONSTRAINT sessions_pkey PRIMARY KEY (tenant_id, session_id),
    CONSTRAINT sessions_hidden_state_set CHECK ((state = 'hidden') = (hidden_state IS NOT NULL)),
    CONSTRAINT sessions_archived_hidden CHECK (archive_time IS NULL OR state = 'hidden')
);
CREATE INDEX sessions_subject ON session.sessions (tenant_id, subject_id, update_time DESC)
    WHERE subject_id IS NOT NULL;
CREATE INDEX sessions_update_time ON session.sessions (tenant_id, update_time DESC, session_id)
    WHERE is_active AND state <> 'hidden';
CREATE INDEX sessions_hidden ON session.sessions (tenant_id, update_time DESC, session_id)
    WHERE is_active AND state = 'hidden';
CREATE INDEX sessions_agent ON session.sessions (tenant_id, agent_id, update_time DESC, session_id)
    WHERE is_active AND agent_id IS NOT NULL;

-- The default type is not selective.
CREATE INDEX sessions_session_type ON session.sessions (tenant_id, session_type, update_time DESC, session_id)
    WHERE is_active AND session_type <> 'conversation';

-- Sessions that end when they are idle for too long.
CREATE INDEX sessions_open ON session.sessions (tenant_id, active_time) WHERE is_active AND state = 'active';

-- All sessions of a subject, deleted ones too, in an order that no update changes: for export and erasure.
CREATE INDEX sessions_of_subject ON session.sessions (tenant_id, subject_id, session_id) WHERE subject_id IS NOT NULL;

-- The sessions that the worker archives next: those hidden for longest.
CREATE INDEX sessions_archivable ON session.sessions (tenant_id, hide_time, session_id)
    WHERE is_active AND state = 'hidden' AND archive_time IS NULL;

-- Archived sessions, newest first.
CREATE INDEX sessions_archived ON session.sessions (tenant_id, archive_time DESC, session_id)
    WHERE is_active AND archive_time IS NOT NULL;
CREATE INDEX sessions_uninherited ON session.sessions (tenant_id, session_id)
    WHERE is_active AND inherited_sequence < last_sequence AND (agent_id IS NOT NULL OR subject_id IS NOT NULL);
ALTER TABLE session.sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.sessions
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY space ON session.sessions AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = '' THEN true
                ELSE '00000000-0000-0000-0000-000000000000' = ANY (current_setting('skein.spaces', true)::uuid[]) END);

-- What a recent window shows of sessions, before a change: the summary, and whether the session was deleted. record_time
-- of a session is when one of the two changed last.
CREATE TABLE session.sessions_history (
    tenant_id uuid NOT NULL
        CONSTRAINT sessions_history_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    session_id text NOT NULL,
    summary text,
    is_active boolean NOT NULL,
    record_time timestamptz NOT NULL,
    until_time timestamptz NOT NULL
);
CREATE INDEX sessions_history_session ON session.sessions_history (tenant_id, session_id, until_time);
ALTER TABLE session.sessions_history ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.sessions_history FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.sessions_history
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY space ON session.sessions_history AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = '' THEN true
                ELSE '00000000-0000-0000-0000-000000000000' = ANY (current_setting('skein.spaces', true)::uuid[]) END);

-- Keep the former summary and state of a session, as skein.keep_updated keeps whole rows.
CREATE FUNCTION session.keep_updated() RETURNS trigger
LANGUAGE plpgsql
SET search_path = ''
AS $$
BEGIN
    IF NOT skein.keeps_history() THEN
        RETURN NEW;
    END IF;
    NEW.record_time := greatest(OLD.record_time, skein.write_time());
    IF OLD.record_time < NEW.record_time THEN
        INSERT INTO session.sessions_history (tenant_id, session_id, summary, is_active, record_time, until_time)
        VALUES (OLD.tenant_id, OLD.session_id, OLD.summary, OLD.is_active, OLD.record_time, NEW.record_time);
    END IF;
    RETURN NEW;
END
$$;
REVOKE ALL ON FUNCTION session.keep_updated() FROM PUBLIC;
CREATE TRIGGER keep_updated BEFORE UPDATE ON session.sessions
    FOR EACH ROW WHEN ((OLD.summary, OLD.is_active) IS DISTINCT FROM (NEW.summary, NEW.is_active))
    EXECUTE FUNCTION session.keep_updated();
CREATE VIEW as_of.sessions WITH (security_invoker = true) AS
SELECT tenant_id, session_id, summary, is_active, record_time
FROM session.sessions
WHERE record_time <= (SELECT skein.as_of_time())
UNION ALL
SELECT tenant_id, session_id, summary, is_active, record_time
FROM session.sessions_history
WHERE record_time <= (SELECT skein.as_of_time()) AND until_time > (SELECT skein.as_of_time());
GRANT SELECT, INSERT, UPDATE (summary), DELETE ON session.sessions_history TO skein_session;
GRANT SELECT ON as_of.sessions TO skein_session;

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
    -- The message waits for approval: it has no document of the search index, and its own session alone shows it.
    pending_approval boolean NOT NULL DEFAULT false,
    -- NULL in update_time and updated_by: the message was never changed.
    revision bigint NOT NULL DEFAULT 1,
    update_time timestamptz,
    updated_by text,
    -- When this version of the message was recorded. Cold storage keeps it.
    record_time timestamptz NOT NULL DEFAULT skein.write_time(),
    CONSTRAINT messages_pkey PRIMARY KEY (tenant_id, message_id),
    CONSTRAINT messages_session_fkey FOREIGN KEY (tenant_id, session_id)
        REFERENCES session.sessions (tenant_id, session_id) ON DELETE CASCADE
) PARTITION BY RANGE (message_id);

-- Rows older than the first month with a partition of its own.
CREATE TABLE session.messages_before_2015 PARTITION OF session.messages
    FOR VALUES FROM (MINVALUE) TO ('014aa2ca-b000-0000-0000-000000000000');
CREATE INDEX messages_session ON session.messages (tenant_id, session_id, sequence);
CREATE INDEX messages_agent ON session.messages (tenant_id, agent_id, message_id) WHERE agent_id IS NOT NULL;
CREATE INDEX messages_subject ON session.messages (tenant_id, subject_id, message_id) WHERE subject_id IS NOT NULL;
CREATE INDEX messages_pending ON session.messages (tenant_id, message_id) WHERE pending_approval;
ALTER TABLE session.messages_before_2015 ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.messages_before_2015 FORCE ROW LEVEL SECURITY;
ALTER TABLE session.messages ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.messages FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.messages
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY space ON session.messages AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = '' THEN true
                ELSE '00000000-0000-0000-0000-000000000000' = ANY (current_setting('skein.spaces', true)::uuid[]) END);

-- Former versions of messages: before an edit, a deletion, or the inheritance of an agent or subject. A row leaves
-- session.messages when it is purged, or when it moves to cold storage, and then no former version is kept: an archived
-- message has no version of any time, and an unarchived one has its versions again.
CREATE TABLE session.messages_history (
    LIKE session.messages,
    until_time timestamptz NOT NULL,
    CONSTRAINT messages_history_tenant_fkey
        FOREIGN KEY (tenant_id) REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE
);
CREATE INDEX messages_history_message ON session.messages_history (tenant_id, message_id, until_time);
CREATE INDEX messages_history_session ON session.messages_history (tenant_id, session_id, sequence);
ALTER TABLE session.messages_history ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.messages_history FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.messages_history
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY space ON session.messages_history AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = '' THEN true
                ELSE '00000000-0000-0000-0000-000000000000' = ANY (current_setting('skein.spaces', true)::uuid[]) END);
CREATE TRIGGER keep_updated BEFORE UPDATE ON session.messages
    FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*)
    EXECUTE FUNCTION skein.keep_updated('session.messages_history');
CREATE VIEW as_of.messages WITH (security_invoker = true) AS
SELECT m.tenant_id, m.message_id, m.session_id, m.sequence, m.external_id, m.role, m.content, m.name, m.subject_id,
       m.agent_id, m.parts, m.tool_calls, m.tool_call_id, m.tool_returns, m.model, m.step_id, m.group_id, m.sender_id,
       m.offline_thread_id, m.metadata, m.create_time, m.created_by, m.is_active, m.pending_approval, m.revision,
       m.update_time, m.updated_by, m.record_time
FROM (
    SELECT tenant_id, message_id, session_id, sequence, external_id, role, content, name, subject_id, agent_id, parts,
           tool_calls, tool_call_id, tool_returns, model, step_id, group_id, sender_id, offline_thread_id, metadata,
           create_time, created_by, is_active, pending_approval, revision, update_time, updated_by, record_time,
           'infinity'::timestamptz AS until_time
    FROM session.messages
    UNION ALL
    SELECT tenant_id, message_id, session_id, sequence, external_id, role, content, name, subject_id, agent_id, parts,
           tool_calls, tool_call_id, tool_returns, model, step_id, group_id, sender_id, offline_thread_id, metadata,
           create_time, created_by, is_active, pending_approval, revision, update_time, updated_by, record_time, until_time
    FROM session.messages_history
) AS m
WHERE m.record_time <= (SELECT skein.as_of_time()) AND m.record_time <> ALL ((SELECT skein.unseen_times())::timestamptz[])
    AND m.until_time > (SELECT skein.first_unseen_time())
    AND (m.until_time > (SELECT skein.as_of_time()) OR m.until_time = ANY ((SELECT skein.unseen_times())::timestamptz[]));
GRANT SELECT, INSERT, DELETE ON session.messages_history TO skein_session;
GRANT SELECT ON session.messages_history TO skein_memory, skein_recall;
GRANT SELECT ON as_of.messages TO skein_session, skein_memory, skein_recall;

-- The sequence number of each message in its session. It is unique over all months, which a partitioned table cannot
-- promise.
CREATE TABLE session.message_order (
    tenant_id uuid NOT NULL,
    session_id text NOT NULL,
    sequence bigint NOT NULL,
    message_id uuid NOT NULL,
    CONSTRAINT message_order_pkey PRIMARY KEY (tenant_id, session_id, sequence),
    CONSTRAINT message_order_session_fkey FOREIGN KEY (tenant_id, session_id)
        REFERENCES session.sessions (tenant_id, session_id) ON DELETE CASCADE
);

-- Messages of a session by age, which differs from their order after an import: for searches back in time.
CREATE INDEX message_order_age ON session.message_order (tenant_id, session_id, message_id);
ALTER TABLE session.message_order ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.message_order FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.message_order
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY space ON session.message_order AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = '' THEN true
                ELSE '00000000-0000-0000-0000-000000000000' = ANY (current_setting('skein.spaces', true)::uuid[]) END);

CREATE TABLE session.message_external_ids (
    tenant_id uuid NOT NULL,
    external_id text NOT NULL,
    message_id uuid NOT NULL,
    CONSTRAINT message_external_ids_pkey PRIMARY KEY (tenant_id, external_id),
    CONSTRAINT message_external_ids_tenant_fkey
            FOREIGN KEY (tenant_id) REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE
);
CREATE INDEX message_external_ids_message ON session.message_external_ids (tenant_id, message_id);
ALTER TABLE session.message_external_ids ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.message_external_ids FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.message_external_ids
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY space ON session.message_external_ids AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = '' THEN true
                ELSE '00000000-0000-0000-0000-000000000000' = ANY (current_setting('skein.spaces', true)::uuid[]) END);

-- Responses by request_id, so that a repeated request has one effect.
CREATE TABLE session.requests (
    tenant_id uuid NOT NULL
        CONSTRAINT requests_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    principal text NOT NULL,
    method text NOT NULL,
    request_id text NOT NULL,
    fingerprint bytea NOT NULL,
    response bytea NOT NULL,
    create_time timestamptz NOT NULL,
    -- The session whose content the response shows, so that a purge of the session finds it.
    session_id text,
    CONSTRAINT requests_pkey PRIMARY KEY (tenant_id, principal, method, request_id)
);
CREATE INDEX requests_create_time ON session.requests (tenant_id, create_time);
CREATE INDEX requests_session ON session.requests (tenant_id, session_id) WHERE session_id IS NOT NULL;
ALTER TABLE session.requests ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.requests FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.requests
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON
    session.sessions, session.messages, session.message_order, session.message_external_ids, session.requests
    TO skein_session;

-- Sessions with messages whose facts are due: found anew, or to be ended. The session '' stands for purged messages.
CREATE TABLE session.extractions (
    tenant_id uuid NOT NULL
        CONSTRAINT extractions_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    session_id text NOT NULL,
    -- Messages that were queued since the last lease.
    waiting_count integer NOT NULL,
    due_time timestamptz NOT NULL,
    -- Until then an extractor has the session; NULL: none has.
    lease_end_time timestamptz,
    CONSTRAINT extractions_pkey PRIMARY KEY (tenant_id, session_id)
);
CREATE INDEX extractions_due ON session.extractions (tenant_id, due_time);
ALTER TABLE session.extractions ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.extractions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.extractions
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY due ON session.extractions FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE TABLE session.extraction_messages (
    tenant_id uuid NOT NULL
        CONSTRAINT extraction_messages_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    message_id uuid NOT NULL,
    session_id text NOT NULL,
    kind text NOT NULL CONSTRAINT extraction_messages_kind_known CHECK (kind IN ('new', 'changed', 'purged')),
    change_time timestamptz NOT NULL,
    CONSTRAINT extraction_messages_pkey PRIMARY KEY (tenant_id, message_id)
);
CREATE INDEX extraction_messages_session ON session.extraction_messages (tenant_id, session_id, message_id);
ALTER TABLE session.extraction_messages ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.extraction_messages FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.extraction_messages
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
-- The revision of a message that an extractor read last, so that a backfill reads it once.
CREATE TABLE session.extracted_messages (
    tenant_id uuid NOT NULL
        CONSTRAINT extracted_messages_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    message_id uuid NOT NULL,
    extractor text NOT NULL,
    revision bigint NOT NULL,
    CONSTRAINT extracted_messages_pkey PRIMARY KEY (tenant_id, message_id)
);
ALTER TABLE session.extracted_messages ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.extracted_messages FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.extracted_messages
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
-- The backfill of a tenant: earlier messages that extractors read, newest first.
CREATE TABLE session.extraction_backfills (
    tenant_id uuid NOT NULL
        CONSTRAINT extraction_backfills_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    -- The range of ids that remains: with the first, without the last.
    first_id uuid NOT NULL,
    before_id uuid NOT NULL,
    -- Messages that it may still read.
    remaining_count integer NOT NULL,
    -- The messages that an extractor has, newest first.
    leased_ids uuid[] NOT NULL,
    -- When the next lease may begin.
    due_time timestamptz NOT NULL,
    create_time timestamptz NOT NULL,
    CONSTRAINT extraction_backfills_pkey PRIMARY KEY (tenant_id)
);
ALTER TABLE session.extraction_backfills ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.extraction_backfills FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.extraction_backfills
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY due ON session.extraction_backfills FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
GRANT SELECT, INSERT, UPDATE, DELETE ON
    session.extractions, session.extraction_messages, session.extracted_messages, session.extraction_backfills
    TO skein_session;

-- Usage of a tenant's quota: the sum over a few slots, so that writers do not wait for each other.
CREATE TABLE session.usage (
    tenant_id uuid NOT NULL
        CONSTRAINT usage_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    kind text NOT NULL,
    slot smallint NOT NULL,
    amount bigint NOT NULL,
    -- tenancy.collected_usage includes the amount.
    is_collected boolean NOT NULL DEFAULT false,
    CONSTRAINT usage_pkey PRIMARY KEY (tenant_id, kind, slot)
);
CREATE INDEX usage_uncollected ON session.usage (tenant_id) WHERE NOT is_collected;
ALTER TABLE session.usage ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.usage FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.usage
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON session.usage TO skein_session;
GRANT SELECT, UPDATE (is_collected) ON session.usage TO skein_tenancy;
CREATE POLICY due ON session.usage FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');

-- The scalar values of sessions' metadata, one row each. Operators on JSON are not leakproof, so row-level security
-- would keep an index on JSON unused; equality of texts is leakproof.
CREATE TABLE session.session_properties (
    tenant_id uuid NOT NULL,
    path text NOT NULL,
    -- JSON text of the scalar, or its SHA-256 ("sha256:...") when it is long.
    value text NOT NULL,
    session_id text NOT NULL,
    CONSTRAINT session_properties_pkey PRIMARY KEY (tenant_id, path, value, session_id),
    CONSTRAINT session_properties_session_fkey FOREIGN KEY (tenant_id, session_id)
        REFERENCES session.sessions (tenant_id, session_id) ON DELETE CASCADE
);
CREATE INDEX session_properties_session ON session.session_properties (tenant_id, session_id);
ALTER TABLE session.session_properties ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.session_properties FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.session_properties
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY space ON session.session_properties AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = '' THEN true
                ELSE '00000000-0000-0000-0000-000000000000' = ANY (current_setting('skein.spaces', true)::uuid[]) END);
GRANT SELECT, INSERT, UPDATE, DELETE ON session.session_properties TO skein_session;

-- The terms of titles that callers gave their sessions. A title that was taken from a message is found by the message.
CREATE TABLE session.title_terms (
    tenant_id uuid NOT NULL,
    term text NOT NULL,
    session_id text NOT NULL,
    record_time timestamptz NOT NULL DEFAULT skein.write_time(),
    CONSTRAINT title_terms_pkey PRIMARY KEY (tenant_id, term, session_id),
    CONSTRAINT title_terms_session_fkey FOREIGN KEY (tenant_id, session_id)
        REFERENCES session.sessions (tenant_id, session_id) ON DELETE CASCADE
);
CREATE INDEX title_terms_session ON session.title_terms (tenant_id, session_id);
ALTER TABLE session.title_terms ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.title_terms FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.title_terms
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY space ON session.title_terms AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = '' THEN true
                ELSE '00000000-0000-0000-0000-000000000000' = ANY (current_setting('skein.spaces', true)::uuid[]) END);
GRANT SELECT, INSERT, DELETE ON session.title_terms TO skein_session;

-- Terms of former titles, and of deleted sessions.
CREATE TABLE session.title_terms_history (
    LIKE session.title_terms,
    until_time timestamptz NOT NULL,
    CONSTRAINT title_terms_history_tenant_fkey
        FOREIGN KEY (tenant_id) REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE
);
CREATE INDEX title_terms_history_term ON session.title_terms_history (tenant_id, term, until_time);
CREATE INDEX title_terms_history_session ON session.title_terms_history (tenant_id, session_id);
ALTER TABLE session.title_terms_history ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.title_terms_history FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.title_terms_history
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY space ON session.title_terms_history AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = '' THEN true
                ELSE '00000000-0000-0000-0000-000000000000' = ANY (current_setting('skein.spaces', true)::uuid[]) END);
CREATE TRIGGER keep_deleted AFTER DELETE ON session.title_terms REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION skein.keep_deleted('session.title_terms_history');
CREATE VIEW as_of.title_terms WITH (security_invoker = true) AS
SELECT t.tenant_id, t.term, t.session_id, t.record_time
FROM (
    SELECT tenant_id, term, session_id, record_time, 'infinity'::timestamptz AS until_time
    FROM session.title_terms
    UNION ALL
    SELECT tenant_id, term, session_id, record_time, until_time
    FROM session.title_terms_history
) AS t
WHERE t.record_time <= (SELECT skein.as_of_time()) AND t.record_time <> ALL ((SELECT skein.unseen_times())::timestamptz[])
    AND t.until_time > (SELECT skein.first_unseen_time())
    AND (t.until_time > (SELECT skein.as_of_time()) OR t.until_time = ANY ((SELECT skein.unseen_times())::timestamptz[]));
GRANT SELECT, INSERT, DELETE ON session.title_terms_history TO skein_session;
GRANT SELECT ON session.title_terms_history TO skein_recall;
GRANT SELECT ON as_of.title_terms TO skein_session, skein_recall;

-- States of agents, in a session or in none. A deleted session keeps its id, so its states stay readable until they
-- expire, are deleted, or are purged with it.
CREATE TABLE session.agent_states (
    tenant_id uuid NOT NULL
        CONSTRAINT agent_states_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    agent_id text NOT NULL CONSTRAINT agent_states_agent_id_length CHECK (char_length(agent_id) BETWEEN 1 AND 255),
    -- Empty: the state belongs to no session.
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
CREATE POLICY space ON session.agent_states AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = '' THEN true
                ELSE '00000000-0000-0000-0000-000000000000' = ANY (current_setting('skein.spaces', true)::uuid[]) END);
GRANT SELECT (tenant_id, agent_id) ON session.agent_states TO skein_tenancy;

-- Short-lived values of sessions by key.
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
CREATE POLICY space ON session.items AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = '' THEN true
                ELSE '00000000-0000-0000-0000-000000000000' = ANY (current_setting('skein.spaces', true)::uuid[]) END);

-- What prompts have of BuildContext: ids, revisions and numbers of items, and no content. A ledger belongs to its maker.
CREATE TABLE session.context_ledgers (
    tenant_id uuid NOT NULL
        CONSTRAINT context_ledgers_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    principal text NOT NULL,
    -- Empty: the principal's credential is bound to no agent.
    agent_id text NOT NULL,
    ledger_id text NOT NULL CONSTRAINT context_ledgers_ledger_id_length CHECK (char_length(ledger_id) BETWEEN 1 AND 255),
    revision bigint NOT NULL,
    -- The session whose recent messages the text has, and the person whom it is for; empty for none.
    session_id text NOT NULL,
    subject_id text NOT NULL,
    -- A skein.session.v1.ContextLedger without what the columns have.
    content bytea NOT NULL CONSTRAINT context_ledgers_content_size CHECK (octet_length(content) <= 1048576),
    create_time timestamptz NOT NULL,
    expire_time timestamptz NOT NULL,
    CONSTRAINT context_ledgers_pkey PRIMARY KEY (tenant_id, principal, agent_id, ledger_id)
);
CREATE INDEX context_ledgers_expire_time ON session.context_ledgers (tenant_id, expire_time);
CREATE INDEX context_ledgers_session ON session.context_ledgers (tenant_id, session_id) WHERE session_id <> '';
CREATE INDEX context_ledgers_subject
    ON session.context_ledgers (tenant_id, subject_id, principal, agent_id, ledger_id) WHERE subject_id <> '';
ALTER TABLE session.context_ledgers ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.context_ledgers FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.context_ledgers
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- The salt of a tenant's tombstones, so that a reader cannot test guesses of purged ids.
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

-- Digests of the ids of purged sessions and of the external ids of purged messages, which cannot be used again.
CREATE TABLE session.tombstones (
    tenant_id uuid NOT NULL
        CONSTRAINT tombstones_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    digest bytea NOT NULL,
    create_time timestamptz NOT NULL,
    CONSTRAINT tombstones_pkey PRIMARY KEY (tenant_id, digest)
);
CREATE INDEX tombstones_create_time ON session.tombstones (tenant_id, create_time);
ALTER TABLE session.tombstones ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.tombstones FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.tombstones
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON
    session.agent_states, session.items, session.context_ledgers, session.tombstone_salts, session.tombstones
    TO skein_session;

CREATE TABLE session.archived_sessions (
    tenant_id uuid NOT NULL,
    session_id text NOT NULL,
    file_id uuid NOT NULL,
    -- SHA-256 of the file.
    checksum bytea NOT NULL,
    byte_count bigint NOT NULL,
    -- Messages in the file that are not deleted. The tenant's usage includes them.
    message_count bigint NOT NULL,
    archive_time timestamptz NOT NULL,
    archived_by text NOT NULL,
    CONSTRAINT archived_sessions_pkey PRIMARY KEY (tenant_id, session_id),
    CONSTRAINT archived_sessions_session_fkey FOREIGN KEY (tenant_id, session_id)
        REFERENCES session.sessions (tenant_id, session_id) ON DELETE CASCADE
);
ALTER TABLE session.archived_sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.archived_sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.archived_sessions
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY space ON session.archived_sessions AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = '' THEN true
                ELSE '00000000-0000-0000-0000-000000000000' = ANY (current_setting('skein.spaces', true)::uuid[]) END);

-- The session whose file holds a message, so that the message can be found and purged. Unarchiving restores only the
-- messages named here.
CREATE TABLE session.archived_messages (
    tenant_id uuid NOT NULL,
    message_id uuid NOT NULL,
    session_id text NOT NULL,
    subject_id text,
    CONSTRAINT archived_messages_pkey PRIMARY KEY (tenant_id, message_id),
    CONSTRAINT archived_messages_session_fkey FOREIGN KEY (tenant_id, session_id)
        REFERENCES session.archived_sessions (tenant_id, session_id) ON DELETE CASCADE
);
CREATE INDEX archived_messages_session ON session.archived_messages (tenant_id, session_id, message_id);
CREATE INDEX archived_messages_subject ON session.archived_messages (tenant_id, subject_id, session_id)
    WHERE subject_id IS NOT NULL;
ALTER TABLE session.archived_messages ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.archived_messages FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.archived_messages
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY space ON session.archived_messages AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = '' THEN true
                ELSE '00000000-0000-0000-0000-000000000000' = ANY (current_setting('skein.spaces', true)::uuid[]) END);

-- Files that no session references, or may reference soon. A file is recorded before it is written, and when its
-- session stops referencing it.
CREATE TABLE session.unreferenced_files (
    tenant_id uuid NOT NULL
        CONSTRAINT unreferenced_files_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    file_id uuid NOT NULL,
    checksum bytea NOT NULL,
    -- The session that may still reference the file; NULL: none, because rows in it were purged or the write was
    -- abandoned.
    session_id text,
    -- After this time no process can still be writing the file.
    due_time timestamptz NOT NULL,
    CONSTRAINT unreferenced_files_pkey PRIMARY KEY (tenant_id, file_id)
);
CREATE INDEX unreferenced_files_due ON session.unreferenced_files (tenant_id, due_time);
CREATE INDEX unreferenced_files_session ON session.unreferenced_files (tenant_id, session_id)
    WHERE session_id IS NOT NULL;
ALTER TABLE session.unreferenced_files ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.unreferenced_files FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.unreferenced_files
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON session.archived_sessions, session.archived_messages, session.unreferenced_files
    TO skein_session;

-- Create a month's partition of messages; return whether it was missing. Months before 2015 share one partition.
CREATE FUNCTION session.ensure_month(month timestamptz) RETURNS boolean
LANGUAGE sql SECURITY DEFINER
SET search_path = ''
RETURN CASE WHEN month < '2015-01-01T00:00:00Z' THEN false ELSE skein.make_month('session.messages', month) END;
REVOKE ALL ON FUNCTION session.ensure_month(timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION session.ensure_month(timestamptz) TO skein_session;

CREATE POLICY due ON session.sessions FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON session.requests FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON session.agent_states FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON session.items FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON session.context_ledgers FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON session.messages FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON session.unreferenced_files FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');

-- Return tenants after one, by id, in which session has expired rows, or sessions that are idle for too long.
CREATE FUNCTION session.list_expiry_tenants(at timestamptz, requested_before timestamptz, after uuid, size integer)
RETURNS SETOF uuid
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = ''
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    idle record;
    found uuid[] := '{}';
BEGIN
    -- One by one, because an index serves no time that is computed from another table.
    FOR idle IN
        SELECT p.tenant_id, p.session_idle_minutes AS minutes FROM tenancy.policies AS p
        WHERE p.tenant_id > after AND p.session_idle_minutes > 0 ORDER BY p.tenant_id
    LOOP
        EXIT WHEN cardinality(found) = size;
        IF EXISTS (
            SELECT FROM session.sessions AS s
            WHERE s.tenant_id = idle.tenant_id AND s.is_active AND s.state = 'active'
                AND s.active_time <= at - make_interval(mins => idle.minutes)
        ) THEN
            found := found || idle.tenant_id;
        END IF;
    END LOOP;
    RETURN QUERY
        SELECT r.tenant_id FROM session.requests AS r WHERE r.tenant_id > after AND r.create_time < requested_before
        UNION
        SELECT a.tenant_id FROM session.agent_states AS a WHERE a.tenant_id > after AND a.expire_time <= at
        UNION
        SELECT i.tenant_id FROM session.items AS i WHERE i.tenant_id > after AND i.expire_time <= at
        UNION
        SELECT c.tenant_id FROM session.context_ledgers AS c WHERE c.tenant_id > after AND c.expire_time <= at
        UNION
        SELECT m.tenant_id
        FROM session.messages AS m
        JOIN tenancy.policies AS p ON p.tenant_id = m.tenant_id
        WHERE m.tenant_id > after AND m.pending_approval AND m.is_active
            AND coalesce(m.update_time, m.create_time) <= at - make_interval(days => coalesce(p.approval_expiry_days, 30))
        UNION
        SELECT unnest(found)
        ORDER BY 1
        LIMIT size;
END
$$;

-- Return tenants after one, by id, with messages that inherit an agent or subject, hidden sessions to archive, or files
-- to delete.
CREATE FUNCTION session.list_lifecycle_tenants(at timestamptz, after uuid, size integer)
RETURNS SETOF uuid
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = ''
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    archiving record;
    found uuid[] := '{}';
BEGIN
    FOR archiving IN
        SELECT p.tenant_id, p.archive_days AS days FROM tenancy.policies AS p
        WHERE p.tenant_id > after AND p.archive_days > 0 ORDER BY p.tenant_id
    LOOP
        EXIT WHEN cardinality(found) = size;
        IF EXISTS (
            SELECT FROM session.sessions AS s
            WHERE s.tenant_id = archiving.tenant_id AND s.is_active AND s.state = 'hidden' AND s.archive_time IS NULL
                AND s.hide_time < at - make_interval(days => archiving.days)
        ) THEN
            found := found || archiving.tenant_id;
        END IF;
    END LOOP;
    RETURN QUERY
        SELECT s.tenant_id FROM session.sessions AS s
        WHERE s.tenant_id > after AND s.is_active AND s.inherited_sequence < s.last_sequence
            AND (s.agent_id IS NOT NULL OR s.subject_id IS NOT NULL)
        UNION
        SELECT f.tenant_id FROM session.unreferenced_files AS f WHERE f.tenant_id > after AND f.due_time <= at
        UNION
        SELECT unnest(found)
        ORDER BY 1
        LIMIT size;
END
$$;

-- Return tenants after one, by id, with sessions whose extraction is due, or with a backfill.
CREATE FUNCTION session.list_extraction_tenants(at timestamptz, after uuid, size integer)
RETURNS SETOF uuid
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = ''
SET plan_cache_mode = force_custom_plan
AS $$
BEGIN
    RETURN QUERY
        SELECT DISTINCT e.tenant_id FROM session.extractions AS e
        WHERE e.tenant_id > after AND e.due_time <= at AND (e.lease_end_time IS NULL OR e.lease_end_time <= at)
        UNION
        SELECT b.tenant_id FROM session.extraction_backfills AS b
        WHERE b.tenant_id > after AND b.due_time <= at
        ORDER BY 1
        LIMIT size;
END
$$;
REVOKE ALL ON FUNCTION
    session.list_extraction_tenants(timestamptz, uuid, integer),
    session.list_expiry_tenants(timestamptz, timestamptz, uuid, integer),
    session.list_lifecycle_tenants(timestamptz, uuid, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    session.list_extraction_tenants(timestamptz, uuid, integer),
    session.list_expiry_tenants(timestamptz, timestamptz, uuid, integer),
    session.list_lifecycle_tenants(timestamptz, uuid, integer) TO skein_session;

SELECT session.ensure_month(now() + make_interval(months => ahead)) FROM generate_series(0, 3) AS ahead;
