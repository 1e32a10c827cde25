"""What Slack brings twice, the second time after something else was done."""

from __future__ import annotations

from pathlib import Path

from tests.daemon.house import House, house
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
