"""slack-gate decide"""

from __future__ import annotations

import shutil
import sys

import click

from slack_gate.cli.approval_page import ApprovalPage, approval_page
from slack_gate.cli.files import with_store
from slack_gate.config import load
from slack_gate.core.display import one_line
from slack_gate.core.outcome import outcome_of, sentence
from slack_gate.core.ports import Click, Verdict
from slack_gate.core.request import Request, State
from slack_gate.errors import GateError, NotFound
from slack_gate.terminal import described


@click.command()
@click.argument("request_id", metavar="ID")
@click.argument("choice", type=click.Choice(["approve", "deny"]))
@click.option("--reason", default="", metavar="TEXT", help="Told to the agent.")
def decide(request_id: str, choice: str, reason: str) -> None:
    """Approve or deny the request ID, shown first; asks for the approval page's password.

    The password is typed, or is the first line of stdin where that is no terminal. It is never taken from an argument
    or the environment, so a program of your own user, such as the agent, cannot decide.
    """
    port = load().page_port
    request = with_store(lambda store: store.request(request_id))
    if request is None:
        raise NotFound(f"There is no request {one_line(request_id, 40)}.", "`slack-gate requests` lists them.")
    if request.state is not State.PENDING:
        raise GateError(f"Nothing was decided. {outcome_of(request)}")
    click.echo(described(request, shutil.get_terminal_size().columns if sys.stdout.isatty() else None), err=True)
    with approval_page(port) as page:
        _send(page, request, "1" if choice == "approve" else "0", reason)
    after = with_store(lambda store: store.request(request_id))
    if after is not None and after.state is State.PENDING:
        click.echo(sentence(Click(Verdict.COUNTED, after)))
    else:
        click.echo(f"{'Approved' if choice == 'approve' else 'Denied'} {request.id}.")


def _send(page: ApprovalPage, request: Request, ok: str, reason: str) -> None:
    """Raises GateError with the page's own sentence."""
    token = page.forms.get(request.id)
    if token is None:
        raise GateError(f"The approval page does not show {request.id} any more, so nothing was decided.")
    page.send("/decide", {"id": request.id, "ok": ok, "reason": reason, "token": token})
