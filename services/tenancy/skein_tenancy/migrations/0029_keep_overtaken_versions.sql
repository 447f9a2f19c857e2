-- A call that arrived first and waited for a row keeps the version that a later call committed meanwhile: it was readable.
-- What the call writes from then on is recorded a microsecond after that version.
SET LOCAL lock_timeout = '5s';

-- Of a statement's deleted rows, named `gone`, keep the former versions. A row that was recorded at the call's time is the
-- call's own and is not kept, unless another row moved that time on since: then the state between is kept. The argument is the history, with its schema and, where needed, its columns.
CREATE OR REPLACE FUNCTION skein.keep_deleted() RETURNS trigger
LANGUAGE plpgsql
SET search_path = ''
AS $$
BEGIN
    IF skein.keeps_history() THEN
        PERFORM set_config('skein.write_time', (max(gone.record_time) + interval '1 microsecond')::text, true) FROM gone
        HAVING max(gone.record_time) > skein.write_time();
        EXECUTE 'INSERT INTO ' || TG_ARGV[0] || ' SELECT gone.*, skein.write_time() FROM gone'
            ' WHERE gone.record_time < skein.write_time()';
    END IF;
    RETURN NULL;
END
$$;

-- Keep the former version of a row before its update, and set when the new one was recorded. A second update at the same
-- time keeps nothing. The argument is the history, with its schema and, where needed, its columns.
CREATE OR REPLACE FUNCTION skein.keep_updated() RETURNS trigger
LANGUAGE plpgsql
SET search_path = ''
AS $$
BEGIN
    IF NOT skein.keeps_history() THEN
        RETURN NEW;
    END IF;
    IF OLD.record_time > skein.write_time() THEN
        PERFORM set_config('skein.write_time', (OLD.record_time + interval '1 microsecond')::text, true);
    END IF;
    NEW.record_time := skein.write_time();
    IF OLD.record_time < NEW.record_time THEN
        EXECUTE 'INSERT INTO ' || TG_ARGV[0] || ' SELECT ($1).*, $2' USING OLD, NEW.record_time;
    END IF;
    RETURN NEW;
END
$$;

-- The same for the former summary and state of a session.
CREATE OR REPLACE FUNCTION session.keep_updated() RETURNS trigger
LANGUAGE plpgsql
SET search_path = ''
AS $$
BEGIN
    IF NOT skein.keeps_history() THEN
        RETURN NEW;
    END IF;
    IF OLD.record_time > skein.write_time() THEN
        PERFORM set_config('skein.write_time', (OLD.record_time + interval '1 microsecond')::text, true);
    END IF;
    NEW.record_time := skein.write_time();
    IF OLD.record_time < NEW.record_time THEN
        INSERT INTO session.sessions_history
            (tenant_id, session_id, summary, is_active, record_time, until_time, space_id)
        VALUES (OLD.tenant_id, OLD.session_id, OLD.summary, OLD.is_active, OLD.record_time, NEW.record_time, OLD.space_id);
    END IF;
    RETURN NEW;
END
$$;
