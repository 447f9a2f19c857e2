-- get_second_factor --
-- Read an account's second factor, and what proves its first; no row comes back when there is no such account.
SELECT email, password_hash, sealed_totp_secret, totp_confirm_time, totp_step
FROM auth.accounts
WHERE account_id = :account_id;

-- lock_second_factor --
-- Read an account's second factor and keep others from changing it until the transaction ends.
SELECT sealed_totp_secret, totp_confirm_time, totp_step
FROM auth.accounts
WHERE account_id = :account_id
FOR UPDATE;

-- start_totp --
-- Keep a secret that counts for nothing yet, in place of an earlier one; no row is touched when there is one that counts.
UPDATE auth.accounts
SET sealed_totp_secret = :sealed_totp_secret, totp_step = 0, revision = revision + 1, update_time = :at
WHERE account_id = :account_id AND totp_confirm_time IS NULL;

-- confirm_totp --
-- Make the second factor obligatory; the code of this step is spent.
UPDATE auth.accounts
SET totp_confirm_time = :at, totp_step = :step, revision = revision + 1, update_time = :at
WHERE account_id = :account_id;

-- spend_totp_step --
-- Spend the code of a time step: of those who present it at once, one touches a row.
UPDATE auth.accounts
SET totp_step = :step
WHERE account_id = :account_id AND totp_confirm_time IS NOT NULL AND totp_step < :step;

-- reseal_totp --
-- Keep the same secret under another seal, unless the secret was replaced meanwhile.
UPDATE auth.accounts
SET sealed_totp_secret = :resealed
WHERE account_id = :account_id AND sealed_totp_secret = :sealed_totp_secret;

-- disable_totp --
-- Remove the second factor.
UPDATE auth.accounts
SET sealed_totp_secret = NULL, totp_confirm_time = NULL, totp_step = 0, revision = revision + 1, update_time = :at
WHERE account_id = :account_id;

-- remove_totp --
-- Remove the second factor of an account that the transaction has locked and changes anyway.
UPDATE auth.accounts
SET sealed_totp_secret = NULL, totp_confirm_time = NULL, totp_step = 0
WHERE account_id = :account_id;

-- create_recovery_codes --
-- Keep what an account's recovery codes are recognised by.
INSERT INTO auth.recovery_codes (account_id, code_hash)
SELECT :account_id, unnest(:code_hashes::bytea[]);

-- spend_recovery_code --
-- Spend a recovery code: of those who present it at once, one touches a row.
UPDATE auth.recovery_codes
SET use_time = :at
WHERE account_id = :account_id AND code_hash = :code_hash AND use_time IS NULL;

-- delete_recovery_codes --
-- Remove all recovery codes of an account.
DELETE FROM auth.recovery_codes
WHERE account_id = :account_id;
