-- create_client --
-- Insert a registered client.
INSERT INTO auth.clients
    (client_id, source, client_name, redirect_uris, grant_types, response_types, token_endpoint_auth_method, scope,
     client_uri, logo_uri, tos_uri, policy_uri, contacts, software_id, software_version, jwks_uri, jwks, secret_hash,
     secret_expire_time, registration_hash, stale_time, create_time, update_time,
     source_hash)
VALUES
    (:client_id, :source, :client_name, :redirect_uris, :grant_types, :response_types, :token_endpoint_auth_method,
     :scope, :client_uri, :logo_uri, :tos_uri, :policy_uri, :contacts, :software_id, :software_version, :jwks_uri, :jwks,
     :secret_hash,
     :secret_expire_time, :registration_hash, :stale_time, :create_time, :update_time,
     :source_hash);

-- import_client --
-- Insert a client of an earlier system; no row comes back when its id is taken.
INSERT INTO auth.clients
    (client_id, source, client_name, redirect_uris, grant_types, response_types, token_endpoint_auth_method, scope,
     client_uri, logo_uri, tos_uri, policy_uri, contacts, software_id, software_version, jwks_uri, jwks, secret_hash,
     secret_expire_time, registration_hash, stale_time, create_time, update_time)
VALUES
    (:client_id, :source, :client_name, :redirect_uris, :grant_types, :response_types, :token_endpoint_auth_method,
     :scope, :client_uri, :logo_uri, :tos_uri, :policy_uri, :contacts, :software_id, :software_version, :jwks_uri, :jwks,
     :secret_hash,
     :secret_expire_time, :registration_hash, :stale_time, :create_time, :update_time)
ON CONFLICT ON CONSTRAINT clients_pkey DO NOTHING
RETURNING client_id;

-- upsert_metadata_document --
-- Insert or replace the metadata of a client-id document; a registered client stays as it is.
INSERT INTO auth.clients
    (client_id, source, client_name, redirect_uris, grant_types, response_types, token_endpoint_auth_method, scope,
     client_uri, logo_uri, tos_uri, policy_uri, contacts, software_id, software_version, jwks_uri, jwks, secret_hash,
     secret_expire_time, registration_hash, stale_time, create_time, update_time,
     source_hash)
VALUES
    (:client_id, :source, :client_name, :redirect_uris, :grant_types, :response_types, :token_endpoint_auth_method,
     :scope, :client_uri, :logo_uri, :tos_uri, :policy_uri, :contacts, :software_id, :software_version, :jwks_uri, :jwks,
     :secret_hash,
     :secret_expire_time, :registration_hash, :stale_time, :create_time, :update_time,
     :source_hash)
ON CONFLICT ON CONSTRAINT clients_pkey DO UPDATE
SET client_name = excluded.client_name, redirect_uris = excluded.redirect_uris, grant_types = excluded.grant_types,
    response_types = excluded.response_types,
    token_endpoint_auth_method = excluded.token_endpoint_auth_method, scope = excluded.scope,
    client_uri = excluded.client_uri, jwks_uri = excluded.jwks_uri, jwks = excluded.jwks,
    logo_uri = excluded.logo_uri, tos_uri = excluded.tos_uri, policy_uri = excluded.policy_uri,
    contacts = excluded.contacts, software_id = excluded.software_id, software_version = excluded.software_version,
    stale_time = excluded.stale_time, update_time = excluded.update_time
WHERE auth.clients.source = 'document';

-- get_client --
-- Read a client.
SELECT client_id, source, client_name, redirect_uris, grant_types, response_types, token_endpoint_auth_method, scope,
       client_uri, logo_uri, tos_uri, policy_uri, contacts, software_id, software_version, jwks_uri, jwks,
       secret_hash, secret_expire_time, registration_hash, stale_time, create_time, update_time
FROM auth.clients
WHERE client_id = :client_id;

-- lock_client --
-- Lock a client until the transaction ends.
SELECT client_id, source, client_name, redirect_uris, grant_types, response_types, token_endpoint_auth_method, scope,
       client_uri, logo_uri, tos_uri, policy_uri, contacts, software_id, software_version, jwks_uri, jwks,
       secret_hash, secret_expire_time, registration_hash, stale_time, create_time, update_time
FROM auth.clients
WHERE client_id = :client_id
FOR UPDATE;

-- update_client --
-- Replace a client's metadata.
UPDATE auth.clients
SET client_name = :client_name, redirect_uris = :redirect_uris, grant_types = :grant_types,
    response_types = :response_types, token_endpoint_auth_method = :token_endpoint_auth_method, scope = :scope,
    client_uri = :client_uri, logo_uri = :logo_uri, tos_uri = :tos_uri, policy_uri = :policy_uri, contacts = :contacts,
    software_id = :software_id, software_version = :software_version, jwks_uri = :jwks_uri, jwks = :jwks,
    secret_hash = :secret_hash,
    stale_time = :stale_time, update_time = :update_time
WHERE client_id = :client_id;

-- delete_client --
-- Delete a client with all its grants.
DELETE FROM auth.clients
WHERE client_id = :client_id;

-- lock_registration --
-- Serialize registrations until the transaction ends: each counts the rows of those before it.
SELECT pg_advisory_xact_lock('auth.clients'::regclass::bigint);

-- delete_unused_clients_for_room --
-- Delete clients without any grant, so that a source, and all sources, have room for one more: the oldest first, none
-- younger than `before`, and none with a pending device.
DELETE FROM auth.clients AS c
WHERE c.grant_expire_time IS NULL AND c.create_time < :before
    AND c.client_id IN (
        (SELECT o.client_id FROM auth.clients AS o
         WHERE o.source_hash = :source_hash AND o.grant_expire_time IS NULL
         ORDER BY o.create_time DESC
         OFFSET :max_per_source::integer - 1)
        UNION ALL
        (SELECT o.client_id FROM auth.clients AS o
         WHERE o.source_hash IS NOT NULL AND o.grant_expire_time IS NULL
         ORDER BY o.create_time DESC
         OFFSET :max_clients::integer - 1))
    AND NOT EXISTS (SELECT FROM auth.device_codes AS d WHERE d.client_id = c.client_id);

-- has_room_for_client --
-- Read whether a source, and all sources together, have room for another client without a grant.
SELECT NOT EXISTS (
        SELECT FROM auth.clients
        WHERE source_hash = :source_hash AND grant_expire_time IS NULL
        OFFSET :max_per_source::integer - 1)
    AND NOT EXISTS (
        SELECT FROM auth.clients
        WHERE source_hash IS NOT NULL AND grant_expire_time IS NULL
        OFFSET :max_clients::integer - 1);

-- delete_unused_clients --
-- Delete some self-registered clients without a grant since a time; imported ones stay.
DELETE FROM auth.clients AS c
WHERE coalesce(c.grant_expire_time, c.create_time) < :before
    AND c.client_id IN (
        SELECT o.client_id FROM auth.clients AS o
        WHERE coalesce(o.grant_expire_time, o.create_time) < :before
            AND (o.registration_hash IS NOT NULL OR o.source = 'document')
            AND NOT EXISTS (SELECT FROM auth.device_codes AS d WHERE d.client_id = o.client_id)
        LIMIT :size);
