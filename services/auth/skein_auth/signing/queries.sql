-- active_signing_key --
-- Read the key that signs for a purpose, with its sealed private half.
SELECT key_id, sealed_private_jwk
FROM auth.signing_keys
WHERE purpose = :purpose AND expire_time IS NULL;

-- list_signing_keys --
-- Read the public halves of a purpose's keys that still verify, the one that signs first.
SELECT key_id, public_jwk, create_time, expire_time
FROM auth.signing_keys
WHERE purpose = :purpose AND (expire_time IS NULL OR expire_time > :at)
ORDER BY expire_time DESC NULLS FIRST, key_id;

-- create_signing_key --
-- Make a key the one that signs for its purpose; no row is touched when there is one already.
INSERT INTO auth.signing_keys (key_id, purpose, public_jwk, sealed_private_jwk, create_time)
VALUES (:key_id, :purpose, :public_jwk, :sealed_private_jwk, :create_time)
ON CONFLICT DO NOTHING;

-- lock_signing_keys --
-- Let one rotation happen at a time, over all replicas, until the transaction ends.
SELECT pg_advisory_xact_lock(hashtext('auth.signing_keys'));

-- retire_signing_key --
-- Give the key that signs for a purpose an end.
UPDATE auth.signing_keys
SET expire_time = :expire_time
WHERE purpose = :purpose AND expire_time IS NULL;

-- end_signing_keys --
-- End every key of a purpose, those that were replaced before included.
UPDATE auth.signing_keys
SET expire_time = :expire_time
WHERE purpose = :purpose AND (expire_time IS NULL OR expire_time > :expire_time);

-- delete_expired_signing_keys --
-- Remove keys that verify nothing any more.
DELETE FROM auth.signing_keys
WHERE expire_time <= :at;
