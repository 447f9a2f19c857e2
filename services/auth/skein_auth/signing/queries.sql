-- active_signing_key --
-- Read the active key of a purpose, with its encrypted private half.
SELECT key_id, encrypted_private_jwk AS encrypted_private_jwk
FROM auth.signing_keys
WHERE purpose = :purpose AND expire_time IS NULL;

-- list_signing_keys --
-- Read the public halves of a purpose's keys that verify at :at, the active one first.
SELECT key_id, public_jwk, create_time, expire_time
FROM auth.signing_keys
WHERE purpose = :purpose AND (expire_time IS NULL OR expire_time > :at)
ORDER BY expire_time DESC NULLS FIRST, key_id;

-- create_signing_key --
-- Make a key the active one of its purpose; no row is inserted when there is one.
INSERT INTO auth.signing_keys (key_id, purpose, public_jwk, encrypted_private_jwk, create_time)
VALUES (:key_id, :purpose, :public_jwk, :encrypted_private_jwk, :create_time)
ON CONFLICT DO NOTHING;

-- lock_signing_keys --
-- Serialize rotations of all replicas until the transaction ends.
SELECT pg_advisory_xact_lock(hashtext('auth.signing_keys'));

-- expire_active_signing_key --
-- Set the expiry of the active key of a purpose.
UPDATE auth.signing_keys
SET expire_time = :expire_time
WHERE purpose = :purpose AND expire_time IS NULL;

-- expire_signing_keys --
-- Set the expiry of every key of a purpose, replaced ones included.
UPDATE auth.signing_keys
SET expire_time = :expire_time
WHERE purpose = :purpose AND (expire_time IS NULL OR expire_time > :expire_time);

-- delete_expired_signing_keys --
-- Delete expired keys.
DELETE FROM auth.signing_keys
WHERE expire_time <= :at;
