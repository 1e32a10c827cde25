"""The command line: `python -m slack_gate`, or this file by its path under `python -I`, with `-S` for a copied tree."""

import sys

if not __package__:  # by its path; -I leaves out where it lies
    sys.path.insert(0, __file__.rsplit("/", 2)[0] or "/")

from slack_gate.cli import main

main()
