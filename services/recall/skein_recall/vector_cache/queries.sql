-- read_transaction_horizon --
-- Read the server's start time, the transaction below which all have ended, and the position of the log.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint + skein.transaction_base() AS transaction,
       pg_postmaster_start_time() AS server_start,
       pg_current_wal_insert_lsn()::text AS log_position;

-- read_server_start --
-- Read the server's start time. A statement of its own, without a table: on Citus the coordinator answers it, whose
-- transactions number the rows; beside a table a worker would.
SELECT pg_postmaster_start_time();

-- is_horizon_durable --
-- Return whether the log is on disk up to a position, so that a crash cannot reuse the transaction numbers below it.
-- Null for another server.
SELECT CASE WHEN pg_postmaster_start_time() = :server_start::timestamptz
       THEN pg_current_wal_flush_lsn() >= :log_position::text::pg_lsn END;

-- count_vectors --
-- Count a tenant's chunks, up to a number.
SELECT count(*)
FROM (SELECT FROM recall.{table} AS v WHERE v.tenant_id = :tenant_id LIMIT :most) AS counted;

-- vectors_after --
-- Read some of a tenant's vectors in order of their keys, as one binary value of rows of equal length: the item's id,
-- the chunk, one byte that is 1 for a message, and the columns of the vector as pgvector sends them. A row of the result
-- for each chunk would take several times as long. The aggregate keeps the order of the subquery.
SELECT string_agg(page.chunk, ''::bytea) AS chunks
FROM (
    SELECT uuid_send(v.item_id) || int2send(v.chunk)
               || CASE v.kind WHEN 'message' THEN '\x01'::bytea ELSE '\x00'::bytea END
               || public.halfvec_send(v.embedding) || coalesce(public.halfvec_send(v.rest), ''::bytea) AS chunk
    FROM recall.{table} AS v
    WHERE v.tenant_id = :tenant_id AND (v.item_id, v.chunk) > (:item_id::uuid, :chunk::smallint)
    ORDER BY v.item_id, v.chunk
    LIMIT :count
) AS page;

-- vectors_since --
-- Read the vectors of a transaction and later ones, up to a number, in the form of vectors_after.
SELECT string_agg(page.chunk, ''::bytea) AS chunks
FROM (
    SELECT uuid_send(v.item_id) || int2send(v.chunk)
               || CASE v.kind WHEN 'message' THEN '\x01'::bytea ELSE '\x00'::bytea END
               || public.halfvec_send(v.embedding) || coalesce(public.halfvec_send(v.rest), ''::bytea) AS chunk
    FROM recall.{table} AS v
    WHERE v.tenant_id = :tenant_id AND v.transaction >= :horizon
    LIMIT :count
) AS page;

-- vectors_of_items --
-- Read the vectors of some items, in the form of vectors_after and in no order.
SELECT string_agg(uuid_send(v.item_id) || int2send(v.chunk)
                      || CASE v.kind WHEN 'message' THEN '\x01'::bytea ELSE '\x00'::bytea END
                      || public.halfvec_send(v.embedding) || coalesce(public.halfvec_send(v.rest), ''::bytea),
                  ''::bytea) AS chunks
FROM recall.{table} AS v
WHERE v.tenant_id = :tenant_id AND v.item_id = ANY (:item_ids::uuid[]);

-- items_after --
-- Read the ids of some of the items that have vectors, in their order, as one binary value; an id of several chunks
-- comes several times.
SELECT string_agg(uuid_send(page.item_id), ''::bytea) AS item_ids
FROM (
    SELECT v.item_id
    FROM recall.{table} AS v
    WHERE v.tenant_id = :tenant_id AND v.item_id > :item_id::uuid
    ORDER BY v.item_id, v.chunk
    LIMIT :count
) AS page;

-- compare_shortlist --
-- Compare chunks of some items with a vector over all dimensions, and up to a number of chunks of a transaction and
-- later ones. Each row has the start time of the server, or of the one that was asked before: see read_server_start.
-- Without chunks there is one row without an item.
SELECT here.server, found.item_id, found.chunk, found.kind, found.is_new, found.distance
FROM (SELECT coalesce(:server_start::timestamptz, pg_postmaster_start_time()) AS server) AS here
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
