"""Hosts of addresses, set apart for a reader, with a word on those that look like others."""

from __future__ import annotations

import re

from slack_gate.core.display import one_line
from slack_gate.core.secrets import readable

MAX_HOST = 120  # UTF-16 units shown
MAX_HOSTS = 5
_URL = re.compile(r"\b[a-z][a-z0-9+.-]{0,20}://(?P<authority>[^\s/?#'\"\\<>|;&`]{0,300})", re.IGNORECASE)
_PLAIN_URL = re.compile(r"https?://[a-z0-9.-]+(?::\d{1,5})?(?:[/?#][\x21-\x7e]*)?", re.IGNORECASE)
_ADDRESS = re.compile(r"\[[0-9a-f:.]+\]|\d{1,3}(?:\.\d{1,3}){3}|0x[0-9a-f]+|\d+", re.IGNORECASE)


def hosts_in(text: str) -> list[str]:
    """The hosts of all addresses in a text, each once, user names and passwords left out."""
    found = (match["authority"].rpartition("@")[2] for match in _URL.finditer(readable(text)))
    return list(dict.fromkeys(host for host in found if host))


def about_host(url: str) -> str:
    """One line: the host, and what is odd about it or about its address."""
    url = readable(url)
    match = _URL.match(url.strip())
    host = match["authority"].rpartition("@")[2] if match else ""
    remarks = [oddity(host)] if host else []
    if match is None or not _PLAIN_URL.fullmatch(url.replace(host, "h", 1) if host and not host.isascii() else url):
        remarks.append("the address is written in an unusual way")
    said = ", ".join(filter(None, remarks))
    return f"Host: {one_line(host, MAX_HOST) or 'none can be read'}{f' ({said})' if said else ''}"


def listed(text: str) -> str:
    """`Hosts: …` for a command, empty when it names none."""
    found = hosts_in(text)
    if not found:
        return ""
    shown = [
        f"{one_line(host, MAX_HOST // 2)}{f' ({odd})' if (odd := oddity(host)) else ''}" for host in found[:MAX_HOSTS]
    ]
    more = f" and {len(found) - MAX_HOSTS} more" if len(found) > MAX_HOSTS else ""
    return f"{'Hosts' if len(found) > 1 else 'Host'}: {', '.join(shown)}{more}"


def oddity(host: str) -> str:
    name = host.lower().rpartition(":")[0] if re.search(r":\d*$", host) and host[:1] != "[" else host.lower()
    if "xn--" in name:
        return "punycode: it is drawn as other letters elsewhere"
    if not name.isascii():
        return "not ASCII: it may look like another host"
    if _ADDRESS.fullmatch(name):
        return "a number instead of a name"
    return "" if re.fullmatch(r"[a-z0-9.-]+", name) else "an unusual name"
