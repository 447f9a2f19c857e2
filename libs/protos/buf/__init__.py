"""Generated stubs of the proto package buf and below."""
