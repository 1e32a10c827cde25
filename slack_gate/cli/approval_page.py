"""The approval page as a subcommand uses it: the password is typed, and told to a process of our own user alone."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser

import httpx

from slack_gate.core.display import visible
from slack_gate.errors import GateError
from slack_gate.web.login import USER
from slack_gate.web.peer import tcp_peer_uid

TIMEOUT_S = 10.0
START = "`slack-gate serve --approver web` opens it; its first lines say where, and the password."
ANOTHER = "Each start of `slack-gate serve` makes a new one: its first lines show it, or name the file that holds it."


class ApprovalPage:
    """`forms` are the tokens of its forms as it was opened, by what each is about."""

    def __init__(self, client: httpx.Client, forms: dict[str, str]) -> None:
        self.forms = forms
        self._client = client

    def send(self, path: str, form: dict[str, str]) -> None:
        """Raises GateError with the page's own sentence when it does not do it."""
        answer = self._client.post(path, data=form)
        if answer.status_code != httpx.codes.SEE_OTHER:
            raise GateError(_sentence(answer))

    def sentence(self, path: str) -> str:
        """What the page at `path` says above all."""
        return _sentence(self._client.get(path))


@contextmanager
def approval_page(port: int, path: str = "/") -> Iterator[ApprovalPage]:
    """Asks for the password first; the forms are those at `path`.

    Raises GateError: no page there, none of ours, or a wrong password or none.
    """
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=TIMEOUT_S, trust_env=False) as client:
            _only_our_own(client.get("/"))
            client.auth = httpx.BasicAuth(USER, _password())
            response = client.get(path)
            if response.status_code == httpx.codes.UNAUTHORIZED:
                raise GateError("The password is wrong, so nothing was decided.", ANOTHER)
            if response.status_code != httpx.codes.OK:
                raise GateError(f"Nothing was decided. {visible(response.text.strip()[:300])}")
            yield ApprovalPage(client, _Forms(response.text).tokens)
    except httpx.HTTPError as error:
        raise GateError(f"No approval page answers on port {port} of 127.0.0.1 ({error}).", START) from None


def _password() -> str:
    """Raises GateError when none was given."""
    typed = sys.stdin.isatty()
    given = getpass.getpass("Password of the approval page: ") if typed else sys.stdin.readline().removesuffix("\n")
    if not given:
        raise GateError("No password was given, so nothing was decided.", ANOTHER)
    return given


def _only_our_own(response: httpx.Response) -> None:
    """Before the password is told: whoever answers there must be a process of this user. Raises GateError."""
    try:
        uid = tcp_peer_uid(response.extensions["network_stream"].get_extra_info("socket"))
    except OSError:  # it hung up at once
        uid = None
    if uid != os.geteuid():
        raise GateError("No process of yours answers in the approval page's place.", START)


def _sentence(answer: httpx.Response) -> str:
    return visible(_Forms(answer.text).sentence.strip()) or f"HTTP {answer.status_code}"


class _Forms(HTMLParser):
    """Of the page: each form's token by what it is about, and the sentence that it says above all."""

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
