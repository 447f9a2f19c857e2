"""The content guard: what a tenant's policy does with secrets and personal data in texts that callers write."""
