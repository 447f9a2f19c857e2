-- create_invitation --
-- Create an invitation to the tenant.
INSERT INTO tenancy.invitations
    (tenant_id, invitation_id, email, role, secret_hash, create_time, expire_time, created_by, grant_ids)
VALUES (:tenant_id, :invitation_id, :email, :role, :secret_hash, :create_time, :expire_time, :created_by, :grant_ids)
RETURNING invitation_id, email, role, create_time, expire_time, created_by;

-- count_recent_invitations --
-- Count the invitations that the tenant made since a time: their ids begin with it.
SELECT count(invitation_id)
FROM tenancy.invitations
WHERE tenant_id = :tenant_id AND invitation_id >= :since_id;

-- has_member_of_address --
-- Return whether an account that joined with this address is a member.
SELECT EXISTS (SELECT FROM tenancy.memberships WHERE tenant_id = :tenant_id AND email = :email);

-- list_invitations --
-- Read a page of the open invitations, newest first; `before` is the last one of the page before. One that a grant made
-- ends with the grant.
SELECT invitation_id, email, role, create_time, expire_time, created_by
FROM tenancy.invitations
WHERE tenant_id = :tenant_id AND use_time IS NULL AND revoke_time IS NULL AND expire_time > :at
  AND NOT EXISTS (
      SELECT FROM unnest(invitations.grant_ids) AS grants (grant_id)
      WHERE NOT EXISTS (
          SELECT FROM auth.live_grants AS live
          WHERE live.tenant_id = :tenant_id AND live.grant_id = grants.grant_id AND live.expire_time > :at))
  AND (:before::uuid IS NULL OR invitation_id < :before)
ORDER BY invitation_id DESC
LIMIT :size;

-- get_invitation --
-- Read an invitation and the hash of its secret; no row comes back when its tenant is deleted, or a grant that made
-- it has ended.
SELECT invitations.email, invitations.role, invitations.secret_hash, invitations.mailed AS is_mailed,
    invitations.expire_time, invitations.use_time, invitations.revoke_time
FROM tenancy.invitations
JOIN tenancy.tenants ON tenants.tenant_id = invitations.tenant_id
WHERE invitations.tenant_id = :tenant_id AND invitations.invitation_id = :invitation_id AND tenants.is_active
  AND NOT EXISTS (
      SELECT FROM unnest(invitations.grant_ids) AS grants (grant_id)
      WHERE NOT EXISTS (
          SELECT FROM auth.live_grants AS live
          WHERE live.tenant_id = :tenant_id AND live.grant_id = grants.grant_id AND live.expire_time > :at));

-- lock_invitation --
-- Read an invitation and keep others from accepting it until the transaction ends; no row comes back when its tenant is
-- deleted, or a grant that made it has ended.
SELECT invitations.email, invitations.role, invitations.secret_hash, invitations.mailed AS is_mailed,
    invitations.expire_time, invitations.use_time, invitations.revoke_time
FROM tenancy.invitations
JOIN tenancy.tenants ON tenants.tenant_id = invitations.tenant_id
WHERE invitations.tenant_id = :tenant_id AND invitations.invitation_id = :invitation_id AND tenants.is_active
  AND NOT EXISTS (
      SELECT FROM unnest(invitations.grant_ids) AS grants (grant_id)
      WHERE NOT EXISTS (
          SELECT FROM auth.live_grants AS live
          WHERE live.tenant_id = :tenant_id AND live.grant_id = grants.grant_id AND live.expire_time > :at))
FOR UPDATE OF invitations;

-- mark_invitation_mailed --
-- Record that the token was sent to the invited address alone.
UPDATE tenancy.invitations
SET mailed = true
WHERE tenant_id = :tenant_id AND invitation_id = :invitation_id;

-- use_invitation --
-- Mark an invitation as used; no row is updated when it is used or revoked.
UPDATE tenancy.invitations
SET use_time = :use_time
WHERE tenant_id = :tenant_id AND invitation_id = :invitation_id AND use_time IS NULL AND revoke_time IS NULL;

-- revoke_invitation --
-- Revoke an open invitation; no row is updated when there is none.
UPDATE tenancy.invitations
SET revoke_time = :revoke_time
WHERE tenant_id = :tenant_id AND invitation_id = :invitation_id AND use_time IS NULL AND revoke_time IS NULL
  AND expire_time > :revoke_time;

-- delete_expired_invitations --
-- Remove the tenant's expired invitations, used and revoked ones too.
DELETE FROM tenancy.invitations
WHERE tenant_id = :tenant_id AND expire_time <= :at;
