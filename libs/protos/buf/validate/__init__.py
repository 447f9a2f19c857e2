"""Generated stubs of the proto package buf.validate and below."""
