"""Network grants: what is listed is reached, and nothing else, against listeners that the tests themselves made."""
# ruff: noqa: E501  a row of a table is one line

from __future__ import annotations

import http.server
import os
import shlex
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import pytest

from cage.sbox_proxy import BadGrant, endpoint, endpoints, is_public, seal, sealed_grant
from tests.cage.sbox.world import World

PORT = 3128


class Answers(http.server.BaseHTTPRequestHandler):
    """Says what it was asked, so that a test sees what the proxy passed on."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/large":
            text = b"x" * (8 << 20)
        else:
            text = f"HIT {self.command} {self.path} host={self.headers['Host']} {self.headers.get('X-Kept')} {len(body)}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_GET

    def log_message(self, *words: object) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, host: str) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.asked: list[str] = []
        super().__init__((host, 0), Answers)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()


@dataclass(frozen=True)
class Net:
    """A gate's home out of reach of the cage, and listeners on the loopback outside."""

    world: World
    gate: Path
    listed: Server
    other: Server
    six: Server

    @property
    def port(self) -> int:
        return int(self.listed.server_address[1])

    def list(self, text: str) -> None:
        path = self.gate / "net-allow.txt"
        path.write_text(self.fill(text))
        self.world.give(path)

    def fill(self, text: str) -> str:
        ports = {"{port}": self.port, "{other}": self.other.server_address[1], "{six}": self.six.server_address[1]}
        for name, port in ports.items():
            text = text.replace(name, str(port))
        return text

    def run(self, name: str, *argv: str, **options: object) -> subprocess.CompletedProcess[str]:
        env = self.world.environment({"SLACK_GATE_HOME": str(self.gate)})
        return self.world.caged("--net-allow", name, "--", *argv, env=env, **options)

    def say(self, name: str, *requests: bytes) -> list[bytes]:
        """What the proxy answers to each of `requests`, one connection each, sent from inside the cage."""
        code = (
            "import contextlib,socket,sys\n"
            "for words in sys.argv[1:]:\n"
            f" s=socket.create_connection(('127.0.0.1',{PORT}),10); got=b''\n"
            " with contextlib.suppress(OSError):\n"
            "  for piece in words.split('/'):\n"
            "   s.sendall(bytes.fromhex(piece))\n"
            "   if '/' in words: got+=s.recv(2)\n"
            "  s.shutdown(1)\n"
            "  while part:=s.recv(65536): got+=part\n"
            " print(got.hex())\n"
        )
        words = [b"/".join(piece.hex().encode() for piece in request.split(b"|||")).decode() for request in requests]
        done = self.run(name, "/usr/bin/python3", "-c", code, *words)
        assert done.returncode == 0, done
        return [bytes.fromhex(line) for line in done.stdout.split("\n")[:-1]]


LONG = bool(os.environ.get("SLACK_GATE_LONG"))


@pytest.fixture
def once(world: World) -> None:
    """For what the proxy alone decides, which is the same one for both builds and all users."""
    if world.sbox.name != "script" and not LONG:
        pytest.skip("shown with the script, and in the long run")


@pytest.fixture
def net(world: World) -> Iterator[Net]:
    gate = world.outside / "gate"
    gate.mkdir(exist_ok=True)
    gate.chmod(0o700)
    world.give(gate)
    made = Net(world, gate, Server("127.0.0.1"), Server("127.0.0.1"), Server("::1"))
    made.list("web localhost:{port}  # a comment\nliteral 127.0.0.1:{port}\nsix [::1]:{six}\n\nweb LocalHost:{port}\n")
    yield made
    for server in (made.listed, made.other, made.six):
        server.shutdown()
        server.server_close()
    shutil.rmtree(gate)


def connect_request(authority: str) -> bytes:
    return f"CONNECT {authority} HTTP/1.1\r\n\r\n".encode("latin-1")


def socks(kind: int, host: bytes, port: int, command: int = 1, methods: bytes = b"\x01\x00", version: int = 5) -> bytes:
    return b"\x05" + methods + b"|||" + bytes((version, command, 0, kind)) + host + port.to_bytes(2, "big")


GET = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

# What is said to the proxy under the grant `web`, which lists localhost:{port} alone.
NOT_LISTED = {
    "another port": "localhost:{other}",
    "the address of the name": "127.0.0.1:{port}",
    "a short address": "127.1:{port}",
    "an address as one number": "2130706433:{port}",
    "a hexadecimal address": "0x7f000001:{port}",
    "a hexadecimal end": "127.0x1:{port}",
    "an octal address": "0177.0.0.1:{port}",
    "the IPv6 loopback": "[::1]:{six}",
    "an IPv4 address in IPv6": "[::ffff:127.0.0.1]:{port}",
    "an address with a zone": "[::1%lo]:{six}",
    "the unspecified address": "0.0.0.0:{port}",
    "a final dot": "localhost.:{port}",
    "a name below it": "x.localhost:{port}",
    "a NUL after the name": "localhost\0.example:{port}",
    "a NUL before the name": "example\0localhost:{port}",
    "a user before the name": "example@localhost:{port}",
    "a name before the name": "localhost:{port}@127.0.0.1:{other}",
    "a wide letter": "loca\xe7host:{port}",
    "brackets around the name": "[localhost]:{port}",
    "a port with a sign": "localhost:+{port}",
    "a port with a zero": "localhost:0{port}",
    "a port beyond the last": "localhost:1{port}0",
    "no port": "localhost",
    "an empty name": ":{port}",
    "a name of the cloud": "metadata.google.internal:80",
    "the address of the cloud": "169.254.169.254:80",
}  # fmt: skip


@pytest.mark.parametrize("batch", ["CONNECT", "GET", "SOCKS5 name"])
def test_only_what_is_listed_is_connected(net: Net, batch: str) -> None:
    """Each row by every way of asking; the listeners hear nothing. `localhost:{port}` itself is heard, as a proof."""
    targets = [net.fill(target) for target in NOT_LISTED.values()]
    proof = net.fill("localhost:{port}")
    if batch == "CONNECT":
        (*refused, last) = net.say("web", *(connect_request(target) + GET for target in (*targets, proof)))
        assert all(answer.startswith((b"HTTP/1.1 403 sbox: ", b"HTTP/1.1 400 sbox: ")) for answer in refused), refused
    elif batch == "GET":
        ask = [
            f"GET http://{target}/ HTTP/1.1\r\n\r\n".encode("latin-1")
            for target in (*targets, proof)
            if target != "localhost"
        ]
        (*refused, last) = net.say("web", *ask)
        assert all(answer.startswith((b"HTTP/1.1 403 sbox: ", b"HTTP/1.1 400 sbox: ")) for answer in refused), refused
    else:
        ask = []
        for target in (*targets, proof):
            host, _, port = target.rpartition(":")
            name = host.encode("latin-1")
            if port.isdecimal() and str(int(port)) == port and int(port) < 65536:
                ask.append(socks(3, bytes((len(name),)) + name, int(port)) + b"|||" + GET)
        (*refused, last) = net.say("web", *ask)
        assert {answer[:4] for answer in refused} == {b"\x05\x00\x05\x02"}
    assert b"HIT GET /" in last
    assert net.listed.asked == ["/"] and net.other.asked == net.six.asked == []


SOCKS_REFUSED = {
    "an IPv4 address": (socks(1, bytes((127, 0, 0, 1)), 0), 2),
    "an IPv6 address": (socks(4, bytes(15) + b"\1", 0), 2),
    "an IPv4 address in IPv6": (socks(4, bytes(10) + b"\xff\xff\x7f\0\0\1", 0), 2),
    "listening": (socks(3, b"\x09localhost", 0, command=2), 7),
    "datagrams": (socks(3, b"\x09localhost", 0, command=3), 7),
    "another version": (socks(3, b"\x09localhost", 0, version=4), 7),
}


@pytest.mark.parametrize("request_,code", SOCKS_REFUSED.values(), ids=SOCKS_REFUSED.keys())
def test_socks_by_address_and_other_commands_are_refused(once: None, net: Net, request_: bytes, code: int) -> None:
    request_ = request_[:-2] + net.port.to_bytes(2, "big")
    (answer,) = net.say("web", request_ + b"|||" + GET)
    assert answer[:4] == bytes((5, 0, 5, code)) and net.listed.asked == []


def test_socks_with_a_password_only_is_refused(once: None, net: Net) -> None:
    (answer,) = net.say("web", b"\x05\x01\x02")
    assert answer == b"\x05\xff"


BAD_REQUESTS = {
    "a path alone": b"GET / HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n",
    "https by GET": b"GET https://localhost:{port}/ HTTP/1.1\r\n\r\n",
    "ftp": b"GET ftp://localhost:{port}/ HTTP/1.1\r\n\r\n",
    "a file": b"GET file:///etc/passwd HTTP/1.1\r\n\r\n",
    "another version": b"CONNECT localhost:{port} HTTP/2\r\n\r\n",
    "lines without returns": b"CONNECT localhost:{port} HTTP/1.1\n\r\n\r\n",
    "a folded field": b"GET http://localhost:{port}/ HTTP/1.1\r\nA: b\r\n c: d\r\n\r\n",
    "a NUL in a field": b"GET http://localhost:{port}/ HTTP/1.1\r\nA: b\0\r\n\r\n",
    "a field without a name": b"GET http://localhost:{port}/ HTTP/1.1\r\n: b\r\n\r\n",
    "a blank before the colon": b"GET http://localhost:{port}/ HTTP/1.1\r\nContent-Length : 5\r\n\r\n",
    "a chunked body": b"POST http://localhost:{port}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"POST http://localhost:{port}/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "a signed length": b"POST http://localhost:{port}/ HTTP/1.1\r\nContent-Length: +1\r\n\r\na",
    "an endless head": b"CONNECT localhost:{port} HTTP/1.1\r\n" + b"A: b\r\n" * 9000,
    "SOCKS4": b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00\r\n\r\n",
}


def test_requests_that_are_not_understood_are_refused(once: None, net: Net) -> None:
    requests = [request.replace(b"{port}", str(net.port).encode()) for request in BAD_REQUESTS.values()]
    for name, answer in zip(BAD_REQUESTS, net.say("web", *(r for r in requests if len(r) < 50000)), strict=False):
        assert answer.startswith(b"HTTP/1.1 400 sbox: "), (name, answer)
    assert net.listed.asked == []


def test_a_second_request_does_not_ride_on_the_first(once: None, net: Net) -> None:
    """The first names a listed host; what follows on the same connection could name another host of the same server."""
    one = (
        f"GET http://localhost:{net.port}/one HTTP/1.1\r\nHost: other\r\nX-Kept: kept\r\nProxy-Authorization: x\r\n\r\n"
    )
    two = f"GET http://other:{net.port}/two HTTP/1.1\r\n\r\n"
    (answer,) = net.say("web", (one + two).encode())
    assert f"HIT GET /one host=localhost:{net.port} kept 0" in answer.decode()
    assert net.listed.asked == ["/one"]


def test_nothing_but_the_proxy_leads_out(net: Net) -> None:
    attempts = {
        "the listed port itself": f"socket.create_connection(('127.0.0.1',{net.port}),5)",
        "the listed port by IPv6": f"socket.create_connection(('::1',{net.six.server_address[1]}),5)",
        "a raw address": "socket.create_connection(('192.0.2.1',53),5)",
        "a datagram": "socket.socket(2,2).sendto(b'x',('192.0.2.1',53))",
        "a look-up": "socket.getaddrinfo('example.com',443)",
        "a packet socket": "socket.socket(17,3)",
    }
    for name, code in attempts.items():
        done = net.run("web", "/usr/bin/python3", "-c", f"import socket; {code}")
        assert done.returncode == 1 and "rror" in done.stderr, (name, done)
    assert socket.create_connection(("127.0.0.1", net.port), 5).getpeername()


LOOKED_UP = {  # a name, where it leads, and whether that may be reached
    "loop.test": "127.0.0.1", "loop2.test": "127.9.9.9", "ten.test": "10.0.0.1", "private.test": "192.168.1.1", "b.test": "172.16.0.1",
    "metadata.test": "169.254.169.254", "shared.test": "100.100.100.200", "zero.test": "0.0.0.0", "many.test": "224.0.0.251",
    "azure.test": "168.63.129.16", "six.test": "::1", "link.test": "fe80::1", "unique.test": "fd00:ec2::254", "mapped.test": "::ffff:127.0.0.1",
    "nat.test": "64:ff9b::7f00:1", "six-to-four.test": "2002:7f00:1::1", "future.test": "250.1.1.1", "broadcast.test": "255.255.255.255",
}  # fmt: skip


def with_hosts(net: Net, hosts: dict[str, str], name: str, *argv: str) -> subprocess.CompletedProcess[str]:
    path = net.world.outside / "hosts"
    path.write_text("".join(f"{address} {name}\n" for name, address in hosts.items()))
    place = ["bwrap", "--dev-bind", "/", "/", "--bind", str(path), "/etc/hosts", "--", str(net.world.sbox)]
    env = net.world.environment({"SLACK_GATE_HOME": str(net.gate)})
    return net.world.bare(*place, "--net-allow", name, "--", *argv, env=env, timeout=100)


def test_a_listed_name_that_leads_inward_is_refused(once: None, net: Net) -> None:
    net.list("inward " + " ".join(f"{name}:{{port}}" for name in LOOKED_UP) + "\n")
    ask = f"for h in {' '.join(LOOKED_UP)}; do curl -s --noproxy '' http://$h:{net.port}/; done"
    done = with_hosts(net, LOOKED_UP, "inward", "bash", "-c", ask)
    for line, (name, address) in zip(done.stdout.splitlines(), LOOKED_UP.items(), strict=True):
        assert line.startswith(f"sbox: {name} leads to ") and "not public" in line, (line, address)
    assert net.listed.asked == []


def test_a_private_address_that_is_listed_itself_is_reached(once: None, net: Net) -> None:
    net.list("both intern.test:{port} 127.0.0.1:{port}\nport intern.test:{port} 127.0.0.1:{other}\n")
    ask = ["curl", "-s", "--noproxy", "", f"http://intern.test:{net.port}/"]
    hosts = {"intern.test": "127.0.0.1"}
    assert "HIT GET /" in with_hosts(net, hosts, "both", *ask).stdout
    assert "leads to 127.0.0.1" in with_hosts(net, hosts, "port", *ask).stdout


PUBLIC = ["1.1.1.1", "8.8.8.8", "140.82.121.4", "2606:4700:4700::1111", "64:ff9b::808:808"]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    "address",
    [*LOOKED_UP.values(), "2001::1", "2001:db8::1", "::", "ff02::1", "100.64.0.1", "198.18.0.1", "192.0.0.192"],
)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(ip_address(address))


REBINDING = """
import os, socket, struct, subprocess, sys, threading, http.server
sbox, gate, home, resolv = sys.argv[1:]
run = lambda *words: subprocess.run(words, check=True)
run("mount", "--make-rprivate", "/")
run("mount", "--bind", resolv, "/etc/resolv.conf")
run("ip", "link", "set", "lo", "up")
peer = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo up; exec sleep 60"], stdout=subprocess.PIPE)
peer.stdout.readline()
run("ip", "link", "add", "near", "type", "veth", "peer", "name", "far", "netns", str(peer.pid))
run("ip", "address", "add", "93.184.216.1/24", "dev", "near"); run("ip", "link", "set", "near", "up")
there = ["nsenter", "-t", str(peer.pid), "-n"]
run(*there, "ip", "address", "add", "93.184.216.34/24", "dev", "far"); run(*there, "ip", "link", "set", "far", "up")
code = ("import http.server as h\\nclass A(h.BaseHTTPRequestHandler):\\n def do_GET(s): s.send_response(200); s.end_headers(); s.wfile.write(b'PUBLIC\\\\n')\\n"
        " def log_message(s,*a): pass\\nv=h.HTTPServer(('93.184.216.34',8099),A); print('up',flush=True); v.serve_forever()")
public = subprocess.Popen([*there, "/usr/bin/python3", "-c", code], stdout=subprocess.PIPE); public.stdout.readline()
class Secret(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.send_response(200); self.end_headers(); self.wfile.write(b"SECRET\\n")
    def log_message(self, *a): pass
for host in ("127.0.0.1", "93.184.216.1"):
    threading.Thread(target=http.server.HTTPServer((host, 8099), Secret).serve_forever, daemon=True).start()
answers = {b"flip": [["93.184.216.34"], ["127.0.0.1"]], b"both": [["127.0.0.1", "93.184.216.34"]], b"own": [["93.184.216.1"]], b"steady": [["93.184.216.34"]]}
asked = []
def serve(server):
    while True:
        query, who = server.recvfrom(512)
        name, kind = query[13 : 13 + query[12]], query[query.index(b"\\0", 12) + 2]
        asked.append(name.decode())
        rows = answers.get(name, [[]])
        found = (rows.pop(0) if len(rows) > 1 else rows[0]) if kind == 1 else []
        head = query[:2] + struct.pack(">HHHHH", 0x8180, 1, len(found), 0, 0)
        question = query[12 : query.index(b"\\0", 12) + 5]
        server.sendto(head + question + b"".join(b"\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\0\\0\\4" + socket.inet_aton(a) for a in found), who)
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); server.bind(("127.0.0.1", 53))
threading.Thread(target=serve, args=(server,), daemon=True).start()
asks = "for h in steady flip flip flip both own other; do curl -sm 9 --noproxy '' http://$h.test:8099/; done"
done = subprocess.run([sbox, "--net-allow", "names", "--", "bash", "-c", asks], capture_output=True, text=True, cwd="/tmp",
                      env={"HOME": home, "PATH": "/usr/bin:/bin", "SLACK_GATE_HOME": gate})
print(done.stdout, done.stderr, "ASKED", *sorted(set(asked)))
public.kill(); peer.kill()
"""


def test_a_name_server_that_changes_its_answer_opens_nothing(once: None, net: Net) -> None:
    """A name server of our own in a network of our own: each connection goes to an address that was judged for it."""
    if net.world.uid != 0 or not shutil.which("ip") or not shutil.which("nsenter"):
        pytest.skip("only root can make such a network")
    net.list("names steady.test:8099 flip.test:8099 both.test:8099 own.test:8099\n")
    resolv = net.world.outside / "resolv.conf"
    resolv.write_text("nameserver 127.0.0.1\noptions attempts:1 timeout:2\n")
    argv = [
        "unshare",
        "-nm",
        sys.executable,
        "-c",
        REBINDING,
        str(net.world.sbox),
        str(net.gate),
        str(net.world.home),
        str(resolv),
    ]
    done = net.world.bare(*argv, timeout=100)
    lines = done.stdout.split(" ASKED ")[0].strip().splitlines()
    assert lines[:2] == ["PUBLIC", "PUBLIC"], done
    assert "SECRET" not in done.stdout, done
    assert [line.partition(" leads to ")[2].partition(",")[0] for line in lines[2:6]] == [
        "127.0.0.1", "127.0.0.1", "127.0.0.1", "93.184.216.1",
    ], done  # fmt: skip
    assert "is not in the grant" in lines[6] and "other" not in done.stdout.split(" ASKED ")[1], done


WORK = {
    "fetch a page": "curl -sf http://localhost:{port}/a | grep -q 'HIT GET /a host=localhost:{port}'",
    "fetch a page through a tunnel": "curl -sfp http://localhost:{port}/a | grep -q 'HIT GET /a'",
    "fetch a page by SOCKS5": "curl -sf --socks5-hostname 127.0.0.1:3128 http://localhost:{port}/a | grep -q HIT",
    "send a form": "curl -sf -d 'one=two' http://localhost:{port}/f | grep -q 'POST /f .* 7$'",
    "send a large file": "head -c 5000000 /dev/zero >f && curl -sf -T f -X POST -H 'Expect: 100-continue' http://localhost:{port}/f | grep -q ' 5000000$'",
    "fetch a large file": "[ $(curl -sf http://localhost:{port}/large | wc -c) = 8388608 ]",
    "fetch a large file through a tunnel": "[ $(curl -sfp http://localhost:{port}/large | wc -c) = 8388608 ]",
    "fetch by Python": "/usr/bin/python3 -c \"import urllib.request as u; assert b'HIT' in u.urlopen('http://localhost:{port}/').read()\"",
    "fetch in capitals": "curl -sf http://LOCALHOST:{port}/a | grep -q HIT",
    "fetch forty at once": "for i in {1..40}; do curl -sfp http://localhost:{port}/a >o$i & done; wait; [ $(cat o* | grep -c HIT) = 40 ]",
    "write as always": "echo x >f && mkdir -p ~/.cache/y && ! touch ~/x 2>/dev/null",
    "serve in the cage": "/usr/bin/python3 -c \"import socket; s=socket.create_server(('127.0.0.1',0)); socket.create_connection(s.getsockname())\"",
    "read its input": "grep -q typed",
}  # fmt: skip


@pytest.mark.parametrize("code", WORK.values(), ids=WORK.keys())
def test_work_with_a_grant(net: Net, code: str) -> None:
    place = net.world.projects / "w"
    place.mkdir(exist_ok=True)
    net.world.give(place)
    done = net.run("web", "bash", "-euc", net.fill(code), cwd=place, input="typed\n", timeout=100)
    assert done.returncode == 0, done


def test_many_connections_where_descriptors_are_few(net: Net) -> None:
    ask = f"for i in {{1..60}}; do curl -sfp http://localhost:{net.port}/a & done | grep -c HIT"
    code = f'ulimit -Sn 30; exec "$0" --net-allow web -- bash -c {shlex.quote(ask)}'
    env = net.world.environment({"SLACK_GATE_HOME": str(net.gate)})
    done = net.world.bare("bash", "-c", code, str(net.world.sbox), env=env, timeout=100)
    assert done.stdout == "60\n", done


def test_addresses_that_are_listed_as_addresses(once: None, net: Net) -> None:
    done = net.run("literal", "curl", "-s", f"http://127.0.0.1:{net.port}/", f"http://localhost:{net.port}/")
    assert "HIT" in done.stdout and "localhost:" in done.stdout and "is not in the grant" in done.stdout, done
    assert "HIT" in net.run("six", "curl", "-s", f"http://[::1]:{net.six.server_address[1]}/").stdout


def test_git_clones_through_a_grant(net: Net, tmp_path: Path) -> None:
    origin = net.world.repository("origin")
    assert net.world.bare("git", "clone", "-q", "--bare", str(origin), str(net.world.outside / "o.git")).returncode == 0
    assert net.world.bare("git", "-C", str(net.world.outside / "o.git"), "update-server-info").returncode == 0
    files = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), lambda *a: http.server.SimpleHTTPRequestHandler(*a, directory=str(net.world.outside))
    )
    threading.Thread(target=files.serve_forever, args=(0.01,), daemon=True).start()
    port = files.server_address[1]
    net.list(f"code localhost:{port}\n")
    code = f"git clone -q http://localhost:{port}/o.git c && git -C c log --oneline | grep -q one"
    done = net.run("code", "bash", "-c", code)
    files.shutdown()
    files.server_close()
    shutil.rmtree(net.world.outside / "o.git")
    assert done.returncode == 0, done


@pytest.mark.parametrize("code", [0, 3, 125, 255])
def test_exit_codes_pass(net: Net, code: int) -> None:
    assert net.run("web", "sh", "-c", f"exit {code}").returncode == code
    assert net.run("web", "bash", "-c", "kill -TERM $$").returncode == 143


def test_a_command_that_is_not_there(net: Net) -> None:
    assert net.run("web", "no-such-program").returncode == 127
    assert net.run("web", "/etc").returncode == 126


def test_the_environment_names_the_proxy_and_no_secret(net: Net) -> None:
    shown = net.run("web", "env").stdout
    assert all(f"{name}=http://127.0.0.1:{PORT}\n" in shown for name in ("http_proxy", "HTTPS_PROXY", "all_proxy"))
    assert "LOOT" not in shown and "SLACK_GATE_HOME" not in shown and "LC_CTYPE" not in shown
    assert "LOOT" not in net.run("web", "bash", "-c", "cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'").stdout


def test_no_descriptor_of_the_grant_leads_in(net: Net) -> None:
    shown = net.run("web", "bash", "-c", "ls -l /proc/self/fd").stdout
    assert "socket:" not in shown and "pidfd" not in shown and "sbox_proxy" not in shown
    assert len(shown.splitlines()) <= 5, shown  # a title, three streams, and the directory that ls reads


def test_it_says_that_the_grant_stopped_it(net: Net) -> None:
    done = net.run("web", "curl", "-sS", "https://example.com/")
    assert done.returncode == 56, done
    assert "the cage reaches only what its network grant lists" in done.stderr.splitlines()[-1]


def proxies(net: Net) -> list[str]:
    return subprocess.run(
        ["pgrep", "-f", f"sbox_proxy.py.*{net.gate}"], stdout=subprocess.PIPE, text=True
    ).stdout.split()


def gone(net: Net) -> bool:
    """Whether the proxy ends within a few seconds: nothing tells its end."""
    end = time.monotonic() + 60
    while proxies(net) and time.monotonic() < end:
        time.sleep(0.02)
    return not proxies(net)


@pytest.mark.parametrize("end", ["exit", "TERM", "KILL", "the caller is killed"])
def test_the_proxy_ends_with_the_cage(net: Net, end: str) -> None:
    argv = [str(net.world.sbox), "--net-allow", "web", "--", "sh", "-c", "echo up; read x"]
    if end.startswith("the caller"):
        argv = ["bash", "-c", f"{shlex.join(argv)} <&0 & wait"]
    env = net.world.environment({"SLACK_GATE_HOME": str(net.gate)})
    with net.world.start(argv, env=env, stdin=subprocess.PIPE) as running:
        assert running.stdout and running.stdout.readline() == "up\n"
        assert proxies(net)
        if end == "exit":
            running.communicate("go\n", 100)
        else:
            os.kill(running.pid, 15 if end == "TERM" else 9)
            running.communicate(timeout=100)  # ends when the last holder of its output does
    assert gone(net)


def test_a_proxy_whose_cage_does_not_start_ends(net: Net) -> None:
    fake = net.world.outside / "bwrap"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    place = ["bwrap", "--dev-bind", "/", "/", "--bind", str(fake), "/usr/bin/bwrap", "--", str(net.world.sbox)]
    env = net.world.environment({"SLACK_GATE_HOME": str(net.gate)})
    done = net.world.bare(*place, "--net-allow", "web", "--", "touch", "marker", env=env)
    assert done.returncode == 125 and not (net.world.projects / "marker").exists() and gone(net)


BAD_LISTS = {
    "no such name": ("web2 localhost:1\n", "no grant web"),
    "no list": (None, "cannot be read"),
    "no endpoint": ("web\n", "lists no host:port"),
    "a host without a port": ("web localhost\n", "has no port"),
    "a pattern": ("web *.example.com:443\n", "not a host name"),
    "a port of another kind": ("web localhost:http\n", "not a port"),
    "every port": ("web localhost:*\n", "not a port"),
    "an address": ("web http://localhost:80\n", "line 1"),
    "an address in another spelling": ("web 127.1:80\n", "line 1"),
    "other bytes": ("web l\u00f6calhost:80\n", "cannot be read"),
}


@pytest.mark.parametrize("text,words", BAD_LISTS.values(), ids=BAD_LISTS.keys())
def test_a_list_that_does_not_name_hosts_stops_the_cage(once: None, net: Net, text: str | None, words: str) -> None:
    if text is None:
        (net.gate / "net-allow.txt").unlink()
    else:
        net.list(text)
    done = net.run("web", "touch", "marker")
    assert done.returncode == 125 and not (net.world.projects / "marker").exists()
    assert words in done.stderr and len(done.stderr.splitlines()) == 1 and done.stderr.endswith("Nothing was run.\n")


def test_a_list_in_a_directory_of_ones_own_group_is_read(net: Net) -> None:
    """Where every user has a group of their own, directories may be open to it; not where the group has others in it."""
    net.gate.chmod(0o770)
    assert net.run("web", "true").returncode == (0 if net.world.uid == 0 else 125)  # nobody's group is nogroup
    if os.geteuid() == 0:
        os.chown(net.gate, -1, 100)
        assert net.run("web", "true").returncode == 125


PLACES = {
    "in the zone": lambda net: net.world.projects / "gate",
    "in /tmp": lambda net: net.world.top / "gate",
    "in the cache": lambda net: net.world.home / ".cache/gate",
    "through a link to the zone": lambda net: net.world.outside / "linked",
    "through a link in the zone": lambda net: net.world.outside / "way",
    "open to others": lambda net: net.world.outside / "open",
    "a file open to others": lambda net: net.world.outside / "shared",
    "a link as the file": lambda net: net.world.outside / "file-link",
}


@pytest.mark.parametrize("where", PLACES)
def test_a_list_that_others_can_write_stops_the_cage(once: None, net: Net, where: str) -> None:
    home = PLACES[where](net)
    real = net.world.projects / "real"
    good = f"web localhost:{net.port}\n"
    if where == "through a link to the zone":
        real.mkdir()
        home.symlink_to(real)
    elif where == "through a link in the zone":
        (net.world.projects / "way").symlink_to(net.gate)
        home.symlink_to(net.world.projects / "way")
    else:
        home.mkdir()
    if where == "a link as the file":
        (net.world.projects / "list").write_text(good)
        (home / "net-allow.txt").symlink_to(net.world.projects / "list")
    else:
        (home / "net-allow.txt").write_text(good)
    if where == "a file open to others":
        (home / "net-allow.txt").chmod(0o666)
    if where == "open to others":
        home.chmod(0o777)
    net.world.give(home)
    env = net.world.environment({"SLACK_GATE_HOME": str(home)})
    done = net.world.caged("--net-allow", "web", "--", "touch", "marker", env=env)
    home.unlink() if home.is_symlink() else shutil.rmtree(home)
    assert done.returncode == 125 and not (net.world.projects / "marker").exists()
    assert "lies where cages can write" in done.stderr or "could be changed by other users" in done.stderr, done


SEALED = """
import os, sys
sys.path.insert(0, {tools!r})
import sbox_proxy
fd = {make}
os.set_inheritable(fd, True)
os.execv({sbox!r}, [{sbox!r}, "--net-fd", str(fd), "--", *sys.argv[1:]])
"""
DESCRIPTORS = {
    "sealed": ("sbox_proxy.seal(['localhost:{port}'])", True),
    "not sealed": ("os.memfd_create('x', os.MFD_ALLOW_SEALING); os.write(fd, b'localhost:{port}')", False),
    "sealed against growth only": ("os.memfd_create('x', os.MFD_ALLOW_SEALING); os.write(fd, b'localhost:{port}'); __import__('fcntl').fcntl(fd, 1033, 4)", False),
    "a file": ("os.open('f', os.O_RDWR | os.O_CREAT); os.write(fd, b'localhost:{port}'); os.lseek(fd, 0, 0)", False),
    "a pipe": ("os.pipe()[0]", False),
    "a directory": ("os.open('/', os.O_RDONLY)", False),
}  # fmt: skip


@pytest.mark.parametrize("make,works", DESCRIPTORS.values(), ids=DESCRIPTORS.keys())
def test_a_sealed_descriptor_grants_one_run(net: Net, make: str, works: bool) -> None:
    code = SEALED.format(tools=str(net.world.sbox.parent), sbox=str(net.world.sbox), make=net.fill(make))
    ask = f"curl -s http://localhost:{net.port}/; curl -s http://localhost:{net.other.server_address[1]}/; ls -l /proc/self/fd"
    done = net.world.bare("/usr/bin/python3", "-c", code, "bash", "-c", ask)
    assert ("HIT" in done.stdout) is works, done
    assert works or (done.returncode == 125 and "not a sealed grant" in done.stderr), done
    assert not works or ("is not in the grant" in done.stdout and "memfd" not in done.stdout), done


def test_no_shell_makes_a_grant(net: Net) -> None:
    for redirect in (f"5<<<localhost:{net.port}", f"5< <(echo localhost:{net.port})", "5</dev/null"):
        done = net.world.bare("bash", "-c", f'"$0" --net-fd 5 -- true {redirect}', str(net.world.sbox))
        assert done.returncode == 125 and "not a sealed grant" in done.stderr, done


def test_a_sealed_grant_is_read_as_it_was_made() -> None:
    fd = seal(["Example.com:443", "[::1]:80"])
    assert sealed_grant(fd) == {("example.com", 443), ("::1", 80)}
    with pytest.raises(OSError):
        os.write(fd, b"x")
    os.close(fd)
    for words in ([], ["example.com"], ["*:443"]):
        with pytest.raises(ValueError):
            seal(words)
    with pytest.raises(BadGrant):
        sealed_grant(0)


@pytest.mark.parametrize("host", ["", ".", "a..b", "-a.b", "a-.b", "a b", "a/b", "a" * 64, "é", "1", "a.1", "a.0x1", "[a]", "[::1", "1.2.3", "1.2.3.4.5", "01.2.3.4"])  # fmt: skip
def test_what_is_no_host(host: str) -> None:
    with pytest.raises(ValueError):
        endpoint(host, 443)


def test_one_spelling_of_an_endpoint() -> None:
    assert endpoint("EXAMPLE.com", "443") == ("example.com", 443)
    assert endpoint("[0:0::1]", 80) == ("::1", 80)
    assert endpoints(["xn--bcher-kva.example:443"]) == {("xn--bcher-kva.example", 443)}


def test_nothing_is_left_over(net: Net) -> None:
    before = sorted(net.world.outside.rglob("*"))
    assert net.run("web", "true").returncode == 0
    assert sorted(net.world.outside.rglob("*")) == before
    assert textwrap.dedent(net.run("web", "true").stderr) == ""
