"""What Slack brings twice, the second time after something else was done."""

from __future__ import annotations

from pathlib import Path

from slack_gate.daemon.serve import running
from slack_gate.local_slack.server import LocalSlack
from tests.daemon.house import House, house, settings_for
from tests.daemon.test_home_tab import home_with


async def paused(h: House) -> bool:
    return (await h.running.controls.cord()).paused


async def test_a_resume_that_comes_again_ends_no_later_pause(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        await h.ana.command("/gate pause")
        resume = await h.ana.command("/gate resume")
        assert resume.delivery is not None and not await paused(h)
        await h.ana.command("/gate pause")
        again = await h.slack.redeliver(resume.delivery)
        assert again.acknowledged and await paused(h)
        await h.ana.command("/gate resume")
        assert not await paused(h)


async def test_a_press_on_the_home_tab_that_comes_again_ends_no_later_pause(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        await h.ana.open_home()
        await h.ana.click_home(await home_with(h.ana, "Gated calls are asked in Slack"), "Pause")
        resume = await h.ana.click_home(await home_with(h.ana, "Paused by Ana since"), "Resume")
        await h.ana.click_home(await home_with(h.ana, "Gated calls are asked in Slack"), "Pause")
        assert await paused(h)
        await h.slack.redeliver(resume)
        assert await paused(h)


async def test_what_comes_again_after_a_restart_ends_no_later_pause(tmp_path: Path) -> None:
    """As to another daemon of a fleet: only what is on file tells that it was done before."""
    async with LocalSlack() as slack:
        ana = slack.add_user("U0ANA", name="Ana")
        settings = settings_for(slack, tmp_path)
        async with running(settings):
            idle = await ana.command("/gate resume")  # changes nothing, and was done all the same
            await ana.open_home()
            await ana.click_home(await home_with(ana, "Gated calls are asked in Slack"), "Pause")
            press = await ana.click_home(await home_with(ana, "Paused by Ana since"), "Resume")
            typed = await ana.command("/gate pause")
            resumed = await ana.command("/gate resume")
        async with running(settings) as daemon:
            await ana.command("/gate pause")
            for delivery in (idle.delivery, press, resumed.delivery):
                assert delivery is not None and (await slack.redeliver(delivery)).acknowledged
                assert (await daemon.controls.cord()).paused
            await ana.command("/gate resume")
            assert typed.delivery is not None
            await slack.redeliver(typed.delivery)
            assert not (await daemon.controls.cord()).paused


async def test_more_time_that_comes_again_gives_no_more(tmp_path: Path) -> None:
    async with house(tmp_path, wait=60) as h:
        await h.start(h.event(command="git push origin main"), "--limit", "3000")
        card = await h.card("git push")
        [before] = await h.running.store.requests(1)
        more = await h.ana.choose(card, "More time")
        assert more.delivery is not None and (await h.slack.redeliver(more.delivery)).acknowledged
        [after] = await h.running.store.requests(1)
        assert after.expires_at == before.expires_at + 300
        await h.drawn_anew()
        await h.ana.choose(card, "More time")
        [after] = await h.running.store.requests(1)
        assert after.expires_at == before.expires_at + 600
        assert [line["decision"] for line in h.log()] == ["pending", "extended", "extended"]
