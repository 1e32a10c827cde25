"""The doors over HTTP, on 127.0.0.1 alone: the agent endpoint and the approval page."""
