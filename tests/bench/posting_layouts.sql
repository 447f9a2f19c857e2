-- The candidates of tests/bench/posting_layouts.py, beside recall.postings.
CREATE SCHEMA bench;
GRANT USAGE ON SCHEMA bench TO skein_recall;
CREATE FUNCTION bench.term_key(tenant_id uuid, term text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN hashtextextended(term, hashtextextended(tenant_id::text, 0));

-- The terms of a document in a row of its own, which is never updated: read as of a time, and erased with the document.
CREATE TABLE bench.document_terms (
    tenant_id uuid NOT NULL,
    item_id uuid NOT NULL,
    kind text NOT NULL,
    length smallint NOT NULL,
    record_time timestamptz NOT NULL DEFAULT skein.write_time(),
    terms text[] NOT NULL,
    frequencies smallint[] NOT NULL,
    CONSTRAINT document_terms_pkey PRIMARY KEY (tenant_id, item_id),
    CONSTRAINT document_terms_document_fkey FOREIGN KEY (tenant_id, item_id)
        REFERENCES recall.documents (tenant_id, item_id) ON DELETE CASCADE
);
CREATE TABLE bench.document_terms_history (LIKE bench.document_terms, until_time timestamptz NOT NULL);
CREATE TRIGGER keep_deleted AFTER DELETE ON bench.document_terms
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT
    EXECUTE FUNCTION skein.keep_deleted('bench.document_terms_history');

-- One row a document, and a GIN index over hashes of tenant and term.
CREATE TABLE bench.gin_on (
    tenant_id uuid NOT NULL,
    item_id uuid NOT NULL,
    kind text NOT NULL,
    length smallint NOT NULL,
    record_time timestamptz NOT NULL DEFAULT skein.write_time(),
    terms text[] NOT NULL,
    keys bigint[] NOT NULL,
    frequencies smallint[] NOT NULL,
    PRIMARY KEY (tenant_id, item_id),
    FOREIGN KEY (tenant_id, item_id) REFERENCES recall.documents (tenant_id, item_id) ON DELETE CASCADE
);
CREATE TABLE bench.gin_off (
    LIKE bench.gin_on INCLUDING DEFAULTS,
    PRIMARY KEY (tenant_id, item_id),
    FOREIGN KEY (tenant_id, item_id) REFERENCES recall.documents (tenant_id, item_id) ON DELETE CASCADE
);
CREATE TABLE bench.gin_history (LIKE bench.gin_on, until_time timestamptz NOT NULL);
CREATE INDEX gin_on_keys ON bench.gin_on USING gin (keys) WITH (fastupdate = on);
CREATE INDEX gin_off_keys ON bench.gin_off USING gin (keys) WITH (fastupdate = off);
CREATE TRIGGER keep_deleted AFTER DELETE ON bench.gin_on REFERENCING OLD TABLE AS gone FOR EACH STATEMENT
    EXECUTE FUNCTION skein.keep_deleted('bench.gin_history');
CREATE TRIGGER keep_deleted AFTER DELETE ON bench.gin_off REFERENCING OLD TABLE AS gone FOR EACH STATEMENT
    EXECUTE FUNCTION skein.keep_deleted('bench.gin_history');

-- Blocks of up to 64 postings of a term, packed by the worker when it counts the documents. Until then a
-- search reads the documents' own terms.
CREATE TABLE bench.blocks (
    tenant_id uuid NOT NULL,
    term text NOT NULL,
    kind text NOT NULL,
    first_item uuid NOT NULL,
    item_ids uuid[] NOT NULL,
    frequencies smallint[] NOT NULL,
    lengths smallint[] NOT NULL,
    CONSTRAINT blocks_pkey PRIMARY KEY (tenant_id, term, kind, first_item)
);
-- The same blocks as one binary value each: 22 bytes a posting, for a service that ranks by itself.
CREATE TABLE bench.packed (
    tenant_id uuid NOT NULL,
    term text NOT NULL,
    kind text NOT NULL,
    first_item uuid NOT NULL,
    postings bytea NOT NULL,
    CONSTRAINT packed_pkey PRIMARY KEY (tenant_id, term, kind, first_item)
);
-- Blocks that hold several rare terms, as a page of an index does: 64 postings in the order of terms and items.
CREATE TABLE bench.shared (
    tenant_id uuid NOT NULL,
    kind text NOT NULL,
    first_term text NOT NULL,
    first_item uuid NOT NULL,
    terms text[] NOT NULL,
    sizes smallint[] NOT NULL,
    postings bytea NOT NULL,
    CONSTRAINT shared_pkey PRIMARY KEY (tenant_id, kind, first_term, first_item)
);

DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY '{document_terms, gin_on, gin_off, blocks, packed, shared}'::text[] LOOP
        EXECUTE format('ALTER TABLE bench.%I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE bench.%I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format($policy$CREATE POLICY tenant ON bench.%I
            USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid)$policy$, name);
        EXECUTE format('GRANT SELECT ON bench.%I TO skein_recall', name);
    END LOOP;
END
$$;

-- The GIN index without the policy, which a caller's array operator may not precede. Its owner reads all tenants.
CREATE FUNCTION bench.match_gin(keys bigint[], idfs double precision[], per_stem double precision, count integer)
RETURNS TABLE (item_id uuid, bm25 double precision) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = ''
AS $$
SELECT p.item_id, 1.9 * sum(p.idf * p.frequency / (p.frequency + (0.225::double precision + p.length * per_stem))) AS bm25
FROM (
    SELECT d.item_id, d.length::double precision AS length, weight.idf,
           d.frequencies[array_position(d.keys, weight.key)]::double precision AS frequency
    FROM bench.gin_off AS d
    CROSS JOIN unnest(match_gin.keys, match_gin.idfs) AS weight (key, idf)
    WHERE d.keys OPERATOR(pg_catalog.&&) match_gin.keys
        AND d.tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid
) AS p
WHERE p.frequency IS NOT NULL
GROUP BY p.item_id
ORDER BY bm25 DESC, p.item_id
LIMIT count
$$;
