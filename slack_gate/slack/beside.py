"""What stands in Slack beside the cards, put together: Home tab, commands, reactions."""

from __future__ import annotations

from collections.abc import Callable

from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from slack_gate.core.change import FileNow
from slack_gate.core.overview import Controls
from slack_gate.core.request import Request
from slack_gate.slack.app import Decider
from slack_gate.slack.commands import Commands
from slack_gate.slack.contact import Contact, Later
from slack_gate.slack.home_buttons import HomeButtons
from slack_gate.slack.home_tab import HomeTab
from slack_gate.slack.people import People
from slack_gate.slack.permalinks import Permalinks
from slack_gate.slack.reactions import Reactions


def beside_cards(
    app: AsyncApp,
    client: AsyncWebClient,
    controls: Controls,
    gate: Decider,
    people: People,
    later: Later,
    reactions: bool,
    file: Callable[[Request], FileNow | None],
) -> HomeTab:
    """Listens on `app`; the tab returned is still to be run, and told of changes."""
    contact, links = Contact(client, controls, people, later), Permalinks(client)
    tab = HomeTab(contact, gate, links, file)
    tab.listen(app)
    HomeButtons(contact, gate, tab).listen(app)
    Commands(contact, links).listen(app)
    Reactions(contact, gate, reactions, file).listen(app)
    return tab
