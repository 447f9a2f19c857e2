-- find_identity --
-- Read an identity and the account that it is linked to.
SELECT identities.identity_id, identities.login, accounts.account_id, accounts.email, accounts.email_verify_time,
    accounts.display_name, accounts.status, accounts.password_hash IS NOT NULL AS has_password,
    accounts.totp_confirm_time IS NOT NULL AS has_totp, accounts.revision, accounts.create_time, accounts.update_time
FROM auth.identities
JOIN auth.accounts ON accounts.account_id = identities.account_id
WHERE identities.provider = :provider AND identities.subject = :subject;

-- create_identity --
-- Link an identity to an account; no row comes back when it is linked to one already.
INSERT INTO auth.identities (identity_id, account_id, provider, subject, login, create_time)
VALUES (:identity_id, :account_id, :provider, :subject, :login, :create_time)
ON CONFLICT ON CONSTRAINT identities_subject_key DO NOTHING
RETURNING identity_id, provider, subject, login, create_time;

-- get_linked_identity --
-- Read an identity that is linked to this account.
SELECT identity_id, provider, subject, login, create_time
FROM auth.identities
WHERE provider = :provider AND subject = :subject AND account_id = :account_id;

-- update_identity_login --
-- Store an identity's current login name.
UPDATE auth.identities
SET login = :login
WHERE identity_id = :identity_id;

-- list_identities --
-- Read the identities of an account, oldest first.
SELECT identity_id, provider, subject, login, create_time
FROM auth.identities
WHERE account_id = :account_id
ORDER BY identity_id;

-- lock_login_methods --
-- Read whether an account has a password, and lock its row until the transaction ends.
SELECT password_hash IS NOT NULL AS has_password
FROM auth.accounts
WHERE account_id = :account_id
FOR UPDATE;

-- count_identities --
-- Count the identities of an account.
SELECT count(*)
FROM auth.identities
WHERE account_id = :account_id;

-- delete_identities --
-- Delete all identities of an account.
DELETE FROM auth.identities
WHERE account_id = :account_id;

-- delete_identity --
-- Delete an identity of an account.
DELETE FROM auth.identities
WHERE identity_id = :identity_id AND account_id = :account_id;
