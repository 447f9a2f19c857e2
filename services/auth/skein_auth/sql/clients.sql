-- create_client --
-- Keep a client that registered.
INSERT INTO auth.clients
    (client_id, source, client_name, redirect_uris, grant_types, response_types, token_endpoint_auth_method, scope,
     client_uri, logo_uri, tos_uri, policy_uri, contacts, software_id, software_version, secret_hash,
     secret_expire_time, registration_hash, stale_time, create_time, update_time)
VALUES
    (:client_id, :source, :client_name, :redirect_uris, :grant_types, :response_types, :token_endpoint_auth_method,
     :scope, :client_uri, :logo_uri, :tos_uri, :policy_uri, :contacts, :software_id, :software_version, :secret_hash,
     :secret_expire_time, :registration_hash, :stale_time, :create_time, :update_time);

-- take_over_client --
-- Keep a client that registered with an earlier system; no row comes back when its id is taken.
INSERT INTO auth.clients
    (client_id, source, client_name, redirect_uris, grant_types, response_types, token_endpoint_auth_method, scope,
     client_uri, logo_uri, tos_uri, policy_uri, contacts, software_id, software_version, secret_hash,
     secret_expire_time, registration_hash, stale_time, create_time, update_time)
VALUES
    (:client_id, :source, :client_name, :redirect_uris, :grant_types, :response_types, :token_endpoint_auth_method,
     :scope, :client_uri, :logo_uri, :tos_uri, :policy_uri, :contacts, :software_id, :software_version, :secret_hash,
     :secret_expire_time, :registration_hash, :stale_time, :create_time, :update_time)
ON CONFLICT ON CONSTRAINT clients_pkey DO NOTHING
RETURNING client_id;

-- keep_document --
-- Keep what a client-id metadata document says, in the place of what it said before; a registered client stays.
INSERT INTO auth.clients
    (client_id, source, client_name, redirect_uris, grant_types, response_types, token_endpoint_auth_method, scope,
     client_uri, logo_uri, tos_uri, policy_uri, contacts, software_id, software_version, secret_hash,
     secret_expire_time, registration_hash, stale_time, create_time, update_time)
VALUES
    (:client_id, :source, :client_name, :redirect_uris, :grant_types, :response_types, :token_endpoint_auth_method,
     :scope, :client_uri, :logo_uri, :tos_uri, :policy_uri, :contacts, :software_id, :software_version, :secret_hash,
     :secret_expire_time, :registration_hash, :stale_time, :create_time, :update_time)
ON CONFLICT ON CONSTRAINT clients_pkey DO UPDATE
SET client_name = excluded.client_name, redirect_uris = excluded.redirect_uris, grant_types = excluded.grant_types,
    response_types = excluded.response_types, scope = excluded.scope, client_uri = excluded.client_uri,
    logo_uri = excluded.logo_uri, tos_uri = excluded.tos_uri, policy_uri = excluded.policy_uri,
    contacts = excluded.contacts, software_id = excluded.software_id, software_version = excluded.software_version,
    stale_time = excluded.stale_time, update_time = excluded.update_time
WHERE auth.clients.source = 'document';

-- get_client --
-- Read a client.
SELECT client_id, source, client_name, redirect_uris, grant_types, response_types, token_endpoint_auth_method, scope,
       client_uri, logo_uri, tos_uri, policy_uri, contacts, software_id, software_version, secret_hash,
       secret_expire_time, registration_hash, stale_time, create_time, update_time
FROM auth.clients
WHERE client_id = :client_id;

-- lock_client --
-- Take a client until the transaction ends.
SELECT client_id, source, client_name, redirect_uris, grant_types, response_types, token_endpoint_auth_method, scope,
       client_uri, logo_uri, tos_uri, policy_uri, contacts, software_id, software_version, secret_hash,
       secret_expire_time, registration_hash, stale_time, create_time, update_time
FROM auth.clients
WHERE client_id = :client_id
FOR UPDATE;

-- update_client --
-- Replace what a client says of itself.
UPDATE auth.clients
SET client_name = :client_name, redirect_uris = :redirect_uris, grant_types = :grant_types,
    response_types = :response_types, token_endpoint_auth_method = :token_endpoint_auth_method, scope = :scope,
    client_uri = :client_uri, logo_uri = :logo_uri, tos_uri = :tos_uri, policy_uri = :policy_uri, contacts = :contacts,
    software_id = :software_id, software_version = :software_version, secret_hash = :secret_hash,
    stale_time = :stale_time, update_time = :update_time
WHERE client_id = :client_id;

-- delete_client --
-- Remove a client with everything that it was given.
DELETE FROM auth.clients
WHERE client_id = :client_id;
