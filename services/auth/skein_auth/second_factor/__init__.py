"""The second factor of an account: TOTP codes (RFC 6238) and recovery codes."""
