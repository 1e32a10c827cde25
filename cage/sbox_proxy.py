"""The network of one cage: a proxy outside it that reaches exactly the hosts and ports that a grant lists.

`sbox --net-allow NAME -- CMD` starts bubblewrap through `launch`, which reads the grant, leaves the proxy behind and
becomes bubblewrap. Inside the cage, before the command starts, a socket is opened that listens on the cage's own
loopback; only its descriptor goes out, to the proxy, which accepts there and connects here. Nothing else connects the
two networks, and names are looked up outside, after they were found in the list. The proxy ends with the cage.

A grant is a line of net-allow.txt: `NAME host:port host:port …`, with `[address]:port` for IPv6. An address that is not
a public one is reached only when the address itself is listed, whatever a listed name leads to.

sbox calls this file by `python3 -I -S`; standard library only. `seal` is for a program that grants one run, see there.
"""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import grp
import ipaddress
import os
import pwd
import re
import resource
import select
import signal
import socket
import stat
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NoReturn

PORT = 3128  # of the cage's loopback; HTTP and SOCKS5 are told apart by the first byte
CONTROL = 10  # the descriptor by which the listening socket comes out of the cage
CANNOT = 125

if TYPE_CHECKING:  # Python 3.9 knows no such union
    Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Endpoint = tuple[str, int]
"""A lower-case name, or an address in its one canonical spelling, and a port."""


# ---------------------------------------------------------------- the grant


class BadGrant(Exception):
    """A sentence for the person who called sbox."""


LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
HOST_NAME = re.compile(rf"(?:{LABEL}\.)*{LABEL}", re.ASCII)
GRANT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
MAX_GRANTS = 65536  # bytes


def endpoint(host: str, port: str | int) -> Endpoint:
    """The one spelling in which endpoints are compared. Raises ValueError for everything that has none.

    A name that ends in a number is an address to some resolvers (`127.1`, `0x7f.1`, `2130706433`), so it is none to us.
    """
    text = str(port)
    if not re.fullmatch(r"[1-9][0-9]{0,4}", text, re.ASCII) or int(text) > 65535:
        raise ValueError(f"{text!r} is not a port")
    if host.startswith("[") and host.endswith("]"):
        return str(ipaddress.IPv6Address(host[1:-1])), int(text)
    host = host.lower()
    if re.search(r"(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)$", host, re.ASCII):
        return str(ipaddress.IPv4Address(host)), int(text)
    if len(host) > 253 or not HOST_NAME.fullmatch(host):
        raise ValueError(f"{host!r} is not a host name")
    return host, int(text)


def endpoints(words: Iterable[str]) -> frozenset[Endpoint]:
    """`host:port` words. Raises ValueError."""
    found = set()
    for word in words:
        host, colon, port = word.rpartition(":")
        if not colon:
            raise ValueError(f"{word!r} has no port")
        found.add(endpoint(host, port))
    if not found:
        raise ValueError("it lists no host:port")
    return frozenset(found)


def named_grant(path: str, name: str, writable: list[str]) -> frozenset[Endpoint]:
    """What the lines of NAME in the file `path` list; cages, which write below `writable`, must not reach the file."""
    if not GRANT_NAME.fullmatch(name):
        raise BadGrant(f"{name!r} is not the name of a grant. A person lists hosts under a name in {path}.")
    words, found = [], False
    for number, line in enumerate(_text(path, writable).split("\n"), 1):
        first, *rest = line.partition("#")[0].split() or [""]
        if first == name:
            found = True
            try:
                words += sorted(endpoints(rest))
            except ValueError as error:
                raise BadGrant(f"line {number} of {path} is not understood: {error}. Write: NAME host:port.") from error
    if not found:
        raise BadGrant(f"{path} has no grant {name}. A person may add the line: {name} host:port.")
    return frozenset(words)


def _text(path: str, writable: list[str]) -> str:
    zones = {*writable, "/tmp"}  # noqa: S108 - named to be refused
    with contextlib.suppress(KeyError):  # HOME may be another one: both are where agents write
        home = pwd.getpwuid(os.getuid()).pw_dir
        zones |= {f"{home}/projects", f"{home}/.cache"}
    zones |= {os.path.realpath(zone) for zone in zones}
    for place in _on_the_way(path):
        if any(place == zone or place.startswith(zone + "/") for zone in zones):
            raise BadGrant(f"{path} lies where cages can write ({place}). Move it out of there.")
        with contextlib.suppress(FileNotFoundError):
            status = os.lstat(place)
            if status.st_uid not in (0, os.getuid()) or _is_shared(status):
                raise BadGrant(f"{path} could be changed by other users ({place}). Make it yours: chmod go-w {place}.")
    try:
        with open(path, encoding="ascii") as file:
            text = file.read(MAX_GRANTS + 1)
    except (OSError, ValueError) as error:
        raise BadGrant(f"{path} cannot be read ({getattr(error, 'strerror', None) or 'not plain ASCII'}).") from error
    if len(text) > MAX_GRANTS:
        raise BadGrant(f"{path} is longer than {MAX_GRANTS} bytes.")
    return text


def _is_shared(status: os.stat_result) -> bool:
    """Whether others can write it, or replace what is in it; the group that a user has alone is no other."""
    if stat.S_ISLNK(status.st_mode) or (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX):
        return False
    if status.st_mode & 0o020 and status.st_gid:
        try:
            group, user = grp.getgrgid(status.st_gid), pwd.getpwuid(status.st_uid)
        except KeyError:
            return True
        if group.gr_name != user.pw_name or set(group.gr_mem) - {user.pw_name}:
            return True
    return bool(status.st_mode & 0o002)


def _on_the_way(path: str) -> Iterator[str]:
    """Every directory and link that opening `path` passes, and the file, each below a directory without links."""
    here, links, pending = "", 0, [part for part in reversed(path.split("/")) if part not in ("", ".")]
    while pending:
        part = pending.pop()
        if part == "..":
            here = here.rpartition("/")[0]
            continue
        below = f"{here}/{part}"
        yield below
        if not os.path.islink(below):
            here = below
            continue
        links += 1
        if links > 40:
            raise BadGrant(f"{path} is a loop of symbolic links.")
        target = os.readlink(below)
        here = "" if target.startswith("/") else here
        pending += [part for part in reversed(target.split("/")) if part not in ("", ".")]


SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


def seal(listed: Iterable[str]) -> int:
    """A descriptor that grants `host:port` words to one run: `sbox --net-fd N -- CMD`, inherited as descriptor N.

    Only memory that nobody can change any more is taken, which no shell can make: a command line alone grants nothing.
    Raises ValueError for words that are not understood.
    """
    words = list(listed)
    endpoints(words)
    fd = os.memfd_create("grant", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, " ".join(words).encode("ascii"))
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
    return fd


def sealed_grant(fd: int) -> frozenset[Endpoint]:
    """What a descriptor made by `seal` lists."""
    try:
        whole = fcntl.fcntl(fd, fcntl.F_GET_SEALS) & SEALS == SEALS and os.fstat(fd).st_uid == os.getuid()
        text = os.pread(fd, MAX_GRANTS, 0).decode("ascii") if whole else ""
    except (OSError, ValueError):
        whole = False
    if not whole:
        raise BadGrant("the descriptor of --net-fd is not a sealed grant of this user. Use --net-allow NAME.")
    try:
        return endpoints(text.split())
    except ValueError as error:
        raise BadGrant(f"the grant of --net-fd is not understood: {error}.") from error


# ---------------------------------------------------------------- where a name may lead


NAT64 = ipaddress.ip_network("64:ff9b::/96")  # an IPv4 address in its last bits
SIX_TO_FOUR = ipaddress.ip_network("2002::/16")
UNICAST = ipaddress.ip_network("2000::/3")
CLOUD_CONTROL = ipaddress.ip_address("168.63.129.16")  # a public number that never leaves a virtual machine's host


def is_public(address: Address) -> bool:
    """Neither private, link-local, loopback, metadata, nor a way to write one of these as another."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in NAT64:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        return address in UNICAST and address not in SIX_TO_FOUR and address.is_global
    return address.is_global and not address.is_multicast and not address.is_reserved and address != CLOUD_CONTROL


def is_own(address: Address) -> bool:
    """An address of this machine itself, private or not. No packet is sent."""
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((str(address), 9))
        except OSError:
            return False
        return ipaddress.ip_address(probe.getsockname()[0]) == address


class Refused(Exception):
    """The grant does not cover it."""


class Unreachable(Exception):
    """It is granted, but did not answer."""


CONNECT_S = 20.0


def connect(host: str, port: str | int, granted: frozenset[Endpoint]) -> socket.socket:
    """A connection to a granted endpoint, to an address that was checked and not looked up again."""
    try:
        wanted = endpoint(host, port)
    except ValueError as error:
        raise Refused(str(error)) from error
    if wanted not in granted:
        raise Refused(f"{host}:{port} is not in the grant")
    failure = "it has no address"
    for address in _addresses(wanted[0]):
        listed = (str(address), wanted[1]) in granted or wanted[0] == "localhost"
        if not listed and (not is_public(address) or is_own(address)):
            raise Refused(f"{host} leads to {address}, which is not public and not in the grant")
        try:
            return socket.create_connection((str(address), wanted[1]), CONNECT_S)
        except OSError as error:
            failure = error.strerror or "no answer"
    raise Unreachable(f"{host}:{port}: {failure}")


def _addresses(host: str) -> list[Address]:
    if host == "localhost":  # never asked of a name server
        return [ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1")]
    with contextlib.suppress(ValueError):
        return [ipaddress.ip_address(host)]
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [ipaddress.ip_address(str(entry[4][0])) for entry in found]


# ---------------------------------------------------------------- one connection from the cage


HEAD_MAX = 32768
HEAD_S = 30.0  # to send a request's head; afterwards the two ends decide
LEAVE_S = 2.0
REQUEST = re.compile(rb"([A-Z]+) (\S+) HTTP/1\.[01]")
PLAIN = re.compile(rb"http://([^/?#@\s]+)([/?][^#\s]*)?")
FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)")
HOP_BY_HOP = {b"connection", b"keep-alive", b"host", b"te", b"trailer", b"upgrade", b"expect"}


class Client:
    """Whoever in the cage connected to the proxy."""

    def __init__(self, connection: socket.socket, granted: frozenset[Endpoint]) -> None:
        self.connection, self.granted, self.read = connection, granted, b""

    def serve(self) -> None:
        with contextlib.closing(self.connection), contextlib.suppress(OSError):
            self.connection.settimeout(HEAD_S)
            self._receive()
            if self.read.startswith(b"\x05"):
                self._socks()
            else:
                self._http()
            self._leave()

    def _leave(self) -> None:
        """What was still to come is read, for a while: closed over it, the answer would be lost."""
        self.connection.shutdown(socket.SHUT_WR)
        self.connection.settimeout(LEAVE_S)
        for _ in range(64):
            if not self.connection.recv(65536):
                break

    def _take(self, count: int) -> bytes:
        """Exactly `count` bytes; raises OSError when they do not come."""
        while len(self.read) < count:
            self._receive()
        taken, self.read = self.read[:count], self.read[count:]
        return taken

    def _receive(self) -> None:
        received = self.connection.recv(65536)
        if not received:
            raise ConnectionError
        self.read += received

    def _socks(self) -> None:
        """RFC 1928: CONNECT without a password."""
        if 0 not in self._take(self._take(2)[1]):
            self.connection.sendall(b"\x05\xff")
            return
        self.connection.sendall(b"\x05\x00")
        version, command, _, kind = self._take(4)
        if kind == 3:
            host = self._take(self._take(1)[0]).decode("latin-1")
        elif kind in (1, 4):
            address = ipaddress.ip_address(self._take(4 if kind == 1 else 16))
            host = f"[{address}]" if kind == 4 else str(address)
        else:
            return
        port = int.from_bytes(self._take(2), "big")
        try:
            if version != 5 or command != 1:
                raise ValueError
            there = connect(host, port, self.granted)
        except (ValueError, Refused, Unreachable) as error:
            code = {Refused: 2, Unreachable: 4}.get(type(error), 7)
            self.connection.sendall(bytes((5, code, 0, 1, 0, 0, 0, 0, 0, 0)))
            return
        self.connection.sendall(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
        self._join(there)

    def _http(self) -> None:
        try:
            self._http_request()
        except Refused as error:
            self._answer(f"403 sbox: {error}")
        except Unreachable as error:
            self._answer(f"502 sbox: {error}")
        except ValueError as error:
            self._answer(f"400 sbox: {error}")

    def _answer(self, status: str) -> None:
        status = re.sub(r"[^ -~]", "?", status)
        body = status.partition(" ")[2] + "\n"
        head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
        self.connection.sendall(f"{head}\r\n{body}".encode("ascii"))

    def _http_request(self) -> None:
        method, target, fields = self._head()
        if method == b"CONNECT":
            host, _, port = target.decode("latin-1").rpartition(":")
            there = connect(host, port, self.granted)
            self.connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            self._join(there)
            return
        plain = PLAIN.fullmatch(target)
        if not plain:
            raise ValueError("this is a proxy: CONNECT host:port, or a whole http:// address")
        body = _body_length(fields)
        authority = plain[1].decode("latin-1")
        host, port = authority.rsplit(":", 1) if re.search(r":[0-9]*$", authority) else (authority, "80")
        there = connect(host, port, self.granted)
        path = plain[2] or b"/"
        path = path if path.startswith(b"/") else b"/" + path
        kept = [b"%b: %b" % field for field in fields if _goes_on(field[0])]
        head = [b"%b %b HTTP/1.1" % (method, path), b"Host: " + plain[1], *kept, b"Connection: close", b"", b""]
        if body and any(name == b"expect" for name, _ in fields):
            self.connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._one_request(there, b"\r\n".join(head), body)

    def _head(self) -> tuple[bytes, bytes, list[tuple[bytes, bytes]]]:
        while b"\r\n\r\n" not in self.read:
            if len(self.read) > HEAD_MAX:
                raise ValueError("the head of the request is too long")
            self._receive()
        head, _, self.read = self.read.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        request, fields = REQUEST.fullmatch(first), [FIELD.fullmatch(line) for line in lines]
        if not request or not all(fields):
            raise ValueError("the request is not understood")
        return request[1], request[2], [(field[1].lower(), field[2]) for field in fields if field]

    def _one_request(self, there: socket.socket, head: bytes, length: int) -> None:
        """The head, the body, then only the answer: a second request could name another host."""
        with contextlib.closing(there):
            self._unlimited(there)
            there.sendall(head + self.read[:length])
            length -= min(length, len(self.read))
            while length:
                piece = self.connection.recv(min(length, 65536))
                if not piece:
                    return
                there.sendall(piece)
                length -= len(piece)
            _pump(there, self.connection)

    def _join(self, there: socket.socket) -> None:
        with contextlib.closing(there):
            self._unlimited(there)
            there.sendall(self.read)
            back = threading.Thread(target=_pump, args=(there, self.connection), daemon=True)
            back.start()
            _pump(self.connection, there)
            back.join()

    def _unlimited(self, there: socket.socket) -> None:
        for end in (self.connection, there):
            end.settimeout(None)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _goes_on(field: bytes) -> bool:
    return field not in HOP_BY_HOP and not field.startswith(b"proxy-")


def _body_length(fields: list[tuple[bytes, bytes]]) -> int:
    lengths = {value.strip() for name, value in fields if name == b"content-length"}
    if any(name == b"transfer-encoding" for name, _ in fields):
        raise ValueError("a body of unknown length is not passed on; use https")
    if len(lengths) > 1 or not all(re.fullmatch(rb"[0-9]{1,15}", length) for length in lengths):
        raise ValueError("the length of the body is not understood")
    return int(lengths.pop()) if lengths else 0


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Everything from one end to the other, and the end of it."""
    try:
        while piece := source.recv(65536):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
    except OSError:  # one end is gone: so is the other
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


# ---------------------------------------------------------------- the processes


MOST_AT_ONCE = 256
FULL_S = 0.05


def proxy(control: socket.socket, cage: int, granted: frozenset[Endpoint]) -> NoReturn:
    """Take the listening socket from the cage, serve it, and end with the process that `cage`, a pidfd, stands for."""
    room = array.array("i", [0])
    _, ancillary, _, _ = control.recvmsg(1, socket.CMSG_SPACE(room.itemsize))
    if not ancillary:
        os._exit(CANNOT)
    room.frombytes(ancillary[0][2][: room.itemsize])
    listener = socket.socket(fileno=room[1])
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    control.sendall(b"+")
    control.close()
    slots = threading.BoundedSemaphore(MOST_AT_ONCE)

    def serve(connection: socket.socket) -> None:
        try:
            Client(connection, granted).serve()
        finally:
            slots.release()

    def accept() -> None:
        while slots.acquire():
            try:
                connection = listener.accept()[0]
            except OSError:  # no descriptor is free, until one of those served ends
                slots.release()
                time.sleep(FULL_S)
                continue
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    select.select([cage], [], [])
    os._exit(0)


def launch(granted: frozenset[Endpoint], program: list[str]) -> NoReturn:
    """Leave the proxy behind and become `program`, bubblewrap, which passes the descriptor CONTROL on."""
    parent, environment = os.getppid(), _environment() | _proxy_names(granted)
    ours, theirs = socket.socketpair()
    us = os.pidfd_open(os.getpid())  # bubblewrap, in a moment
    if os.fork() == 0:
        try:
            os.setsid()
            os.chdir("/")
            null = os.open("/dev/null", os.O_RDWR)
            for stream in range(3):
                os.dup2(null, stream)
            theirs.close()
            first, last = sorted((ours.fileno(), us))
            for low, high in ((3, first), (first + 1, last), (last + 1, 1 << 20)):
                os.closerange(low, high)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            proxy(ours, us, granted)
        finally:
            os._exit(CANNOT)
    os.dup2(theirs.fileno(), CONTROL)
    if os.getppid() != parent:
        os._exit(CANNOT)
    _become(program, environment)


def inside(program: list[str]) -> NoReturn:
    """In a cage built by the shell script: open the listening socket, hand it out, and become the command."""
    environment = _environment()
    os.close(int(os.path.basename(sys.argv[0])))  # we were read from a descriptor: our file may be hidden in the cage
    control = socket.socket(fileno=CONTROL)
    listener = socket.create_server(("127.0.0.1", PORT), backlog=256)
    socket.send_fds(control, [b"+"], [listener.fileno()])
    if control.recv(1) != b"+":
        raise ConnectionError(errno.ECONNRESET, "the proxy has ended")
    listener.close()
    control.close()
    try:
        _become(program, environment)
    except OSError as error:
        if error.errno == errno.ENOEXEC:  # a script without a first line, as every shell runs it
            _become(["/bin/sh", *program], environment)
        sys.stderr.write(f"sbox: {program[0]}: {error.strerror}\n")
        sys.exit(127 if error.errno == errno.ENOENT else 126)


def _environment() -> dict[bytes, bytes]:
    """What we were started with; Python itself adds to os.environ."""
    with open("/proc/self/environ", "rb") as file:
        entries = [entry.partition(b"=") for entry in file.read().split(b"\0") if entry]
    return {name: value for name, _, value in entries}


LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def _proxy_names(granted: frozenset[Endpoint]) -> dict[bytes, bytes]:
    """How programs find the proxy. `all_proxy` names HTTP: some clients do not start when it names SOCKS5.

    Without `no_proxy` where this machine's loopback is granted: then that is meant, not the cage's own.
    """
    here = b"http://127.0.0.1:%d" % PORT
    own = b"" if any(host in LOOPBACK for host, _ in granted) else ",".join(sorted(LOOPBACK)).encode()
    names = {b"http_proxy": here, b"https_proxy": here, b"all_proxy": here, b"no_proxy": own}
    return names | {name.upper(): value for name, value in names.items()} | {b"NODE_USE_ENV_PROXY": b"1"}


def _become(program: list[str], environment: dict[bytes, bytes]) -> NoReturn:
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
        signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execvpe(program[0], program, environment)  # noqa: S606


def main(words: list[str]) -> NoReturn:
    """`launch FILE NAME WRITABLE… -- BWRAP…`, `launch-fd N -- BWRAP…` or `inside -- CMD…`."""
    end = words.index("--")
    (role, *given), program = words[:end], words[end + 1 :]
    try:
        if role == "launch":
            launch(named_grant(given[0], given[1], given[2:]), program)
        if role == "launch-fd":
            granted = sealed_grant(int(given[0]))
            os.close(int(given[0]))
            launch(granted, program)
        inside(program)
    except BadGrant as error:
        sys.stderr.write(f"sbox: {error} Nothing was run.\n")
    except OSError as error:
        sys.stderr.write(f"sbox: the network grant could not be set up ({error.strerror}). Nothing was run.\n")
    sys.exit(CANNOT)


if __name__ == "__main__":
    main(sys.argv[1:])
