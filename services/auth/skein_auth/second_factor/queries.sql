-- get_second_factor --
-- Read an account's second factor, address and password hash.
SELECT coalesce(email, '') AS email, password_hash, coalesce(encrypted_totp_secret, '') AS encrypted_secret,
    totp_confirm_time IS NOT NULL AS confirmed, totp_step AS step
FROM auth.accounts
WHERE account_id = :account_id;

-- lock_second_factor --
-- Lock an account's second factor until the transaction ends.
SELECT coalesce(encrypted_totp_secret, '') AS encrypted_secret, totp_confirm_time IS NOT NULL AS confirmed,
    totp_step AS step
FROM auth.accounts
WHERE account_id = :account_id
FOR UPDATE;

-- start_totp --
-- Store a secret that waits for confirmation; no row is updated when the second factor is confirmed.
UPDATE auth.accounts
SET encrypted_totp_secret = :encrypted_secret, totp_step = 0, revision = revision + 1, update_time = :at
WHERE account_id = :account_id AND totp_confirm_time IS NULL;

-- confirm_totp --
-- Make the second factor obligatory; the code of this step is spent.
UPDATE auth.accounts
SET totp_confirm_time = :at, totp_step = :step, revision = revision + 1, update_time = :at
WHERE account_id = :account_id;

-- spend_totp_step --
-- Spend the code of a time step: of several transactions at once, one updates a row.
UPDATE auth.accounts
SET totp_step = :step
WHERE account_id = :account_id AND totp_confirm_time IS NOT NULL AND totp_step < :step;

-- reencrypt_totp_secret --
-- Replace the encryption of the same secret, unless the secret changed since.
UPDATE auth.accounts
SET encrypted_totp_secret = :encrypted_secret
WHERE account_id = :account_id AND encrypted_totp_secret = :old_encrypted_secret;

-- disable_totp --
-- Delete the second factor.
UPDATE auth.accounts
SET encrypted_totp_secret = NULL, totp_confirm_time = NULL, totp_step = 0, revision = revision + 1, update_time = :at
WHERE account_id = :account_id;

-- delete_totp_secret --
-- Delete the second factor of an account that the transaction has locked and updates besides.
UPDATE auth.accounts
SET encrypted_totp_secret = NULL, totp_confirm_time = NULL, totp_step = 0
WHERE account_id = :account_id;

-- create_recovery_codes --
-- Insert the hashes of an account's recovery codes.
INSERT INTO auth.recovery_codes (account_id, code_hash)
SELECT :account_id, unnest(:code_hashes::bytea[]);

-- spend_recovery_code --
-- Spend a recovery code: of several transactions at once, one updates a row.
UPDATE auth.recovery_codes
SET use_time = :at
WHERE account_id = :account_id AND code_hash = :code_hash AND use_time IS NULL;

-- delete_recovery_codes --
-- Delete all recovery codes of an account.
DELETE FROM auth.recovery_codes
WHERE account_id = :account_id;
