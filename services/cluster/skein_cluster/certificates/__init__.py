"""Certificates of erasures in the hands of an auditor: key sets, and the proof against a database."""
