"""Sessions of accounts and grants to applications: authorization codes and refresh tokens as a state machine, and the rows that hold them."""
