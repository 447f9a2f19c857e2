"""JSON Schema of the contract's messages, with protovalidate's rules as keywords."""
