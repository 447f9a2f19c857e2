-- create_canary_organization --
-- Create the organization of the synthetic tenants, unless it exists.
INSERT INTO tenancy.organizations (organization_id, display_name, slug, metadata, create_time, update_time)
VALUES (:organization_id, :display_name, :slug, NULL, :create_time, :create_time)
ON CONFLICT DO NOTHING;

-- create_canary_tenant --
-- Create one of the synthetic tenants, unless it exists or was deleted.
INSERT INTO tenancy.tenants (tenant_id, organization_id, display_name, slug, metadata, create_time, update_time)
VALUES (:tenant_id, :organization_id, :display_name, :slug, NULL, :create_time, :create_time)
ON CONFLICT DO NOTHING;
