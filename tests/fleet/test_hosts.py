"""Two hosts and a database, each on a network of its own; one host is cut off from the database, and comes back."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack

import pytest

from slack_gate.core.request import State
from slack_gate.daemon.outbox import LEASE_S
from slack_gate.store.store import Store
from tests.crash.storm import Storm, storm
from tests.fleet.network import network, relayed
from tests.store.server import binaries, server

SOON = 120


async def answer(town: Storm, number: int) -> tuple[str, str]:
    async with asyncio.timeout(SOON):
        code, stdout, stderr = await town.asked[number].task
    if code == 2:
        return "deny", stderr.decode()
    found = json.loads(stdout)["hookSpecificOutput"]
    return found["permissionDecision"], found["permissionDecisionReason"]


@pytest.mark.timeout(1200)
async def test_a_host_that_is_cut_off_and_comes_back() -> None:
    if binaries() is None:
        pytest.skip("PostgreSQL's server is not installed (Debian package `postgresql`)")
    with network("a", "b") as net, server(net.at[""], net.within("db")) as own:
        url = own.new_database()
        async with storm("ab", seed=3) as town, AsyncExitStack() as opened:
            town.dead_s = 12.0
            port = int(town.slack.api_url.split(":")[2].split("/")[0])
            for name in "ab":
                await opened.enter_async_context(relayed(port, net.within(name), town.place))
                there = url.replace(net.at[""], net.at[name])
                town.settings[name] = town.settings[name].model_copy(update={"database_url": there})
                town.within[name] = net.within(name)
                assert await town.start(name)

            for name in "ab":
                town.ask(name)
            assert {(await answer(town, number))[0] for number in (0, 1)} <= {"allow", "deny"}

            town.pause = True  # the person does not look for a while
            town.ask("a")
            card = await town.ana.wait_for_message(
                lambda m: m.has_button("Approve") and "call-00002" in m.plain(), SOON
            )
            net.cut("a")
            decision, why = (town.ask("a"), await answer(town, 3))[1]
            assert decision == "deny"
            assert "database" in why
            async with asyncio.timeout(LEASE_S + SOON):  # a may have been about to record that it posted the card
                while card.has_button("Approve"):  # noqa: ASYNC110 - b takes them away
                    await asyncio.sleep(0.1)
            town.pause = False
            town.ask("b")
            assert (await answer(town, 4))[0] in ("allow", "deny")

            net.mend("a")
            assert (await answer(town, 2))[0] == "deny"
            async with asyncio.timeout(SOON):
                town.ask("a")
                while "database" in (await answer(town, len(town.asked) - 1))[1]:
                    town.ask("a")
            await town.settled()
            for name in "ab":
                town.settings[name] = town.settings[name].model_copy(update={"database_url": url})
            await town.holds()
            async with Store(url, town.settings["b"].log_path, lambda: 0.0, repair=False) as store:
                rows = {row.key: row for row in await store.requests(100)}
            assert rows["call-00002"].state is State.CANCELLED
