"""Service accounts: named owners of API keys."""
