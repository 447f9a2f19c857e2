-- ensure_canary_organization --
-- Make the organization of the synthetic tenants, unless it is there.
INSERT INTO tenancy.organizations (organization_id, display_name, slug, metadata, create_time, update_time)
VALUES (:organization_id, :display_name, :slug, NULL, :create_time, :create_time)
ON CONFLICT DO NOTHING;

-- ensure_canary_tenant --
-- Make one of the synthetic tenants, unless it is there or was deleted.
INSERT INTO tenancy.tenants (tenant_id, organization_id, display_name, slug, metadata, create_time, update_time)
VALUES (:tenant_id, :organization_id, :display_name, :slug, NULL, :create_time, :create_time)
ON CONFLICT DO NOTHING;
