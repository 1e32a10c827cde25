"""One file a change; frozen once released."""
