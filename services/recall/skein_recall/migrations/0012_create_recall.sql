-- Recall: the search index (documents, postings, vectors) and the registry of embedding models.

CREATE SCHEMA recall;
GRANT USAGE ON SCHEMA recall TO skein_recall, skein_memory, skein_session;
-- Tenancy checks the model that a policy names.
GRANT USAGE ON SCHEMA recall TO skein_tenancy;

CREATE TABLE recall.documents (
    tenant_id uuid NOT NULL
        CONSTRAINT documents_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    -- memory_id or message_id: a UUIDv7, so a range of time is a range of ids.
    item_id uuid NOT NULL,
    kind text NOT NULL CONSTRAINT documents_kind_known CHECK (kind IN ('memory', 'message')),
    -- Columns of filters. Messages have no type, scope, source, key and importance.
    type text,
    scope text,
    source text,
    key text,
    importance double precision,
    agent_id text,
    subject_id text,
    session_id text,
    -- Of messages: their role, and the name of their speaker. A memory's speaker is its subject, where that precedes the
    -- embedded text.
    role text,
    speaker text,
    expire_time timestamptz,
    -- Number of terms of the text, with repetitions: the document length of BM25.
    length integer NOT NULL,
    -- The item's revision that the postings belong to.
    revision bigint NOT NULL,
    -- The vectors of the active model are not computed yet.
    pending boolean NOT NULL DEFAULT true,
    -- The text ends with a question; the text mentions a time.
    is_question boolean NOT NULL DEFAULT false,
    mentions_time boolean NOT NULL DEFAULT false,
    -- corpora and frequencies include the document.
    is_counted boolean NOT NULL DEFAULT false,
    -- The rule by which its texts became terms. A reindex renews what another version wrote.
    words_version smallint NOT NULL DEFAULT 0,
    -- The transaction that wrote the columns and postings that a search measures.
    transaction bigint DEFAULT (pg_current_xact_id()::text::bigint + skein.transaction_base()),
    -- When it stopped to be pending; NULL while it is, and where it never was.
    embed_time timestamptz,
    -- The transaction that inserted the row.
    insert_transaction bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint + skein.transaction_base()),
    record_time timestamptz NOT NULL DEFAULT skein.write_time(),
    -- That of the item, today.
    space_id uuid NOT NULL DEFAULT skein.space_id(),
    CONSTRAINT documents_pkey PRIMARY KEY (tenant_id, item_id)
);
-- The condition is always true. It keeps the planner from reading a tenant by this index where it has no statistics yet.
CREATE INDEX documents_record_time ON recall.documents (tenant_id, record_time) WHERE record_time IS NOT NULL;
CREATE INDEX documents_type ON recall.documents (tenant_id, type, item_id) WHERE type IS NOT NULL;
CREATE INDEX documents_session ON recall.documents (tenant_id, session_id, item_id) INCLUDE (space_id)
    WHERE session_id IS NOT NULL;
CREATE INDEX documents_agent ON recall.documents (tenant_id, agent_id, item_id) WHERE agent_id IS NOT NULL;
CREATE INDEX documents_subject ON recall.documents (tenant_id, subject_id, item_id) WHERE subject_id IS NOT NULL;
CREATE INDEX documents_source ON recall.documents (tenant_id, source, item_id) WHERE source IS NOT NULL;

-- Searches leave expired documents out before ranking.
CREATE INDEX documents_expire_time ON recall.documents (tenant_id, expire_time) INCLUDE (item_id, space_id)
    WHERE expire_time IS NOT NULL;
CREATE INDEX documents_pending ON recall.documents (tenant_id, item_id) INCLUDE (space_id) WHERE pending;
CREATE INDEX documents_transaction ON recall.documents (tenant_id, transaction) WHERE transaction IS NOT NULL;
CREATE INDEX documents_uncounted ON recall.documents (tenant_id, kind, item_id) INCLUDE (length, space_id) WHERE NOT is_counted;

-- Index-only scans need the visibility map. Autovacuum must update it often on tables that mostly grow.
ALTER TABLE recall.documents SET (autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_insert_threshold = 500);
ALTER TABLE recall.documents ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall.documents FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON recall.documents
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY space ON recall.documents AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = ''
                THEN space_id = '00000000-0000-0000-0000-000000000000'
                     OR current_setting('skein.all_spaces', true) = 'on'
                     OR current_setting('skein.operator', true) = 'on'
                ELSE space_id = ANY (current_setting('skein.spaces', true)::uuid[]) END);

-- A change that keeps a memory's text keeps its vectors; with a new header its terms are counted again.
GRANT UPDATE (type, scope, source, importance, agent_id, subject_id, session_id, expire_time, is_counted, transaction,
              words_version)
    ON recall.documents TO skein_memory;

-- Locking a row needs the privilege to update one of its columns.
GRANT UPDATE (is_counted) ON recall.documents TO skein_session;

-- Messages inherit the agent and subject of their session later.
GRANT UPDATE (agent_id, subject_id) ON recall.documents TO skein_session;

-- Former documents. What only the worker changes makes none: pending and embed_time, is_counted, words_version,
-- transaction.
CREATE TABLE recall.documents_history (
    LIKE recall.documents,
    until_time timestamptz NOT NULL,
    -- The transaction that changed or deleted the document.
    until_transaction bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint + skein.transaction_base()),
    -- Former rows that a write in flight keeps while its tenant is purged go with the tenant.
    CONSTRAINT documents_history_tenant_fkey
        FOREIGN KEY (tenant_id) REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE
);
CREATE INDEX documents_history_until ON recall.documents_history (tenant_id, until_time);
CREATE INDEX documents_history_item ON recall.documents_history (tenant_id, item_id);
CREATE INDEX documents_history_session ON recall.documents_history (tenant_id, session_id, item_id)
    WHERE session_id IS NOT NULL;
-- The documents of a time, to count them.
CREATE INDEX documents_history_time ON recall.documents_history (tenant_id, kind, until_time, record_time)
    INCLUDE (item_id, length, pending, embed_time, space_id);
ALTER TABLE recall.documents_history ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall.documents_history FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON recall.documents_history
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY space ON recall.documents_history AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = ''
                THEN space_id = '00000000-0000-0000-0000-000000000000'
                     OR current_setting('skein.all_spaces', true) = 'on'
                     OR current_setting('skein.operator', true) = 'on'
                ELSE space_id = ANY (current_setting('skein.spaces', true)::uuid[]) END);
CREATE TRIGGER keep_deleted AFTER DELETE ON recall.documents
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT
    EXECUTE FUNCTION skein.keep_deleted('recall.documents_history');
CREATE TRIGGER keep_updated BEFORE UPDATE ON recall.documents
    FOR EACH ROW WHEN (
        (OLD.type, OLD.scope, OLD.source, OLD.key, OLD.importance, OLD.agent_id, OLD.subject_id, OLD.session_id,
         OLD.role, OLD.speaker, OLD.expire_time, OLD.length, OLD.revision, OLD.is_question, OLD.mentions_time)
        IS DISTINCT FROM
        (NEW.type, NEW.scope, NEW.source, NEW.key, NEW.importance, NEW.agent_id, NEW.subject_id, NEW.session_id,
         NEW.role, NEW.speaker, NEW.expire_time, NEW.length, NEW.revision, NEW.is_question, NEW.mentions_time))
    EXECUTE FUNCTION skein.keep_updated('recall.documents_history');

-- One row for each term of each document. The covering key reads the postings of a term in one contiguous range. Its
-- operators are leakproof, so row-level security costs nothing.
CREATE TABLE recall.postings (
    tenant_id uuid NOT NULL,
    term text NOT NULL,
    kind text NOT NULL,
    item_id uuid NOT NULL,
    -- How often the text has the term. Another column counts the header over the text: title, key, tags, speaker.
    frequency integer NOT NULL,
    header_frequency integer NOT NULL DEFAULT 0,
    -- Of the text, in terms.
    length integer NOT NULL,
    record_time timestamptz NOT NULL DEFAULT skein.write_time(),
    CONSTRAINT postings_pkey
        PRIMARY KEY (tenant_id, term, kind, item_id) INCLUDE (frequency, length, header_frequency),
    CONSTRAINT postings_document_fkey FOREIGN KEY (tenant_id, item_id)
        REFERENCES recall.documents (tenant_id, item_id) ON DELETE CASCADE
);
CREATE INDEX postings_item ON recall.postings (tenant_id, item_id);
ALTER TABLE recall.postings SET (autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_insert_threshold = 5000);
ALTER TABLE recall.postings ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall.postings FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON recall.postings
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- Former postings, also those that a new header replaced.
CREATE TABLE recall.postings_history (
    LIKE recall.postings,
    until_time timestamptz NOT NULL,
    CONSTRAINT postings_history_tenant_fkey
        FOREIGN KEY (tenant_id) REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE
);
CREATE INDEX postings_history_term ON recall.postings_history
    (tenant_id, term, kind, item_id, until_time, record_time) INCLUDE (frequency, header_frequency, length);
CREATE INDEX postings_history_item ON recall.postings_history (tenant_id, item_id);
ALTER TABLE recall.postings_history ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall.postings_history FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON recall.postings_history
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE TRIGGER keep_deleted AFTER DELETE ON recall.postings
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT
    EXECUTE FUNCTION skein.keep_deleted('recall.postings_history');

-- Memory and session write the index rows of their items in the same transaction.
GRANT SELECT, INSERT, DELETE ON recall.documents, recall.postings, recall.documents_history, recall.postings_history
    TO skein_memory, skein_session;

-- The registered models.
CREATE TABLE recall.embedding_models (
    model text CONSTRAINT embedding_models_pkey PRIMARY KEY,
    provider text NOT NULL,
    dimensions integer NOT NULL CONSTRAINT embedding_models_dimensions_range CHECK (dimensions BETWEEN 1 AND 4000),
    -- The model's table of vectors, without its schema.
    table_name text NOT NULL CONSTRAINT embedding_models_table_key UNIQUE,
    active boolean NOT NULL DEFAULT false,
    create_time timestamptz NOT NULL,
    -- For HTTP endpoints: URL, the endpoint's name of the model, texts per request, timeout, and the characters that
    -- the model reads of a text. The API key is never stored.
    endpoint text,
    remote_model text,
    batch_size integer,
    timeout_seconds double precision,
    window_characters integer,
    -- Put before each query and each stored text that is embedded.
    query_prefix text NOT NULL DEFAULT '',
    passage_prefix text NOT NULL DEFAULT '',
    -- Cosines that rank as 0 and as 1; NULL until the first reindex of the model measures them.
    similarity_floor double precision,
    similarity_ceiling double precision,
    -- When the model was last active or followed. Other processes notice the change some seconds later.
    leave_time timestamptz,
    -- Whether tenants may choose the model, and since when some may have chosen it.
    is_offered boolean NOT NULL DEFAULT false,
    offer_time timestamptz,
    CONSTRAINT embedding_models_provider_known CHECK (provider IN ('embedded', 'caller', 'openai')),
    CONSTRAINT embedding_models_scale_order CHECK (
        similarity_floor < similarity_ceiling OR (similarity_floor IS NULL AND similarity_ceiling IS NULL)
    )
);

-- One model is active at a time.
CREATE UNIQUE INDEX embedding_models_active_key ON recall.embedding_models ((true)) WHERE active;
GRANT SELECT ON recall.embedding_models TO skein_recall;

-- Which model became active when. Rows outlive their models, so that a search of the past finds its model missing.
CREATE TABLE recall.model_activations (
    model text NOT NULL,
    from_time timestamptz NOT NULL,
    CONSTRAINT model_activations_pkey PRIMARY KEY (from_time, model)
);
GRANT SELECT, INSERT ON recall.model_activations TO skein_recall;

-- The first model, which the end of this file registers.
INSERT INTO recall.model_activations (model, from_time) VALUES ('all-minilm-l6-v2', now());

-- Memory and session store caller vectors; the registry names the table.
GRANT SELECT ON recall.embedding_models TO skein_memory, skein_session;
GRANT SELECT ON recall.embedding_models TO skein_tenancy;

-- Which model a tenant searched since when, from its first choice on; NULL: the one that is active in the cluster. The wish
-- is in its policy; a row follows when all items have vectors of the model.
CREATE TABLE recall.model_choices (
    tenant_id uuid NOT NULL
        CONSTRAINT model_choices_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    from_time timestamptz NOT NULL,
    model text,
    CONSTRAINT model_choices_pkey PRIMARY KEY (tenant_id, from_time)
);

-- A tenant sees its own choices, transactions of operators see all.
ALTER TABLE recall.model_choices ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall.model_choices FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON recall.model_choices
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid
           OR current_setting('skein.operator', true) = 'on');
GRANT SELECT, INSERT, DELETE ON recall.model_choices TO skein_recall;
GRANT SELECT ON recall.model_choices TO skein_memory, skein_session;

-- Return tenants after one, by id, whose policy wants another model than they search. For the transactions of operators.
CREATE FUNCTION recall.list_choosing_tenants(after uuid, size integer) RETURNS SETOF uuid
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = ''
AS $$
    WITH wanted AS MATERIALIZED (
        SELECT p.tenant_id, p.embedding_model AS model
        FROM tenancy.policies AS p
        WHERE p.embedding_model IS NOT NULL AND p.tenant_id > after
    ), searched AS MATERIALIZED (
        SELECT DISTINCT ON (c.tenant_id) c.tenant_id, c.model
        FROM recall.model_choices AS c
        WHERE c.tenant_id > after
        ORDER BY c.tenant_id, c.from_time DESC
    )
    SELECT t.tenant_id
    FROM wanted
    FULL JOIN searched ON searched.tenant_id = wanted.tenant_id
    JOIN tenancy.tenants AS t ON t.tenant_id = coalesce(wanted.tenant_id, searched.tenant_id) AND t.is_active
    WHERE wanted.model IS DISTINCT FROM searched.model
    ORDER BY t.tenant_id
    LIMIT size
$$;

-- Return some tenants whose policy wants a model, or that search it because they chose it. For the transactions of
-- operators.
CREATE FUNCTION recall.list_model_tenants(named text, size integer) RETURNS SETOF uuid
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = ''
AS $$
    SELECT p.tenant_id
    FROM tenancy.policies AS p
    WHERE p.embedding_model = named
    UNION
    SELECT searched.tenant_id
    FROM (
        SELECT DISTINCT ON (c.tenant_id) c.tenant_id, c.model
        FROM recall.model_choices AS c
        ORDER BY c.tenant_id, c.from_time DESC
    ) AS searched
    WHERE searched.model = named
    ORDER BY 1
    LIMIT size
$$;
REVOKE ALL ON FUNCTION recall.list_choosing_tenants(uuid, integer), recall.list_model_tenants(text, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION recall.list_choosing_tenants(uuid, integer), recall.list_model_tenants(text, integer)
    TO skein_recall;

-- Responses to operators by request_id, so that a repeated request has one effect.
CREATE TABLE recall.requests (
    tenant_id uuid NOT NULL,
    principal text NOT NULL,
    method text NOT NULL,
    request_id text NOT NULL,
    fingerprint bytea NOT NULL,
    response bytea NOT NULL,
    create_time timestamptz NOT NULL,
    CONSTRAINT requests_pkey PRIMARY KEY (tenant_id, principal, method, request_id)
);
CREATE INDEX requests_create_time ON recall.requests (tenant_id, create_time);

-- No reference to tenants: the requests of operators are stored under the nil tenant.
ALTER TABLE recall.requests ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall.requests FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON recall.requests
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON recall.documents, recall.postings, recall.requests TO skein_recall;
GRANT SELECT, INSERT, DELETE ON recall.documents_history, recall.postings_history TO skein_recall;

-- Number and total length of counted documents, by kind.
CREATE TABLE recall.corpora (
    tenant_id uuid NOT NULL
        CONSTRAINT corpora_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    kind text NOT NULL,
    documents bigint NOT NULL,
    length bigint NOT NULL,
    -- Documents removed since the frequencies were last recounted.
    removed bigint NOT NULL DEFAULT 0,
    -- The last recounted term, in order; NULL when no recount runs.
    recounted_to text,
    CONSTRAINT corpora_pkey PRIMARY KEY (tenant_id, kind)
);
ALTER TABLE recall.corpora ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall.corpora FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON recall.corpora
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- Number of documents of frequent terms. Rare terms are counted while their postings are read, so the table holds no
-- rare words of a person.
CREATE TABLE recall.frequencies (
    tenant_id uuid NOT NULL
        CONSTRAINT frequencies_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    term text NOT NULL,
    kind text NOT NULL,
    documents bigint NOT NULL,
    CONSTRAINT frequencies_pkey PRIMARY KEY (tenant_id, term, kind) INCLUDE (documents)
);
ALTER TABLE recall.frequencies ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall.frequencies FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON recall.frequencies
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- Removed documents that corpora still includes. Writers insert rows only, so they do not wait for each other.
CREATE TABLE recall.removals (
    tenant_id uuid NOT NULL
        CONSTRAINT removals_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    removal_id uuid NOT NULL,
    kind text NOT NULL,
    documents bigint NOT NULL,
    length bigint NOT NULL,
    CONSTRAINT removals_pkey PRIMARY KEY (tenant_id, removal_id)
);
ALTER TABLE recall.removals ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall.removals FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON recall.removals
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON recall.corpora, recall.frequencies, recall.removals TO skein_recall;

-- Memory and session insert a row when they remove a document.
GRANT INSERT ON recall.removals TO skein_memory, skein_session;
GRANT SELECT ON recall.corpora, recall.removals TO skein_session;

-- How many memories and messages each purge removed, by when they had become known. An answer as of a time counts what
-- was purged since. Nothing else of the items stays here.
CREATE TABLE recall.purged_items (
    tenant_id uuid NOT NULL
        CONSTRAINT purged_items_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    purge_time timestamptz NOT NULL,
    purge_id uuid NOT NULL,
    known_time timestamptz NOT NULL,
    item_count bigint NOT NULL CONSTRAINT purged_items_item_count_positive CHECK (item_count > 0),
    CONSTRAINT purged_items_pkey PRIMARY KEY (tenant_id, purge_time, purge_id, known_time)
);
ALTER TABLE recall.purged_items ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall.purged_items FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON recall.purged_items
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT INSERT ON recall.purged_items TO skein_memory, skein_session;
GRANT SELECT, DELETE ON recall.purged_items TO skein_recall;

-- How many recalls a tenant made on each day (UTC), how many of them found nothing, and how long they took. Nothing else of
-- a query stays here.
CREATE TABLE recall.search_counts (
    tenant_id uuid NOT NULL
        CONSTRAINT search_counts_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    day date NOT NULL,
    -- The searches that took so long at most, and longer than the next smaller number; 0 has those that took longest.
    max_milliseconds integer NOT NULL,
    search_count bigint NOT NULL,
    unanswered_count bigint NOT NULL,
    CONSTRAINT search_counts_pkey PRIMARY KEY (tenant_id, day, max_milliseconds)
);
ALTER TABLE recall.search_counts ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall.search_counts FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON recall.search_counts
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON recall.search_counts TO skein_recall;

-- The search index of a time. The times are compared outside of the union, so that a join by id looks up each part in its
-- index.
CREATE VIEW as_of.documents WITH (security_invoker = true) AS
SELECT d.tenant_id, d.item_id, d.kind, d.type, d.scope, d.source, d.key, d.importance, d.agent_id, d.subject_id,
       d.session_id, d.role, d.speaker, d.expire_time, d.length, d.revision,
       coalesce(d.embed_time > (SELECT skein.as_of_time()), d.pending) AS pending, d.is_question, d.mentions_time,
       true AS is_counted, d.transaction, d.embed_time, d.record_time, d.space_id
FROM (
    SELECT tenant_id, item_id, kind, type, scope, source, key, importance, agent_id, subject_id, session_id, role,
           speaker, expire_time, length, revision, pending, is_question, mentions_time, transaction, embed_time,
           record_time, space_id, 'infinity'::timestamptz AS until_time
    FROM recall.documents
    UNION ALL
    SELECT tenant_id, item_id, kind, type, scope, source, key, importance, agent_id, subject_id, session_id, role,
           speaker, expire_time, length, revision, pending, is_question, mentions_time, transaction, embed_time,
           record_time, space_id, until_time
    FROM recall.documents_history
) AS d
WHERE d.record_time <= (SELECT skein.as_of_time()) AND d.record_time <> ALL ((SELECT skein.unseen_times())::timestamptz[])
    AND d.until_time > (SELECT skein.first_unseen_time())
    AND (d.until_time > (SELECT skein.as_of_time()) OR d.until_time = ANY ((SELECT skein.unseen_times())::timestamptz[]));

CREATE VIEW as_of.postings WITH (security_invoker = true) AS
SELECT p.tenant_id, p.term, p.kind, p.item_id, p.frequency, p.header_frequency, p.length, p.record_time
FROM (
    SELECT tenant_id, term, kind, item_id, frequency, header_frequency, length, record_time,
           'infinity'::timestamptz AS until_time
    FROM recall.postings
    UNION ALL
    SELECT tenant_id, term, kind, item_id, frequency, header_frequency, length, record_time, until_time
    FROM recall.postings_history
) AS p
WHERE p.record_time <= (SELECT skein.as_of_time()) AND p.record_time <> ALL ((SELECT skein.unseen_times())::timestamptz[])
    AND p.until_time > (SELECT skein.first_unseen_time())
    AND (p.until_time > (SELECT skein.as_of_time()) OR p.until_time = ANY ((SELECT skein.unseen_times())::timestamptz[]));

-- Counts as of a time are exact: nothing waits to be counted, or to be subtracted.
CREATE VIEW as_of.corpora WITH (security_invoker = true) AS
SELECT d.tenant_id, d.kind, count(*) AS documents, sum(d.length) AS length, 0::bigint AS removed,
       NULL::text AS recounted_to
FROM as_of.documents AS d
GROUP BY d.tenant_id, d.kind;

CREATE VIEW as_of.frequencies WITH (security_invoker = true) AS
SELECT p.tenant_id, p.term, p.kind, count(*) AS documents
FROM as_of.postings AS p
GROUP BY p.tenant_id, p.term, p.kind;

CREATE VIEW as_of.removals WITH (security_invoker = true) AS
SELECT r.tenant_id, r.removal_id, r.kind, r.documents, r.length
FROM recall.removals AS r
WHERE false;
GRANT SELECT ON as_of.documents, as_of.postings, as_of.corpora, as_of.frequencies, as_of.removals TO skein_recall;

CREATE TABLE recall.reindexes (
    reindex_id uuid CONSTRAINT reindexes_pkey PRIMARY KEY,
    model text NOT NULL
        CONSTRAINT reindexes_model_fkey REFERENCES recall.embedding_models (model) ON DELETE CASCADE,
    -- NULL: all tenants, future ones included.
    -- No foreign key: the purge of a tenant deletes its reindexes. On Citus, a key between tables that have a copy on
    -- every machine needs rights to write both.
    only_tenant_id uuid,
    texts_per_second double precision NOT NULL,
    -- From then on every process follows the model, so a scan that begins later misses no document.
    settle_time timestamptz NOT NULL,
    -- The model had all vectors when it was activated or deactivated, and missed none since. It may be activated
    -- (again) before the scan ends.
    is_complete boolean NOT NULL,
    -- When the model may get the next texts, over all processes.
    next_time timestamptz NOT NULL,
    create_time timestamptz NOT NULL,
    created_by text NOT NULL,
    cancel_time timestamptz,
    -- It serves the tenant's choice of a model, and ends with it.
    is_of_choice boolean NOT NULL DEFAULT false
);

-- At most one running reindex for a model and tenant, and one for a model and all tenants.
CREATE UNIQUE INDEX reindexes_running_key
    ON recall.reindexes (model, coalesce(only_tenant_id, '00000000-0000-0000-0000-000000000000'::uuid))
    WHERE cancel_time IS NULL;
GRANT SELECT, INSERT, UPDATE, DELETE ON recall.reindexes TO skein_recall;
-- Recall itself changes which model is active, its scale and its times. On Citus, a transaction acts as one role on a
-- table, and who writes a reindex locks the model that its key names on every machine.
GRANT UPDATE ON recall.embedding_models TO skein_recall;

-- A writer of caller vectors must know whether another model is followed.
GRANT SELECT ON recall.reindexes TO skein_memory, skein_session;

-- Progress of a reindex in one tenant. Scans visit every document in the order of ids, until one scan finds nothing to
-- embed.
CREATE TABLE recall.reindex_progress (
    tenant_id uuid NOT NULL
        CONSTRAINT reindex_progress_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    reindex_id uuid NOT NULL
        CONSTRAINT reindex_progress_reindex_fkey REFERENCES recall.reindexes (reindex_id) ON DELETE CASCADE,
    -- Start of the scan, and its last visited document.
    scan_time timestamptz NOT NULL,
    after_id uuid NOT NULL,
    -- Counted documents of the tenant at the start of the scan; documents visited, embedded, and failed in the scan.
    documents bigint NOT NULL,
    seen bigint NOT NULL,
    scan_embedded bigint NOT NULL,
    missing bigint NOT NULL,
    is_finished boolean NOT NULL,
    -- A document was written without vectors meanwhile, so another scan is needed.
    is_stale boolean NOT NULL,
    -- Documents embedded in all scans.
    embedded bigint NOT NULL,
    CONSTRAINT reindex_progress_pkey PRIMARY KEY (tenant_id, reindex_id)
);

-- A tenant sees its own progress, transactions of operators see all.
ALTER TABLE recall.reindex_progress ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall.reindex_progress FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON recall.reindex_progress
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid
           OR current_setting('skein.operator', true) = 'on');
GRANT SELECT, INSERT, UPDATE, DELETE ON recall.reindex_progress TO skein_recall;

-- The provider of caller vectors; the cluster computed all other vectors. A row without vectors of its model has no
-- meaning.
CREATE TABLE recall.vector_origins (
    tenant_id uuid NOT NULL,
    item_id uuid NOT NULL,
    model text NOT NULL,
    provider text NOT NULL CONSTRAINT vector_origins_provider_length CHECK (char_length(provider) BETWEEN 1 AND 64),
    create_time timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT vector_origins_pkey PRIMARY KEY (tenant_id, item_id, model),
    CONSTRAINT vector_origins_document_fkey FOREIGN KEY (tenant_id, item_id)
        REFERENCES recall.documents (tenant_id, item_id) ON DELETE CASCADE
);
ALTER TABLE recall.vector_origins ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall.vector_origins FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON recall.vector_origins
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON recall.vector_origins TO skein_recall;

-- Memory stores caller vectors with their memory.
GRANT INSERT ON recall.vector_origins TO skein_memory;

-- Have a table of vectors refer to the documents, with which its rows go.
CREATE FUNCTION recall.refer_to_documents(table_name text) RETURNS void
LANGUAGE plpgsql
SET search_path = ''
AS $$
BEGIN
    EXECUTE format('ALTER TABLE recall.%I ADD CONSTRAINT %I FOREIGN KEY (tenant_id, item_id) '
                   'REFERENCES recall.documents (tenant_id, item_id) ON DELETE CASCADE',
                   table_name, table_name || '_document_fkey');
END
$$;
REVOKE ALL ON FUNCTION recall.refer_to_documents(text) FROM PUBLIC;

-- Have a table of vectors keep former ones, and create its view of a time. Citus refuses triggers on what it distributes.
CREATE FUNCTION recall.create_vectors_history(table_name text) RETURNS void
LANGUAGE plpgsql
SET search_path = ''
AS $$
DECLARE
    history text := table_name || '_history';
BEGIN
    EXECUTE format('CREATE TABLE recall.%I (LIKE recall.%I, until_time timestamptz NOT NULL, '
                   'until_transaction bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint + skein.transaction_base()))', history, table_name);
    EXECUTE format('ALTER TABLE recall.%I ALTER COLUMN embedding SET STORAGE PLAIN, '
                   'ALTER COLUMN rest SET STORAGE PLAIN, ALTER COLUMN tokens SET STORAGE EXTERNAL', history);
    EXECUTE format('CREATE INDEX %I ON recall.%I (tenant_id, item_id, chunk)', history || '_item', history);
    EXECUTE format('CREATE INDEX %I ON recall.%I (tenant_id, kind, until_time, record_time)',
                   history || '_time', history);
    EXECUTE format('ALTER TABLE recall.%I ENABLE ROW LEVEL SECURITY', history);
    EXECUTE format('ALTER TABLE recall.%I FORCE ROW LEVEL SECURITY', history);
    EXECUTE format($sql$
        CREATE POLICY tenant ON recall.%I
            USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid)
        $sql$, history);
    EXECUTE format($sql$
        CREATE VIEW as_of.%1$I WITH (security_invoker = true) AS
        SELECT v.tenant_id, v.item_id, v.chunk, v.kind, v.embedding, v.rest, v.tokens, v.transaction, v.record_time
        FROM (
            SELECT tenant_id, item_id, chunk, kind, embedding, rest, tokens, transaction, record_time,
                   'infinity'::timestamptz AS until_time
            FROM recall.%1$I
            UNION ALL
            SELECT tenant_id, item_id, chunk, kind, embedding, rest, tokens, transaction, record_time, until_time
            FROM recall.%2$I
        ) AS v
        WHERE v.record_time <= (SELECT skein.as_of_time()) AND v.record_time <> ALL ((SELECT skein.unseen_times())::timestamptz[])
    AND v.until_time > (SELECT skein.first_unseen_time())
    AND (v.until_time > (SELECT skein.as_of_time()) OR v.until_time = ANY ((SELECT skein.unseen_times())::timestamptz[]))
        $sql$, table_name, history);
    EXECUTE format('GRANT SELECT ON as_of.%I TO skein_recall', table_name);
    -- The services that remove items remove their vectors by cascade, and purge former ones.
    EXECUTE format('GRANT SELECT, INSERT, DELETE ON recall.%I TO skein_recall, skein_memory, skein_session', history);
    IF NOT skein.is_distributed('recall.documents') THEN
        EXECUTE format('ALTER TABLE recall.%I ADD CONSTRAINT %I FOREIGN KEY (tenant_id) '
                       'REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE', history, history || '_tenant_fkey');
        EXECUTE format('CREATE TRIGGER keep_deleted AFTER DELETE ON recall.%I '
                       'REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION skein.keep_deleted(%L)',
                       table_name, format('recall.%I', history));
    END IF;
END
$$;
REVOKE ALL ON FUNCTION recall.create_vectors_history(text) FROM PUBLIC;

-- Purge the former documents, postings and vectors of items; return how many rows. A model that is deleted meanwhile
-- takes its vectors along.
CREATE FUNCTION recall.purge_history(tenant uuid, items uuid[]) RETURNS bigint
LANGUAGE plpgsql
SET search_path = ''
AS $$
DECLARE
    vectors text;
    found bigint;
    purged bigint := 0;
BEGIN
    DELETE FROM recall.documents_history AS d WHERE d.tenant_id = tenant AND d.item_id = ANY (items);
    GET DIAGNOSTICS found = ROW_COUNT;
    purged := purged + found;
    DELETE FROM recall.postings_history AS p WHERE p.tenant_id = tenant AND p.item_id = ANY (items);
    GET DIAGNOSTICS found = ROW_COUNT;
    purged := purged + found;
    FOR vectors IN SELECT m.table_name || '_history' FROM recall.embedding_models AS m ORDER BY 1 LOOP
        BEGIN
            EXECUTE format('DELETE FROM recall.%I WHERE tenant_id = $1 AND item_id = ANY ($2)', vectors)
                USING tenant, items;
            GET DIAGNOSTICS found = ROW_COUNT;
            purged := purged + found;
        EXCEPTION WHEN undefined_table THEN
            NULL;
        END;
    END LOOP;
    RETURN purged;
END
$$;
REVOKE ALL ON FUNCTION recall.purge_history(uuid, uuid[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION recall.purge_history(uuid, uuid[]) TO skein_memory, skein_session;

-- Register a model and create its table of vectors; return the name of the table. `tokens` has the codes of the tokens of
-- a chunk, where the model has such and they are not left out. Where the documents are distributed,
-- distribute_vectors follows in a transaction of its own: one transaction acts as one role on the rows of a machine.
CREATE FUNCTION recall.register_model(
    model text, provider text, dimensions integer, at timestamptz, query_prefix text DEFAULT '',
    passage_prefix text DEFAULT '', similarity_floor double precision DEFAULT 0,
    similarity_ceiling double precision DEFAULT 1
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = ''
SET lock_timeout = '200ms'
AS $$
DECLARE
    table_name text := 'embeddings_' || regexp_replace(lower(model), '[^a-z0-9]+', '_', 'g');
    partitions constant integer := 4;
    covered constant integer := least(dimensions, 1280);
BEGIN
    INSERT INTO recall.embedding_models (model, provider, dimensions, table_name, create_time, query_prefix,
                                         passage_prefix, similarity_floor, similarity_ceiling)
    VALUES (model, provider, dimensions, table_name, at, query_prefix, passage_prefix, similarity_floor,
            similarity_ceiling);
    EXECUTE format($sql$
        CREATE TABLE recall.%1$I (
            tenant_id uuid NOT NULL,
            item_id uuid NOT NULL,
            chunk smallint NOT NULL,
            kind text NOT NULL,
            embedding public.halfvec(%2$s) NOT NULL,
            rest public.halfvec(%4$s),
            tokens bytea,
            transaction bigint DEFAULT (pg_current_xact_id()::text::bigint + skein.transaction_base()),
            record_time timestamptz NOT NULL DEFAULT skein.write_time(),
            CONSTRAINT %3$I PRIMARY KEY (tenant_id, item_id, chunk)
        ) PARTITION BY HASH (item_id)
        $sql$, table_name, covered, table_name || '_pkey', greatest(dimensions - covered, 1));
    IF NOT skein.is_distributed('recall.documents') THEN
        PERFORM recall.refer_to_documents(table_name);
    END IF;
    EXECUTE format('ALTER TABLE recall.%I ENABLE ROW LEVEL SECURITY', table_name);
    EXECUTE format('ALTER TABLE recall.%I FORCE ROW LEVEL SECURITY', table_name);
    EXECUTE format($sql$
        CREATE POLICY tenant ON recall.%I
            USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid)
        $sql$, table_name);
    FOR remainder IN 0 .. partitions - 1 LOOP
        EXECUTE format('CREATE TABLE recall.%I PARTITION OF recall.%I FOR VALUES WITH (MODULUS %s, REMAINDER %s)',
                       table_name || '_p' || remainder, table_name, partitions, remainder);
        EXECUTE format('ALTER TABLE recall.%I ENABLE ROW LEVEL SECURITY', table_name || '_p' || remainder);
        EXECUTE format('ALTER TABLE recall.%I FORCE ROW LEVEL SECURITY', table_name || '_p' || remainder);
        -- Vectors stay in the row: reading them from a TOAST table takes twice as long. Codes of tokens do not shrink by
        -- compression.
        EXECUTE format('ALTER TABLE recall.%I ALTER COLUMN embedding SET STORAGE PLAIN, '
                       'ALTER COLUMN rest SET STORAGE PLAIN, ALTER COLUMN tokens SET STORAGE EXTERNAL',
                       table_name || '_p' || remainder);
        -- Index-only scans need the visibility map. Autovacuum must update it often on tables that mostly grow.
        EXECUTE format('ALTER TABLE recall.%I SET (autovacuum_vacuum_insert_scale_factor = 0.02, '
                       'autovacuum_vacuum_insert_threshold = 500)', table_name || '_p' || remainder);
    END LOOP;
    EXECUTE format('CREATE INDEX %I ON recall.%I (tenant_id, kind) INCLUDE (item_id, embedding)',
                   table_name || '_covering', table_name);
    EXECUTE format('CREATE INDEX %I ON recall.%I (tenant_id, transaction) WHERE transaction IS NOT NULL',
                   table_name || '_transaction', table_name);
    -- Vectors are never updated, so equal transaction numbers mean equal vectors.
    EXECUTE format('GRANT SELECT, INSERT, DELETE ON recall.%I TO skein_recall', table_name);
    -- Memory and session store caller vectors.
    EXECUTE format('GRANT INSERT ON recall.%I TO skein_memory, skein_session', table_name);
    PERFORM recall.create_vectors_history(table_name);
    RETURN table_name;
END
$$;
REVOKE ALL ON FUNCTION
    recall.register_model(text, text, integer, timestamptz, text, text, double precision, double precision) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    recall.register_model(text, text, integer, timestamptz, text, text, double precision, double precision)
    TO skein_recall;

-- Distribute a model's table of vectors by tenant, beside the documents; return false where it is, or they are not.
CREATE FUNCTION recall.distribute_vectors(named text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = ''
SET lock_timeout = '5s'
AS $$
DECLARE
    vectors text := (SELECT m.table_name FROM recall.embedding_models AS m WHERE m.model = named);
BEGIN
    IF vectors IS NULL OR NOT skein.is_distributed('recall.documents') THEN
        RETURN false;
    END IF;
    -- Two callers may have found the table as it was.
    EXECUTE format('LOCK TABLE ONLY recall.%I IN SHARE ROW EXCLUSIVE MODE', vectors);
    IF skein.is_distributed(format('recall.%I', vectors)) THEN
        RETURN false;
    END IF;
    -- The shards' foreign keys lead to tables that the statement has locked on other connections.
    PERFORM set_config('citus.multi_shard_modify_mode', 'sequential', true);
    -- No trigger keeps former vectors there; the table of them is distributed all the same, for statements that name it.
    EXECUTE format('DROP TRIGGER IF EXISTS keep_deleted ON recall.%I', vectors);
    PERFORM create_distributed_table(
        format('recall.%I', named_table)::regclass, 'tenant_id', colocate_with => 'recall.documents'
    )
    FROM unnest(ARRAY[vectors, vectors || '_history']) AS named_table;
    -- Citus refuses a key from a table that is not distributed to one that is.
    PERFORM recall.refer_to_documents(vectors);
    RETURN true;
END
$$;
REVOKE ALL ON FUNCTION recall.distribute_vectors(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION recall.distribute_vectors(text) TO skein_recall;

-- Register a model whose vectors an endpoint computes; return the name of its table.
CREATE FUNCTION recall.register_endpoint(
    named text, dimensions integer, at timestamptz, query_prefix text, passage_prefix text,
    similarity_floor double precision, similarity_ceiling double precision, endpoint text, remote_model text,
    batch_size integer, timeout_seconds double precision, window_characters integer
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = ''
SET lock_timeout = '200ms'
AS $$
DECLARE
    new_table text := recall.register_model(
        named, 'openai', dimensions, at, query_prefix, passage_prefix, similarity_floor, similarity_ceiling
    );
BEGIN
    UPDATE recall.embedding_models AS m
    SET endpoint = register_endpoint.endpoint, remote_model = register_endpoint.remote_model,
        batch_size = register_endpoint.batch_size, timeout_seconds = register_endpoint.timeout_seconds,
        window_characters = register_endpoint.window_characters
    WHERE m.model = named;
    RETURN new_table;
END
$$;

-- Drop a model with its vectors, unless it is active, chosen, followed, or was so after a time; return 'dropped',
-- 'active', 'chosen', 'in use' or 'unknown'. The table's foreign key locks recall.documents against readers, so the wait for open readers is
-- short and the caller tries again.
CREATE FUNCTION recall.delete_model(named text, left_before timestamptz) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = ''
SET lock_timeout = '100ms'
AS $$
DECLARE
    found_model record;
BEGIN
    LOCK TABLE recall.embedding_models, recall.reindexes IN SHARE ROW EXCLUSIVE MODE;
    SELECT m.table_name, m.active, m.leave_time INTO found_model FROM recall.embedding_models AS m WHERE m.model = named;
    IF found_model IS NULL THEN
        RETURN 'unknown';
    ELSIF found_model.active THEN
        RETURN 'active';
    ELSIF EXISTS (SELECT FROM recall.list_model_tenants(named, 1)) THEN
        RETURN 'chosen';
    ELSIF found_model.leave_time > left_before
        OR EXISTS (SELECT FROM recall.reindexes AS r WHERE r.model = named AND r.cancel_time IS NULL) THEN
        RETURN 'in use';
    END IF;
    EXECUTE format('DROP VIEW as_of.%I', found_model.table_name);
    EXECUTE format('DROP TABLE recall.%I, recall.%I', found_model.table_name, found_model.table_name || '_history');
    DELETE FROM recall.embedding_models AS m WHERE m.model = named;
    RETURN 'dropped';
END
$$;
REVOKE ALL ON FUNCTION
    recall.register_endpoint(
        text, integer, timestamptz, text, text, double precision, double precision, text, text, integer,
        double precision, integer
    ),
    recall.delete_model(text, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    recall.register_endpoint(
        text, integer, timestamptz, text, text, double precision, double precision, text, text, integer,
        double precision, integer
    ),
    recall.delete_model(text, timestamptz) TO skein_recall;

CREATE POLICY due ON recall.documents FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON recall.removals FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON recall.corpora FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');

CREATE INDEX corpora_to_recount ON recall.corpora (tenant_id) WHERE removed > 0;

-- Return tenants after one, by id, with documents that have no vectors, or with documents to count: new ones, removed
-- ones, or all when more than `min_removed` were removed. One tenant after the other, because one of them may have
-- millions.
CREATE FUNCTION recall.list_backlog_tenants(min_removed bigint, after uuid, size integer) RETURNS SETOF uuid
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = ''
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    tenant uuid := after;
BEGIN
    FOR _ IN 1 .. size LOOP
        tenant := least(
            (SELECT d.tenant_id FROM recall.documents AS d WHERE d.tenant_id > tenant AND d.pending
             ORDER BY d.tenant_id LIMIT 1),
            (SELECT d.tenant_id FROM recall.documents AS d WHERE d.tenant_id > tenant AND NOT d.is_counted
             ORDER BY d.tenant_id LIMIT 1),
            (SELECT r.tenant_id FROM recall.removals AS r WHERE r.tenant_id > tenant
             ORDER BY r.tenant_id LIMIT 1),
            (SELECT c.tenant_id FROM recall.corpora AS c
             WHERE c.tenant_id > tenant AND c.removed > 0 AND c.removed > greatest(min_removed, c.documents / 5)
             ORDER BY c.tenant_id LIMIT 1)
        );
        EXIT WHEN tenant IS NULL;
        RETURN NEXT tenant;
    END LOOP;
END
$$;
REVOKE ALL ON FUNCTION recall.list_backlog_tenants(bigint, uuid, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION recall.list_backlog_tenants(bigint, uuid, integer) TO skein_recall;

SELECT recall.register_model('all-minilm-l6-v2', 'embedded', 384, now());
UPDATE recall.embedding_models SET active = true WHERE model = 'all-minilm-l6-v2';

-- Creating a table with a foreign key blocks writers of recall.documents, so the wait is short and the caller tries
-- again.
ALTER FUNCTION
    recall.register_model(text, text, integer, timestamptz, text, text, double precision, double precision)
    SET lock_timeout = '200ms';
