"""A server on loopback with the part of GitHub's API that the helper uses, its rules, and faults on demand."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "github_pat_11AAAAAAA0secretsecretsecretsecret"


class Asked(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    data: Any


class Reply(NamedTuple):
    """`raw` instead of all the rest: bytes of a whole HTTP answer, after which the connection is cut."""

    status: int = 200
    data: Any = None
    headers: Mapping[str, str] = MappingProxyType({})
    raw: bytes | None = None
    text: str | None = None


Fault = Callable[[Asked], "Reply | None"]


class GitHub:
    """One repository, acme/app. `fault`, where set, answers first; None lets the request through."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.fault: Fault | None = None
        self.entries: dict[int, dict[str, Any]] = {}
        self.comments: dict[int, list[dict[str, Any]]] = {}
        self.branches = {"main": "a" * 40, "taken": "b" * 40, "topic": "c" * 40}
        self.links: dict[int, list[str]] = {}
        self.default_branch = "main"
        self.link_header = True
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def add(self, title: str = "A title", body: str | None = "The body", pull: bool = False, **fields: Any) -> int:
        number = len(self.entries) + 1
        entry = {
            "number": number,
            "node_id": f"I_{number}",
            "title": title,
            "body": body,
            "state": "open",
            "user": {"login": "mona"},
            "labels": [],
            "created_at": "2026-01-02T03:04:05Z",
            "html_url": f"https://github.com/acme/app/{'pull' if pull else 'issues'}/{number}",
        }
        if pull:
            entry["pull_request"] = {"merged_at": None}
            entry["head"], entry["base"] = {"label": "acme:topic", "ref": "topic"}, {"ref": "main"}
        self.entries[number] = {**entry, **fields}
        self.comments[number] = []
        return number

    def say(self, number: int, body: str, login: str = "hubot") -> None:
        made = {"body": body, "user": {"login": login}, "created_at": "2026-01-03T00:00:00Z"}
        self.comments[number].append({**made, "html_url": f"https://github.com/acme/app/issues/{number}#c"})

    def changes(self) -> list[Asked]:
        return [asked for asked in self.asked if asked.method != "GET"]

    # ------------------------------------------------------------ answering

    def answer(self, asked: Asked) -> Reply:
        if self.fault and (reply := self.fault(asked)):
            return reply
        if asked.headers.get("authorization") != f"Bearer {TOKEN}":
            return Reply(401, {"message": "Bad credentials"})
        if "user-agent" not in asked.headers:
            return Reply(403, text="Request forbidden by administrative rules. Please send a User-Agent.")
        path, query = unquote(urlsplit(asked.path).path), parse_qs(urlsplit(asked.path).query)
        if path == "/graphql" and asked.method == "POST":
            return self._graphql(asked.data["query"], asked.data["variables"])
        found = re.fullmatch(r"/repos/acme/app(?:/(issues|pulls|git/ref/heads)(?:/([^/]+)(?:/(.+))?)?)?", path)
        if not found:
            return Reply(404, {"message": "Not Found"})
        kind, name, rest = found.groups()
        if kind is None:
            return Reply(data={"node_id": "R_1", "default_branch": self.default_branch})
        if kind == "git/ref/heads":
            oid = self.branches.get("/".join(filter(None, (name, rest))))
            return Reply(data={"object": {"sha": oid}}) if oid else Reply(404, {"message": "Not Found"})
        if name is None:
            return self._collection(asked, kind == "pulls", query)
        entry = self.entries.get(int(name)) if name.isdecimal() else None
        if entry is None or (kind == "pulls" and "pull_request" not in entry):
            return Reply(404, {"message": "Not Found"})
        return self._entry(asked, entry, rest, query)

    def _collection(self, asked: Asked, pulls: bool, query: dict[str, list[str]]) -> Reply:
        if asked.method == "GET":
            state = query.get("state", ["open"])[0]
            shown = [entry for entry in self.entries.values() if state in ("all", entry["state"])]
            return self._page(asked, [e for e in reversed(shown) if "pull_request" in e or not pulls], query)
        if pulls and asked.data["head"] not in self.branches:
            errors = [{"resource": "PullRequest", "field": "head", "code": "invalid"}]
            return Reply(422, {"message": "Validation Failed", "errors": errors})
        return Reply(201, self.entries[self.add(asked.data["title"], asked.data["body"], pulls)])

    def _entry(self, asked: Asked, entry: dict[str, Any], rest: str | None, query: dict[str, list[str]]) -> Reply:
        number = entry["number"]
        if rest is None:
            if asked.headers.get("accept") == "application/vnd.github.diff":
                return Reply(text="diff --git a/x b/x\n-old\n+new\n")
            if asked.method == "PATCH":
                entry.update(asked.data)
            return Reply(data={**entry, "comments": len(self.comments[number])})
        if rest == "comments" and asked.method == "GET":
            return self._page(asked, self.comments[number], query)
        if rest == "comments":
            self.say(number, asked.data["body"])
            return Reply(201, self.comments[number][-1])
        names = [label["name"] for label in entry["labels"]]
        if rest == "labels" and asked.method == "POST":
            names += [name for name in asked.data["labels"] if name not in names]
        elif asked.method == "DELETE" and rest == "labels":
            names = []  # GitHub removes all of them
        elif asked.method == "DELETE" and rest.startswith("labels/"):
            if rest[7:] not in names:
                return Reply(404, {"message": "Label does not exist"})
            names.remove(rest[7:])
        entry["labels"] = [{"name": name} for name in names]
        return Reply(data=entry["labels"])

    def _page(self, asked: Asked, entries: list[Any], query: dict[str, list[str]]) -> Reply:
        size, page = int(query.get("per_page", ["30"])[0]), int(query.get("page", ["1"])[0])
        headers = {}
        if len(entries) > page * size and self.link_header:
            rest = "&".join(f"{name}={value[0]}" for name, value in query.items() if name != "page")
            address = f"{self.url}{urlsplit(asked.path).path}?{rest}&page="
            headers["Link"] = f'<{address}1>; rel="first", <{address}{page + 1}>; rel="next"'
        return Reply(data=entries[(page - 1) * size : page * size], headers=headers)

    def _graphql(self, query: str, variables: dict[str, str]) -> Reply:
        if "createLinkedBranch" in query:
            number = int(variables["issueId"].removeprefix("I_"))
            if variables["repositoryId"] != "R_1" or variables["oid"] not in self.branches.values():
                return Reply(data={"errors": [{"type": "NOT_FOUND", "message": "Could not resolve to a node"}]})
            if variables["name"] in self.branches:  # GitHub says no more than this
                return Reply(data={"data": {"createLinkedBranch": {"linkedBranch": None}}})
            self.branches[variables["name"]] = variables["oid"]
            self.links.setdefault(number, []).append(variables["name"])
            linked = {"id": "LB_1", "ref": {"name": variables["name"]}}
            return Reply(data={"data": {"createLinkedBranch": {"linkedBranch": linked}}})
        names = self.links.get(int(variables["id"].removeprefix("I_")), [])
        nodes = [{"ref": {"name": name}} for name in names] + [{"ref": None}]  # null: the branch was deleted
        return Reply(data={"data": {"node": {"linkedBranches": {"nodes": nodes}}}})

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        github = self

        class Handler(BaseHTTPRequestHandler):
            def handle_one_request(self) -> None:
                with contextlib.suppress(ConnectionError):  # the helper may have had enough
                    self._handle()

            def _handle(self) -> None:
                self.raw_requestline = self.rfile.readline(65537)
                self.close_connection = True
                if not self.raw_requestline or not self.parse_request():
                    return
                data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = Asked(self.command, self.path, headers, json.loads(data) if data else None)
                github.asked.append(asked)
                reply = github.answer(asked)
                if reply.raw is not None:
                    self.wfile.write(reply.raw)
                    return
                body = json.dumps(reply.data) if reply.text is None else reply.text
                self.send_response(reply.status)
                kind = "application/json" if reply.text is None else "text/html"
                sent = {"Content-Type": kind, "Content-Length": str(len(body.encode())), **reply.headers}
                for name, value in sent.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: object) -> None:
                """Quiet."""

        return Handler
