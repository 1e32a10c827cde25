"""Hosts of their own: network namespaces, each with a cable to the others, and to this one."""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

RELAY = """
import asyncio, sys
async def pipe(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()
async def serve(reader, writer):
    there = await asyncio.open_unix_connection(sys.argv[2])
    await asyncio.gather(pipe(reader, there[1]), pipe(there[0], writer), return_exceptions=True)
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]))
    print("ready", flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@dataclass
class Network:
    """`database` is in the middle. Addresses of it, as seen from the others, are in `at`."""

    mark: str
    hosts: tuple[str, ...]
    at: dict[str, str]

    def within(self, host: str) -> tuple[str, ...]:
        """Words before a command that run it on that host."""
        return ("ip", "netns", "exec", f"{self.mark}-{host}")

    def cut(self, host: str) -> None:
        """The cable between that host and the database."""
        subprocess.run([*self.within("db"), "ip", "link", "set", f"{self.mark}d{host}", "down"], check=True)

    def mend(self, host: str) -> None:
        subprocess.run([*self.within("db"), "ip", "link", "set", f"{self.mark}d{host}", "up"], check=True)


@contextmanager
def network(*hosts: str) -> Iterator[Network]:
    """Skips where namespaces cannot be made."""
    if os.geteuid() != 0:
        pytest.skip("only root may make network namespaces")
    mark = f"g{secrets.token_hex(2)}"
    made = [f"{mark}-db", *(f"{mark}-{host}" for host in hosts)]
    try:
        try:
            for name in made:
                ip("netns", "add", name)
                ip("-n", name, "link", "set", "lo", "up")
        except (subprocess.CalledProcessError, FileNotFoundError):
            pytest.skip("network namespaces cannot be made here")
        at = {}
        for number, host in enumerate(("", *hosts)):
            subnet = f"10.203.{secrets.randbelow(60) * 4 + number}"
            here, there = f"{mark}d{host}", f"{mark}h{host}"
            ip("link", "add", here, "type", "veth", "peer", "name", there)
            ip("link", "set", here, "netns", f"{mark}-db")
            ip("-n", f"{mark}-db", "addr", "add", f"{subnet}.1/24", "dev", here)
            ip("-n", f"{mark}-db", "link", "set", here, "up")
            place: tuple[str, ...] = ()
            if host:
                ip("link", "set", there, "netns", f"{mark}-{host}")
                place = ("-n", f"{mark}-{host}")
            ip(*place, "addr", "add", f"{subnet}.2/24", "dev", there)
            ip(*place, "link", "set", there, "up")
            at[host] = f"{subnet}.1"
        yield Network(mark, hosts, at)
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


@asynccontextmanager
async def relayed(port: int, within: tuple[str, ...], place: Path) -> AsyncIterator[None]:
    """What listens on this host's loopback `port` is on the other host's too."""
    path = str(place / f"relay-{secrets.token_hex(4)}")

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pipe(reader, there[1]), pipe(there[0], writer))

    async with await asyncio.start_unix_server(serve, path):
        relay = await asyncio.create_subprocess_exec(
            *within, sys.executable, "-c", RELAY, str(port), path, stdout=asyncio.subprocess.PIPE
        )
        assert relay.stdout is not None
        assert await relay.stdout.readline() == b"ready\n"
        try:
            yield
        finally:
            relay.kill()
            await relay.wait()
