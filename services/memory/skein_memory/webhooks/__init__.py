"""Webhooks: webhooks on the event log, and signed deliveries to their URLs."""
