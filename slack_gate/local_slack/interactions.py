"""What a person does with messages and modals, told to the app the way Slack tells it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from slack_gate.local_slack.blocks import view_faults
from slack_gate.local_slack.grants import Grants, ResponseUrl
from slack_gate.local_slack.methods import message_object, view_object
from slack_gate.local_slack.socket_mode import Delivery, Links
from slack_gate.local_slack.visible import Control, Version, confirm_text
from slack_gate.local_slack.workspace import Message, Modal, User, Workspace


@dataclass(frozen=True)
class Click:
    """A press of a button or of an overflow option.

    `confirm` is the text of the confirm dialog, if there was one; a declined dialog sends nothing (`delivery` None).
    """

    confirm: str | None
    delivery: Delivery | None
    answers: ResponseUrl | None

    @property
    def sent(self) -> bool:
        return self.delivery is not None

    @property
    def acknowledged(self) -> bool:
        return self.delivery is not None and self.delivery.acknowledged

    @property
    def seconds(self) -> float:
        """Time to the acknowledgement, or until Slack gave up waiting for it."""
        return self.delivery.seconds if self.delivery else 0.0

    @property
    def responses(self) -> list[Message]:
        """Messages that came through this click's response_url so far."""
        return self.answers.posted if self.answers else []


@dataclass(frozen=True)
class Submission:
    """A press of a modal's submit button. `errors` are sentences by block id; a modal with errors stays open."""

    errors: dict[str, str]
    closed: bool
    delivery: Delivery | None

    @property
    def acknowledged(self) -> bool:
        return self.delivery is not None and self.delivery.acknowledged


class Interactions:
    """Builds the payloads and delivers them.

    `enabled` is the manifest's interactivity; `root` this server's address, for response URLs.
    """

    def __init__(self, workspace: Workspace, grants: Grants, links: Links, enabled: bool) -> None:
        self.workspace = workspace
        self.grants = grants
        self.links = links
        self.enabled = enabled
        self.root = ""

    async def click(
        self, user: User, message: Message, version: Version, control: Control, *, confirm: bool = True
    ) -> Click:
        """Presses what `version` of the message showed; `confirm` answers its confirm dialog."""
        asked = confirm_text(control.confirm) if control.confirm else None
        if asked is not None and not confirm:
            return Click(asked, None, None)
        return await self.send(user, message.channel, message.ts, action(control), message, version, asked=asked)

    async def send(
        self,
        user: User,
        channel: str,
        ts: str,
        pressed: dict[str, Any],
        message: Message | None,
        version: Version | None,
        *,
        asked: str | None = None,
        overrides: dict[str, Any] | None = None,
    ) -> Click:
        """Sends a block_actions payload, true or forged."""
        if not self.enabled:
            return Click(asked, Delivery({}, False, 0.0), None)
        secret, answers = self.grants.response_url(user.id, channel, message)
        ephemeral = message is not None and message.only_for is not None
        payload = {
            "type": "block_actions",
            **self.common(user),
            "container": {"type": "message", "message_ts": ts, "channel_id": channel, "is_ephemeral": ephemeral},
            "channel": {"id": channel, "name": "directmessage"},
            "state": {"values": {}},
            "response_url": f"{self.root}/actions/{self.workspace.team_id}/{secret}",
            "actions": [pressed],
        }
        if message is not None and not ephemeral:
            payload["message"] = message_object(message, version)
        delivery = await self.links.deliver(payload | (overrides or {}), accepts_response=False)
        return Click(asked, delivery, answers)

    async def submit(self, user: User, modal: Modal, values: dict[str, Any]) -> Submission:
        """Presses the submit button; `values` by action id. Slack itself refuses what an input does not allow."""
        state = state_values(modal, values)
        modal.errors = input_errors(modal, state)
        if modal.errors:
            self.workspace.changed()
            return Submission(modal.errors, False, None)
        payload = {
            "type": "view_submission",
            **self.common(user),
            "view": view_object(self.workspace, modal, state),
            "response_urls": [],
        }
        delivery = await self.links.deliver(payload, accepts_response=True)
        if delivery.acknowledged:
            self._respond(user, modal, delivery.response or {})
        return Submission(modal.errors, modal.closed, delivery)

    def _respond(self, user: User, modal: Modal, response: dict[str, Any]) -> None:
        """Does what the acknowledgement of a submission asks for."""
        match response.get("response_action"):
            case None:
                if not modal.closed:
                    self.workspace.close_modal(modal)
            case "errors":
                modal.errors = response.get("errors") or {}
                self.workspace.changed()
            case "clear":
                for each in self.workspace.modals_of(user.id):
                    self.workspace.close_modal(each)
            case "update" if not view_faults(response.get("view")):
                self.workspace.update_modal(modal, response["view"])
            case "push" if not view_faults(response.get("view")):
                self.workspace.open_modal(user.id, response["view"])
            case unknown:
                modal.errors = {"": f"the app answered with a response_action Slack refuses: {unknown}"}
                self.workspace.changed()

    async def close(self, user: User, modal: Modal) -> Delivery | None:
        """Closes the modal; the app is told if it asked for that."""
        self.workspace.close_modal(modal)
        if not modal.view.get("notify_on_close"):
            return None
        view = view_object(self.workspace, modal)
        payload = {"type": "view_closed", **self.common(user), "view": view, "is_cleared": False}
        return await self.links.deliver(payload, accepts_response=False)

    def common(self, user: User) -> dict[str, Any]:
        """What stands in every payload of something that a user did."""
        return {
            "team": {"id": self.workspace.team_id, "domain": self.workspace.domain},
            "enterprise": None,
            "is_enterprise_install": False,
            "user": {"id": user.id, "username": user.name.lower(), "name": user.name.lower(), "team_id": user.team_id},
            "api_app_id": self.workspace.app_id,
            "token": "unused",
            "trigger_id": self.grants.trigger(user.id),
        }


def action(control: Control) -> dict[str, Any]:
    """The entry of `actions` for a pressed control."""
    element = control.element
    pressed = {
        "type": element["type"],
        "action_id": element["action_id"],
        "block_id": control.block_id,
        "action_ts": f"{time.time():.6f}",
    }
    if control.option is not None:
        return pressed | {"selected_option": control.option}
    return pressed | {name: element[name] for name in ("text", "value", "style") if name in element}


def state_values(modal: Modal, values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """`view.state.values` for what was filled in; inputs left alone keep their initial value.

    Raises:
        LookupError: `values` names an action id that no input of the modal has.
    """
    state: dict[str, dict[str, Any]] = {}
    inputs = {block["element"]["action_id"]: block for block in modal.blocks if block["type"] == "input"}
    if unknown := set(values) - set(inputs):
        raise LookupError(f"no input {', '.join(sorted(unknown))}; this modal has {', '.join(inputs)}")
    for action_id, block in inputs.items():
        state.setdefault(block["block_id"], {})[action_id] = filled(block["element"], values.get(action_id))
    return state


def filled(element: dict[str, Any], value: Any) -> dict[str, Any]:
    """The state of one input: `value` is the text, the chosen option's value, or a list of such for checkboxes."""
    kind = element["type"]
    if kind == "plain_text_input":
        text = element.get("initial_value") if value is None else value
        return {"type": kind, "value": text or None}
    if kind == "checkboxes":
        chosen = element.get("initial_options", []) if value is None else [option_of(element, one) for one in value]
        return {"type": kind, "selected_options": chosen}
    return {"type": kind, "selected_option": option_of(element, value) if value else element.get("initial_option")}


def option_of(element: dict[str, Any], value: str) -> dict[str, Any]:
    found = next((option for option in element["options"] if option["value"] == value), None)
    if found is None:
        raise LookupError(f"no option {value!r}; there are {[option['value'] for option in element['options']]}")
    chosen: dict[str, Any] = found
    return chosen


def input_errors(modal: Modal, state: dict[str, dict[str, Any]]) -> dict[str, str]:
    """What Slack says below inputs before it asks the app."""
    errors = {}
    for block in modal.blocks:
        if block["type"] != "input":
            continue
        element = block["element"]
        given = state[block["block_id"]][element["action_id"]]
        value = given.get("value") or given.get("selected_option") or given.get("selected_options")
        if not value and not block.get("optional"):
            errors[block["block_id"]] = "Please complete this required field."
        elif isinstance(value, str) and len(value) > element.get("max_length", 3000):
            errors[block["block_id"]] = f"Please write at most {element.get('max_length', 3000)} characters."
        elif isinstance(value, str) and len(value) < element.get("min_length", 0):
            errors[block["block_id"]] = f"Please write at least {element['min_length']} characters."
    return errors
