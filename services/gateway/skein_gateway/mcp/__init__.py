"""The MCP server: public RPCs as tools, resources and a prompt, by the official SDK over streamable HTTP, stateless."""
