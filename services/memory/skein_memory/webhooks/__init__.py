"""Webhooks: subscriptions to the event log, and signed deliveries to their URLs."""
