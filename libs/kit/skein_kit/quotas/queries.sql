-- list_limits --
-- Read what a tenant may have at most of each kind, by its own limits and by its organization's.
SELECT kind, least(most, organization_most) AS most
FROM tenancy.limits
WHERE tenant_id = :tenant_id AND (most IS NOT NULL OR organization_most IS NOT NULL);

-- add_usage --
-- Count what a tenant has more of now, or less.
INSERT INTO any_schema.usage AS known (tenant_id, kind, slot, amount)
VALUES (:tenant_id, :kind, :slot, :amount)
ON CONFLICT ON CONSTRAINT usage_pkey DO UPDATE
    SET amount = known.amount + excluded.amount;

-- charge_usage --
-- Count what a tenant has more of now, and return how much that makes and how much it may be. What everybody counts in
-- the same slot is exact, because each waits for the one before; of other slots it sees what was committed.
WITH added AS (
    INSERT INTO any_schema.usage AS known (tenant_id, kind, slot, amount)
    VALUES (:tenant_id, :kind, :slot, :amount)
    ON CONFLICT ON CONSTRAINT usage_pkey DO UPDATE
        SET amount = known.amount + excluded.amount
    RETURNING known.amount
)
SELECT (added.amount + coalesce((
           SELECT sum(other.amount) FROM any_schema.usage AS other
           WHERE other.tenant_id = :tenant_id AND other.kind = :kind AND other.slot <> :slot), 0))::bigint AS used,
       (SELECT least(limits.most, limits.organization_most) FROM tenancy.limits
        WHERE limits.tenant_id = :tenant_id AND limits.kind = :kind) AS most
FROM added;
