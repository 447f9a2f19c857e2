"""The one public door: authentication, forwarding and fan-out."""
