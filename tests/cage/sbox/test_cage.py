"""A cage that cannot be built, what a person may set, and what sbox says about itself."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cage.sbox.conftest import CAGE
from tests.cage.sbox.world import LOOT, World, listening

BUILD = CAGE / "build-sbox"
MANUAL = CAGE.parent / "docs/cage.md"

FAKES = {
    "no uid map": "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1",
    "no loopback": "echo 'bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted' >&2; exit 1",
    "no proc": 'echo "bwrap: Can\'t mount proc on /newroot/proc: Operation not permitted" >&2; exit 1',
    "no namespace": "echo 'bwrap: No permissions to create new namespace' >&2; exit 1",
    "silent": "exit 1",
    "says it worked": "exit 0",
    "not found": "exit 127",
    "killed": "kill -KILL $$",
}


def with_another_bubblewrap(world: World, fake: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run sbox where `fake` lies over the real bubblewrap."""
    place = ["bwrap", "--dev-bind", "/", "/", "--bind", str(fake), "/usr/bin/bwrap", "--"]
    return world.bare(*place, str(world.sbox), *argv)


@pytest.mark.parametrize("code", FAKES.values(), ids=FAKES.keys())
def test_a_cage_that_cannot_be_built_runs_nothing(world: World, tmp_path: Path, code: str) -> None:
    fake = world.outside / "bwrap"
    fake.write_text(f"#!/bin/sh\n{code}\n")
    fake.chmod(0o755)
    done = with_another_bubblewrap(world, fake, "touch", "marker")
    assert done.returncode == 125, done
    assert not (world.projects / "marker").exists()
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("sbox: ") and last.endswith((".", "unknown."))
    if "bwrap: " in code:
        assert "namespaces" in last and "container" in last


@pytest.mark.parametrize("mode", [0o644, 0o000])
def test_bubblewrap_that_cannot_be_run_counts_as_missing(world: World, mode: int) -> None:
    fake = world.outside / "bwrap"
    fake.write_text("#!/bin/sh\n")
    fake.chmod(mode)
    done = with_another_bubblewrap(world, fake, "touch", "marker")
    assert done.returncode == 125 and not (world.projects / "marker").exists()
    assert "bubblewrap is missing. Install it: sudo apt-get install bubblewrap" in done.stderr


def test_without_user_namespaces_nothing_runs(world: World) -> None:
    code = 'echo 0 >/proc/sys/user/max_user_namespaces; exec "$0" touch marker'
    done = world.bare("unshare", "-Ur", "bash", "-c", code, str(world.sbox))
    assert done.returncode == 125 and not (world.projects / "marker").exists()
    assert "user namespaces are switched off. Switch them on: sudo sysctl" in done.stderr


def test_what_the_system_forbids_is_named_with_its_fix(world: World) -> None:
    if world.uid == 0:
        pytest.skip("root may make namespaces wherever they are restricted")
    fake, kernel = world.outside / "bwrap", world.outside / "kernel"
    fake.write_text(f"#!/bin/sh\n{FAKES['no loopback']}\n")
    fake.chmod(0o755)
    kernel.mkdir(exist_ok=True)
    (kernel / "apparmor_restrict_unprivileged_userns").write_text("1\n")
    over = ["--bind", str(fake), "/usr/bin/bwrap", "--ro-bind", str(kernel), "/proc/sys/kernel"]
    done = world.bare("bwrap", "--dev-bind", "/", "/", *over, "--", str(world.sbox), "touch", "marker")
    assert done.returncode == 125 and not (world.projects / "marker").exists()
    assert "AppArmor restricts user namespaces" in done.stderr and "docs/cage.md" in done.stderr


def test_a_cage_in_a_cage_is_refused(world: World) -> None:
    done = world.caged(str(world.sbox), "touch", "marker")
    assert done.returncode == 125 and not (world.projects / "marker").exists()


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--"],
        [""],
        ["--", ""],
        ["--nope", "true"],
        ["-c", "true"],
        ["--net-allow"],
        ["--net-allow", "x"],
        ["--net-allow", "x", "--"],
        ["--net-allow", "x", "true"],
        ["--net-allow", "", "--", "true"],
        ["--net-allow", "--", "true"],
        ["--net-allow", "--", "--", "true"],
        ["--net-allow", "-x", "--", "true"],
        ["--net-allow=x", "--", "true"],
        ["--net-allow", "x", "--", "true"],
        ["--net-allow", "x", "--", ""],
        ["--net-allow", "example.com:443", "--", "true"],
        ["--net-fd", "0", "--", "true"],
        ["--net-fd", "77", "--", "true"],
        ["--net-fd", "x", "--", "true"],
    ],
)
def test_a_call_without_a_command_is_refused(world: World, words: list[str]) -> None:
    done = world.caged(*words)
    assert (done.returncode, done.stdout) == (125, "") and done.stderr.startswith("sbox: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_lost_working_directory_is_refused(world: World) -> None:
    code = 'mkdir gone && cd gone && rmdir ../gone && exec "$0" true'
    done = world.bare("bash", "-c", code, str(world.sbox))
    assert done.returncode == 125 and "the working directory is gone" in done.stderr


def test_help_names_every_option(world: World) -> None:
    done = world.caged("--help")
    assert done.returncode == 0
    assert all(option in done.stdout for option in ("--check", "--limits", "--net-allow", "--help"))


def test_both_builds_say_the_same_in_help() -> None:
    script = re.search(r"cat <<'EOF'\n(.*?)EOF\n", (CAGE / "sbox").read_text(), re.S)
    source = re.search(r"USAGE\[\] =\n(.*?);\n", (CAGE / "sbox_src/main.c").read_text(), re.S)
    assert script and source
    assert script[1] == "".join(re.findall(r'"(.*)"', source[1])).replace("\\n", "\n")


def test_check_starts_a_cage_and_says_what_is_left(world: World) -> None:
    done = world.caged("--check")
    assert done.returncode == 0, done
    assert "a cage starts" in done.stdout and "ok       system call filter" in done.stdout and "left " in done.stdout
    assert "net-allow.txt is not there, so none" in done.stdout


def test_check_fails_where_no_cage_starts(world: World) -> None:
    fake = world.outside / "bwrap"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    done = with_another_bubblewrap(world, fake, "--check")
    assert done.returncode == 1 and "no cage could be built" in done.stdout


def test_limits_are_shown_and_in_force(world: World) -> None:
    assert "core       0 bytes" in world.caged("--limits").stdout
    assert world.caged("bash", "-c", "ulimit -c; ulimit -Hc").stdout.split() == ["0", "0"]


def test_a_storm_of_processes_ends(world: World) -> None:
    if world.uid == 0 or world.sbox.name != "program":
        pytest.skip("the kernel does not count the processes of root; the script's limit depends on the machine's load")
    (conf := world.home / ".config/slack-gate/sbox.conf").write_text("limit processes 40\n")
    try:
        code = "import os\nfor n in range(80):\n if os.fork()==0:\n  import time; time.sleep(9)\n"
        done = world.caged("/usr/bin/python3", "-c", code)
        assert done.returncode == 1 and "BlockingIOError" in done.stderr
    finally:
        conf.unlink()


@pytest.fixture
def conf(world: World) -> Iterator[Path]:
    path = world.home / ".config/slack-gate/sbox.conf"
    yield path
    path.unlink(missing_ok=True)


LIMITS = {
    "file-size": ("head -c 200000 /dev/zero >big", 100000, "100000 bytes a file (rlimit)"),
    "memory": (
        "/usr/bin/python3 -c 'import mmap; mmap.mmap(-1, 1 << 30)'",
        1 << 29,
        "bytes of address space a process (rlimit)",
    ),
    "cpu": ("while :; do :; done", 1, "1 seconds a process (rlimit)"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_of_the_settings_holds(world: World, conf: Path, name: str) -> None:
    code, value, shown = LIMITS[name]
    if name != "cpu":
        assert world.bare("bash", "-c", code).returncode == 0
    conf.write_text(f"limit {name} {value}\n")
    assert shown in world.caged("--limits").stdout
    assert world.caged("bash", "-c", code).returncode not in (0, 125)
    assert world.caged("true").returncode == 0
    conf.write_text(f"limit {name} 0\n")
    if name != "cpu":
        assert world.caged("bash", "-c", code).returncode == 0


@pytest.mark.parametrize("line", ["limit", "limit memory", "limit memory x", "limit memory -1", "limit time 5"])
def test_a_limit_that_is_not_understood_stops_the_cage(world: World, conf: Path, line: str) -> None:
    conf.write_text(line + "\n")
    done = world.caged("touch", "marker")
    assert done.returncode == 125 and "line 1 of sbox.conf" in done.stderr
    assert not (world.projects / "marker").exists()


def with_a_user_manager(world: World, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run sbox where systemd's user manager seems to be: systemd-run notes its words and starts what follows them."""
    fake, run = world.outside / "systemd-run", world.outside / "run"
    fake.write_text(
        f"""#!/bin/bash
printf '%s\\n' "$XDG_RUNTIME_DIR" "$@" >{world.projects}/words
while [[ $1 != -- ]]; do shift; done
shift
INVOCATION_ID=x exec "$@"
"""
    )
    fake.chmod(0o755)
    private = run / f"user/{world.uid}/systemd/private"
    private.parent.mkdir(parents=True, exist_ok=True)
    with listening(world, private):
        place = [
            "bwrap",
            "--dev-bind",
            "/",
            "/",
            "--bind",
            str(fake),
            "/usr/bin/systemd-run",
            "--bind",
            str(run),
            "/run",
        ]
        return world.bare(*place, "--", str(world.sbox), *argv)


@pytest.mark.skipif(not os.path.exists("/usr/bin/systemd-run"), reason="systemd-run is not installed to be covered")
def test_a_limit_on_memory_is_one_for_the_whole_cage_where_it_can_be(world: World, conf: Path) -> None:
    assert with_a_user_manager(world, "true").returncode == 0 and not (world.projects / "words").exists()
    conf.write_text("limit memory 1073741824\nlimit processes 100\n")
    done = with_a_user_manager(world, "bash", "-c", "ulimit -v; env")
    assert done.returncode == 0, done
    assert done.stdout.startswith("unlimited\n") and "XDG" not in done.stdout and "INVOCATION" not in done.stdout
    words = (world.projects / "words").read_text().splitlines()
    assert words[: words.index("--")] == [
        f"/run/user/{world.uid}", "--user", "--scope", "--quiet", "--collect",
        "--property=MemoryMax=1073741824", "--property=MemorySwapMax=0", "--property=TasksMax=100",
    ]  # fmt: skip
    shown = with_a_user_manager(world, "--limits").stdout
    assert "memory     1073741824 bytes, all of the cage (control group)" in shown
    assert "processes  100, all of the cage (control group)" in shown


@pytest.mark.skipif(not os.path.exists("/usr/bin/systemd-run"), reason="systemd-run is not installed to be covered")
def test_a_manager_that_refuses_runs_nothing(world: World, conf: Path) -> None:
    conf.write_text("limit memory 1073741824\n")
    fake = world.outside / "systemd-run"
    done = with_a_user_manager(world, "true")
    assert done.returncode == 0
    fake.write_text("#!/bin/sh\necho 'Failed to start transient scope unit' >&2\nexit 1\n")
    with listening(world, world.outside / f"run/user/{world.uid}/systemd/private"):
        place = ["bwrap", "--dev-bind", "/", "/", "--bind", str(fake), "/usr/bin/systemd-run"]
        place += ["--bind", str(world.outside / "run"), "/run"]
        done = world.bare(*place, "--", str(world.sbox), "touch", "marker")
    assert done.returncode == 125 and not (world.projects / "marker").exists(), done


def test_macos_is_refused() -> None:
    done = subprocess.run(
        ["/bin/bash", "-p", CAGE / "sbox", "true"], env={"OSTYPE": "darwin23"}, capture_output=True, text=True
    )
    assert done.returncode == 125 and "macOS has no namespaces" in done.stderr and len(done.stderr.splitlines()) == 1


def test_settings_pass_a_variable_on(world: World, conf: Path) -> None:
    conf.write_text("# mine\nenv MYAPP_SETTING\n\n")
    assert world.caged("printenv", "MYAPP_SETTING").stdout == LOOT + "\n"
    assert world.caged("printenv", "SLACK_BOT_TOKEN").returncode == 1


def test_settings_show_and_hide(world: World, conf: Path) -> None:
    conf.write_text(f"show .kube\nhide {world.home}/plain\nhide {world.home}/.gitconfig\nhide /nonexistent\n")
    done = world.caged("bash", "-c", "cat ~/.kube/config; ls -A ~/plain; cat ~/.gitconfig; ls -A ~/.ssh")
    assert done.stdout == LOOT + "\n"
    assert world.caged("bash", "-c", "echo x >~/.kube/config").returncode == 1


@pytest.mark.parametrize("lines", ["hide {0}\nhide {0}/a", "hide {0}/a\nhide {0}", "hide {0}\nhide {0}\nhide {0}/a/f"])
def test_what_is_hidden_twice(world: World, conf: Path, lines: str) -> None:
    place = world.projects / "twice"
    (place / "a").mkdir(parents=True)
    (place / "a/f").write_text(LOOT)
    world.give(place)
    conf.write_text(lines.format(place))
    done = world.caged("cat", str(place / "a/f"))
    assert done.returncode == 1 and LOOT not in done.stdout


@pytest.mark.parametrize("order", [1, -1])
def test_settings_count_alike_in_any_order(world: World, conf: Path, order: int) -> None:
    """What is hidden within what is shown, and within what can be written, stays hidden; what is around it does not."""
    (place := world.projects / "within").mkdir()
    (place / "kept").mkdir()
    (place / "kept/secret").write_text(LOOT)
    world.give(place)
    lines = [f"hide {place}/kept", "show .kube", f"hide {world.home}/.kube/config", f"hide {world.home}/plain"]
    conf.write_text("\n".join(lines[::order]) + "\n")
    try:
        done = world.caged(
            "bash", "-c", "touch within/new; ls -A ~/.kube; cat within/kept/secret ~/.kube/config ~/plain/notes"
        )
        assert done.stdout == "config\n" and done.returncode == 1
        assert (place / "new").exists()
        assert world.caged("touch", str(world.home / "plain/new")).returncode == 1
    finally:
        shutil.rmtree(place)


def test_no_setting_shows_the_gate(world: World, conf: Path) -> None:
    conf.write_text("show .config\n")
    done = world.caged("bash", "-c", "cat ~/.config/gh/hosts.yml; ls -A ~/.config/slack-gate ~/.config/spikybot")
    assert LOOT in done.stdout and "config.toml" not in done.stdout and "pat" not in done.stdout.split()


def test_the_settings_that_the_manual_shows(world: World, conf: Path) -> None:
    shown = MANUAL.read_text().split("which the cage cannot see:\n\n```\n")[1].split("```")[0]
    assert all(word in shown for word in ("env HF_HOME ", "show .julia-dev ", " /srv/customer-data ", "limit memory "))
    conf.write_text(shown.replace("/srv/customer-data", f"{world.home}/plain"))
    (tool := world.home / ".julia-dev").write_text("a tool\n")
    code = 'echo "$HF_HOME"; cat ~/.julia-dev; ls -A ~/plain; ulimit -v'
    done = world.caged("bash", "-c", code, env=world.environment({"HF_HOME": "/models"}))
    tool.unlink()
    assert (done.returncode, done.stdout) == (0, f"/models\na tool\n{17179869184 // 1024}\n"), done.stderr


@pytest.mark.parametrize(
    "line",
    [
        *("show .ssh", "show ..", "show .config/../.ssh", "show plain", "hide relative", "nonsense", "env"),
        *("show .", "show ./.ssh", "show .ssh/", "show .ssh/id_ed25519"),
        *("hide /srv/my data", "hide /srv/my data # mine", "show .a .b", "env A B", "limit cpu 5 6", "limit cpu # 5"),
        *("hide # /srv", "env#A B"),
    ],
)
def test_settings_that_are_not_understood_stop_the_cage(world: World, conf: Path, line: str) -> None:
    conf.write_text(line + "\n")
    done = world.caged("touch", "marker")
    assert done.returncode == 125 and "line 1 of sbox.conf" in done.stderr
    assert not (world.projects / "marker").exists()


STOPPED = {
    "a write": ("touch ~/new", "the cage stopped a write"),
    "the network": (
        "/usr/bin/python3 -c \"import socket; socket.create_connection(('192.0.2.1', 9), 5)\"",
        "the cage has no network",
    ),
    "a name": ("curl -sS http://example.invalid/ || exit 1", "the cage has no network"),
    "a hidden file": ("cat ~/.netrc", "is hidden in the cage"),
}  # fmt: skip


@pytest.mark.parametrize("stream", ["pipe", "file"])
@pytest.mark.parametrize("code,words", STOPPED.values(), ids=STOPPED.keys())
def test_it_says_what_was_stopped(world: World, tmp_path: Path, code: str, words: str, stream: str) -> None:
    if stream == "pipe":
        shown = world.caged("bash", "-c", code).stderr
    else:
        with (tmp_path / "err").open("w+") as file:
            file.write("Read-only file system: an old line\n")
            file.flush()
            world.caged("bash", "-c", code, stderr=file)
            shown = (tmp_path / "err").read_text().removeprefix("Read-only file system: an old line\n")
    assert words in shown.splitlines()[-1]


def test_it_says_nothing_when_nothing_was_stopped(world: World) -> None:
    assert world.caged("sh", "-c", "echo own words >&2; exit 3").stderr == "own words\n"
    assert world.caged("sh", "-c", "touch ~/new 2>&1; exit 0").stderr == ""


def test_the_filter_in_both_builds_is_the_one_that_is_described() -> None:
    spec = importlib.util.spec_from_file_location("sbox_seccomp", CAGE / "sbox_seccomp.py")
    assert spec and spec.loader
    seccomp = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(seccomp)
    script, header = (CAGE / "sbox").read_text(), (CAGE / "sbox_src/filter.h").read_text()
    for machine in seccomp.ARCHITECTURES:
        assert re.search(rf"    {machine}\)\n      filter='(.*?)'\n", script, re.S)[1].replace(
            "'\\\n'", ""
        ) == seccomp.octal(machine)  # type: ignore[index]
        part = header.split(f"defined(__{machine}__)")[1].split(";")[0]
        assert "".join(re.findall(r'"(.*)"', part)) == seccomp.octal(machine)


def test_the_generator_prints_what_the_builds_hold() -> None:
    done = subprocess.run([sys.executable, CAGE / "sbox_seccomp.py"], capture_output=True, text=True, check=True)
    assert all(line.strip("\n") in (CAGE / "sbox").read_text() for line in done.stdout.splitlines())


@pytest.mark.parametrize("compiler", [True, False])
def test_it_is_installed_with_and_without_a_compiler(tmp_path: Path, compiler: bool) -> None:
    destination = tmp_path / "bin/sbox"
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("mktemp", "rm", "cp", "mkdir", "mv", "chmod", "dirname"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    path = os.environ["PATH"] if compiler else str(tools)
    done = subprocess.run(
        [BUILD, destination], env={"PATH": path, "HOME": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("sbox: installed ")
    assert sorted(path.name for path in destination.parent.iterdir()) == ["sbox", "sbox_proxy.py", "whole_git.py"]
    if not compiler:
        assert "the shell script" in done.stdout and destination.read_bytes() == (CAGE / "sbox").read_bytes()
    ran = subprocess.run(
        [destination, "sh", "-c", "exit 9"], env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}, check=False
    )
    assert ran.returncode == 9


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler (cc) to build the program with")
def test_it_is_built_with_the_headers_of_an_older_kernel(tmp_path: Path) -> None:
    """Those of Linux 5.15, which Ubuntu 22.04 has, know only the first of the rules."""
    header = Path("/usr/include/linux/landlock.h")
    if not header.exists():
        pytest.skip("the headers here are older than that")
    (tmp_path / "linux").mkdir()
    lines = [line for line in header.read_text().splitlines() if not re.match(r"#define LANDLOCK_ACCESS_\w+\s", line)]
    (tmp_path / "linux/landlock.h").write_text("\n".join(lines))
    source = CAGE / "sbox_src/landlock.c"
    subprocess.run(["cc", "-fsyntax-only", "-std=gnu11", "-I", tmp_path, source], check=True)


def test_the_profile_keeps_its_two_halves() -> None:
    profile = (CAGE / "apparmor/bwrap-userns-restrict").read_text()
    assert "abi <abi/4.0>," in profile and "/usr/bin/bwrap" in profile
    assert (
        profile.count("\nprofile ") == 2
        and "audit deny capability," in profile
        and profile.count("{\n") == profile.count("\n}\n")
    )
