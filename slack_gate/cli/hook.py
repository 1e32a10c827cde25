"""slack-gate hook"""

from __future__ import annotations

import click

from slack_gate.hook import main


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def hook(arguments: tuple[str, ...]) -> None:
    """One agent event from stdin to the daemon: AGENT [--socket PATH] [--limit SECONDS] [--unreachable deny|ask]."""
    main(list(arguments))
