"""What a person can do about Slack's error codes, in one sentence each."""

from __future__ import annotations

_REINSTALL = "Install the app again from its page and put the new tokens into the settings; then restart slack-gate."
_MANIFEST = "Give the app everything in manifests/slack-app.yaml and install it again."
_APPROVER = "Name a person who can be reached in SLACK_GATE_APPROVERS and restart slack-gate."
_ADMIN = "A workspace admin has restricted the app; ask one to allow it to write direct messages."

_REMEDIES = {
    "invalid_auth": _REINSTALL,
    "not_authed": _REINSTALL,
    "token_revoked": _REINSTALL,
    "token_expired": _REINSTALL,
    "account_inactive": _REINSTALL,
    "not_allowed_token_type": "Swap the tokens: SLACK_BOT_TOKEN begins with xoxb-, SLACK_APP_TOKEN with xapp-.",
    "forbidden_team": "The app-level token belongs to an app of another workspace; copy the one of this app.",
    "missing_scope": _MANIFEST,
    "messages_tab_disabled": "Turn on App Home, Messages Tab on the app's page.",
    "not_enabled": "Turn on App Home, Home Tab on the app's page.",
    "link_disabled": "Turn on Socket Mode on the app's page; slack-gate connects again by itself.",
    "too_many_websockets": "Stop other programs that use this app's SLACK_APP_TOKEN: Slack allows ten connections.",
    "approver_inactive": _APPROVER,
    "user_disabled": _APPROVER,
    "user_not_found": "Check SLACK_GATE_APPROVERS; a person's profile page shows the member id.",
    "channel_not_found": "Check SLACK_GATE_APPROVERS; a person's profile page shows the member id.",
    "cannot_dm_bot": "A bot cannot approve. Name a person in SLACK_GATE_APPROVERS and restart slack-gate.",
    "restricted_action": _ADMIN,
    "restricted_action_read_only_channel": _ADMIN,
    "access_denied": _ADMIN,
    "team_access_not_granted": _ADMIN,
    "org_login_required": "The workspace moves to an Enterprise organisation; wait, then install the app again.",
    "team_added_to_org": "The workspace moves to an Enterprise organisation; wait, then install the app again.",
    "is_archived": "Slack has archived this conversation; open the app's direct message in Slack once.",
    "not_in_channel": "Open the app's direct message in Slack once.",
}


def remedy(error: str) -> str:
    """The fix for an error that begins with one of Slack's codes; empty when it passes by itself or is unknown."""
    return _REMEDIES.get(error.split(" ", 1)[0].rstrip(".:"), "")
