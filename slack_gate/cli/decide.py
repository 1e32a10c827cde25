"""slack-gate decide"""

from __future__ import annotations

import getpass
import os
import shutil
import sys
from html.parser import HTMLParser

import click
import httpx

from slack_gate.cli.files import with_store
from slack_gate.config import load
from slack_gate.core.display import one_line, visible
from slack_gate.core.outcome import outcome_of
from slack_gate.core.request import Request, State
from slack_gate.errors import GateError, NotFound
from slack_gate.terminal import described
from slack_gate.web.login import USER
from slack_gate.web.peer import tcp_peer_uid

TIMEOUT_S = 10.0
START = "`slack-gate serve --approver web` opens it; its first lines say where, and the password."


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
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=TIMEOUT_S, trust_env=False) as page:
            _only_our_own(page.get("/"))
            page.auth = httpx.BasicAuth(USER, _password())
            _decided(page, request, "1" if choice == "approve" else "0", reason)
    except httpx.HTTPError as error:
        raise GateError(f"No approval page answers on port {port} of 127.0.0.1 ({error}).", START) from None
    click.echo(f"{'Approved' if choice == 'approve' else 'Denied'} {request.id}.")


def _password() -> str:
    if sys.stdin.isatty():
        return getpass.getpass("Password of the approval page: ")
    return sys.stdin.readline().removesuffix("\n")


def _only_our_own(response: httpx.Response) -> None:
    """Before the password is told: whoever answers there must be a process of this user. Raises GateError."""
    try:
        uid = tcp_peer_uid(response.extensions["network_stream"].get_extra_info("socket"))
    except OSError:  # it hung up at once
        uid = None
    if uid != os.geteuid():
        raise GateError("No process of yours answers in the approval page's place.", START)


def _decided(page: httpx.Client, request: Request, ok: str, reason: str) -> None:
    """Raises GateError with the page's own sentence."""
    response = page.get("/")
    if response.status_code == httpx.codes.UNAUTHORIZED:
        raise GateError("The password is wrong, so nothing was decided.", START)
    if response.status_code != httpx.codes.OK:
        raise GateError(f"Nothing was decided. {visible(response.text.strip()[:300])}")
    token = _Forms(response.text).tokens.get(request.id)
    if token is None:
        raise GateError(f"The approval page does not show {request.id} any more, so nothing was decided.")
    form = {"id": request.id, "ok": ok, "reason": reason, "token": token}
    answer = page.post("/decide", data=form)
    if answer.status_code != httpx.codes.SEE_OTHER:
        raise GateError(visible(_Forms(answer.text).sentence.strip()) or f"HTTP {answer.status_code}")


class _Forms(HTMLParser):
    """Of the page: each form's token by its request, and the sentence of an answer."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tokens: dict[str, str] = {}
        self.sentence = ""
        self._id = ""
        self._saying = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self._saying = found.get("id") == "sentence"
        if tag == "form":
            self._id = ""
        if tag == "input" and found.get("name") == "id":
            self._id = found["value"]
        if tag == "input" and found.get("name") == "token" and self._id:
            self.tokens[self._id] = found["value"]

    def handle_data(self, data: str) -> None:
        if self._saying:
            self.sentence += data

    def handle_endtag(self, tag: str) -> None:
        self._saying = False
