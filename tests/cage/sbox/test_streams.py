"""What the caller gives as standard streams: a socket leads out of the cage, but for a stream between two ends."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.cage.sbox.test_attacks import py
from tests.cage.sbox.world import World


@pytest.fixture
def host() -> Iterator[socket.socket]:
    """What a command with a connection of the host could reach."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def connected(server: socket.socket, stack: ExitStack) -> socket.socket:
    stream = stack.enter_context(socket.create_connection(server.getsockname()))
    stack.enter_context(server.accept()[0])
    return stream


def pair(kind: socket.SocketKind, stack: ExitStack) -> socket.socket:
    one, other = socket.socketpair(socket.AF_UNIX, kind)
    stack.enter_context(other)
    return stack.enter_context(one)


SOCKETS: dict[str, Callable[[socket.socket, ExitStack], socket.socket]] = {
    "connected": connected,
    "datagrams": lambda _, stack: stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)),
    "unix datagrams": lambda _, stack: pair(socket.SOCK_DGRAM, stack),
    "unix, not connected": lambda _, stack: stack.enter_context(socket.socket(socket.AF_UNIX)),
    "netlink": lambda _, stack: stack.enter_context(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)),
}


@pytest.mark.parametrize("number", ["0", "1", "2"])
@pytest.mark.parametrize("kind", SOCKETS)
def test_no_socket_that_leads_out_is_a_standard_stream(
    world: World, host: socket.socket, kind: str, number: str
) -> None:
    with ExitStack() as stack:
        given = SOCKETS[kind](host, stack)
        streams = {name: given if name == number else subprocess.DEVNULL for name in ("0", "1", "2")}
        argv = [str(world.sbox), "touch", str(world.projects / "ran")]
        done = world.start(argv, stdin=streams["0"], stdout=streams["1"], stderr=streams["2"])
        assert done.wait(60) == 125
        assert not (world.projects / "ran").exists()


def test_a_connection_given_as_a_stream_would_lead_out(world: World, host: socket.socket) -> None:
    """It is taken apart and connected anew, in the network that it was made in."""
    anew = py(
        "import ctypes, os, socket, sys; ctypes.CDLL(None).connect(0, bytes(16), 16);"
        "socket.socket(fileno=os.dup(0)).connect(('127.0.0.1', int(sys.argv[1])))"
    )
    words = ["bash", "-c", anew, "attack", str(host.getsockname()[1])]
    for argv, right in (([str(world.sbox), *words], 125), (words, 0)):
        with ExitStack() as stack:
            assert world.bare(*argv, stdin=connected(host, stack)).returncode == right


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_SEQPACKET])
@pytest.mark.parametrize("closed", [False, True])
def test_a_stream_between_two_ends_is_passed_on(world: World, kind: socket.SocketKind, closed: bool) -> None:
    """As node and sshd give them; the other end may be gone already."""
    one, other = socket.socketpair(socket.AF_UNIX, kind)
    with one, other:
        other.send(b"words")
        other.close() if closed else other.shutdown(socket.SHUT_WR)
        assert world.bare(str(world.sbox), "cat", stdin=one).stdout == "words"
