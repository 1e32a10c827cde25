"""How long a cage takes, as ratios to bare bubblewrap in the same run. `python bench/sbox.py [ROUNDS]`

Start to exit of `true`: both builds of sbox against `bwrap --ro-bind / / --unshare-net true`, one after another in
random order, so that what else the machine does hits all alike. Then 1, 20 and 200 directories, 200 repositories below
~/projects, a network grant, and 50 cages at once. The processor's time is given beside the clock's: it says more on a
machine that does other work.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CAGE = Path(__file__).parents[1] / "cage"
BARE = ["/usr/bin/bwrap", "--ro-bind", "/", "/", "--unshare-net", "/bin/true"]
ORDINARY = 65534
AT_ONCE = 50
PROJECTS = {"no project": (0, 0), "1 directory": (1, 0), "20 directories": (20, 0), "200 directories": (200, 0),
            "200 repositories": (0, 200)}  # fmt: skip


def build(directory: Path) -> dict[str, Path]:
    """Put both builds where every user can run them; the program only where there is a compiler."""
    builds = {"script": directory / "script"}
    shutil.copy(CAGE / "sbox", builds["script"])
    shutil.copy(CAGE / "sbox_proxy.py", directory)
    if shutil.which("cc"):
        builds["program"] = directory / "program"
        sources = sorted((CAGE / "sbox_src").glob("*.c"))
        subprocess.run(["cc", "-O2", "-std=gnu11", "-static", "-o", builds["program"], *sources], check=True)
    return builds


def make_home(uid: int, directories: int, repositories: int) -> Path:
    home = Path(tempfile.mkdtemp(prefix="sbox-bench-", dir="/var/tmp"))
    for name in (".cache", ".ssh", "projects"):
        (home / name).mkdir()
    (home / "gate").mkdir(mode=0o700)
    (home / "gate/net-allow.txt").write_text("web example.com:443\n")
    for number in range(directories):
        (home / f"projects/d{number}").mkdir()
    for number in range(repositories):
        git = home / f"projects/r{number}/.git"
        (git / "hooks").mkdir(parents=True)
        (git / "config").write_text("[core]\n\tbare = false\n")
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", f"{uid}:{uid}", home], check=True)
    return home


def start(argv: list[str], home: Path) -> subprocess.Popen[bytes]:
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "SLACK_GATE_HOME": str(home / "gate")}
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(argv, cwd=home / "projects", env=environment, **quiet)  # type: ignore[call-overload,no-any-return]


def processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def once(argv: list[str], home: Path, count: int = 1) -> tuple[float, float]:
    """Milliseconds from the start of the first to the end of the last, and of the processors."""
    begin, used = time.perf_counter(), processor()
    running = [start(argv, home) for _ in range(count)]
    if any([process.wait() for process in running]):  # a list: all are waited for
        raise SystemExit(f"failed: {argv}")
    return (time.perf_counter() - begin) * 1000, (processor() - used) * 1000


def compare(title: str, runs: dict[str, tuple[list[str], Path]], rounds: int, count: int = 1) -> None:
    """Print the median of each in milliseconds, and the medians of its ratio to, and difference from, the first."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name in random.sample(list(runs), len(runs)):
            argv, home = runs[name]
            times[name].append(once(argv, home, count))
    print(f"\n{title} ({rounds} rounds)")
    first = next(iter(times.values()))
    for name, taken in times.items():
        print(f"  {name:24}", end="")
        for place, kind in enumerate(("", " processor")):
            pairs = [(one[place], base[place]) for one, base in zip(taken, first, strict=True) if base[place]]
            middle = statistics.median(one for one, _ in pairs)
            ratio = statistics.median(one / base for one, base in pairs)
            more = statistics.median(one - base for one, base in pairs)
            print(f" {middle:8.2f} ms{kind} {ratio:5.2f} x ({more:+.2f} ms)", end="")
        print()


def measure(builds: dict[str, Path], who: str, homes: dict[str, Path], rounds: int) -> None:
    empty = homes["no project"]
    commands = {"bare bubblewrap": BARE} | {name: [str(path), "/bin/true"] for name, path in builds.items()}
    for command in commands.values():  # makes what is made once
        for home in homes.values():
            once(command, home)
    compare(f"true, as {who}", {name: (argv, empty) for name, argv in commands.items()}, rounds)
    for name in builds:
        runs = {kind: (commands[name], home) for kind, home in homes.items()}
        compare(f"{name} with projects, as {who}", runs, max(5, rounds // 4))
    granted = {
        name: ([command[0], "--net-allow", "web", "--", *command[1:]], empty) for name, command in commands.items()
    }
    granted["bare bubblewrap"] = (BARE, empty)
    compare(f"true with a network grant, as {who}", granted, max(5, rounds // 4))
    many = {name: (argv, empty) for name, argv in commands.items()}
    compare(f"{AT_ONCE} at once, as {who}", many, max(3, rounds // 10), AT_ONCE)


def as_user(uid: int, builds: dict[str, Path], homes: dict[str, Path], rounds: int) -> None:
    """Measure in a child that is this user all along: a change of user for each start would count as start."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            if uid != os.geteuid():
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
            measure(builds, "root" if uid == 0 else f"user {uid}", homes, rounds)
            sys.stdout.flush()
            os._exit(0)
        finally:  # what the parent cleans up is the parent's
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        raise SystemExit("the measurement failed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", type=int, nargs="?", default=60)
    rounds = parser.parse_args().rounds
    print(f"{len(os.listdir('/tmp'))} entries in /tmp, each of which is looked at")
    tools = Path(tempfile.mkdtemp(prefix="sbox-bench-", dir="/var/tmp"))
    tools.chmod(0o755)
    made = [tools]
    try:
        builds = build(tools)
        for uid in sorted({os.geteuid(), ORDINARY if os.geteuid() == 0 else os.geteuid()}):
            homes = {kind: make_home(uid, *counts) for kind, counts in PROJECTS.items()}
            made += homes.values()
            as_user(uid, builds, homes, rounds)
    finally:
        for directory in made:
            shutil.rmtree(directory)


if __name__ == "__main__":
    main()
