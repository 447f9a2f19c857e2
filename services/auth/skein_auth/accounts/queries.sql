-- create_account --
-- Insert an account; no row comes back when another one has the address.
INSERT INTO auth.accounts
    (account_id, email, email_verify_time, password_hash, display_name, status, create_time, update_time)
VALUES
    (:account_id, :email, :email_verify_time, :password_hash, :display_name, 'active', :create_time, :update_time)
ON CONFLICT ON CONSTRAINT accounts_email_key DO NOTHING
RETURNING account_id, email, email_verify_time, display_name, status, password_hash IS NOT NULL AS has_password,
    totp_confirm_time IS NOT NULL AS has_totp, revision, create_time, update_time;

-- get_account --
-- Read one account.
SELECT account_id, email, email_verify_time, display_name, status, password_hash IS NOT NULL AS has_password,
    totp_confirm_time IS NOT NULL AS has_totp, revision, create_time, update_time
FROM auth.accounts
WHERE account_id = :account_id;

-- get_account_by_email --
-- Read the account that has an address.
SELECT account_id, email, email_verify_time, display_name, status, password_hash IS NOT NULL AS has_password,
    totp_confirm_time IS NOT NULL AS has_totp, revision, create_time, update_time
FROM auth.accounts
WHERE email = :email;

-- list_accounts --
-- Read a page of all accounts, newest first; `before` is the last id of the page before.
SELECT account_id, email, email_verify_time, display_name, status, password_hash IS NOT NULL AS has_password,
    totp_confirm_time IS NOT NULL AS has_totp, revision, create_time, update_time
FROM auth.accounts
WHERE :before::uuid IS NULL OR account_id < :before
ORDER BY account_id DESC
LIMIT :size;

-- find_credentials --
-- Read what a login with an address is checked against.
SELECT account_id, coalesce(email, '') AS email, coalesce(new_email, '') AS new_email,
    email_verify_time IS NOT NULL AS email_verified, password_hash, status = 'active' AS active,
    totp_confirm_time IS NOT NULL AS has_second_factor, device_generation, revision
FROM auth.accounts
WHERE email = :email;

-- get_credentials --
-- Read what a login to an account is checked against.
SELECT account_id, coalesce(email, '') AS email, coalesce(new_email, '') AS new_email,
    email_verify_time IS NOT NULL AS email_verified, password_hash, status = 'active' AS active,
    totp_confirm_time IS NOT NULL AS has_second_factor, device_generation, revision
FROM auth.accounts
WHERE account_id = :account_id;

-- lock_account --
-- Lock an account until the transaction ends.
SELECT account_id, email, new_email, email_verify_time, password_hash, display_name, status, revision
FROM auth.accounts
WHERE account_id = :account_id
FOR UPDATE;

-- update_account --
-- Change an account that the transaction has locked.
UPDATE auth.accounts
SET email = :email, new_email = :new_email, email_verify_time = :email_verify_time, display_name = :display_name,
    status = :status, password_hash = :password_hash, revision = revision + 1, update_time = :update_time
WHERE account_id = :account_id
RETURNING account_id, email, email_verify_time, display_name, status, password_hash IS NOT NULL AS has_password,
    totp_confirm_time IS NOT NULL AS has_totp, revision, create_time, update_time;

-- replace_password_hash --
-- Replace the hash of the same password, unless the password changed since. The revision stays: nothing visible changes.
UPDATE auth.accounts
SET password_hash = :password_hash
WHERE account_id = :account_id AND password_hash = :old_hash;

-- revoke_known_devices --
-- Make every known device of an account unknown.
UPDATE auth.accounts
SET device_generation = device_generation + 1
WHERE account_id = :account_id;

-- delete_account --
-- Delete an account with its sessions, identities, second factor and one-time tokens.
DELETE FROM auth.accounts
WHERE account_id = :account_id;

-- create_one_time_token --
-- Insert a one-time token.
INSERT INTO auth.one_time_tokens (token_id, account_id, purpose, secret_hash, email, create_time, expire_time)
VALUES (:token_id, :account_id, :purpose, :secret_hash, :email, :create_time, :expire_time);

-- find_one_time_token --
-- Read the account of a valid token.
SELECT t.account_id
FROM auth.one_time_tokens t JOIN auth.accounts a ON a.account_id = t.account_id
WHERE t.token_id = :token_id AND t.secret_hash = :secret_hash AND t.purpose = :purpose AND t.use_time IS NULL
    AND t.expire_time > :at AND t.email = coalesce(a.email, '') AND a.status = 'active';

-- spend_one_time_token --
-- Spend a token: of several transactions at once, one gets the row.
UPDATE auth.one_time_tokens
SET use_time = :at
WHERE token_id = :token_id AND secret_hash = :secret_hash AND purpose = :purpose AND use_time IS NULL AND expire_time > :at
RETURNING account_id, email;

-- spend_one_time_tokens --
-- Spend every other token of an account with this purpose.
UPDATE auth.one_time_tokens
SET use_time = :at
WHERE account_id = :account_id AND purpose = :purpose AND use_time IS NULL;
