"""What must not work in the cage. Every row first fails in the cage and then succeeds without it, on the same target."""
# ruff: noqa: E501  a row of a table is one line

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cage.cage_policy import GUARDED_NAMES
from tests.cage.sbox.world import ENVIRONMENT, LOOT, SECRETS, World, listening


def py(code: str) -> str:
    return f'exec /usr/bin/python3 -c {shlex.quote(code)} "$@"'


def refused(world: World, code: str, *arguments: str, **options: object) -> None:
    """The code exits 0 when the attack succeeds: it must not in the cage, and must without."""
    argv = ["/bin/bash", "-c", code, "attack", *arguments]
    inside = world.caged(*argv, **options)
    assert inside.returncode not in (0, 125), f"succeeded in the cage, or no cage: {inside}"
    if world.sbox.name != "script":
        return  # the same was shown with the other build
    outside = world.bare(*argv, **options)  # type: ignore[arg-type]
    assert outside.returncode == 0, f"this attack proves nothing, it fails without the cage too: {outside}"


# $1 is a fresh directory that the user may write and the cage may not; it holds `file`, `tree/` and `link` to file.
WRITES = {
    "create a file": 'echo x >"$1/new"',
    "append to a file": 'echo x >>"$1/file"',
    "truncate a file": ': >"$1/file"',
    "remove a file": 'rm "$1/file"',
    "rename a file": 'mv "$1/file" "$1/other"',
    "make a directory": 'mkdir "$1/newdir"',
    "remove a directory": 'rmdir "$1/tree"',
    "make a symbolic link": 'ln -s /etc "$1/newlink"',
    "make a hard link into the zone": 'ln "$1/file" "/tmp/sbox-hard-$$" && rm "/tmp/sbox-hard-$$"',
    "make a hard link out of the zone": 'cd "$3" && echo x >h && ln h "$1/h"',
    "change a mode": 'chmod 700 "$1/file"',
    "change a time": 'touch -d @1 "$1/file"',
    "make a FIFO": 'mkfifo "$1/fifo"',
    "bind a socket": py("import socket,sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1]+'/sock')"),
    "write through a link": 'echo x >"$1/link"',
    "write through a link in the zone": 'ln -sfn "$1" "$3/way" && echo x >"$3/way/new2"',
    "write through /proc/self/root": 'echo x >"/proc/self/root$1/new3"',
    "write through /proc/self/cwd": 'cd "$1" && echo x >/proc/self/cwd/new4',
    "set an extended attribute": py("import os,sys; os.setxattr(sys.argv[1]+'/file','user.x',b'x')"),
    "exchange two names": py(
        "import ctypes,sys; c=ctypes.CDLL(None); a=sys.argv[1].encode();"
        "sys.exit(c.renameat2(-100,a+b'/file',-100,a+b'/link',2)!=0)"
    ),
    "map a file writable": py("import mmap,sys; f=open(sys.argv[1]+'/file','r+b'); mmap.mmap(f.fileno(),1)[0:1]=b'y'"),
    "reopen a read descriptor for writing": 'exec 7<"$1/file" && echo x >/proc/self/fd/7',
}


@pytest.fixture
def target(world: World) -> Iterator[list[str]]:
    directory = Path(tempfile.mkdtemp(dir=world.outside))
    zone = Path(tempfile.mkdtemp(dir=world.top / "common"))
    (directory / "file").write_text("before")
    (directory / "tree").mkdir()
    (directory / "link").symlink_to("file")
    world.give(directory)
    world.give(zone)
    yield [str(directory), str(world.home), str(zone)]


@pytest.mark.parametrize("code", WRITES.values(), ids=WRITES.keys())
def test_nothing_is_written_outside_the_zone(world: World, target: list[str], code: str) -> None:
    refused(world, code, *target)


HOME_WRITES = (
    "new", ".bashrc", ".profile", ".gitconfig", ".config/autostart/x.desktop", ".local/bin/hello", ".local/bin/git",
    ".ssh/authorized_keys", ".claude/settings.json", "plain/notes", ".config/slack-gate/policy.toml", "work/gh-issue/x.py",
)  # fmt: skip


@pytest.mark.parametrize("name", HOME_WRITES)
def test_nothing_is_written_in_the_home(world: World, name: str) -> None:
    path = world.home / name
    before = path.read_bytes() if path.exists() else None
    world.caged("bash", "-c", 'mkdir -p "${1%/*}"; echo x >>"$1"', "attack", str(path))
    assert (path.read_bytes() if path.exists() else None) == before
    done = world.bare("bash", "-c", 'mkdir -p "${1%/*}"; echo x >>"$1"', "attack", str(path))
    assert done.returncode == 0 and path.read_bytes() != before
    path.unlink() if before is None else path.write_bytes(before)


@pytest.mark.parametrize("name", [*SECRETS, "keys/id_ed25519", "abs-keys/id_ed25519"])
def test_no_secret_of_the_home_is_read(world: World, name: str) -> None:
    refused(world, 'cat "$1" 2>/dev/null | grep -q .', str(world.home / name))


SECOND_WAYS = {
    "through a root in /proc": 'grep -q . "/proc/self/root$1"',
    "through the root of process 1": 'grep -q . "/proc/1/root$1" || grep -q . "$1"',
    "through a link in the zone": 'ln -sfn "$1" "$2" && grep -q . "$2"',
    "through a bind mount": 'mkdir -p "$2.d" && unshare -Urm sh -c \'mount --bind "${1%/*}" "$2.d" && grep -q . "$2.d/${1##*/}"\' x "$@"',
    "after undoing the cover": 'unshare -Urm sh -c \'umount "${1%/*}" 2>/dev/null; grep -q . "$1"\' x "$@"',
}


@pytest.mark.parametrize("code", SECOND_WAYS.values(), ids=SECOND_WAYS.keys())
def test_no_second_way_leads_to_a_secret(world: World, target: list[str], code: str) -> None:
    refused(world, code, str(world.home / ".ssh/id_ed25519"), target[2] + "/way")


def test_no_linked_secret_is_read_or_stops_a_cage(world: World) -> None:
    """Settings kept in one place and linked from where programs look for them."""
    links = {
        ".npm-global/etc/npmrc": "plain/npmrc",
        ".config/git/credentials": "projects/c",
        ".julia/servers": "plain/s",
    }
    kept = {name: world.home / (name + ".kept") for name in links}
    try:
        for name, target in links.items():
            place = world.home / target
            if (world.home / name).is_dir():
                place.mkdir()
            world.give(place.parent)
            (place / "auth" if place.is_dir() else place).write_text(LOOT)
            (world.home / name).rename(kept[name])
            (world.home / name).symlink_to(place)
        names = [str(world.home / name) for pair in links.items() for name in pair]
        refused(world, f'test -e ~/.gitconfig && grep -rqs {LOOT[:4]} "$@"', *names)
    finally:
        for name, target in links.items():
            if kept[name].exists():
                (world.home / name).unlink()
                kept[name].rename(world.home / name)
            shutil.rmtree(world.home / target) if (world.home / target).is_dir() else (world.home / target).unlink()


@pytest.mark.parametrize(
    "code", ["env", "cat /proc/self/environ", "cat /proc/1/environ", "cat /proc/*/environ", "export -f; set"]
)
def test_no_token_of_the_environment_is_read(world: World, code: str) -> None:
    inside = world.caged("bash", "-c", f"{{ {code}; }} 2>/dev/null")
    assert LOOT not in inside.stdout, inside.stdout
    shown = world.bare("bash", "-c", "env").stdout
    assert all(name in shown for name in ENVIRONMENT)


DESCRIPTORS = {
    "a directory": ("outside", os.O_RDONLY, py("import os; os.open('new',os.O_CREAT|os.O_WRONLY,dir_fd=17)")),
    "a file open for writing": ("outside/file", os.O_WRONLY, "echo x >&17"),
    "a secret file": ("home/.ssh/id_ed25519", os.O_RDONLY, "read -r -u 17 line"),
    "the root directory": ("/", os.O_RDONLY, py("import os; os.stat('etc',dir_fd=17)")),
}


@pytest.mark.parametrize("place,flags,code", DESCRIPTORS.values(), ids=DESCRIPTORS.keys())
def test_no_descriptor_is_inherited(world: World, target: list[str], place: str, flags: int, code: str) -> None:
    path = place.replace("outside", target[0]).replace("home", target[1])
    opened = os.open(path, flags)
    os.dup2(opened, 17)
    try:
        refused(world, code, pass_fds=[17])
    finally:
        os.close(17)
        os.close(opened)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_no_directory_is_a_standard_stream(world: World, number: int) -> None:
    """Opened outside, it leads everywhere: nothing of the cage's mounts lies on its way."""
    redirect = f"{number}<{shlex.quote(str(world.home))}"
    code = f"read -r line </proc/$$/fd/{number}/.ssh/id_ed25519"
    for sbox, right in ((shlex.quote(str(world.sbox)), 125), ("", 0)):
        done = world.bare("bash", "-c", f'{sbox} bash -c "$0" {redirect}', code)
        assert done.returncode == right, done


@pytest.fixture(scope="module")
def tcp_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield server.getsockname()[1]


@pytest.fixture(scope="module")
def udp_port() -> Iterator[int]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        yield server.getsockname()[1]


def test_no_tcp_connection(world: World, tcp_port: int) -> None:
    refused(world, 'exec 7<>"/dev/tcp/127.0.0.1/$1"', str(tcp_port))


def test_no_udp_packet_arrives(world: World) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.setblocking(False)
        code = py("import socket,sys; socket.socket(2,2).sendto(b'x',('127.0.0.1',int(sys.argv[1])))")
        argv = ["bash", "-c", code, "attack", str(server.getsockname()[1])]
        world.caged(*argv)
        with pytest.raises(BlockingIOError):
            server.recv(9)
        world.bare(*argv)
        assert server.recv(9) == b"x"


def test_a_raw_address_is_unreachable(world: World) -> None:
    done = world.caged("/usr/bin/python3", "-c", "import socket; socket.create_connection(('192.0.2.1', 53), 5)")
    assert done.returncode == 1 and "Network is unreachable" in done.stderr


def connect(kind: str = "STREAM") -> str:
    return py(
        f"import socket,sys; s=socket.socket(socket.AF_UNIX,socket.SOCK_{kind}); a=sys.argv[1];"
        "s.connect('\\0'+a[1:] if a[0]=='@' else a)"
    )


@pytest.mark.parametrize("kind", ["STREAM", "DGRAM", "SEQPACKET"])
@pytest.mark.parametrize("place", ["home/.run/s", "common/s", "home/projects/s", "outside/s"])
def test_no_socket_of_the_host_is_reached(world: World, place: str, kind: str) -> None:
    path = world.outside / "s" if place.startswith("outside") else world.top / place
    with listening(world, path, getattr(socket, f"SOCK_{kind}")):
        refused(world, connect(kind), str(path))


@pytest.mark.parametrize("place", ["common/s", "home/projects/s"])
def test_check_tells_the_truth_about_sockets_opened_later(world: World, place: str) -> None:
    path = world.top / place
    code = f"echo up; read -r line; ( {connect()} ) && echo reached"
    with world.start([str(world.sbox), "bash", "-c", code, "attack", str(path)], stdin=subprocess.PIPE) as cage:
        assert cage.stdout and cage.stdout.readline() == "up\n"
        with listening(world, path):
            shown = cage.communicate("go\n", 100)
    closed = "ok       sockets that programs outside open" in world.caged("--check").stdout
    assert shown[0] == ("" if closed else "reached\n"), shown


# Runs a program where the kernel refuses NETLINK_SOCK_DIAG, as one without that option does.
WITHOUT_SOCKET_DIAGNOSIS = """
import ctypes, os, struct, sys
rules = [(0x20, 0, 0, 0), (0x15, 0, 5, SOCKET), (0x20, 0, 0, 16), (0x15, 0, 3, 16), (0x20, 0, 0, 32), (0x15, 0, 1, 4),
         (6, 0, 0, 0x5005D), (6, 0, 0, 0x7FFF0000)]
program = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *rule) for rule in rules))
prctl = ctypes.CDLL(None, use_errno=True).prctl
assert prctl(38, 1, 0, 0, 0) == 0
assert prctl(22, 2, ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(rules), ctypes.addressof(program)))) == 0
os.execv(sys.argv[1], sys.argv[1:])
""".replace("SOCKET", {"aarch64": "198"}.get(os.uname().machine, "41"))


@pytest.mark.parametrize("kind", ["STREAM", "DGRAM"])
def test_sockets_are_found_without_the_kernels_help(world: World, kind: str) -> None:
    path = world.top / "common/s"
    with listening(world, path, getattr(socket, f"SOCK_{kind}")):
        argv = ["/usr/bin/python3", "-c", WITHOUT_SOCKET_DIAGNOSIS, str(world.sbox)]
        shown = world.bare(*argv, "bash", "-c", connect(kind), "attack", str(path))
        assert shown.returncode == 1 and "refused" in shown.stderr, shown
        assert world.bare(*argv, "true").returncode == 0
        ask = "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4)"
        assert "not supported" in world.bare(*argv[:3], "/usr/bin/python3", "-c", ask).stderr


def test_the_socket_of_the_gate_is_not_reached(world: World) -> None:
    home = world.home / ".config/slack-gate/run"
    home.mkdir(exist_ok=True)
    world.give(home)
    with listening(world, home / "gate.sock"):
        refused(world, connect(), str(home / "gate.sock"))


def test_a_gate_elsewhere_is_not_reached(world: World, target: list[str]) -> None:
    home = Path(target[0])
    (home / "token").write_text(LOOT)
    (link := Path(target[2]) / "gate").symlink_to(home)
    for spelled in (f"{home}", f"{home}//", f"{link}", f"{link}/"):
        refused(world, 'grep -q . "$1/token"', str(home), env=world.environment({"SLACK_GATE_HOME": spelled}))


def test_no_abstract_socket_is_reached(world: World) -> None:
    name = f"sbox-test-{os.getpid()}"
    with listening(world, "\0" + name):
        refused(world, connect(), "@" + name)


@pytest.mark.parametrize("spelled", ["{}//common//s", "{}/./common/../common/s", "{}/link/s"])
def test_a_socket_is_not_reached_however_its_server_spells_it(world: World, spelled: str) -> None:
    path, link = world.top / "common/s", world.top / "link"
    link.symlink_to("common")
    try:
        with listening(world, spelled.format(world.top).replace("/tmp/", "/tmp//")):
            path.chmod(0o777)
            refused(world, connect(), str(path))
    finally:
        path.unlink()
        link.unlink()


def test_a_covered_socket_cannot_be_uncovered(world: World, target: list[str]) -> None:
    directory = Path(target[2]) / "d"
    directory.mkdir()
    world.give(directory)
    with listening(world, directory / "s"):
        code = f'mv "$1/d" "$1/e" 2>/dev/null; cd "$1/e" 2>/dev/null || cd "$1/d"; {connect()}'
        world_code = code.replace('"$@"', "s")
        inside = world.caged("bash", "-c", world_code, "attack", target[2])
        assert inside.returncode not in (0, 125)
        if (Path(target[2]) / "e").exists():
            (Path(target[2]) / "e").rename(directory)
        assert world.bare("bash", "-c", world_code, "attack", target[2]).returncode == 0
        (Path(target[2]) / "e").rename(directory)


def test_no_fifo_of_the_home_is_reached(world: World) -> None:
    path = world.home / ".run/fifo"
    os.mkfifo(path)
    world.give(path)
    keep = os.open(path, os.O_RDWR)
    refused(world, 'timeout 3 sh -c \'echo x >"$1"\' x "$1" && [ -p "$1" ]', str(path))
    os.close(keep)
    path.unlink()


FAMILIES = {"vsock": (40, 1), "alg": (38, 5), "packet": (17, 3), "bluetooth": (31, 3), "vsock datagram": (40, 2)}


@pytest.mark.parametrize("family,kind", FAMILIES.values(), ids=FAMILIES.keys())
def test_no_other_socket_family(world: World, family: int, kind: int) -> None:
    code = f"import socket; socket.socket({family}, {kind})"
    done = world.caged("/usr/bin/python3", "-c", code)
    assert "Address family not supported" in done.stderr, done.stderr


CALLS = {  # number on x86_64, arguments, errno expected in the cage
    "io_uring_setup": (425, "8, 0", 38),
    "clone3": (435, "0, 0", 38),
    "keyctl": (250, "0, -3, 0", 1),
    "add_key": (248, "0, 0, 0, 0, 0", 1),
    "request_key": (249, "0, 0, 0, 0", 1),
    "bpf": (321, "0, 0, 0", 1),
    "userfaultfd": (323, "0", 1),
    "perf_event_open": (298, "0, 0, 0, 0, 0", 1),
    "mount": (165, "0, 0, 0, 0, 0", 1),
    "umount": (166, "0, 0", 1),
    "pivot_root": (155, "0, 0", 1),
    "open_tree": (428, "-100, 0, 0", 1),
    "fsopen": (430, "0, 0", 1),
    "setns": (308, "0, 0", 1),
    "unshare of a user namespace": (272, "0x10000000", 1),
    "unshare of all namespaces": (272, "0x7e020000", 1),
    "clone of a user namespace": (56, "0x10000000, 0, 0, 0, 0", 1),
    "open_by_handle_at": (304, "0, 0, 0", 1),
    "kexec_load": (246, "0, 0, 0, 0", 1),
    "init_module": (175, "0, 0, 0", 1),
    "the kernel's log": (103, "10, 0, 0", 1),
    "a mount tree with attributes": (467, "-100, 0, 0, 0, 0", 1),
    "a call of the x32 machine": (0x40000000 + 39, "", 38),
    "typing into the terminal": (16, "0, 0x5412, b'x'", 1),
    "typing with high bits set": (16, "0, 0x100005412, b'x'", 1),
    "pasting into the console": (16, "0, 0x541C, b'x'", 1),
    "another line discipline": (16, "0, 0x5423, b'xxxx'", 1),
}


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86_64")
@pytest.mark.parametrize("number,arguments,errno", CALLS.values(), ids=CALLS.keys())
def test_system_calls_refused(world: World, number: int, arguments: str, errno: int) -> None:
    code = (
        "import ctypes; c = ctypes.CDLL(None, use_errno=True).syscall;"
        f"r = c(ctypes.c_long({number}), *[a if isinstance(a, bytes) else ctypes.c_long(a) for a in ({arguments}{',' if arguments else ''})]);"
        "print(ctypes.get_errno() if r < 0 else 'done')"
    )
    done = world.caged("/usr/bin/python3", "-c", code)
    assert done.stdout == f"{errno}\n", done


PROCESSES = {
    "see it": 'ps -e -o pid= -o args= | grep -q "[s]leep 3$1"',
    "read its command line": "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; done 2>/dev/null | grep -q \"[s]leep 3$1\"",
    "signal it": 'kill -0 "$1"',
    "set its limits": 'prlimit --pid "$1" --core=0:0',
    "lower its priority": 'renice -n 19 -p "$1"',
    "change its place in memory shortages": 'echo 900 >"/proc/$1/oom_score_adj"',
    "open it": py("import os,sys; os.pidfd_open(int(sys.argv[1]))"),
    "look through its root": 'ls "/proc/$1/root/"',
}


@pytest.mark.parametrize("code", PROCESSES.values(), ids=PROCESSES.keys())
def test_no_process_of_the_host_is_touched(world: World, code: str) -> None:
    with world.start(["bash", "-c", 'exec sleep "3$$"']) as process:
        if "root/" in code and world.uid != os.geteuid():
            process.poll()
        try:
            refused(world, code, str(process.pid))
        finally:
            process.kill()


@pytest.mark.parametrize("attack", ["os.kill(0, 10)", "os.killpg(0, 10)", "os.setpriority(os.PRIO_PGRP, 0, 5)"])
def test_no_process_of_the_callers_group_is_touched(world: World, attack: str) -> None:
    """A program that starts sbox is in its process group, unless it gave it one of its own."""
    caller = (
        "import os, signal, subprocess, sys\n"
        "signal.signal(10, lambda *_: print('hit'))\n"
        f"code = 'import os, signal; signal.signal(10, signal.SIG_IGN); {attack}; print(1)'\n"
        "done = subprocess.run([*sys.argv[1:], '/usr/bin/python3', '-c', code], stdout=-1, stdin=-3, stderr=-1)\n"
        "print('hit' if os.getpriority(os.PRIO_PROCESS, 0) else done)\n"
    )
    assert "hit" in world.bare("/usr/bin/python3", "-c", caller).stdout
    done = world.bare("/usr/bin/python3", "-c", caller, str(world.sbox))
    assert "hit" not in done.stdout and "returncode" in done.stdout, done


IPC = {
    "shared memory": ("import ctypes;c=ctypes.CDLL(None);c.shmget(KEY,64,0o1666)", "c.shmget(KEY,64,0)", "c.shmctl(c.shmget(KEY,64,0),0,0)"),
    "semaphores": ("import ctypes;c=ctypes.CDLL(None);c.semget(KEY,1,0o1666)", "c.semget(KEY,1,0)", "c.semctl(c.semget(KEY,1,0),0,0)"),
    "message queues": ("import ctypes;c=ctypes.CDLL(None);c.msgget(KEY,0o1666)", "c.msgget(KEY,0)", "c.msgctl(c.msgget(KEY,0),0,0)"),
    "posix queues": (
        "import ctypes,os;c=ctypes.CDLL(None);n=b'/sbox-KEY';os.umask(0);c.mq_open(n,os.O_CREAT|os.O_RDWR,0o666,None)",
        "c.mq_open(n,0)", "c.mq_unlink(n)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("make,use,remove", IPC.values(), ids=IPC.keys())
def test_no_shared_memory_or_queue(world: World, make: str, use: str, remove: str) -> None:
    make, use, remove = (text.replace("KEY", str(os.getpid() + 7)) for text in (make, use, remove))
    start = make.rsplit(";", 1)[0]
    assert world.bare("/usr/bin/python3", "-c", make).returncode == 0
    try:
        refused(world, py(f"{start};import sys;sys.exit({use}<0)"))
    finally:
        world.bare("/usr/bin/python3", "-c", f"{start};{remove}")


def test_shared_memory_files_are_private(world: World) -> None:
    path = Path(f"/dev/shm/sbox-test-{os.getpid()}")
    path.write_text("x")
    path.chmod(0o666)
    try:
        refused(world, 'cat "$1"', str(path))
    finally:
        path.unlink()


def test_options_of_bubblewrap_are_words_of_the_command(world: World, target: list[str]) -> None:
    for words in (
        ["--bind", "/", "/", "sh"],
        ["--dev-bind", "/", "/", "sh"],
        ["--args", "0", "sh"],
        ["--share-net", "sh"],
    ):
        done = world.caged(*words, "-c", 'echo x >"$0/new"', target[0])
        assert done.returncode == 125 and "there is no option" in done.stderr
        done = world.caged("--", *words, "-c", 'echo x >"$0/new"', target[0])
        assert done.returncode == 127
    assert not (Path(target[0]) / "new").exists()


STEERING = {
    "BASH_ENV": ("BASH_ENV", "$file"), "ENV": ("ENV", "$file"), "SHELLOPTS": ("SHELLOPTS", "xtrace"),
    "an exported function": ("BASH_FUNC_cd%%", '() { echo x >"$mark"; builtin cd "$@"; }'),
    "another exported function": ("BASH_FUNC_printf%%", '() { echo x >"$mark"; }'),
    "PS4": ("PS4", '$(echo x >"$mark")'), "PATH": ("PATH", "$dir:/usr/bin:/bin"), "IFS": ("IFS", "/"),
    "POSIXLY_CORRECT": ("POSIXLY_CORRECT", "1"), "BASH_COMPAT": ("BASH_COMPAT", "3.1"), "CDPATH": ("CDPATH", "/"),
    "GLOBIGNORE": ("GLOBIGNORE", "*"), "LC_ALL": ("LC_ALL", "tr_TR.UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize("name,value", STEERING.values(), ids=STEERING.keys())
def test_the_environment_does_not_steer_sbox(world: World, target: list[str], name: str, value: str) -> None:
    directory = Path(target[0])
    mark = directory / "mark"
    for tool in ("bwrap", "mkdir", "readlink", "env", "find"):
        path = directory / tool
        path.write_text(f'#!/bin/sh\necho x >"{mark}"\nexec "$@"\n')
        path.chmod(0o755)
    (directory / "file").write_text(f'echo x >"{mark}"\n')
    for word, place in (("$file", directory / "file"), ("$mark", mark), ("$dir", directory)):
        value = value.replace(word, str(place))
    done = world.caged(
        "/bin/sh", "-c", 'touch "$1/new" || exit 5', "x", target[0], env=world.environment({name: value})
    )
    assert not mark.exists(), "something that the environment named ran outside"
    assert done.returncode == 5, done


def git_outside(world: World, *repositories: Path) -> None:
    """The everyday commands of a person outside, hooks and all."""
    for repository in repositories:
        for words in (
            ["status"],
            ["add", "-A"],
            ["commit", "-qm", "host", "--allow-empty"],
            ["diff", "HEAD~1"],
            ["checkout", "-q", "-b", "x"],
        ):
            world.bare("git", "-C", str(repository), *words)


# $1 is the mark that the planted command makes, $2 the repository; the plant is run in the cage, then git outside.
HOOK = 'printf \'#!/bin/sh\\necho x >"%s"\\n\' "$1"'
PLANTS = {
    "a hook": f'{HOOK} >.git/hooks/post-commit; chmod +x .git/hooks/post-commit',
    "a hook in a new directory": f'mv .git/hooks .git/h2; mkdir .git/hooks; {HOOK} >.git/hooks/post-commit; chmod +x .git/hooks/post-commit',
    "fsmonitor": 'git config core.fsmonitor "echo x >$1; true"',
    "fsmonitor written by hand": 'printf "[core]\\n\\tfsmonitor = \\"echo x >%s; true\\"\\n" "$1" >>.git/config',
    "a filter": 'git config filter.f.clean "echo x >$1; cat"; echo "* filter=f" >.gitattributes',
    "an external diff": 'git config diff.external "echo x >$1; true"; echo two >file',
    "a hooks path": f'mkdir h; {HOOK} >h/post-commit; chmod +x h/post-commit; git config core.hooksPath h',
    "an include": 'printf "[core]\\n\\tfsmonitor = \\"echo x >%s; true\\"\\n" "$1" >inc; git config include.path ../inc',
    "a new config by rename": 'cp .git/config c; printf "[core]\\n\\tfsmonitor = \\"echo x >%s; true\\"\\n" "$1" >>c; mv -f c .git/config',
    "another .git": f'mv .git .g2; cp -r .g2 .git; {HOOK} >.git/hooks/post-commit; chmod +x .git/hooks/post-commit',
    "another repository in its place": f'cd ..; mv "$2" "$2.old"; cp -r "$2.old" "$2"; {HOOK} >"$2/.git/hooks/post-commit"; chmod +x "$2/.git/hooks/post-commit"',
    "a commondir": 'cp -r .git evil; printf "[core]\\n\\tfsmonitor = \\"echo x >%s; true\\"\\n" "$1" >>evil/config; echo ../evil >.git/commondir',
    "a .git file": 'mv .git .g2; cp -r .g2 evil; printf "[core]\\n\\tfsmonitor = \\"echo x >%s; true\\"\\n" "$1" >>evil/config; echo "gitdir: $PWD/evil" >.git',
    "a symbolic link": f'cp -r .git evil; {HOOK} >evil/hooks/post-commit; chmod +x evil/hooks/post-commit; rm -rf .git; ln -s evil .git',
    "a hook after removal": f'rm -rf .git/hooks; mkdir .git/hooks; {HOOK} >.git/hooks/post-commit; chmod +x .git/hooks/post-commit',
}  # fmt: skip


@pytest.mark.parametrize("place", ["inside", "beside"])
@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS.keys())
def test_git_outside_runs_nothing_that_was_planted(world: World, target: list[str], plant: str, place: str) -> None:
    """`inside` works in the repository; `beside` attacks it from another working directory."""
    mark = Path(target[0]) / "mark"
    repository = world.repository(f"r{Path(target[0]).name}")
    code = f'cd "$2"; {plant}'
    where = repository if place == "inside" else world.projects
    world.caged("bash", "-c", code, "plant", str(mark), str(repository), cwd=where)
    git_outside(world, repository)
    assert not mark.exists(), "git outside ran what the cage planted"
    if place == "inside":
        victim = world.repository(f"v{Path(target[0]).name}")
        world.bare("bash", "-c", code, "plant", str(mark), str(victim), cwd=victim)
        git_outside(world, victim)
        assert mark.exists(), "this plant proves nothing, git does not run it"


BARE_OF = {  # what is taken out of a repository, and what the cage puts there
    "hooks": ("rm -rf .git/hooks", f"mkdir -p .git/hooks; {HOOK} >.git/hooks/post-commit; chmod +x .git/hooks/post-commit"),
    "hooks, by a link": ("rm -rf .git/hooks", f"mkdir h; {HOOK} >h/post-commit; chmod +x h/post-commit; ln -sT ../h .git/hooks"),
    "hooks, by renaming": ("rm -rf .git/hooks", f"mkdir h; {HOOK} >h/post-commit; chmod +x h/post-commit; mv -T h .git/hooks"),
    "a configuration": ("rm .git/config", 'printf "[core]\\n\\tfsmonitor = \\"echo x >%s; true\\"\\n" "$1" >.git/config'),
    "a worktree's configuration": (
        "git config core.repositoryformatversion 1; git config extensions.worktreeConfig true",
        'printf "[core]\\n\\tfsmonitor = \\"echo x >%s; true\\"\\n" "$1" >.git/config.worktree',
    ),
}  # fmt: skip


@pytest.mark.parametrize("prepare,plant", BARE_OF.values(), ids=BARE_OF.keys())
def test_what_a_repository_lacks_is_not_planted(world: World, target: list[str], prepare: str, plant: str) -> None:
    mark = str(Path(target[0]) / "mark")
    for kind in ("victim", "proof"):
        repository = world.repository(f"{kind}{Path(target[0]).name}")
        assert world.bare("bash", "-ec", prepare, cwd=repository).returncode == 0
        before = sorted(str(path) for path in (repository / ".git").iterdir())
        for where in (repository, world.projects):
            code = f'cd "$2"; {plant}'
            run = world.caged if kind == "victim" else world.bare
            assert run("bash", "-c", code, "plant", mark, str(repository), cwd=where).returncode != 125
            if kind == "victim":
                assert sorted(str(path) for path in (repository / ".git").iterdir()) == before
        git_outside(world, repository)
        assert Path(mark).exists() is (kind == "proof"), (
            "git outside ran it" if kind == "victim" else "it proves nothing"
        )


OTHER_REMOTES = {
    "a remote": 'mkdir -p .git/remotes; printf "URL: %s\nPush: HEAD:refs/heads/n\n" "$PWD/evil" >.git/remotes/origin',
    "a linked remote": 'mkdir r; printf "URL: %s\nPush: HEAD:refs/heads/n\n" "$PWD/evil" >r/origin; ln -sT ../r .git/remotes',
    "a branch": 'mkdir -p .git/branches; echo "$PWD/evil#n" >.git/branches/origin',
}


@pytest.mark.parametrize("plant", OTHER_REMOTES.values(), ids=OTHER_REMOTES.keys())
def test_no_remote_is_planted(world: World, target: list[str], plant: str) -> None:
    """Git takes one from a file as well, and what it pushes to on this machine runs hooks."""
    mark = Path(target[0]) / "mark"
    make = f"git init -q --bare evil; {HOOK.replace('$1', str(mark))} >evil/hooks/post-receive; chmod +x evil/hooks/*; "
    for kind in ("victim", "proof"):
        repository = world.repository(f"{kind}{mark.parent.name}")
        run = world.caged if kind == "victim" else world.bare
        ended = kind == "victim" and world.sbox.name == "program" and ".git/remotes" in plant.partition("ln -sT")[2]
        code = run("bash", "-ec", make + plant, "plant", str(mark), cwd=repository).returncode
        assert code == 0 or (ended and code == 128 + signal.SIGKILL)  # it may have ended before
        world.bare("git", "push", "origin", "HEAD:refs/heads/m", cwd=repository)
        assert mark.exists() is (kind == "proof")


def test_a_git_directory_that_waits_for_a_submodule_is_said(world: World) -> None:
    """It may be what `git submodule update` made, so it stays."""
    repository = world.repository("waited-for")
    plant = "mkdir -p .git/modules/a && cp -r .git/config .git/HEAD .git/modules/a"
    done = world.caged("bash", "-ec", plant, cwd=repository)
    assert done.returncode == 0 and f"{repository}/.git/modules/a appeared in the cage" in done.stderr
    assert (repository / ".git/modules/a/HEAD").exists() and not world.caged("true", cwd=repository).stderr


@pytest.mark.parametrize("place", ["inside", "beside", "another repository"])
def test_a_configured_hooks_directory_is_guarded(world: World, target: list[str], place: str) -> None:
    repository = world.repository(f"h{Path(target[0]).name}")
    world.bare("bash", "-c", "mkdir .husky; git config core.hooksPath .husky", cwd=repository)
    mark = str(Path(target[0]) / "mark")
    where = {"inside": repository, "beside": world.projects}.get(place) or world.repository("own")
    plant = f'{HOOK} >"$2/.husky/post-commit"; chmod +x "$2/.husky/post-commit"'
    world.caged("bash", "-c", plant, "plant", mark, str(repository), cwd=where)
    git_outside(world, repository)
    assert not Path(mark).exists()
    world.bare("bash", "-c", plant, "plant", mark, str(repository), cwd=where)
    git_outside(world, repository)
    assert Path(mark).exists(), "this plant proves nothing, git does not run it"


INCLUDED = {
    "an included file": ("printf '[color]\\n\\tui = auto\\n' >inc; git config include.path ../inc", "inc"),
    "husky": (
        "mkdir -p .husky/_; git config core.hooksPath .husky/_; printf '#!/bin/sh\\nexit 0\\n' >.husky/pre-commit",
        ".husky/pre-commit",
    ),
}


@pytest.mark.parametrize("prepare,name", INCLUDED.values(), ids=INCLUDED.keys())
def test_what_the_configuration_names_is_guarded(world: World, target: list[str], prepare: str, name: str) -> None:
    repository = world.repository(f"i{Path(target[0]).name}")
    assert world.bare("bash", "-ec", prepare, cwd=repository).returncode == 0
    refused(world, 'echo x >>"$1"', name, cwd=repository)
    refused(world, 'mv "$1" "$1.old"', name, cwd=repository)


@pytest.mark.parametrize("name", ["sub", "libs/sub"])
def test_a_submodule_is_guarded(world: World, target: list[str], name: str) -> None:
    """`git status` outside looks into submodules, and would run what their configuration says."""
    origin, repository = (world.repository(f"{kind}{Path(target[0]).name}") for kind in ("o", "m"))
    add = f'git -c protocol.file.allow=always submodule add -q "$0" {name} && git commit -qm sub'
    assert world.bare("bash", "-ec", add, str(origin), cwd=repository).returncode == 0
    mark = str(Path(target[0]) / "mark")
    monitor = 'printf "[core]\\n\\tfsmonitor = \\"echo x >%s; true\\"\\n" "$1"'
    plants = (
        f"{monitor} >>.git/modules/{name}/config",
        f"rm {name}/.git; git init -q {name}; {monitor} >>{name}/.git/config",
        f"mv {name} old; git init -q {name}; {monitor} >>{name}/.git/config",
        f'cp -r .git/modules/{name} evil; {monitor} >>evil/config; echo "gitdir: $PWD/evil" >{name}/.git',
    )
    for plant in plants:
        world.caged("bash", "-c", plant, "plant", mark, cwd=repository)
        git_outside(world, repository)
        assert not Path(mark).exists(), plant
    world.bare("bash", "-c", plants[0], "plant", mark, cwd=repository)
    git_outside(world, repository)
    assert Path(mark).exists(), "this plant proves nothing, git does not run it"


def test_a_change_in_one_of_many_repositories_is_prevented_or_said(world: World) -> None:
    changes = {
        "a hook": "echo x >$r/.git/hooks/post-commit",
        "a config": "echo >>$r/.git/config",
        "another repository": "mv $r gone; mv new $r",
        "another .git": "mv $r/.git gone2; cp -r gone2 $r/.git",
        "a commondir": "echo .. >$r/.git/commondir",
    }
    assert world.bare("bash", "-ec", "for n in {100..130} new; do git init -q $n; done").returncode == 0
    assert world.caged("true").stderr == ""
    for number, (name, change) in enumerate(
        changes.items(), 126
    ):  # those that come last are only compared by the script
        done = world.caged("bash", "-c", f"r={number}; {{ {change}; }} && echo done")
        if "done" in done.stdout:
            assert f"sbox: {world.projects}/{number}" in done.stderr, (name, done)
        assert world.sbox.name == "script" or "done" not in done.stdout or name == "a commondir"


# What the user's own git configuration names among the projects: its text, and the file that git outside then follows.
NAMED = {
    "included": ("[include]\n\tpath = ~/projects/kept/cfg", "kept/cfg"),
    "included for some": ('[includeIf "gitdir:~/projects/a]b/"] path = projects/kept/cfg', "kept/cfg"),
    "included in quotes": ('[include]\npath = "~/projects/with space/c#fg" ; a comment', "with space/c#fg"),
    "included by an included one": ("[include]\npath = ~/.config/more", "kept/cfg"),
    "hooks": ("[core]\nhookspath=~/projects/kept/hooks", "kept/hooks/post-commit"),
    "hooks over two lines": ("[core]\nhooksPath = ~/projects/kept/\\\nhooks", "kept/hooks/post-commit"),
    "hooks in every repository": ("[core]\n\thooksPath = .ours", "repo/.ours/post-commit"),
    "a program": ("[core] fsmonitor = ~/projects/kept/program --fast", "kept/program"),
    "an alias": ("[alias]\nst = !~/projects/kept/program", "kept/program"),
    "a program behind a shell": ("[core]\npager = sh -c 'exec ~/projects/kept/program'", "kept/program"),
    "a file behind an option": ("[credential]\nhelper = store --file=~/projects/kept/c", "kept/c"),
    "a link in the home": (None, "kept/gitconfig"),
    "a link in a directory of the home": (None, "kept/ignore"),
}  # fmt: skip


@pytest.mark.parametrize("text,victim", NAMED.values(), ids=NAMED.keys())
def test_what_is_configured_outside_is_not_changed_among_the_projects(
    world: World, text: str | None, victim: str
) -> None:
    world.repository("repo")
    path, config = world.projects / victim, world.home / ".gitconfig"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[x]\n")
    (world.home / ".config/more").write_text("[include]\npath = ../projects/kept/cfg\n")
    linked = world.home / (".zshrc" if "gitconfig" in victim else ".config/git/ignore")
    before = config.read_text()
    world.give(world.projects)
    try:
        if text is None:
            linked.symlink_to(path)
        else:
            config.write_text(f"{before}{text}\n")
        code = (
            'echo x >>"$1"; mv "${1%/*}" "${1%/*}.old" && mkdir "${1%/*}" && echo x >"$1"; [ "$(cat "$1")" != "[x]" ]'
        )
        refused(world, code, str(path), cwd=world.projects / "repo")
    finally:
        config.write_text(before)
        linked.unlink(missing_ok=True)


@pytest.mark.parametrize("name", ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"])
def test_what_a_configuration_elsewhere_names_is_not_changed(world: World, name: str) -> None:
    config, path = world.outside / "gitconfig", world.projects / "kept"
    config.write_text(f"[include]\n\tpath = {path}\n")
    path.write_text("[x]\n")
    world.give(path)
    refused(world, 'echo x >>"$1"', str(path), env=world.environment({name: str(config)}))


TRAPS = {
    "a configuration that is a FIFO": "mkfifo r/.git/config",
    "an included FIFO": "mkfifo r/f; printf '[include]\\npath = ../f\\n' >r/.git/config",
    "a configuration that includes itself": "for n in {1..60}; do printf '[include]\\npath = config\\npath = ./config\\n'; done >r/.git/config",
    "a common directory that is a FIFO": "mkdir r/g; mkfifo r/g/commondir; rm -r r/.git; echo 'gitdir: g' >r/.git",
    "a git directory that names itself": "rm -r r/.git; echo 'gitdir: .git' >r/.git; mkdir r/h; ln -s h r/g",
    "submodules that lead back": "mkdir r/.git/modules; for n in {1..9}; do ln -s .. r/.git/modules/$n; done; touch r/.git/HEAD",
    "a submodule that leads outside": "mkdir r/.git/modules; ln -s /etc/skel r/.git/modules/x; mkdir w; touch w/HEAD; ln -s ../../../w r/.git/modules/y",
    "a terminal": "printf '[include]\\npath = /dev/tty\\npath = /dev/zero\\n' >r/.git/config",
}  # fmt: skip


@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS.keys())
def test_no_repository_keeps_cages_from_starting(world: World, trap: str) -> None:
    assert world.caged("bash", "-c", f"mkdir -p r/.git/hooks; {trap}").returncode == 0
    done = world.caged("echo", "ran", timeout=100)
    assert (done.returncode, done.stdout) == (0, "ran\n"), done
    subprocess.run(["rm", "-rf", world.projects / "r"], check=True)


@pytest.mark.parametrize("inner,where", [("vendor", "."), ("vendor", "mono"), ("third/one", "mono")])
def test_a_repository_in_a_repository_is_guarded(world: World, inner: str, where: str) -> None:
    if world.sbox.name == "script" and inner != "vendor":
        pytest.skip("the script looks less deep")
    world.repository("mono")
    world.repository(f"mono/{inner}")
    attack = f"cd ~/projects/mono/{inner} && echo x >>.git/config || {{ mv .git .g && cp -r .g .git && echo x >>.git/config; }}"
    refused(world, attack, cwd=world.projects / where)


CLOSED = (
    "group",
    "group/repo",
    "group/repo/.git",
    "group/repo/.git/modules",
    "group/repo/.git/modules/x",
    "group/plain",
)


@pytest.mark.parametrize("mode", [0o000, 0o311, 0o600])
@pytest.mark.parametrize("closed", CLOSED)
def test_a_closed_directory_hides_nothing(world: World, closed: str, mode: int) -> None:
    """What sbox cannot look at, the command, which owns it, could open."""
    repository = world.repository("group/repo")
    place = world.projects / closed
    make = "git init -q --bare .git/modules/x; mkdir ../plain; mkfifo ../plain/fifo; echo x >/dev/null"
    assert world.bare("bash", "-ec", make, cwd=repository).returncode == 0
    keep = os.open(world.projects / "group/plain/fifo", os.O_RDWR)
    try:
        plants = "echo x >.git/hooks/new; echo x >.git/modules/x/hooks/new; [ ! -p ../plain/fifo ] || echo x >../fifo-was-there"
        code = f'chmod 755 "$1"; cd "$2" && {{ {plants}; }}; ls .git/hooks/new .git/modules/x/hooks/new'
        place.chmod(mode)
        world.caged("bash", "-c", code, "attack", str(place), str(repository))
        place.chmod(0o755)
        assert not [path for path in world.projects.rglob("*") if path.name in ("new", "fifo-was-there")]
        place.chmod(mode)
        assert world.bare("bash", "-c", code, "attack", str(place), str(repository)).returncode == 0
    finally:
        os.close(keep)
        place.chmod(0o755)


CLOSINGS = {
    "a git directory nobody writes to": ("config.worktree", "touch .git/config.worktree; chmod 555 .git"),
    "a git directory nobody looks into": ("config.worktree", "touch .git/config.worktree; chmod 000 .git"),
    "what is above it": ("config.worktree", 'touch .git/config.worktree; chmod 000 . "$PWD" ..'),
    "remotes nobody lists": ("remotes", "mkdir .git/remotes; echo URL: evil >.git/remotes/origin; chmod 311 .git/remotes"),
    "branches nobody lists": ("branches", "mkdir -p .git/branches; echo evil >.git/branches/origin; chmod 111 .git/branches .git"),
}  # fmt: skip


@pytest.mark.parametrize("end", ["", "killed"])
@pytest.mark.parametrize("name,plant", CLOSINGS.values(), ids=CLOSINGS.keys())
def test_what_is_planted_is_taken_away_though_the_way_is_closed(world: World, name: str, plant: str, end: str) -> None:
    repository = world.repository("group/closed")
    path = repository / ".git" / name
    if path.is_dir():
        path.rmdir()
    code = f"cd group/closed && {plant}; echo up; read -r"
    with world.start([str(world.sbox), "bash", "-c", code], stdin=subprocess.PIPE) as cage:
        assert cage.stdout and cage.stdout.readline() == "up\n"
        if end:
            cage.kill()
        out, err = cage.communicate("" if end else "\n", 100)  # what clears up holds its output
    assert f"/{name}" in err and "appeared in the cage and was removed" in err, (out, err)
    subprocess.run(["chmod", "-R", "u+rwX", world.projects / "group"], check=True)
    assert not path.exists() or not list(path.iterdir())
    assert not list(world.projects.rglob(".claude"))


def test_no_mode_is_changed_where_a_planted_link_leads(world: World) -> None:
    repository = world.repository("closed")
    victim = world.outside / "victim"
    (victim / "sub").mkdir(parents=True)
    (victim / "sub/file").write_text("x")
    world.give(victim)
    for path in (victim / "sub/file", victim / "sub"):
        path.chmod(0o500)
    done = world.caged("bash", "-c", 'ln -s "$0" .git/config.worktree; chmod 555 .git', str(victim), cwd=repository)
    assert "/config.worktree appeared in the cage and was removed" in done.stderr, done
    include = ["git", "config", "--file", ".git/config", "include.path", f"{world.projects}/new/sub/x"]
    assert world.bare(*include, cwd=repository).returncode == 0
    (victim / "sub").chmod(0)
    assert world.caged("ln", "-s", str(victim), "../new", cwd=repository).returncode == 0
    modes = [(victim / "sub").stat().st_mode & 0o777]
    (victim / "sub").chmod(0o700)
    modes.append((victim / "sub/file").stat().st_mode & 0o777)
    shutil.rmtree(victim)
    assert modes == [0, 0o500]


def test_what_its_owner_closed_stays_closed(world: World) -> None:
    """And hides nothing where a configuration names something in it."""
    deep = world.projects / "a/b/c/d/closed"
    (deep / "hooks").mkdir(parents=True)
    (world.projects / "read-only").mkdir()
    world.give(world.projects)
    deep.chmod(0)
    (world.projects / "read-only").chmod(0o555)
    for key, path in (("core.hooksPath", f"{deep}/hooks"), ("include.path", f"{world.projects}/read-only/x/y")):
        assert world.bare("git", "config", "--global", key, path).returncode == 0
    try:
        quiet = world.caged("true")
        modes = [path.stat().st_mode & 0o777 for path in (deep, world.projects / "read-only")]
        done = world.caged("bash", "-c", 'chmod 755 "$0"; echo x >"$0/hooks/post-commit"', str(deep))
    finally:
        for key in ("core.hooksPath", "include.path"):
            world.bare("git", "config", "--global", "--unset", key)
        deep.chmod(0o755)
    assert (quiet.returncode, quiet.stderr, modes) == (0, "", [0, 0o555])
    assert done.returncode == 1 and not list(deep.glob("hooks/*")), done


def test_what_is_planted_is_taken_away_however_deep_it_is(world: World) -> None:
    """The stack and the descriptors of what clears up are not the measure of it."""
    first, second = world.repository("deep"), world.repository("other")
    code = (
        "import os; open('../other/.git/config.worktree', 'w').close(); os.makedirs('.git/config.worktree/1')\n"
        "open('.git/config.worktree/0', 'w').close(); os.chdir('.git/config.worktree')\n"
        "for _ in range(15000): os.mkdir('0') if _ else os.mkdir('deep'); os.chdir('0' if _ else 'deep')"
    )
    words = ["bash", "-c", 'ulimit -s 256; exec "$@"', "-", str(world.sbox), "/usr/bin/python3", "-c", code]
    done = world.bare(*words, cwd=first)
    left = [path for path in (first, second) if (path / ".git/config.worktree").exists()]
    subprocess.run(["rm", "-rf", first / ".git/config.worktree"], check=True)
    assert (done.returncode, left, list(world.projects.rglob(".claude"))) == (0, [], []), done


def test_files_that_git_follows_are_taken_away_before_directories(world: World) -> None:
    repository = world.repository("order")
    err = world.caged("bash", "-c", "mkdir .git/config.worktree; echo . >.git/commondir", cwd=repository).stderr
    said = [line.split(" ")[1] for line in err.splitlines() if "appeared in the cage and was removed" in line]
    assert said == [f"{repository}/.git/{name}" for name in ("commondir", "config.worktree")], err


def test_a_file_system_below_the_projects_is_guarded_too(world: World) -> None:
    if world.uid != 0:
        pytest.skip("only root can mount one")
    make = (
        "mount -t tmpfs none disk; git init -q disk; mkdir disk/.vscode disk/plain; echo x >disk/.vscode/tasks.json; "
        'cd "$1" || exit; shift; exec "$@"'
    )
    plants = {
        "a hook": "echo x >../.git/hooks/new || echo x >.git/hooks/new",
        "a task": "echo y >../.vscode/tasks.json || echo y >.vscode/tasks.json",
        "another .git": "mv ../.git ../.g || mv .git .g",
    }
    (world.projects / "disk").mkdir()
    for where in ("disk", "disk/plain"):
        for name, plant in plants.items():
            words = ["unshare", "-m", "bash", "-c", make, "-", where]
            done = world.bare(*words, str(world.sbox), "bash", "-c", plant)
            assert done.returncode == 1, (name, done)
            assert world.bare(*words, str(world.sbox), "bash", "-c", "echo x >f").returncode == 0
            assert world.bare(*words, "bash", "-c", plant).returncode == 0


def test_a_hook_that_is_a_link_is_not_changed_where_it_lies(world: World) -> None:
    repository = world.repository("hooked")
    (repository / "scripts").mkdir()
    (script := repository / "scripts/check.sh").write_text("before\n")
    (repository / ".git/hooks/pre-commit").symlink_to("../../scripts/check.sh")
    world.give(repository)
    code = 'echo x >>"$1" || { rm "$1" && echo x >"$1"; } || { mv "$2" "$2.old" && mkdir "$2" && echo x >"$1"; }'
    refused(world, code, str(script), str(script.parent), cwd=repository)


# How a repository is made in ~/projects; where the cage starts; the git directory that counts.
ELSEWHERE = {
    "a bare one": ("git init -q --bare x.git", ".", "x.git"),
    "a bare one with worktrees": (
        "git init -q --bare x/.bare; cd x/.bare; git update-ref refs/heads/main $(git commit-tree -m x $(git mktree </dev/null)); git worktree add -q ../main main",
        "x/main", "x/.bare",
    ),
    "a bare one that the directory above names": (
        "git init -q --bare x/.bare; echo 'gitdir: ./.bare' >x/.git; mkdir x/main", "x/main", "x/.bare",
    ),
    "one that lies apart": ("mkdir store; git init -q --separate-git-dir store/g x", "x", "store/g"),
    "the directory of all projects": ("git init -q .; mkdir x", "x", ".git"),
}  # fmt: skip


@pytest.mark.parametrize("make,where,git", ELSEWHERE.values(), ids=ELSEWHERE.keys())
@pytest.mark.parametrize("name", ["config", "hooks"])
def test_git_directories_are_guarded_wherever_they_lie(
    world: World, make: str, where: str, git: str, name: str
) -> None:
    assert world.bare("bash", "-ec", make).returncode == 0
    code = """
    before=$(cat "$1" 2>/dev/null || echo "$1"/*)
    echo x >>"$1" || echo x >"$1/post-commit"
    mv "${1%/*}" "${1%/*}.old" && cp -r "${1%/*}.old" "${1%/*}" && { echo x >>"$1" || echo x >"$1/post-commit"; }
    [ "$(cat "$1" 2>/dev/null || echo "$1"/*)" != "$before" ]
    """
    try:
        refused(world, code, str(world.projects / git / name), cwd=world.projects / where)
    finally:
        subprocess.run(["rm", "-rf", world.projects / ".git", world.projects / ".git.old"], check=True)


def test_nothing_is_removed_where_a_link_leads(world: World) -> None:
    """A file that a configuration names is looked for after the end; the way to it may be a link by then."""
    repository = world.repository("leading")
    config = repository / ".git/config"
    config.write_text(config.read_text() + "[include]\n\tpath = ../way/config\n[core]\n\thooksPath = way/commondir\n")
    for name in ("config", "commondir"):
        (world.home / ".ssh" / name).write_text("mine\n")
        world.give(world.home / ".ssh" / name)
    done = world.caged("ln", "-s", str(world.home / ".ssh"), "way", cwd=repository)
    for name in ("config", "commondir"):
        assert (world.home / ".ssh" / name).read_text() == "mine\n", done
        (world.home / ".ssh" / name).unlink()


MOVES = ('mv "$1/d" "$1/e"', 'mv "$1" "$1.e"', 'rm -rf "$1/d"', 'mv "$1/d/s" "$1/d/t"')


@pytest.mark.parametrize("kind", ["socket", "setting", "gate"])
def test_what_is_hidden_is_still_there_for_the_next_cage(world: World, kind: str) -> None:
    top = Path(tempfile.mkdtemp(dir=world.top / "common"))
    (path := top / "d/s").parent.mkdir()
    conf = world.home / ".config/slack-gate/sbox.conf"
    env = world.environment({"SLACK_GATE_HOME": str(path)} if kind == "gate" else {})
    with contextlib.ExitStack() as stack:
        if kind == "socket":
            stack.enter_context(listening(world, path))
        else:
            path.mkdir()
            (path / "secret").write_text(LOOT)
        if kind == "setting":
            conf.write_text(f"hide {path}\n")
            stack.callback(conf.unlink)
        world.give(top)
        for move in MOVES:
            done = world.caged("bash", "-c", move, "x", str(top), env=env, cwd=world.top / "common")
            assert done.returncode not in (0, 125), done
        assert path.exists()


def test_a_socket_that_got_another_name_is_found(world: World, target: list[str]) -> None:
    with listening(world, path := Path(target[2]) / "first"):
        path.rename(second := Path(target[2]) / "second")
        refused(world, connect(), str(second))
        path.touch()  # `listening` removes it


@pytest.mark.parametrize("where", ["the zone", "above the working directory"])
def test_a_repository_around_others_is_reported(world: World, where: str) -> None:
    (below := world.projects / "one/two").mkdir(parents=True)
    world.give(world.projects)
    top = world.projects if where == "the zone" else world.projects / "one"
    done = world.caged("git", "init", "-q", str(top), cwd=below)
    subprocess.run(["rm", "-rf", top / ".git"], check=True)
    assert f"sbox: {top}/.git appeared in the cage" in done.stderr, done


@pytest.mark.parametrize("name", ["settings", "state"])
def test_nothing_that_sbox_trusts_lies_where_the_cage_writes(world: World, name: str) -> None:
    place = world.home / (".config/slack-gate/sbox.conf" if name == "settings" else ".local/state/sbox")
    moved = world.projects / "moved"
    if name == "state" and place.exists():
        place.rename(aside := place.with_name("aside"))
    elif name == "state":
        (aside := place.with_name("aside")).mkdir(parents=True)
    moved.mkdir() if name == "state" else moved.write_text("show .aws\n")
    place.symlink_to(moved)
    world.give(moved)
    try:
        done = world.caged("touch", "marker")
        assert done.returncode == 125 and f"leads to {moved}" in done.stderr, done
        assert not (world.projects / "marker").exists()
    finally:
        place.unlink()
        if name == "state":
            aside.rename(place)


def test_what_it_says_steers_no_terminal(world: World) -> None:
    repository = world.repository("odd\x1b]0;title\x07")
    done = world.caged("sh", "-c", "mkdir .vscode; exit 3", cwd=repository)
    assert "?]0;title?/.vscode appeared" in done.stderr and "\x1b" not in done.stderr
    done = world.caged("no\x1bsuch\nprogram", cwd=repository)
    assert done.returncode == 127 and "no?such?program: command not found" in done.stderr


def test_many_directories_do_not_hide_a_repository(world: World, target: list[str]) -> None:
    if world.sbox.name != "program" or world.uid == 0 or not os.environ.get("SLACK_GATE_LONG"):
        pytest.skip("shown once, in the long run: it takes long")
    repository = world.repository(f"zz{Path(target[0]).name}")
    crowd = world.projects / "aa"
    for number in range(20500):
        (crowd / str(number)).mkdir(parents=True)
    refused(world, "echo x >zz*/.git/hooks/new && echo x >>zz*/.git/config", cwd=world.projects)
    assert "fsmonitor" not in (repository / ".git/config").read_text()


@pytest.mark.parametrize("kind", ["socket", "FIFO"])
def test_sockets_and_fifos_among_plain_files_are_not_reached(world: World, kind: str) -> None:
    path = world.home / "plain.endpoint"
    if kind == "FIFO":
        os.mkfifo(path)
        assert world.caged("test", "-p", str(path)).returncode == 1
        path.unlink()
        return
    with listening(world, path):
        refused(world, connect(), str(path))


def test_a_linked_worktree_is_guarded(world: World, target: list[str]) -> None:
    repository = world.repository(f"w{Path(target[0]).name}")
    linked = Path(f"{repository}-linked")
    assert world.bare("git", "-C", str(repository), "worktree", "add", "-q", str(linked)).returncode == 0
    mark = str(Path(target[0]) / "mark")
    plants = (
        'cp -r "$2/.git" evil; printf "[core]\\n\\tfsmonitor = \\"echo x >%s; true\\"\\n" "$1" >>evil/config; echo "gitdir: $PWD/evil" >.git',
        'd=$2/.git/worktrees/*; cp -r "$2/.git" "$2/evil"; printf "[core]\\n\\tfsmonitor = \\"echo x >%s; true\\"\\n" "$1" >>"$2/evil/config"; echo "$2/evil" >$d/commondir',
    )
    for plant in plants:
        world.caged("bash", "-c", plant, "plant", mark, str(repository), cwd=linked)
        git_outside(world, linked, repository)
        assert not Path(mark).exists(), plant


TOOL_FILES = (
    ".claude/settings.json", ".mcp.json", ".vscode/tasks.json", ".idea/workspace.xml", ".envrc", ".cursor/mcp.json",
    ".codex/config.toml", ".gemini/settings.json",
)  # fmt: skip


EVERY_TOOL_FILE = """
changed=1
for name in "${@:2}"; do
  path=$1/$name
  { echo x >"$path"; rm -rf "$path"; mv "${path%/*}" "$path.old" && cp -r "$path.old" "${path%/*}" && echo x >"$path"; } 2>/dev/null
  [ "$(cat "$path" 2>/dev/null)" = before ] || { echo "$name"; changed=0; }
done
exit $changed
"""


@pytest.mark.parametrize(
    "place", ["the repository", "a repository from beside", "a plain directory", "one above it", "the zone"]
)
def test_files_of_editors_and_agents_are_read_only(world: World, target: list[str], place: str) -> None:
    top = world.projects / f"e{Path(target[0]).name}"
    top = world.projects if place == "the zone" else world.repository(top.name) if "repository" in place else top
    for name in TOOL_FILES:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text("before\n")
    (below := top / "a/b").mkdir(parents=True, exist_ok=True)
    world.give(world.projects)
    where = {"one above it": below, "a repository from beside": world.projects}.get(place, top)
    refused(world, EVERY_TOOL_FILE, str(top), *TOOL_FILES, cwd=where)
    assert world.sbox.name == "script" or all((top / name).read_text() == "before\n" for name in TOOL_FILES)


# What the classifier asks about and the cage leaves to the command: the work itself, or guarded by what names it.
LEFT_TO_THE_WORK = frozenset(
    [".git", ".github/hooks", ".github/copilot", ".hg", ".jj", ".sl", ".husky", ".githooks", ".vim", ".nvim", ".ssh", ".gnupg",
     ".netrc", ".gdbinit", ".lldbinit", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile",
     ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login", ".logout", ".inputrc",
     ".xprofile", ".xsessionrc", ".xinitrc", ".pythonrc", ".pythonrc.py", ".pdbrc", ".irbrc", ".pryrc", ".rprofile", ".renviron",
     ".rdata", ".ghci", ".octaverc", ".gitconfig"]
)  # fmt: skip


def test_the_cage_knows_what_editors_and_agents_trust_as_the_classifier_does(world: World) -> None:
    names = sorted(GUARDED_NAMES - LEFT_TO_THE_WORK - {".claude"})
    there, absent = world.repository("there"), world.repository("absent")
    for name in names:
        (there / name).write_text("before\n")
    world.give(there)
    write = 'for name; do { echo x >"$name"; } 2>/dev/null && echo "$name"; done; true'
    done = world.caged("bash", "-c", write, "write", *names, cwd=there)
    assert (done.returncode, done.stdout) == (0, ""), done
    told = world.caged("bash", "-c", write, "write", *names, cwd=absent).stderr
    assert [name for name in names if f"{absent}/{name} appeared in the cage" not in told] == [], told


def test_a_linked_file_of_editors_is_not_changed_and_stops_no_cage(world: World) -> None:
    repository, common = world.repository("r"), world.projects / "common"
    (common / "vscode").mkdir(parents=True)
    (common / "envrc").write_text("old\n")
    world.give(common)
    links = {".envrc": common / "envrc", ".vscode": common / "vscode", ".idea": "/etc/hostname", ".mcp.json": "nowhere"}
    for name, target in links.items():
        (repository / name).symlink_to(target)
    ran = world.caged("sh", "-c", "echo new >.envrc; touch .vscode/new ../common/vscode/new; echo ran", cwd=repository)
    assert (ran.returncode, ran.stdout) == (0, "ran\n") and "appeared" not in ran.stderr, ran
    assert (common / "envrc").read_text() == "old\n" and not list((common / "vscode").iterdir())
    changed = world.caged("sh", "-c", "rm .envrc && echo new >.envrc", cwd=repository)
    assert (repository / ".envrc").is_symlink() or f"{repository}/.envrc was changed" in changed.stderr, changed


@pytest.mark.parametrize("deep", ["one/two", "one/two/three"])
def test_settings_deeper_down_are_read_only_and_new_ones_are_said(world: World, deep: str) -> None:
    directory = world.projects / deep
    (directory / ".claude").mkdir(parents=True)
    (directory / ".claude/settings.json").write_text("before\n")
    (new := world.projects / "one/other").mkdir()
    world.give(world.projects)
    if deep == "one/two/three" and world.sbox.name == "script":
        pytest.skip("the script looks less deep")
    path = directory / ".claude/settings.json"
    code = 'echo x >"$1"; rm -rf "$2"; mv "$2" "$2.old" && mkdir "$2" && echo x >"$1"; [ "$(cat "$1")" != before ]'
    if deep == "one/two":
        refused(world, code, str(path), str(path.parent), cwd=world.projects)
    if world.sbox.name == "program" and deep == "one/two":
        assert path.read_text() == "before\n"
        done = world.caged("mkdir", str(new / ".claude"), cwd=world.projects)
        assert f"{new}/.claude appeared in the cage" in done.stderr


def test_a_dangling_link_deeper_down_stops_no_cage(world: World) -> None:
    (world.projects / "one/two").mkdir(parents=True)
    (world.projects / "one/two/.claude").symlink_to("nowhere")
    world.give(world.projects)
    assert world.caged("true", cwd=world.projects).returncode == 0


def test_new_files_of_editors_and_agents_are_reported(world: World, target: list[str]) -> None:
    repository = world.repository(f"n{Path(target[0]).name}")
    done = world.caged("sh", "-c", "mkdir .vscode; echo x >.vscode/tasks.json", cwd=repository)
    assert f"{repository}/.vscode appeared in the cage" in done.stderr


CACHE = {
    "a new file": 'echo x >"$1/.cache/p10k-instant-prompt-user.zsh"',
    "a change": 'echo x >"$1/.cache/prey/data"',
    "an append": 'echo x >>"$1/.cache/prey/data"',
    "a removal": 'rm -rf "$1/.cache/prey"',
    "a rename": 'mv "$1/.cache/prey" "$1/.cache/other"',
    "another mode": 'chmod 700 "$1/.cache/prey/data"',
}


def tree(path: Path) -> list[tuple[str, int, bytes]]:
    return sorted(
        (str(entry), entry.stat().st_mode, entry.read_bytes() if entry.is_file() else b"") for entry in path.rglob("*")
    )


@pytest.mark.parametrize("code", CACHE.values(), ids=CACHE.keys())
def test_nothing_written_to_the_cache_is_seen_outside(world: World, code: str) -> None:
    prey = world.home / ".cache/prey"
    prey.mkdir(exist_ok=True)
    (prey / "data").write_text("downloaded\n")
    world.give(prey)
    before = tree(world.home / ".cache")
    world.caged("bash", "-c", code, "x", str(world.home))
    assert tree(world.home / ".cache") == before


ROOT_ONLY = {
    "read the passwords": "grep -q : /etc/shadow",
    "open core_pattern for writing": "exec 7<>/proc/sys/kernel/core_pattern",
    "make a device": 'mknod "$1/dev" c 1 3',
    "change an owner": 'chown 1:1 "$1/file"',
    "enter a namespace of the host": "nsenter -t $PPID -m true",
    "mount over the home": 'mount -t tmpfs none "$2/plain" && umount "$2/plain"',
    "uncover ~/.ssh": 'cat "$2/.ssh/id_ed25519" || { umount "$2/.ssh"; cat "$2/.ssh/id_ed25519"; }',
    "become another user": "setpriv --reuid 1 --clear-groups true",
    "read the kernel's log": "dmesg | grep -q .",
}


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can do this without the cage")
@pytest.mark.parametrize("code", ROOT_ONLY.values(), ids=ROOT_ONLY.keys())
def test_root_is_caged_too(world: World, target: list[str], code: str) -> None:
    if world.uid == 0:
        refused(world, code, *target)


PEEPS = {
    "its descriptors": "readlink /proc/1/fd/0",
    "its root": "ls /proc/1/root/",
    "its working directory": "ls /proc/1/cwd/",
    "its memory": "head -c 1 /proc/1/mem",
    "its environment": "cat /proc/1/environ",
    "one of its descriptors": py("import ctypes,os; p=os.pidfd_open(1); r=[ctypes.CDLL(None).syscall(438,p,n,0) for n in range(64)]; raise SystemExit(max(r)<0)"),
    "tracing it": py("import ctypes,sys; sys.exit(ctypes.CDLL(None).ptrace(16,1,0,0)!=0)"),
}  # fmt: skip


@pytest.mark.parametrize("code", PEEPS.values(), ids=PEEPS.keys())
def test_nobody_looks_into_the_first_process(world: World, code: str) -> None:
    """What made the mounts had descriptors of what they cover, and those of sbox: the command is its child."""
    if world.sbox.name == "script":
        pytest.skip("there the first process is bubblewrap's, which keeps none")
    assert world.caged("bash", "-c", code).returncode not in (0, 125)
    own = code.replace("/proc/1/", "/proc/$$/").replace("pidfd_open(1)", "pidfd_open(os.getpid())")
    if "ptrace" not in own and "mem" not in own:
        assert world.caged("bash", "-c", own.replace("exec ", "")).returncode == 0


RACE = """
#include <fcntl.h>
#include <stdio.h>
int main(int count, char **names) {
    char path[4096];
    for (int fd = 3; fd < 64; fd++)
        for (int i = 1; i < count; i++) {
            snprintf(path, sizeof path, "/proc/1/fd/%d/%s", fd, names[i]);
            if (open(path, O_RDONLY) >= 0 || open(path, O_WRONLY | O_CREAT, 0600) >= 0) return puts(names[i]), 0;
        }
    return 1;
}
"""


def test_no_descriptor_of_the_first_process_is_caught_in_time(world: World) -> None:
    """A small program that starts faster than its parent goes on; nine of ten times it was the first, once."""
    if world.sbox.name == "script":
        pytest.skip("there the first process is bubblewrap's, which keeps none")
    world.repository("r")
    (world.top / "common/race.c").write_text(RACE)
    racer = world.top / "common/racer"
    subprocess.run(["cc", "-O2", "-static", "-o", racer, world.top / "common/race.c"], check=True)
    names = ["r/.git/hooks/post-commit", ".git/hooks/post-commit", "../.ssh/id_ed25519", "../../.ssh/id_ed25519"]
    caught = [world.caged(str(racer), *names) for _ in range(20)]
    assert [(done.returncode, done.stdout) for done in caught] == [(1, "")] * 20


def test_no_setuid_program_gains_rights(world: World) -> None:
    done = world.caged("sh", "-c", "grep -E 'NoNewPrivs|CapBnd' /proc/self/status")
    assert (
        done.stdout.split() == ["NoNewPrivs:", "1", "CapBnd:", "0000000000000000"]
        or "CapBnd:\t0000000000000000" in done.stdout
    )


def test_no_writable_file_of_the_kernel_is_left(world: World) -> None:
    ours = ["-path", "/proc/[0-9]*", "-o", "-path", "/proc/*self", "-o", "-path", "/proc/pressure"]
    done = world.caged(
        "find", "/proc", "/sys", "(", *ours, ")", "-prune", "-o", "-type", "f", "-writable", "-print", timeout=60
    )
    assert done.stdout == ""


@pytest.mark.parametrize(
    "device", ["/dev/vda", "/dev/sda", "/dev/mem", "/dev/kmsg", "/dev/fuse", "/dev/kvm", "/dev/vsock", "/dev/loop0"]
)
def test_no_device_of_the_host(world: World, device: str) -> None:
    assert world.caged("test", "-e", device).returncode == 1


@pytest.mark.parametrize("place", ["/run/dbus", "/run/systemd", "/run/user", "/var/run/docker.sock", "/run/postgresql"])
def test_the_run_directory_is_empty(world: World, place: str) -> None:
    assert world.caged("test", "-e", place).returncode == 1


def link(path: Path, target: str) -> Callable[[], None]:
    return lambda: path.symlink_to(target)


@pytest.mark.parametrize("target_name", ["..", "/", "/etc", "/usr", ".ssh", ".config", ".", "/proc", "/home"])
@pytest.mark.parametrize("name", ["projects", ".cache"])
def test_a_zone_that_leads_elsewhere_is_refused(
    world: World, tmp_path_factory: pytest.TempPathFactory, name: str, target_name: str
) -> None:
    home = Path(tempfile.mkdtemp(dir=world.outside))
    for part in (".ssh", ".config", "projects", ".cache"):
        if part != name:
            (home / part).mkdir()
    (home / name).symlink_to(target_name)
    world.give(home)
    done = world.caged("true", env=world.environment({"HOME": str(home)}), cwd="/")
    assert done.returncode == 125 and ("must not be writable" in done.stderr or "not a usable directory" in done.stderr)


@pytest.mark.parametrize("way", ["relative", "absolute"])
def test_a_linked_ssh_directory_is_hidden_where_it_lies(world: World, way: str) -> None:
    home = Path(tempfile.mkdtemp(dir=world.outside))
    (home / "dotfiles/ssh").mkdir(parents=True)
    (home / "dotfiles/ssh/id").write_text(LOOT)
    (home / ".ssh").symlink_to("dotfiles/ssh" if way == "relative" else home / "dotfiles/ssh")
    world.give(home)
    refused(world, 'cat "$HOME/.ssh/id" "$HOME/dotfiles/ssh/id"', env=world.environment({"HOME": str(home)}), cwd="/")


@pytest.mark.parametrize("home", ["", "/", "relative", "/nonexistent/home", "/usr", "/tmp"])
def test_an_odd_home_is_never_the_zone(world: World, home: str) -> None:
    done = world.caged(
        "sh",
        "-c",
        "echo x >/usr/sbox-test || echo x >/sbox-test || exit 5",
        env=world.environment({"HOME": home}),
        cwd="/",
    )
    assert done.returncode in (5, 125)


def daemon_left(world: World, number: int) -> bool:
    done = subprocess.run(["pgrep", "-f", f"sleep {number}"], stdout=subprocess.PIPE, check=False)
    return bool(done.stdout)


def test_nothing_outlives_the_command(world: World) -> None:
    number = 100000 + os.getpid()
    done = world.caged(
        "bash", "-c", f"setsid -f sleep {number} >/dev/null 2>&1; nohup sleep {number} >/dev/null 2>&1 & disown; exit 3"
    )
    assert done.returncode == 3
    assert not daemon_left(world, number)


@pytest.mark.parametrize("signal_name", ["INT", "TERM", "HUP", "KILL"])
def test_nothing_outlives_sbox(world: World, signal_name: str) -> None:
    number = 200000 + os.getpid()
    with world.start([str(world.sbox), "bash", "-c", f"sleep {number} & echo up; sleep {number}"]) as process:
        assert process.stdout and process.stdout.readline() == "up\n"
        subprocess.run(["kill", f"-{signal_name}", str(process.pid)], check=True)
        assert process.wait(100) != 0
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=60)  # ends when the last holder of its output does
    assert not daemon_left(world, number)


def test_a_cage_that_is_ended_while_it_is_built_leaves_nothing(world: World) -> None:
    """Bubblewrap's child waits for a word from bubblewrap, which must not be ended before it."""
    number = 250000 + os.getpid()
    for moment in range(40):
        with world.start([str(world.sbox), "sleep", str(number)]) as process:
            time.sleep(moment / 1000)
            process.terminate()
            process.communicate(timeout=100)
    assert not daemon_left(world, number)


def test_sbox_ends_no_process_of_the_host(world: World) -> None:
    """The script learns from a pipe which process to end; what bubblewrap keeps of it inside can be written to."""
    with world.start(["sleep", "600"]) as victim:
        code = f"for f in /proc/1/fd/*; do echo '{{ \"child-pid\": {victim.pid} }}' >$f; done 2>/dev/null; echo up; sleep 600"
        with world.start([str(world.sbox), "bash", "-c", code]) as cage:
            assert cage.stdout
            while (line := cage.stdout.readline()) != "up\n":
                assert line
            time.sleep(0.3)  # for the script to read what was written
            cage.terminate()
            cage.communicate(timeout=100)
        alive = victim.poll() is None
        victim.kill()
    assert alive, "sbox ended a process that the cage named"


def test_nothing_outlives_the_caller(world: World) -> None:
    number = 300000 + os.getpid()
    with world.start(["bash", "-c", f'"$0" bash -c "echo up; sleep {number}" & wait', str(world.sbox)]) as caller:
        assert caller.stdout and caller.stdout.readline() == "up\n"
        caller.kill()
        caller.wait(100)
        caller.communicate(timeout=100)
    assert not daemon_left(world, number)
