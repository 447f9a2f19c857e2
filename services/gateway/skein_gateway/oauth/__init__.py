"""The public face of the OAuth 2.1 authorization server: pages for people, endpoints for software. State is auth's."""
