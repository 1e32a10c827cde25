"""What a person can answer to a request beside yes and no; the gate says it, the surfaces draw it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slack_gate.core.display import shape, units
from slack_gate.core.request import Request
from slack_gate.core.rules import Key
from slack_gate.core.secrets import mask

MAX_EDIT = 3000  # UTF-16 units that a field of a dialog holds


@dataclass(frozen=True, slots=True)
class Offers:
    """`keys` is what Always would save (empty: nothing), `caged` whether it would then run in the cage; `cage`: approve
    in the cage; `edit`: approve another text; `more`: the client can wait longer."""

    keys: Sequence[Key] = ()
    caged: bool = False
    cage: bool = False
    edit: bool = False
    more: bool = False


NOTHING = Offers()
# A vote is for the text on the card, and a rule or another text would count for all whom that card asks.
ALONE = "Several people must approve it, so none of them changes or remembers it alone."


def uneditable(request: Request) -> str | None:
    """Why the text cannot be put into a dialog and come back as what a person read there; None when it can."""
    command = request.command
    if request.quorum > 1:
        return ALONE
    if command is None or not request.rewritable:
        return "This call cannot be changed here."
    if mask(command) != command:
        return "It holds secrets, which are masked here: a text changed around them would not be what you read."
    if shape(command).hidden:
        return "It holds characters that a dialog does not show."
    if units(command) > MAX_EDIT:
        return f"It has {len(command)} characters, more than a dialog holds."
    return None


def unreadable(text: str) -> str | None:
    """Why a text that a person typed is not what they see; a phone's keyboard likes to make two quotes look better."""
    if hidden := shape(text).hidden:
        return (
            f"It holds {hidden} characters that only look like others, or like nothing: curly quotes, long dashes or "
            "wide blanks of a keyboard. Type them anew."
        )
    return None
