-- Sessions lie in spaces, with their messages, states, items and cold storage.
SET LOCAL lock_timeout = '5s';

-- No row is rewritten: all of them lie in the default space, which the catalog says of them. The keys are built anew,
-- because an id that is taken in another space is no obstacle, which would tell of it. What belongs to a session
-- refers to the session's space too, so it lies where its session lies.
ALTER TABLE session.sessions ADD COLUMN space_id uuid NOT NULL DEFAULT skein.space_id();
ALTER TABLE session.sessions_history ADD COLUMN space_id uuid NOT NULL DEFAULT skein.space_id();
ALTER TABLE session.messages ADD COLUMN space_id uuid NOT NULL DEFAULT skein.space_id();
ALTER TABLE session.messages_history ADD COLUMN space_id uuid NOT NULL DEFAULT skein.space_id();
ALTER TABLE session.message_order ADD COLUMN space_id uuid NOT NULL DEFAULT skein.space_id();
ALTER TABLE session.message_external_ids ADD COLUMN space_id uuid NOT NULL DEFAULT skein.space_id();
ALTER TABLE session.session_properties ADD COLUMN space_id uuid NOT NULL DEFAULT skein.space_id();
ALTER TABLE session.title_terms ADD COLUMN space_id uuid NOT NULL DEFAULT skein.space_id();
ALTER TABLE session.title_terms_history ADD COLUMN space_id uuid NOT NULL DEFAULT skein.space_id();
ALTER TABLE session.agent_states ADD COLUMN space_id uuid NOT NULL DEFAULT skein.space_id();
ALTER TABLE session.items ADD COLUMN space_id uuid NOT NULL DEFAULT skein.space_id();
ALTER TABLE session.archived_sessions ADD COLUMN space_id uuid NOT NULL DEFAULT skein.space_id();
ALTER TABLE session.archived_messages ADD COLUMN space_id uuid NOT NULL DEFAULT skein.space_id();
ALTER TABLE session.unreferenced_files ADD COLUMN space_id uuid NOT NULL DEFAULT skein.space_id();
ALTER TABLE session.extractions ADD COLUMN space_id uuid NOT NULL DEFAULT skein.space_id();
ALTER TABLE session.extraction_messages ADD COLUMN space_id uuid NOT NULL DEFAULT skein.space_id();
ALTER TABLE session.extraction_backfills ADD COLUMN space_id uuid NOT NULL DEFAULT skein.space_id();
ALTER TABLE session.extraction_failures ADD COLUMN space_id uuid NOT NULL DEFAULT skein.space_id();
-- The space of the session that a response shows; NULL: the request was made in no single one.
ALTER TABLE session.requests ADD COLUMN session_space_id uuid DEFAULT skein.space_id();
-- The spaces that the texts may be of; NULL: the default one. A ledger lies in none of them: it belongs to its maker, and
-- has no content.
ALTER TABLE session.context_ledgers ADD COLUMN space_ids uuid[];

-- Constraints of other tables depend on the keys of sessions and archived sessions, and are made again below.
ALTER TABLE session.sessions DROP CONSTRAINT sessions_pkey CASCADE,
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (tenant_id, session_id, space_id);
ALTER TABLE session.messages ADD CONSTRAINT messages_session_fkey
    FOREIGN KEY (tenant_id, session_id, space_id)
    REFERENCES session.sessions (tenant_id, session_id, space_id) ON DELETE CASCADE;
ALTER TABLE session.message_order DROP CONSTRAINT message_order_pkey,
    ADD CONSTRAINT message_order_pkey PRIMARY KEY (tenant_id, session_id, sequence, space_id),
    ADD CONSTRAINT message_order_session_fkey FOREIGN KEY (tenant_id, session_id, space_id)
        REFERENCES session.sessions (tenant_id, session_id, space_id) ON DELETE CASCADE;
ALTER TABLE session.message_external_ids DROP CONSTRAINT message_external_ids_pkey,
    ADD CONSTRAINT message_external_ids_pkey PRIMARY KEY (tenant_id, external_id, space_id);
ALTER TABLE session.session_properties DROP CONSTRAINT session_properties_pkey,
    ADD CONSTRAINT session_properties_pkey PRIMARY KEY (tenant_id, path, value, session_id, space_id),
    ADD CONSTRAINT session_properties_session_fkey FOREIGN KEY (tenant_id, session_id, space_id)
        REFERENCES session.sessions (tenant_id, session_id, space_id) ON DELETE CASCADE;
ALTER TABLE session.title_terms DROP CONSTRAINT title_terms_pkey,
    ADD CONSTRAINT title_terms_pkey PRIMARY KEY (tenant_id, term, session_id, space_id),
    ADD CONSTRAINT title_terms_session_fkey FOREIGN KEY (tenant_id, session_id, space_id)
        REFERENCES session.sessions (tenant_id, session_id, space_id) ON DELETE CASCADE;
-- States outlive their session, and may belong to none.
ALTER TABLE session.agent_states DROP CONSTRAINT agent_states_pkey,
    ADD CONSTRAINT agent_states_pkey PRIMARY KEY (tenant_id, agent_id, session_id, space_id);
ALTER TABLE session.items DROP CONSTRAINT items_pkey,
    ADD CONSTRAINT items_pkey PRIMARY KEY (tenant_id, session_id, key, space_id),
    ADD CONSTRAINT items_session_fkey FOREIGN KEY (tenant_id, session_id, space_id)
        REFERENCES session.sessions (tenant_id, session_id, space_id) ON DELETE CASCADE;
ALTER TABLE session.archived_sessions DROP CONSTRAINT archived_sessions_pkey CASCADE,
    ADD CONSTRAINT archived_sessions_pkey PRIMARY KEY (tenant_id, session_id, space_id),
    ADD CONSTRAINT archived_sessions_session_fkey FOREIGN KEY (tenant_id, session_id, space_id)
        REFERENCES session.sessions (tenant_id, session_id, space_id) ON DELETE CASCADE;
ALTER TABLE session.archived_messages ADD CONSTRAINT archived_messages_session_fkey
    FOREIGN KEY (tenant_id, session_id, space_id)
    REFERENCES session.archived_sessions (tenant_id, session_id, space_id) ON DELETE CASCADE;
ALTER TABLE session.extractions DROP CONSTRAINT extractions_pkey,
    ADD CONSTRAINT extractions_pkey PRIMARY KEY (tenant_id, session_id, space_id);
ALTER TABLE session.extraction_backfills DROP CONSTRAINT extraction_backfills_pkey,
    ADD CONSTRAINT extraction_backfills_pkey PRIMARY KEY (tenant_id, space_id);

-- Whether anything lies in a space. The sessions of a space have its messages.
CREATE INDEX sessions_space ON session.sessions (tenant_id, space_id)
    WHERE space_id <> '00000000-0000-0000-0000-000000000000';
CREATE INDEX agent_states_space ON session.agent_states (tenant_id, space_id)
    WHERE space_id <> '00000000-0000-0000-0000-000000000000';
GRANT SELECT (tenant_id, space_id) ON session.sessions, session.agent_states TO skein_tenancy;

DO $$
DECLARE
    walled text;
BEGIN
    FOREACH walled IN ARRAY ARRAY[
        'sessions', 'sessions_history', 'messages', 'messages_history', 'message_order', 'message_external_ids',
        'session_properties', 'title_terms', 'title_terms_history', 'agent_states', 'items', 'archived_sessions',
        'archived_messages', 'unreferenced_files', 'extractions', 'extraction_messages', 'extraction_backfills',
        'extraction_failures'
    ] LOOP
        -- What had no column for a space had the default one alone.
        EXECUTE format('DROP POLICY IF EXISTS space ON session.%I', walled);
        EXECUTE format($policy$
            CREATE POLICY space ON session.%I AS RESTRICTIVE
                USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = ''
                            THEN space_id = '00000000-0000-0000-0000-000000000000'
                                 OR current_setting('skein.all_spaces', true) = 'on'
                                 OR current_setting('skein.operator', true) = 'on'
                            ELSE space_id = ANY (current_setting('skein.spaces', true)::uuid[]) END)
            $policy$, walled);
    END LOOP;
END
$$;

-- Former rows keep the space of theirs. until_time stands before the space in the histories, so the triggers name the
-- columns.
CREATE OR REPLACE FUNCTION session.keep_updated() RETURNS trigger
LANGUAGE plpgsql
SET search_path = ''
AS $$
BEGIN
    IF NOT skein.keeps_history() THEN
        RETURN NEW;
    END IF;
    NEW.record_time := greatest(OLD.record_time, skein.write_time());
    IF OLD.record_time < NEW.record_time THEN
        INSERT INTO session.sessions_history
            (tenant_id, session_id, summary, is_active, record_time, until_time, space_id)
        VALUES (OLD.tenant_id, OLD.session_id, OLD.summary, OLD.is_active, OLD.record_time, NEW.record_time, OLD.space_id);
    END IF;
    RETURN NEW;
END
$$;
DROP TRIGGER keep_updated ON session.messages;
CREATE TRIGGER keep_updated BEFORE UPDATE ON session.messages
    FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*)
    EXECUTE FUNCTION skein.keep_updated(
        'session.messages_history (tenant_id, message_id, session_id, sequence, external_id, role, content, name, subject_id, agent_id, parts, tool_calls, tool_call_id, tool_returns, model, step_id, group_id, sender_id, offline_thread_id, metadata, create_time, created_by, is_active, pending_approval, revision, update_time, updated_by, record_time, space_id, until_time)');
DROP TRIGGER keep_deleted ON session.title_terms;
CREATE TRIGGER keep_deleted AFTER DELETE ON session.title_terms REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION skein.keep_deleted(
        'session.title_terms_history (tenant_id, term, session_id, record_time, space_id, until_time)');
