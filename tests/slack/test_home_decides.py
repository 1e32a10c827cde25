"""The Home tab of a daemon, by thumb: a change drawn as on its card, decided there; a denial taken back."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.daemon.house import house


@pytest.fixture
def outside() -> Iterator[Path]:
    """A directory outside the green zone: what is written there is asked."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as found:
        yield Path(found)


async def test_a_change_is_drawn_there_and_anew_when_its_file_has_changed(tmp_path: Path, outside: Path) -> None:
    file = outside / "app.conf"
    file.write_text("port = 80\n")
    async with house(tmp_path) as h:
        await h.ana.open_home()
        hook = await h.start(h.event("Write", file_path=str(file), content="port = 8080\n"))
        home = await h.ana.wait_for_home(lambda home: "-port = 80\n+port = 8080" in home.plain())
        assert "not shown" not in home.plain()
        file.write_text("port = 81\n")
        await h.ana.click_home(home, "Approve")
        assert "The file has changed" in (await h.ana.wait_for_modal()).plain()
        # Drawn just between, it shows the new file with the buttons of before, which decide nothing.
        home = await h.ana.wait_for_home(lambda home: "-port = 81\n" in home.plain() and " r1'" in str(home.blocks))
        await h.drawn_anew()
        assert hook.returncode is None
        await h.ana.click_home(home, "Approve")
        assert (await h.ended(hook)).decision == "allow"


async def test_a_denial_is_taken_back_there_with_one_press(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        await h.ana.open_home()
        hook, card = await h.asked("git push origin main")
        await h.ana.click(card, "Deny")
        await h.ended(hook)
        assert (await h.bash("git push origin main")).decision == "deny"
        home = await h.ana.wait_for_home(lambda home: "Take back" in home.buttons)
        eve = h.slack.add_user("U0EVE", name="Eve")
        await eve.click_home(home, "Take back")
        assert "Nothing was changed" in (await eve.wait_for_modal()).plain()
        [request] = await h.running.store.requests(1)
        assert request.lifted_at is None
        await h.ana.click_home(home, "Take back")
        assert "may be asked again" in (await h.ana.wait_for_modal()).plain()
        await h.ana.wait_for_home(lambda home: "Take back" not in home.buttons)
        await h.asked("git push origin main")


async def test_another_daemons_files_are_said_to_be_there(tmp_path: Path, outside: Path) -> None:
    """A request that this daemon did not see come in: its card names the host that has the file."""
    file = outside / "app.conf"
    file.write_text("port = 80\n")
    async with house(tmp_path) as h:
        await h.ana.open_home()
        await h.start(h.event("Write", file_path=str(file), content="port = 8080\n"))
        card = await h.card(str(file))
        [request] = await h.running.store.requests(1)
        await h.running.store.submitted(
            replace(request, id="SG-000000000001", key="other", host="box-2", home="box-2:/run/gate.sock"),
            ["U0ANA"],
            "slack",
        )
        h.running.changes.wake()
        other = await h.ana.wait_for_message(lambda m: m.ts != card.ts and m.has_button("Approve"))
        said = "The file is on box-2: what stands in it now is not shown here"
        assert said in other.plain() and "port = 8080" in other.plain() and "-port" not in other.plain()
        assert said in (await h.ana.wait_for_home(lambda home: "box-2" in home.plain())).plain()
