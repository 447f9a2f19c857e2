-- create_account --
-- Make an account; no row comes back when another one has the address.
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
-- Read a page of all accounts, newest first; `before` is the last one of the page before.
SELECT account_id, email, email_verify_time, display_name, status, password_hash IS NOT NULL AS has_password,
    totp_confirm_time IS NOT NULL AS has_totp, revision, create_time, update_time
FROM auth.accounts
WHERE :before::uuid IS NULL OR account_id < :before
ORDER BY account_id DESC
LIMIT :size;

-- find_credentials --
-- Read what decides whether somebody signs into the account that has an address.
SELECT account_id, email, new_email, email_verify_time, password_hash, status, revision, device_generation,
    totp_confirm_time IS NOT NULL AS has_totp
FROM auth.accounts
WHERE email = :email;

-- get_credentials --
-- Read what decides whether somebody signs into an account.
SELECT account_id, email, new_email, email_verify_time, password_hash, status, revision, device_generation,
    totp_confirm_time IS NOT NULL AS has_totp
FROM auth.accounts
WHERE account_id = :account_id;

-- lock_account --
-- Read an account and keep others from changing it until the transaction ends.
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
-- Keep the same password in another form, unless another password was set meanwhile; nothing that anybody sees changes.
UPDATE auth.accounts
SET password_hash = :password_hash
WHERE account_id = :account_id AND password_hash = :old_hash;

-- end_known_devices --
-- Make every device that an account signed in from unknown.
UPDATE auth.accounts
SET device_generation = device_generation + 1
WHERE account_id = :account_id;

-- delete_account --
-- Remove an account with its sign-ins, identities, second factor and one-time tokens.
DELETE FROM auth.accounts
WHERE account_id = :account_id;
