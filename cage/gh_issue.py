#!/usr/bin/python3 -IS
"""GitHub issues and pull requests for an agent that runs unasked; `gh_issue.py --help` lists the verbs.

The law, in three lines:
1. The token goes to one host: the one it is for, or this machine. No proxy, no redirect elsewhere, never in any output.
2. Out goes the text of one ordinary file below ~/projects or /tmp; no link, pipe or second name leads elsewhere.
3. Nothing is merged, nothing is sent twice, and what GitHub answers is drawn so that it cannot steer a terminal.

One file, standard library only, Python 3.9 or newer. It must lie where the agent cannot write. See docs/gh-issue.md.
Exit codes: 0 done, 2 the call is wrong, 1 anything else, with one sentence on standard error.
"""

# ruff: noqa: E402  (the interpreter is isolated before it imports what the environment could have planted)
from __future__ import annotations

import os
import sys

KEPT = {"HOME", "GH_ISSUE_REPO", "GITHUB_API_URL"}


def isolate() -> None:
    """Drop every other variable (OPENSSL_CONF, SSL_CERT_FILE and PYTHONPATH choose code and trust) and start afresh."""
    for name in set(os.environ) - KEPT - {""}:
        del os.environ[name]
    if not sys.flags.isolated:
        python = sys.executable or "/usr/bin/python3"
        os.execv(python, [python, "-IS", os.path.abspath(__file__), *sys.argv[1:]])  # noqa: S606


if __name__ == "__main__":
    isolate()

import argparse
import http.client
import ipaddress
import json
import re
import signal
import ssl
import stat
import time
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn
from urllib.parse import quote, unquote, urljoin, urlsplit

GITHUB = "https://api.github.com"
TOKEN_FILE = "~/.config/spikybot/pat"  # noqa: S105
ROOT_FILE = "~/.config/spikybot/api-root"  # names the API that the token is for, where that is not GitHub's
DEADLINE_S = 90  # for everything together: agents give a command two minutes
SILENCE_S = 30
MAX_BODY = 65_536  # characters, GitHub's limit
MAX_ANSWER = 32 << 20  # bytes; a hundred comments of the longest kind fit
MAX_PAGES, PER_PAGE, MAX_MOVES = 20, 100, 3
MAX_LISTED = 1_000
JSON, DIFF = "application/vnd.github+json", "application/vnd.github.diff"


class Failure(Exception):
    """What went wrong, and the next step, in a sentence or two."""


class OutOfTime(Exception):
    """The deadline; no OSError, for the standard library retries some of those."""


# ---------------------------------------------------------------- what GitHub answers


def visible(text: object, kept: str = "") -> str:
    """`text` with every control, format and unassigned character but `kept` written as its code point."""
    return re.sub(f"[^ -~{kept}]", lambda match: _drawn(match[0]), str(text))


def _drawn(char: str) -> str:
    category = unicodedata.category(char)
    smuggles = "\U000e0100" <= char <= "\U000e01ef"  # marks that show nothing and can spell out a hidden text
    return f"\\u{{{ord(char):x}}}" if category[0] == "C" or category in ("Zl", "Zp") or smuggles else char


def at(value: Any, *names: str) -> Any:
    """What stands under these names, or None; answers may have any shape."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def entries(value: Any, *names: str) -> list[Any]:
    """The list under these names, or an empty one."""
    found = at(value, *names)
    return found if isinstance(found, list) else []


def field(value: Any, *names: str) -> str:
    """A text or number on one line, or ""."""
    found = at(value, *names)
    return visible(found) if isinstance(found, (str, int)) else ""


def needed(value: Any, *names: str) -> str:
    """As it was sent, to be sent back."""
    found = at(value, *names)
    if not found or not isinstance(found, (str, int)):
        raise Failure(f"GitHub's answer is not understood: {'.'.join(names)} is missing.")
    return str(found)


def prose(value: Any) -> str:
    """The body of an entry, indented so that none of its lines passes for a heading of ours."""
    text = at(value, "body")
    text = visible(text.replace("\r\n", "\n"), "\n\t").rstrip("\n") if isinstance(text, str) else ""
    return "\n".join("    " + line if line else "" for line in (text or "(no text)").split("\n"))


# ---------------------------------------------------------------- files


def below_home(path: str) -> str:
    home = os.path.expanduser("~").rstrip("/")
    if not home.startswith("/"):
        raise Failure("There is no home directory: set HOME.")
    return path.replace("~", home, 1)


def read_own(opened: int, shown: str, most: int, forbidden: int = 0) -> bytes:
    """Up to `most` bytes of an ordinary file of ours: a second name may be that of a secret elsewhere."""
    try:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_nlink != 1:
            raise Failure(f"{shown} must be an ordinary file of your own with a single name.")
        if found.st_mode & forbidden:
            raise Failure(f"{shown} is open to others. Run: chmod 600 {shown}")
        with open(opened, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(opened)


def setting(path: str, forbidden: int) -> str:
    """The one word in a settings file, or "" where there is no file. `forbidden`: mode bits it must not have."""
    try:
        opened = os.open(below_home(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise Failure(f"{path} cannot be opened, or is a link: {error.strerror}.") from None
    text = read_own(opened, path, 1_000, forbidden).strip()
    if not re.fullmatch(rb"[A-Za-z0-9_.:~+/=\[\]-]{1,500}", text):
        raise Failure(f"{path} must hold one line without blanks and nothing else.")
    return text.decode()


def body_text(path: str) -> str:
    """The text of the file that `path` leads to, which must lie below ~/projects or /tmp."""
    shown, real, home = f"The body {visible(path)}", os.path.realpath(path), os.path.realpath(below_home("~"))
    roots, projects = [os.path.realpath("/tmp")], os.path.realpath(below_home("~/projects"))  # noqa: S108
    exposes = "/." in projects or (home + "/").startswith(projects.rstrip("/") + "/")  # a link to all of home, to ~/.x
    if projects == home + "/projects" or not exposes:
        roots.append(projects)
    if not any(real.startswith(root + "/") for root in roots):
        raise Failure(f"{shown} does not lie below ~/projects or /tmp. Write it there.")
    try:
        data = read_own(open_unlinked(real), shown, 4 * MAX_BODY + 1)
    except OSError as error:
        raise Failure(f"{shown} cannot be read: {error.strerror}.") from None
    text = data.decode(errors="surrogateescape")
    if len(text) > MAX_BODY:
        raise Failure(f"{shown} is longer than GitHub's {MAX_BODY:,} characters. Shorten it.")
    if re.search("[\0\ud800-\udfff]", text):
        raise Failure(f"{shown} is not UTF-8 text.")
    return text


def open_unlinked(path: str) -> int:
    """A descriptor of the file at a resolved path, walked from / so that a link put there meanwhile is an error."""
    *parents, last = path.strip("/").split("/")
    enter = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW
    here = os.open("/", enter)
    try:
        for name in parents:
            above, here = here, os.open(name, enter, dir_fd=here)
            os.close(above)
        return os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=here)
    finally:
        os.close(here)


# ---------------------------------------------------------------- the API


class Root(NamedTuple):
    scheme: str
    host: str
    port: int
    path: str


def parse_root(url: str) -> Root:
    try:
        parts = urlsplit(url)
        usual = {"https": 443, "http": 80}[parts.scheme]
        port = parts.port or usual
    except (ValueError, KeyError):
        port = 0
    if not port or not parts.hostname or not re.fullmatch(r"[!-~]+", url) or any(char in url for char in "\\?#@"):
        raise Failure("The address of the API must be plain: https://HOST/PATH.")
    host = "127.0.0.1" if parts.hostname == "localhost" else parts.hostname  # no resolver chooses who that is
    return Root(parts.scheme, host, port, parts.path.rstrip("/"))


def find_root() -> Root:
    """Where the token may go: the API it is for, or a server on this machine that the environment names."""
    own = parse_root(setting(ROOT_FILE, 0o022) or GITHUB)
    named = os.environ.get("GITHUB_API_URL")
    root = parse_root(named) if named else own
    try:
        loopback = ipaddress.ip_address(root.host).is_loopback
    except ValueError:
        loopback = False
    if root != own and not loopback:
        raise Failure(f"GITHUB_API_URL is not the API that the token is for. If it is, write it to {ROOT_FILE}.")
    if root.scheme != "https" and not loopback:
        raise Failure("The token goes out over https only.")
    return root


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes


class GitHub:
    """Requests to one API root. A change is sent once; `unsure` while its outcome is not known."""

    def __init__(self, root: Root, token: str) -> None:
        self.root, self.token, self.unsure = root, token, False

    def ask(self, path: str, method: str = "GET", data: Any = None) -> Any:
        """The JSON that GitHub answers with."""
        value = _parsed(self.send(method, path, data))
        self.unsure = False
        return value

    def pages(self, path: str, most: int, kept: Callable[[Any], bool] = bool) -> tuple[list[Any], bool]:
        """The first `most` entries that are `kept`, and whether there may be more of them."""
        found: list[Any] = []
        first = following = f"{path}{'&' if '?' in path else '?'}per_page={PER_PAGE}"
        for page in range(2, MAX_PAGES + 2):
            answer = self.send("GET", following)
            listed = _parsed(answer)
            if not isinstance(listed, list):
                raise Failure("GitHub's answer is not understood: it is no list.")
            found += [entry for entry in listed if isinstance(entry, dict) and kept(entry)]
            link = answer.headers.get("Link")
            if link:
                to = re.search(r'<([^<>]*)>[^<>,]*\brel="?next\b', link)
                following = self._below_root(to[1]) if to else ""
            else:
                following = f"{first}&page={page}" if len(listed) == PER_PAGE else ""
            if not following or len(found) > most:
                break
        return found[:most], bool(following) or len(found) > most

    def graphql(self, query: str, **variables: str) -> Any:
        answer = self.send("POST", "graphql", {"query": query, "variables": variables})
        value = _parsed(answer)
        self.unsure = False
        if at(value, "errors"):
            limited = any(field(error, "type") == "RATE_LIMITED" for error in entries(value, "errors"))
            raise Failure((_rate_limit(answer.headers) if limited else "GitHub refuses.") + _said(answer.body))
        return at(value, "data")

    def send(self, method: str, path: str, data: Any = None, accept: str = JSON) -> Answer:
        """One exchange below the root, or a Failure. Reading follows a renamed repository on the same host."""
        payload = None if data is None else json.dumps(data)
        if self.token in unquote(path) + (payload or ""):
            raise Failure("The text holds the token itself. It is not sent.")
        for _ in range(MAX_MOVES + 1):
            answer = self._exchange(method, path, payload, accept)
            if 200 <= answer.status < 300:
                return answer
            if method != "GET" or answer.status not in (301, 302, 307, 308):
                self.unsure = self.unsure and answer.status >= 500
                raise Failure(_refusal(path, answer))
            path = self._below_root(answer.headers.get("Location", ""))
        raise Failure("GitHub sends the request round in circles.")

    def _exchange(self, method: str, path: str, payload: str | None, accept: str) -> Answer:
        scheme, host, port, base = self.root
        target = f"{base}/{path}"
        if path == "graphql" and base.endswith("/v3"):  # GitHub Enterprise: /api/graphql beside /api/v3
            target = base[:-2] + path
        if any(unquote(part) in ("", ".", "..") for part in path.partition("?")[0].split("/")):
            raise Failure("The request would leave its place in the API. It is not sent.")
        headers = {"Accept": accept, "Authorization": f"Bearer {self.token}", "User-Agent": "gh_issue.py"}
        headers.update({"X-GitHub-Api-Version": "2022-11-28", "Content-Type": "application/json"})
        link = http.client.HTTPConnection(host, port, timeout=SILENCE_S)
        if scheme == "https":
            trusted = ssl.create_default_context()
            link = http.client.HTTPSConnection(host, port, timeout=SILENCE_S, context=trusted)
        try:
            link.connect()
        except (OSError, OutOfTime) as error:
            raise Failure(f"{host} cannot be reached: {_why(error)}. Proxies are not used.") from None
        self.unsure = method != "GET"
        try:
            link.request(method, target, payload, headers)
            response = link.getresponse()
            body = response.read(MAX_ANSWER + 1)
        except (OSError, OutOfTime, http.client.HTTPException) as error:
            raise Failure(f"The exchange with {host} broke off: {_why(error)}.") from None
        finally:
            link.close()
        if len(body) > MAX_ANSWER:
            raise Failure(f"GitHub's answer is longer than {MAX_ANSWER >> 20} MiB.")
        if response.length:
            raise Failure("GitHub's answer ended before its end.")
        return Answer(response.status, response.headers, body)

    def _below_root(self, url: str) -> str:
        """An address that an answer names, as a path below the root."""
        scheme, host, port, base = self.root
        literal = f"[{host}]" if ":" in host else host
        plain, _, query = urljoin(f"{scheme}://{literal}:{port}{base}/", url).partition("?")
        there = parse_root(plain)
        if there[:3] != self.root[:3] or not there.path.startswith(base + "/") or not re.fullmatch(r"[!-~]+", url):
            raise Failure("GitHub's answer leads out of its API. It is not followed.")
        return there.path[len(base) + 1 :] + ("?" + query if query else "")


def _parsed(answer: Answer) -> Any:
    try:
        return json.loads(answer.body) if answer.status != 204 else None
    except (ValueError, RecursionError):
        raise Failure(f"GitHub's answer (status {answer.status}) is not the JSON that was asked for.") from None


def _why(error: Exception) -> str:
    if isinstance(error, (OutOfTime, TimeoutError)) or "timed out" in str(error):
        return "no answer in time"
    return visible(getattr(error, "strerror", None) or error or type(error).__name__)[:200].rstrip(".")


def _rate_limit(headers: http.client.HTTPMessage) -> str:
    seconds, reset = headers.get("Retry-After", ""), headers.get("X-RateLimit-Reset", "")
    wait = 60  # what GitHub asks of those it tells nothing
    if re.fullmatch(r"[0-9]{1,6}", seconds):
        wait = int(seconds)
    elif headers.get("X-RateLimit-Remaining") == "0" and re.fullmatch(r"[0-9]{1,11}", reset):
        wait = max(1, int(reset) - int(time.time()))
    end = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time() + wait))
    return f"GitHub's rate limit is reached. Try again in {wait} seconds, at {end} UTC."


def _said(body: bytes) -> str:
    """What GitHub says about a failure, on one line; "" where it says nothing in JSON."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    said = [field(value, "message")]
    for error in entries(value, "errors"):
        named = " ".join(filter(None, (field(error, name) for name in ("resource", "field", "code"))))
        said.append(visible(error) if isinstance(error, str) else field(error, "message") or named)
    return " GitHub says: " + "; ".join(filter(None, said))[:2_000] if any(said) else ""


def _refusal(path: str, answer: Answer) -> str:
    status, headers, said = answer.status, answer.headers, _said(answer.body)
    limited = "Retry-After" in headers or headers.get("X-RateLimit-Remaining") == "0" or "rate limit" in said.lower()
    if status == 429 or (status == 403 and limited):
        return _rate_limit(headers) + said
    place = visible(path.partition("?")[0])
    grants = visible(headers.get("X-Accepted-GitHub-Permissions", ""))[:200]
    sentences = {
        401: f"GitHub does not accept the token in {TOKEN_FILE}.",
        403: "The token may not do this." + (f" It needs {grants}." if grants else ""),
        404: f"GitHub has no {place}, or the token may not see it.",
        410: f"{place} is gone, or switched off in this repository.",
        422: "GitHub refuses what was sent.",
    }
    if 300 <= status < 400:
        return "The repository was renamed or moved, and nothing was changed. Use its present name."
    fault = f"GitHub itself has a fault (status {status})." if status >= 500 else f"GitHub refuses (status {status})."
    return sentences.get(status, fault) + said


# ---------------------------------------------------------------- the verbs: each returns what to print

Call = argparse.Namespace  # the words of the call, by the names of OPTIONS


def list_issues(github: GitHub, call: Call) -> str:
    path = f"repos/{call.repo}/issues?state={call.state}"
    issues, more = github.pages(path, int(call.limit), lambda entry: not entry.get("pull_request"))
    return _listed(issues, more, "issues", _labels)


def list_pulls(github: GitHub, call: Call) -> str:
    pulls, more = github.pages(f"repos/{call.repo}/pulls?state=open", MAX_LISTED)
    return _listed(pulls, more, "pull requests", _branches)


def _listed(found: list[Any], more: bool, what: str, tail: Callable[[Any], str]) -> str:
    lines = []
    for entry in found:
        parts = f"#{visible(needed(entry, 'number'))}", field(entry, "state"), field(entry, "title"), tail(entry)
        lines.append("  ".join(filter(None, parts)))
    if more:
        lines.append(f"There may be more; these are the first {len(found)}.")
    return "\n".join(lines) or f"No {what}."


def _labels(entry: Any) -> str:
    names = ", ".join(filter(None, (field(label, "name") for label in entries(entry, "labels"))))
    return f"[{names}]" if names else ""


def _branches(pull: Any) -> str:
    draft = ", draft" if at(pull, "draft") is True else ""
    return f"({field(pull, 'head', 'label') or field(pull, 'head', 'ref')} into {field(pull, 'base', 'ref')}{draft})"


def view(github: GitHub, call: Call) -> str:
    issue = github.ask(f"repos/{call.repo}/issues/{call.number}")
    kind = "pull request" if at(issue, "pull_request") else "issue"
    merged = at(issue, "pull_request", "merged_at")
    return _viewed(github, call, issue, kind, merged, at(issue, "comments") != 0)


def view_pull(github: GitHub, call: Call) -> str:
    pull = github.ask(f"repos/{call.repo}/pulls/{call.number}")
    kind = f"pull request {_branches(pull)}"
    return _viewed(github, call, pull, kind, at(pull, "merged_at"), bool(at(pull, "comments")))


def _viewed(github: GitHub, call: Call, entry: Any, kind: str, merged: Any, commented: bool) -> str:
    state = "merged" if merged else field(entry, "state")
    facts = kind, state, f"by {_author(entry)}", field(entry, "created_at"), _labels(entry)
    heading = f"#{visible(needed(entry, 'number'))} {field(entry, 'title')}", ", ".join(filter(None, facts))
    parts = ["\n".join([*heading, field(entry, "html_url")]), prose(entry)]
    if commented:
        comments, more = github.pages(f"repos/{call.repo}/issues/{call.number}/comments", MAX_LISTED)
        for comment in comments:
            parts += [f"comment by {_author(comment)}, {field(comment, 'created_at')}:", prose(comment)]
        if more:
            parts.append(f"There may be more; these are the first {len(comments)} comments.")
    return "\n\n".join(parts)


def _author(entry: Any) -> str:
    return field(entry, "user", "login") or "ghost"  # as GitHub calls whoever has left


def create(github: GitHub, call: Call) -> str:
    data = {"title": call.title, "body": body_text(call.body_file)}
    return _created(github.ask(f"repos/{call.repo}/issues", "POST", data))


def create_pull(github: GitHub, call: Call) -> str:
    data = {"title": call.title, "head": call.head, "base": call.base, "body": body_text(call.body_file)}
    data["base"] = call.base or needed(github.ask(f"repos/{call.repo}"), "default_branch")
    return _created(github.ask(f"repos/{call.repo}/pulls", "POST", data))


def _created(made: Any) -> str:
    if not field(made, "number"):
        raise Failure("GitHub took it, but its answer is not understood: look before you try again.")
    return f"Created #{field(made, 'number')}: {field(made, 'html_url')}"


def comment(github: GitHub, call: Call) -> str:
    data = {"body": body_text(call.body_file)}
    made = github.ask(f"repos/{call.repo}/issues/{call.number}/comments", "POST", data)
    return f"Commented on #{call.number}: {field(made, 'html_url')}"


def close_or_reopen(github: GitHub, call: Call) -> str:
    state = "closed" if call.verb == "close" else "open"
    entry = github.ask(f"repos/{call.repo}/issues/{call.number}", "PATCH", {"state": state})
    if field(entry, "state") != state:
        raise Failure(f"GitHub left #{call.number} {field(entry, 'state') or 'as it was'}.")
    return f"#{call.number} is {state}."


def label(github: GitHub, call: Call) -> str:
    path, done, left = f"repos/{call.repo}/issues/{call.number}/labels", "", None
    try:
        if call.add:
            left, done = github.ask(path, "POST", {"labels": call.add}), f"added {', '.join(call.add)}"
        for name in call.remove:
            left = github.ask(f"{path}/{quote(name, safe='')}", "DELETE")
            done = f"{done}, removed {name}".lstrip(", ")
    except Failure as failure:
        raise Failure(f"{failure} Done before: {visible(done)}." if done else str(failure)) from None
    now = f" Labels now: {_labels({'labels': left}) or 'none'}." if isinstance(left, list) else ""
    return f"#{call.number}: {visible(done)}.{now}"


def pull_diff(github: GitHub, call: Call) -> str:
    answer = github.send("GET", f"repos/{call.repo}/pulls/{call.number}", accept=DIFF)
    return visible(answer.body.decode(errors="backslashreplace"), "\n\t").rstrip("\n")


CREATE_LINK = """mutation($issueId: ID!, $repositoryId: ID!, $oid: GitObjectID!, $name: String!) {
  createLinkedBranch(input: {issueId: $issueId, repositoryId: $repositoryId, oid: $oid, name: $name}) {
    linkedBranch { id ref { name } } } }"""
READ_LINKS = """query($id: ID!) {
  node(id: $id) { ... on Issue { linkedBranches(first: 100) { nodes { ref { name } } } } } }"""


def link_branch(github: GitHub, call: Call) -> str:
    """GitHub links only a branch that it makes; for one that exists it answers null, without a reason."""
    issue = github.ask(f"repos/{call.repo}/issues/{call.number}")
    if at(issue, "pull_request"):
        raise Failure(f"#{call.number} is a pull request and has its branch. Give the number of an issue.")
    repository, issue_id = github.ask(f"repos/{call.repo}"), needed(issue, "node_id")
    base, repository_id = needed(repository, "default_branch"), needed(repository, "node_id")
    tip = needed(github.ask(f"repos/{call.repo}/git/ref/heads/{quote(base)}"), "object", "sha")
    made = github.graphql(CREATE_LINK, issueId=issue_id, repositoryId=repository_id, oid=tip, name=call.branch)
    if at(made, "createLinkedBranch", "linkedBranch"):
        return f"Created the branch {visible(call.branch)} from {visible(base)}, linked to #{call.number}."
    links = entries(github.graphql(READ_LINKS, id=issue_id), "node", "linkedBranches", "nodes")
    if any(at(link, "ref", "name") == call.branch for link in links):
        return f"The branch {visible(call.branch)} is linked to #{call.number} already."
    raise Failure(
        f"GitHub did not link {visible(call.branch)}: it links only what it creates, and this branch seems to exist."
        f' Choose a new name, or open a pull request from it with "Closes #{call.number}" in the body.'
    )


# ---------------------------------------------------------------- the call


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.format_usage()}gh_issue.py: {visible(message)}\n")


def matching(pattern: str, advice: str) -> Callable[[str], str]:
    def word(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise argparse.ArgumentTypeError(advice)
        return text

    return word


REPOSITORY = r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}/(?!\.\.?$)[A-Za-z0-9._-]{1,100}"
TEXT = matching(r"(?!\.\.?$)[^\0-\x1f\x7f-\x9f\ud800-\udfff]*[^\0-\x20\x7f-\x9f\ud800-\udfff]", "give text on one line")
OPTIONS: dict[str, dict[str, Any]] = {
    "number": {"metavar": "N", "type": matching("[1-9][0-9]{0,9}", "give the number of an issue or pull request")},
    "branch": {"metavar": "BRANCH", "type": TEXT},
    "--state": {"choices": ("open", "closed", "all"), "default": "open"},
    "--limit": {"metavar": "1..1000", "type": matching("[1-9][0-9]{0,2}|1000", "give 1 to 1000"), "default": "30"},
    "--title": {"type": TEXT, "required": True},
    "--body-file": {"metavar": "FILE", "required": True, "help": "UTF-8 text below ~/projects or /tmp"},
    "--head": {"metavar": "BRANCH", "type": TEXT, "required": True},
    "--base": {"metavar": "BRANCH", "type": TEXT, "help": "default: the repository's default branch"},
    "--add": {"metavar": "LABEL", "type": TEXT, "action": "append", "default": []},
    "--remove": {"metavar": "LABEL", "type": TEXT, "action": "append", "default": []},
    "--repo": {"metavar": "OWNER/NAME", "type": matching(REPOSITORY, "OWNER/NAME"), "help": "default: GH_ISSUE_REPO"},
}
VERBS: dict[str, tuple[Callable[[GitHub, Call], str], str, str]] = {
    "list": (list_issues, "--state --limit", "list issues, without pull requests"),
    "view": (view, "number", "show an issue or pull request with its comments"),
    "create": (create, "--title --body-file", "open an issue"),
    "comment": (comment, "number --body-file", "comment on an issue or pull request"),
    "close": (close_or_reopen, "number", "close an issue or pull request"),
    "reopen": (close_or_reopen, "number", "open it again"),
    "label": (label, "number --add --remove", "add and remove labels"),
    "pr-create": (create_pull, "--title --head --base --body-file", "open a pull request"),
    "pr-list": (list_pulls, "", "list open pull requests"),
    "pr-view": (view_pull, "number", "show a pull request with its branches and comments"),
    "pr-diff": (pull_diff, "number", "show what a pull request changes"),
    "link-branch": (link_branch, "number branch", "create a branch that is linked to an issue"),
}


def read_call(words: Sequence[str]) -> Call:
    """The words of the call; exits 2 where they are wrong. Names are exact, for the gate compares them exactly."""
    parser = Parser("gh_issue.py", description="GitHub issues and pull requests; no merging.")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, (_, options, does) in VERBS.items():
        verb = verbs.add_parser(name, help=does, description=does, allow_abbrev=False)
        for option in [*options.split(), "--repo"]:
            verb.add_argument(option, **OPTIONS[option])
    call = parser.parse_args(words)
    call.repo = call.repo or os.environ.get("GH_ISSUE_REPO", "")
    if not re.fullmatch(REPOSITORY, call.repo):
        parser.error("name the repository: --repo OWNER/NAME, or GH_ISSUE_REPO in the environment")
    if call.verb == "label" and not call.add + call.remove:
        parser.error("label needs --add or --remove")
    return call


def _out_of_time(*_: object) -> NoReturn:
    raise OutOfTime


def write(text: str) -> None:
    try:
        print(text, flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the interpreter flushes once more at its end
        raise Failure(f"It was done, but the output cannot be written: {error.strerror}.") from None


def main() -> int:
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    call, github, token = read_call(sys.argv[1:]), None, ""
    signal.signal(signal.SIGALRM, _out_of_time)
    signal.alarm(DEADLINE_S)
    try:
        root, token = find_root(), setting(TOKEN_FILE, 0o077)
        if not token:
            raise Failure(f"There is no token. Write it to {TOKEN_FILE}, mode 600.")
        github = GitHub(root, token)
        write(VERBS[call.verb][0](github, call).replace(token, "[token]"))
        return 0
    except Failure as failure:
        said = str(failure)
    except OutOfTime:
        said = f"It was not done within {DEADLINE_S} seconds."
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  (an answer made to break this gets a sentence too)
        said = f"Broken off: {visible(error) or type(error).__name__}."
    if github and github.unsure:
        said += " It is not known whether GitHub did it: look before you try again."
    print("gh_issue.py:", said.replace(token, "[token]") if token else said, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
