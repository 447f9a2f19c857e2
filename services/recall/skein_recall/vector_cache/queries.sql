-- held_state --
-- Tell which server answers, below which transaction nothing is still at work, and how far the log is written.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS horizon,
       pg_postmaster_start_time() AS server,
       pg_current_wal_insert_lsn()::text AS position;

-- held_is_settled --
-- Say whether the server has on disk what it had written then: no crash gives these transactions' numbers to others. Null
-- when it is another server.
SELECT CASE WHEN pg_postmaster_start_time() = :server::timestamptz
       THEN pg_current_wal_flush_lsn() >= :position::text::pg_lsn END;

-- count_vectors --
-- Count a tenant's chunks, up to a number.
SELECT count(*)
FROM (SELECT FROM recall.{table} AS v WHERE v.tenant_id = :tenant_id LIMIT :most) AS counted;

-- vectors_after --
-- Read some of a tenant's vectors, in order of their keys.
SELECT v.item_id, v.chunk, v.kind, v.embedding, v.rest
FROM recall.{table} AS v
WHERE v.tenant_id = :tenant_id AND (v.item_id, v.chunk) > (:item_id::uuid, :chunk::smallint)
ORDER BY v.item_id, v.chunk
LIMIT :count;

-- vectors_since --
-- Read the vectors that came with a transaction or later ones, up to a number.
SELECT v.item_id, v.chunk, v.kind, v.embedding, v.rest
FROM recall.{table} AS v
WHERE v.tenant_id = :tenant_id AND v.transaction >= :horizon
LIMIT :count;

-- nearest_listed --
-- Compare chunks with a vector, over all dimensions: those of the items named, and up to a number of those that came with
-- a transaction or later ones. There is a row without an item when there are none. Beside each stands which server this
-- is.
SELECT here.server, found.item_id, found.chunk, found.kind, found.is_new, found.distance
FROM (SELECT pg_postmaster_start_time() AS server) AS here
LEFT JOIN (
    SELECT v.item_id, v.chunk, v.kind, false AS is_new,
           (v.embedding OPERATOR(public.<#>) :vector::public.halfvec)
               + coalesce(v.rest OPERATOR(public.<#>) :rest::public.halfvec, 0) AS distance
    FROM recall.{table} AS v
    WHERE v.tenant_id = :tenant_id AND v.item_id = ANY (:item_ids::uuid[])
    UNION ALL
    (
        SELECT v.item_id, v.chunk, v.kind, true,
               (v.embedding OPERATOR(public.<#>) :vector::public.halfvec)
                   + coalesce(v.rest OPERATOR(public.<#>) :rest::public.halfvec, 0)
        FROM recall.{table} AS v
        WHERE v.tenant_id = :tenant_id AND v.transaction >= :horizon AND v.kind = ANY (:kinds::text[])
        LIMIT :most
    )
) AS found ON true
ORDER BY found.distance;
