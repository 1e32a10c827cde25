"""Ask a human in Slack before a coding agent's command runs."""
