"""Answering and making calls: servers, channels, interceptors, pagination, streams."""
