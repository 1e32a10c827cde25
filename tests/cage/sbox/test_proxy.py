"""The grant's proxy by itself, without a cage: the same requests, spoken to it directly."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cage import sbox_proxy
from cage.sbox_proxy import BadGrant, Client, Refused, Unreachable, connect, endpoints, named_grant
from tests.cage.sbox.test_net import BAD_REQUESTS, GET, NOT_LISTED, SOCKS_REFUSED, Server, connect_request, socks


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server("127.0.0.1")
    yield made
    made.shutdown()
    made.server_close()


def port_of(server: Server) -> int:
    return int(server.server_address[1])


def ask(server: Server, request: bytes) -> bytes:
    """What the proxy answers, with `localhost` and the server's port granted."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname(), 60)
        far, _ = listener.accept()
    serving = threading.Thread(target=Client(far, endpoints([f"localhost:{port_of(server)}"])).serve, daemon=True)
    serving.start()
    answer = b""
    with near:
        pieces = request.split(b"|||")
        try:
            for piece in pieces:
                near.sendall(piece)
                answer += near.recv(2) if len(pieces) > 1 else b""
            near.shutdown(socket.SHUT_WR)
            while part := near.recv(65536):
                answer += part
        except ConnectionError:
            assert answer  # it had said no before we were done
    serving.join(60)
    assert not serving.is_alive()
    return answer


def fill(text: str, server: Server) -> str:
    return text.replace("{port}", str(port_of(server))).replace("{other}", "1").replace("{six}", "2")


@pytest.mark.parametrize("target", NOT_LISTED.values(), ids=NOT_LISTED.keys())
def test_what_is_not_listed_is_refused(server: Server, target: str) -> None:
    answer = ask(server, connect_request(fill(target, server)) + GET)
    assert answer.startswith((b"HTTP/1.1 403 sbox: ", b"HTTP/1.1 400 sbox: "))
    assert server.asked == []


def test_what_is_listed_is_reached_by_every_way(server: Server) -> None:
    port = port_of(server)
    ways = (
        connect_request(f"LocalHost:{port}") + GET,
        f"GET http://localhost:{port} HTTP/1.0\r\n\r\n".encode(),
        f"GET http://localhost:{port}?q HTTP/1.1\r\nProxy-X: y\r\n\r\n".encode(),
        f"POST http://localhost:{port}/ HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabcGET".encode(),
        socks(3, b"\x09localhost", port) + b"|||" + GET,
    )
    for request in ways:
        assert b"HIT " in ask(server, request), request
    assert server.asked == ["/", "/", "/?q", "/", "/"]


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_what_is_not_understood_is_refused(server: Server, name: str) -> None:
    answer = ask(server, BAD_REQUESTS[name].replace(b"{port}", str(port_of(server)).encode()))
    assert answer.startswith(b"HTTP/1.1 400 sbox: ") and server.asked == []


@pytest.mark.parametrize("name", SOCKS_REFUSED)
def test_socks_is_refused_with_its_code(server: Server, name: str) -> None:
    request, code = SOCKS_REFUSED[name]
    answer = ask(server, request[:-2] + port_of(server).to_bytes(2, "big") + b"|||" + GET)
    assert answer[:4] == bytes((5, 0, 5, code))


def test_socks_of_no_kind_or_with_a_password_gets_no_connection(server: Server) -> None:
    assert ask(server, b"\x05\x01\x02") == b"\x05\xff"
    assert ask(server, b"\x05\x01\x00|||\x05\x01\x00\x09") == b"\x05\x00"


def test_a_body_that_ends_early_is_not_made_up(server: Server) -> None:
    request = f"POST http://localhost:{port_of(server)}/ HTTP/1.1\r\nContent-Length: 9\r\n\r\nab"
    assert b"HIT" not in ask(server, request.encode())


def test_what_does_not_answer_is_said(server: Server) -> None:
    port = port_of(server)
    server.shutdown()
    server.server_close()
    with pytest.raises(Unreachable):
        connect("localhost", port, endpoints([f"localhost:{port}"]))
    with pytest.raises(Unreachable, match="it has no address"):
        connect("no-such-name.invalid", 443, endpoints(["no-such-name.invalid:443"]))
    with pytest.raises(Refused):
        connect("127.0.0.1", port, endpoints([f"localhost:{port}"]))


@pytest.fixture
def gate() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="sbox-proxy-", dir="/var/tmp") as made:
        yield Path(made)


def test_a_list_is_read_and_judged(gate: Path) -> None:
    path = gate / "net-allow.txt"
    path.write_text("# all\na example.com:443 # one\nb [::1]:80\na example.org:80\n\nbad x\n")
    assert named_grant(str(path), "a", []) == {("example.com", 443), ("example.org", 80)}
    assert named_grant(str(path), "b", ["/srv/projects"]) == {("::1", 80)}
    for name, words in (("bad", "line 6"), ("c", "no grant c"), ("a:1", "not the name")):
        with pytest.raises(BadGrant, match=words):
            named_grant(str(path), name, [])
    with pytest.raises(BadGrant, match="where cages can write"):
        named_grant(str(path), "a", [str(gate)])
    with pytest.raises(BadGrant, match="cannot be read"):
        named_grant(str(gate / "none"), "a", [])
    path.write_text("a example.com:443\n" * 9999)
    with pytest.raises(BadGrant, match="longer than"):
        named_grant(str(path), "a", [])


def test_a_list_behind_links_is_judged_on_the_whole_way(gate: Path) -> None:
    (gate / "real").mkdir()
    (gate / "real/net-allow.txt").write_text("a example.com:443\n")
    (gate / "link").symlink_to("real/../real")
    assert named_grant(f"{gate}/link/./net-allow.txt", "a", []) == {("example.com", 443)}
    with pytest.raises(BadGrant, match="where cages can write"):
        named_grant(f"{gate}/link/net-allow.txt", "a", [f"{gate}/link"])
    (gate / "loop").symlink_to("loop")
    with pytest.raises(BadGrant, match="loop"):
        named_grant(f"{gate}/loop/net-allow.txt", "a", [])
    for mode in (0o666, 0o602):
        (gate / "real/net-allow.txt").chmod(mode)
        with pytest.raises(BadGrant, match="other users"):
            named_grant(f"{gate}/real/net-allow.txt", "a", [])


def test_whose_a_file_is(gate: Path) -> None:
    def shared(mode: int, group: int) -> bool:
        return sbox_proxy._is_shared(os.stat_result((mode, 0, 0, 1, os.getuid(), group, 0, 0, 0, 0)))

    assert not shared(stat.S_IFREG | 0o644, 100) and not shared(stat.S_IFLNK | 0o777, 100)
    assert not shared(stat.S_IFDIR | 0o1777, 100) and shared(stat.S_IFDIR | 0o777, 100)
    assert shared(stat.S_IFREG | 0o664, 100) and shared(stat.S_IFREG | 0o664, 987654)
