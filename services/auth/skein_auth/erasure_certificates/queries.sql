-- lock_erasure_certificate --
-- Serialize the calls of one erasure until the transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended(place.tenant_id::text || encode(place.erasure_key, 'hex'), 0))
FROM (SELECT :tenant_id::uuid AS tenant_id, :erasure_key::bytea AS erasure_key) AS place;

-- read_certificate_of_erasure --
-- Read the certificate of an erasure, if it has one.
SELECT certificate_id, is_complete, statement, key_id, signature, memory_tombstones, session_tombstones, create_time,
    sign_time
FROM auth.erasure_certificates
WHERE tenant_id = :tenant_id AND erasure_key = :erasure_key;

-- create_erasure_certificate --
-- Insert a certificate.
INSERT INTO auth.erasure_certificates
    (tenant_id, certificate_id, erasure_key, is_complete, statement, key_id, signature, memory_tombstones,
     session_tombstones, create_time, sign_time)
VALUES
    (:tenant_id, :certificate_id, :erasure_key, :is_complete, :statement, :key_id, :signature, :memory_tombstones,
     :session_tombstones, :create_time, :sign_time);

-- update_erasure_certificate --
-- Replace what a certificate of an incomplete erasure says.
UPDATE auth.erasure_certificates
SET erasure_key = :erasure_key, is_complete = :is_complete, statement = :statement, key_id = :key_id,
    signature = :signature, memory_tombstones = :memory_tombstones, session_tombstones = :session_tombstones,
    sign_time = :sign_time
WHERE tenant_id = :tenant_id AND certificate_id = :certificate_id AND NOT is_complete;

-- get_erasure_certificate --
-- Read a certificate.
SELECT certificate_id, is_complete, statement, key_id, signature, memory_tombstones, session_tombstones, create_time,
    sign_time
FROM auth.erasure_certificates
WHERE tenant_id = :tenant_id AND certificate_id = :certificate_id;

-- list_erasure_certificates --
-- Read a page of a tenant's certificates, newest first; `before` is the last id of the page before. Without tombstones.
SELECT certificate_id, is_complete, statement, key_id, signature, ''::bytea AS memory_tombstones,
    ''::bytea AS session_tombstones, create_time, sign_time
FROM auth.erasure_certificates
WHERE tenant_id = :tenant_id AND (:before::uuid IS NULL OR certificate_id < :before)
ORDER BY certificate_id DESC
LIMIT :size;

-- log_end_of_certificate --
-- Return the end of the write-ahead log, as Postgres writes positions. The tenant is not in it.
SELECT pg_current_wal_insert_lsn()::text FROM (SELECT :tenant_id::uuid AS tenant_id) AS place;
