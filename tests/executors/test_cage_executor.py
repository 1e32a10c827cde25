"""Commands in the real cage: what comes back is what happened."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from slack_gate.core.event import ToolEvent
from slack_gate.core.inside import wrapped
from slack_gate.core.run import STOPPED, Result
from slack_gate.executors.cage import CAGE_FAULT, Cage
from slack_gate.executors.output import MAX_PASSED, Bounded

CAGE = Path(__file__).parents[2] / "cage"
SBOX = CAGE / "sbox"
ME = os.getpid()  # in what is looked for among all processes: these tests may run twice at a time


@pytest.fixture
def zone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project below a home of the test's own."""
    home = tmp_path / "home"
    project = home / "projects" / "app"
    project.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    yield project


@pytest.fixture(scope="session", params=["script", "installed"])
def sbox(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Both of them: they pass stderr on, and end, in different ways."""
    if request.param == "script":
        return str(SBOX)
    program = tmp_path_factory.mktemp("sbox") / "sbox"
    subprocess.run([CAGE / "build-sbox", program], check=True, stdout=subprocess.DEVNULL)
    return str(program)


async def _run(
    command: str, cwd: Path, timeout: float = 30, stop: asyncio.Event | None = None, sbox: str = str(SBOX)
) -> Result:
    pieces: list[tuple[str, bytes]] = []
    result = await Cage(sbox).run(
        command, str(cwd), timeout, stop or asyncio.Event(), lambda stream, data: pieces.append((stream, data))
    )
    if len(result.stdout) < MAX_PASSED:
        assert b"".join(data for stream, data in pieces if stream == "stdout") == result.stdout
    return result


@pytest.mark.parametrize("code", [0, 1, 125, 126, 127, 255])
async def test_the_commands_own_exit_code(zone: Path, code: int) -> None:
    result = await _run(f"echo out; echo err >&2; exit {code}", zone)
    assert result == Result(code, b"out\n", b"err\n")


async def test_it_runs_in_the_cage_and_in_its_directory(zone: Path) -> None:
    result = await _run("pwd; touch made; touch ~/outside", zone)
    assert result.stdout == f"{zone}\n".encode() and result.exit_code != 0
    assert (zone / "made").exists() and not (zone.parents[1] / "outside").exists()
    net = await _run("python3 -c 'import socket; socket.create_connection((\"1.1.1.1\", 53))'", zone)
    assert b"unreachable" in net.stderr


@pytest.mark.parametrize("text", ["sbox echo a", "sbox -- echo a", "sbox echo a 2>/dev/null"])
async def test_a_leading_sbox_is_stripped(zone: Path, text: str) -> None:
    assert (await _run(text, zone)).stdout == b"a\n"


@pytest.mark.parametrize("letter", ["x", "é", "'"])
def test_every_text_that_is_put_into_the_cage_can_be_started(zone: Path, letter: str) -> None:
    """By the agent's shell, which is given it in one piece, as `sbox` is given what is in it."""
    started = set()
    for length in (2000, 20_000, 65_000, 66_000, 131_000, 140_000):
        event = ToolEvent(
            "claude-code", "s", "c", "Bash", {"command": f": {shlex.quote(letter * length)}"}, "/", rewritable=True
        )
        if (text := wrapped(event)) is not None:
            done = subprocess.run(["bash", "-c", text.replace("sbox", shlex.quote(str(SBOX)), 1)], cwd=zone, check=True)
            started.add(done.returncode)
    assert started == {0}


async def test_two_cages_become_one(zone: Path) -> None:
    assert (await _run("sbox echo a && sbox echo 'b  c'", zone)).stdout == b"a\nb  c\n"


@pytest.mark.parametrize(
    "text", ["sbox --help", "sbox true; sbox --check", "\\sbox true", "sbox -h", "echo a | sbox -x"]
)
async def test_an_sbox_that_cannot_be_left_out(zone: Path, text: str) -> None:
    result = await _run(text, zone)
    assert (result.exit_code, result.code, result.known) == (None, "BAD_COMMAND", True)
    assert "write the command without `sbox` and its options" in str(result.error)


async def test_what_sbox_says_of_a_cage_it_cannot_build_is_one_sentence(
    zone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACK_GATE_HOME", str(tmp_path))
    result = await _run("sbox --net-allow nobody -- true", zone)
    assert (result.exit_code, result.code) == (None, CAGE_FAULT)
    assert str(result.error).startswith("The cage did not start: sbox: ") and ".." not in str(result.error)
    assert str(result.error).endswith(" It did not run.") and "Nothing was run" not in str(result.error)


async def test_bytes_that_are_no_text(zone: Path) -> None:
    result = await _run(r"printf '\377\000\200'; printf '\376' >&2", zone)
    assert (result.stdout, result.stderr) == (b"\xff\x00\x80", b"\xfe")


async def test_endless_output_is_cut_in_the_middle_and_says_so(zone: Path) -> None:
    result = await _run("echo first; head -c 9000000 /dev/zero | tr '\\0' x; echo; echo last", zone)
    assert result.exit_code == 0
    assert result.stdout.startswith(b"first\n") and result.stdout.endswith(b"\nlast\n")
    whole = len(b"first\n") + 9_000_000 + len(b"\nlast\n")
    [mark] = [line for line in result.stdout.split(b"\n") if b"bytes left out]" in line]
    left_out = int(mark[1:].split()[0])
    assert left_out == whole - MAX_PASSED
    assert len(result.stdout) == MAX_PASSED + len(mark) + 2


def test_endless_output_takes_no_memory() -> None:
    kept = Bounded()
    tracemalloc.start()
    for _ in range(4000):  # 250 MiB
        kept.add(os.urandom(1) * 65536)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * MAX_PASSED and len(kept.value()) < MAX_PASSED + 100


async def test_a_child_in_the_background_that_holds_the_output(zone: Path, sbox: str) -> None:
    """The command has ended, so its cage has, and with it what it left running: nobody waits for that."""
    result = await _run(f"sleep 47.{ME}623 & echo done", zone, sbox=sbox)
    assert result == Result(0, b"done\n")
    await _gone(f"47.{ME}623")


async def test_much_on_one_stream_before_anything_on_the_other(zone: Path, sbox: str) -> None:
    result = await _run("head -c 4000000 /dev/zero >&2; echo done", zone, sbox=sbox)
    assert (result.exit_code, result.stdout) == (0, b"done\n")
    assert b"[%d bytes left out]" % (4_000_000 - MAX_PASSED) in result.stderr


async def test_a_megabyte_stays_whole(zone: Path) -> None:
    result = await _run(f"head -c {MAX_PASSED} /dev/zero", zone)
    assert result.stdout == bytes(MAX_PASSED)


@pytest.mark.parametrize("deaf", ["", "trap '' TERM HUP INT; "])
async def test_a_time_out_ends_every_process(zone: Path, sbox: str, deaf: str) -> None:
    text = f"{deaf}echo told >&2; echo begun; (setsid sleep 47.{ME}123 &); sleep 47.{ME}124; sleep 47.{ME}125; echo on"
    result = await _run(text, zone, timeout=6, sbox=sbox)
    assert result == Result(None, b"begun\n", b"told\n", timed_out=True)
    await _gone(f"47.{ME}12")


async def test_what_began_is_never_said_not_to_have_run(zone: Path, sbox: str) -> None:
    stop = asyncio.Event()
    for _ in range(20):  # ended at its first sign of life
        stop.clear()
        result = await Cage(sbox).run(f"echo begun; sleep 47.{ME}823", str(zone), 30, stop, lambda *_: stop.set())
        assert (result.code, result.stdout) == (STOPPED, b"begun\n")
        assert str(result.error) == "It was ended: whoever asked for it is gone."


ASKING = """
import asyncio, sys
from slack_gate.executors.cage import Cage
result = asyncio.run(Cage(sys.argv[1]).run(sys.argv[2], sys.argv[3], 30, asyncio.Event(), lambda *_: None))
print("ENDED", result.timed_out, result.exit_code, result.stderr, flush=True)
"""


PUSH = "git commit -q --no-gpg-sign -m x; git push -q origin main"


@pytest.mark.parametrize("command", ["git commit -qm x", PUSH, "read -r answer </dev/tty"])
def test_what_asks_at_a_terminal_finds_none(zone: Path, sbox: str, command: str) -> None:
    """Whoever started the daemon may sit at one: a passphrase asked for there would be waited for without end."""
    (ask := zone / "ask").write_text("#!/bin/sh\nread -r answer </dev/tty || exit 9\n")
    ask.chmod(0o755)
    settings = {"commit.gpgsign": "true", "gpg.program": str(ask), "core.sshCommand": str(ask)}
    settings |= {"user.name": "Ana", "user.email": "ana@example.org", "remote.origin.url": "ssh://host.example/x"}
    subprocess.run(["git", "init", "-q", "-b", "main", zone], check=True)
    for name, value in settings.items():
        subprocess.run(["git", "-C", zone, "config", name, value], check=True)
    words = [sys.executable, "-c", ASKING, sbox, f"touch x; git add x; {command}", str(zone)]
    child, terminal = pty.fork()
    if child == 0:
        os.execve(sys.executable, words, {**os.environ, "PYTHONPATH": str(CAGE.parent)})
    said = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while data := os.read(terminal, 4096):
            said += data
    os.close(terminal)
    os.waitpid(child, 0)
    timed_out, code = said.partition(b"ENDED ")[2].split()[:2]
    assert timed_out == b"False" and code != b"0", said


async def test_an_editor_that_waits_is_ended_with_its_git(zone: Path, sbox: str) -> None:
    (editor := zone / "editor").write_text(f"#!/bin/sh\nsleep 47.{ME}723\n")
    editor.chmod(0o755)
    text = f"git init -q; git -c user.name=A -c user.email=a@b -c core.editor={editor} commit --allow-empty"
    result = await _run(text, zone, timeout=6, sbox=sbox)
    assert (result.timed_out, result.exit_code) == (True, None)
    await _gone(f"47.{ME}723")
    await _gone(str(editor))


async def test_a_cage_that_is_never_there(zone: Path, tmp_path: Path) -> None:
    slow = tmp_path / "sbox"
    slow.write_text(f"#!/bin/sh\nexec sleep 47.{ME}923\n")
    slow.chmod(0o755)
    result = await _run("touch ran", zone, timeout=0.5, sbox=str(slow))
    assert (result.exit_code, result.code, result.timed_out) == (None, CAGE_FAULT, False)
    assert "before the time was over. It did not run." in str(result.error)
    await _gone(f"47.{ME}923")


async def test_a_caller_who_goes_ends_every_process(zone: Path) -> None:
    stop = asyncio.Event()
    running = asyncio.create_task(
        _run(f"echo begun > there; (setsid sleep 47.{ME}223 &); sleep 47.{ME}224", zone, stop=stop)
    )
    await _until(lambda: (zone / "there").exists())
    stop.set()
    result = await running
    assert (result.exit_code, result.code, result.known) == (None, STOPPED, True)
    await _gone(f"47.{ME}22")


async def test_a_cancelled_run_leaves_nothing(zone: Path) -> None:
    running = asyncio.create_task(_run(f"touch there; sleep 47.{ME}323", zone))
    await _until(lambda: (zone / "there").exists())
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await _gone(f"47.{ME}32")


async def test_a_cage_killed_from_outside_is_no_exit_code(zone: Path) -> None:
    running = asyncio.create_task(_run(f"echo begun; touch there; sleep 47.{ME}423", zone))
    await _until(lambda: (zone / "there").exists())
    [sbox] = [pid for pid in _processes(f"47.{ME}423") if f"PPid:\t{ME}\n" in Path(f"/proc/{pid}/status").read_text()]
    os.kill(sbox, signal.SIGKILL)
    result = await running
    assert result.exit_code is None and not result.known and "outcome unknown" in str(result.error)
    assert result.stdout == b"begun\n"


async def test_a_cage_that_is_there_waits_for_the_word(zone: Path) -> None:
    built = Cage(str(SBOX)).built(f"touch ran; echo {ME}-823", str(zone))
    await _until(lambda: _waiting(f"echo {ME}-823"))
    assert not (zone / "ran").exists()
    result = await built.run(30, asyncio.Event(), lambda *_: None)
    assert result == Result(0, f"{ME}-823\n".encode()) and (zone / "ran").exists()


async def test_a_cage_that_is_not_needed_goes_and_has_run_nothing(zone: Path) -> None:
    for there in (False, True):  # dropped while it is being built, and when it waits
        built = Cage(str(SBOX)).built(f"touch ran-{ME}-523", str(zone))
        if there:
            await _until(lambda: _waiting(f"touch ran-{ME}-523"))
        built.drop()
        await _rest()
        await _gone(f"ran-{ME}-523")
        assert not (zone / f"ran-{ME}-523").exists()


async def test_whoever_went_while_the_cage_was_built_starts_nothing(zone: Path) -> None:
    gone = asyncio.Event()
    gone.set()
    result = await Cage(str(SBOX)).built(f"touch ran-{ME}-623", str(zone)).run(30, gone, lambda *_: None)
    assert (result.exit_code, result.code, result.known) == (None, STOPPED, True)
    await _rest()
    await _gone(f"ran-{ME}-623")
    assert not (zone / f"ran-{ME}-623").exists()


async def test_a_daemon_that_dies_before_the_word_has_run_nothing(zone: Path) -> None:
    text = (
        "import asyncio, sys; from slack_gate.executors.cage import Cage\n"
        "async def main():\n"
        f"    built = Cage(sys.argv[1]).built('touch ran-{ME}-723', sys.argv[2])\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())"
    )
    daemon = await asyncio.create_subprocess_exec(sys.executable, "-c", text, str(SBOX), str(zone))
    await _until(lambda: _waiting(f"touch ran-{ME}-723"))
    daemon.kill()
    await daemon.wait()
    await _gone(f"ran-{ME}-723")
    assert not (zone / f"ran-{ME}-723").exists()


@pytest.mark.parametrize("text", ["--version", "-c 'echo a'", "+x", "- echo a", "-- echo a"])
async def test_a_text_that_begins_like_an_option_is_a_text(zone: Path, text: str) -> None:
    result = await _run(text, zone)
    assert (result.exit_code, result.stdout) == (127, b"") and b"not found" in result.stderr


async def test_the_command_reads_nothing(zone: Path) -> None:
    assert await _run("cat; readlink /proc/self/fd/0", zone) == Result(0, b"/dev/null\n")


async def test_without_a_cage_nothing_runs(zone: Path, tmp_path: Path) -> None:
    broken = tmp_path / "sbox"
    broken.write_text("#!/bin/sh\necho 'sbox: no user namespaces here' >&2\nexit 125\n")
    broken.chmod(0o755)
    for cage in (Cage(None), Cage(str(broken)), Cage(str(tmp_path / "missing"))):
        result = await cage.run("touch ran", str(zone), 10, asyncio.Event(), lambda *_: None)
        assert (result.exit_code, result.code) == (None, CAGE_FAULT) and "did not run" in str(result.error)
    assert not (zone / "ran").exists()


async def test_a_directory_that_is_gone(zone: Path) -> None:
    shutil.rmtree(zone)
    result = await _run("pwd", zone)
    assert (result.exit_code, result.code) == (None, CAGE_FAULT)


def _waiting(text: str) -> bool:
    """Whether the shell that is to start this text waits in its cage."""
    for pid in _processes(text):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if words[0] == b"/bin/sh":
            return True
    return False


def _processes(mark: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark in (entry / "cmdline").read_bytes().decode(errors="replace"):
                found.append(int(entry.name))
        except OSError:
            continue  # it has ended meanwhile
    return found


async def _rest() -> None:
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})


async def _gone(mark: str) -> None:
    await _until(lambda: not _processes(mark))


async def _until(holds: object) -> None:
    deadline = time.monotonic() + 100
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
