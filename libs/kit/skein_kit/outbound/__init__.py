"""Calls that leave the cluster: safe fetches and mail."""
