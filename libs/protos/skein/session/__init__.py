"""Generated stubs of the proto package skein.session and below."""
