-- Conversations complete: archived and idle sessions, sessions by their metadata, messages that are edited.

ALTER TABLE session.sessions
    -- When somebody last spoke, or the session was opened or resumed: what the idle time is counted from. For sessions
    -- that are there already it is counted from now.
    ADD COLUMN active_time timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN hide_time timestamptz,
    -- The state that an archived session goes back to.
    ADD COLUMN hidden_state text
        CONSTRAINT sessions_archived_state_known CHECK (hidden_state IN ('active', 'paused', 'completed', 'ended')),
    ADD CONSTRAINT sessions_hidden_state_known CHECK ((state = 'hidden') = (hidden_state IS NOT NULL));

-- Deleted sessions keep their ids for ever, and archived ones may be most of them: no list steps over either, and each
-- session is in one of the first two.
DROP INDEX session.sessions_update_time;
DROP INDEX session.sessions_agent;
CREATE INDEX sessions_update_time ON session.sessions (tenant_id, update_time DESC, session_id)
    WHERE is_active AND state <> 'hidden';
CREATE INDEX sessions_hidden ON session.sessions (tenant_id, update_time DESC, session_id)
    WHERE is_active AND state = 'hidden';
CREATE INDEX sessions_agent ON session.sessions (tenant_id, agent_id, update_time DESC, session_id)
    WHERE is_active AND agent_id IS NOT NULL;
-- What a type is called says something only when it is not the usual one.
CREATE INDEX sessions_session_type ON session.sessions (tenant_id, session_type, update_time DESC, session_id)
    WHERE is_active AND session_type <> 'conversation';
-- Those that end when they have been idle for long.
CREATE INDEX sessions_open ON session.sessions (tenant_id, active_time) WHERE is_active AND state = 'active';

-- The scalar values of sessions' metadata, one row each: operators on JSON are not leakproof, so under row-level security
-- no index on JSON would be used; equality of texts is.
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
GRANT SELECT, INSERT, UPDATE, DELETE ON session.session_properties TO skein_session;

-- Until it is edited a message was last changed when it was written, by who wrote it.
ALTER TABLE session.messages
    ADD COLUMN revision bigint NOT NULL DEFAULT 1,
    ADD COLUMN update_time timestamptz,
    ADD COLUMN updated_by text;
CREATE INDEX messages_subject ON session.messages (tenant_id, subject_id, message_id) WHERE subject_id IS NOT NULL;

-- A session's messages by their age, which is not their order where old ones were imported: for searches that go back.
CREATE INDEX message_order_age ON session.message_order (tenant_id, session_id, message_id);

-- Sessions that are there already become findable by what they say: tenant by tenant, as row-level security binds the
-- owner too. A number that is no whole one may be written in another way than the service writes it, until its session
-- is changed.
DO $$
DECLARE
    tenant uuid;
BEGIN
    PERFORM set_config('skein.operator', 'on', true);
    FOR tenant IN SELECT tenant_id FROM tenancy.tenants LOOP
        PERFORM set_config('skein.tenant_id', tenant::text, true);
        INSERT INTO session.session_properties (tenant_id, path, value, session_id)
        WITH RECURSIVE leaves (session_id, path, value) AS (
            SELECT session_id, 'metadata', metadata FROM session.sessions
            WHERE tenant_id = tenant AND is_active AND metadata IS NOT NULL
            UNION ALL
            SELECT leaves.session_id, below.path, below.value
            FROM leaves, LATERAL (
                SELECT leaves.path || '.' || member.key AS path, member.value
                FROM jsonb_each(CASE jsonb_typeof(leaves.value) WHEN 'object' THEN leaves.value ELSE '{}' END) AS member
                WHERE member.key <> '' AND strpos(member.key, '.') = 0
                UNION ALL
                SELECT leaves.path, element.value
                FROM jsonb_array_elements(
                    CASE jsonb_typeof(leaves.value) WHEN 'array' THEN leaves.value ELSE '[]' END) AS element
            ) AS below
        ), texts AS (
            SELECT session_id, path,
                CASE WHEN jsonb_typeof(value) = 'number' AND value::numeric = trunc(value::numeric)
                    THEN trunc(value::numeric)::text ELSE value::text END AS value
            FROM leaves
            WHERE jsonb_typeof(value) IN ('string', 'number', 'boolean') AND char_length(path) <= 500
        )
        SELECT DISTINCT tenant,
            CASE WHEN octet_length(path) > 1000
                THEN 'sha256:' || encode(sha256(convert_to(path, 'UTF8')), 'hex') ELSE path END,
            CASE WHEN octet_length(value) > 256
                THEN 'sha256:' || encode(sha256(convert_to(value, 'UTF8')), 'hex') ELSE value END,
            session_id
        FROM texts;
    END LOOP;
    PERFORM set_config('skein.tenant_id', '', true), set_config('skein.operator', '', true);
END $$;
