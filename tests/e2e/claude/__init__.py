"""The real Claude Code client against a scripted Messages API on loopback: no account, no network, no model."""
