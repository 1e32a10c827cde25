"""`python -m slack_gate`: the command line."""

from slack_gate.cli import main

main()
