"""slack-gate ask-on"""

from __future__ import annotations

import click

from slack_gate.cli.approval_page import approval_page
from slack_gate.config import load
from slack_gate.core.cord import Place


@click.command("ask-on")
@click.argument("place", type=click.Choice([place.value for place in Place]))
def ask_on(place: str) -> None:
    """Where gated calls are asked from now on; asks for the approval page's password.

    slack: with cards, and wherever else the daemon was told to ask. web: on the approval page and the terminal only.
    console: at the agent's own permission prompt; where no such prompt is known to hold a call, the call is denied.

    The password is typed, or is the first line of stdin where that is no terminal. It is never taken from an argument
    or the environment, so a program of your own user, such as the agent, cannot change this.
    """
    with approval_page(load().page_port, "/cord") as page:
        page.send("/cord", {"pull": place, "token": page.forms["cord"]})
        click.echo(page.sentence("/cord"))  # the daemon knows whether it is paused, and whether Slack is used
