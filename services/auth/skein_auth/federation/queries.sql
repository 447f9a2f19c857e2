-- find_identity --
-- Read an identity and the account that it signs into.
SELECT identities.identity_id, identities.login, accounts.account_id, accounts.email, accounts.email_verify_time,
    accounts.display_name, accounts.status, accounts.password_hash IS NOT NULL AS has_password,
    accounts.totp_confirm_time IS NOT NULL AS has_totp, accounts.revision, accounts.create_time, accounts.update_time
FROM auth.identities
JOIN auth.accounts ON accounts.account_id = identities.account_id
WHERE identities.provider = :provider AND identities.subject = :subject;

-- create_identity --
-- Let an identity sign into an account; no row comes back when it signs into one already.
INSERT INTO auth.identities (identity_id, account_id, provider, subject, login, create_time)
VALUES (:identity_id, :account_id, :provider, :subject, :login, :create_time)
ON CONFLICT ON CONSTRAINT identities_subject_key DO NOTHING
RETURNING identity_id, provider, subject, login, create_time;

-- get_linked_identity --
-- Read an identity that signs into this account; no row comes back when it signs into another one.
SELECT identity_id, provider, subject, login, create_time
FROM auth.identities
WHERE provider = :provider AND subject = :subject AND account_id = :account_id;

-- update_identity_login --
-- Keep what people call the identity now.
UPDATE auth.identities
SET login = :login
WHERE identity_id = :identity_id;

-- list_identities --
-- Read what signs into an account besides its password, oldest first.
SELECT identity_id, provider, subject, login, create_time
FROM auth.identities
WHERE account_id = :account_id
ORDER BY identity_id;

-- lock_ways_in --
-- Say whether an account has a password, and keep others from changing how one signs into it until the transaction ends.
SELECT password_hash IS NOT NULL AS has_password
FROM auth.accounts
WHERE account_id = :account_id
FOR UPDATE;

-- count_identities --
-- Count what signs into an account besides its password.
SELECT count(*)
FROM auth.identities
WHERE account_id = :account_id;

-- delete_identities --
-- Let no identity sign into an account any more.
DELETE FROM auth.identities
WHERE account_id = :account_id;

-- delete_identity --
-- Let an identity sign into an account no more; no row is touched when it did not.
DELETE FROM auth.identities
WHERE identity_id = :identity_id AND account_id = :account_id;
