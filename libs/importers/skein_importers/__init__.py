"""Moving into a tenant: files of records and other memory systems, imported, compared and exported."""
