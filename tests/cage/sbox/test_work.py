"""What must go on working in the cage: a day's work as a table, and the ways in and out of a command."""
# ruff: noqa: E501  a row of a table is one line

from __future__ import annotations

import importlib
import os
import pty
import select
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cage.sbox.world import World

LONG = bool(os.environ.get("SLACK_GATE_LONG"))


def py(code: str) -> str:
    return f"/usr/bin/python3 -c {shlex.quote(code)}"


# Run by bash -eu in a fresh directory under ~/projects; $TOP is the directory of the test under /tmp.
WORK = {
    "write and read in the project": "echo x >f && grep -q x f",
    "write and read in /tmp": 'd=$(mktemp -d) && echo x >"$d/f" && grep -q x "$d/f" && rm -r "$d"',
    "write and read in the cache": 'mkdir -p ~/.cache/new && echo x >~/.cache/new/f && grep -q x ~/.cache/new/f',
    "read what was downloaded before": "grep -q downloaded ~/.cache/tool/data",
    "read a plain file of the home": "grep -q plain ~/plain/notes",
    "run a program of ~/.local/bin": '[ "$(~/.local/bin/hello)" = hello ]',
    "find ~/.ssh there and empty": '[ -d ~/.ssh ] && [ -z "$(ls -A ~/.ssh)" ]',
    "read the system": "grep -q root /etc/passwd && ls /usr/bin >/dev/null && id -un >/dev/null",
    "use the null device": "echo x >/dev/null && ! read -r line </dev/null",
    "use random numbers": "[ $(head -c 32 /dev/urandom | wc -c) = 32 ]",
    "use a full device": "! echo x 2>/dev/null >/dev/full",
    "use shared memory": py("from multiprocessing import shared_memory as m; s=m.SharedMemory(create=True,size=64); s.buf[0]=1; s.unlink()"),
    "use semaphores": py("import multiprocessing as m; s=m.Semaphore(1); s.acquire()"),
    "start processes by fork": py("import multiprocessing as m; p=m.get_context('fork').Pool(2); assert p.map(abs,[-1,-2])==[1,2]; p.close()"),
    "hand descriptors to processes": py(
        "import socket,os; a,b=socket.socketpair(socket.AF_UNIX); r,w=os.pipe(); socket.send_fds(a,[b'x'],[w]);"
        "f=socket.recv_fds(b,9,1)[1][0]; os.write(f,b'y'); assert os.read(r,1)==b'y'"
    ),
    "run an event loop": py("import asyncio; asyncio.run(asyncio.sleep(0))"),
    "run a program from an event loop": py(
        "import asyncio\nasync def m():\n p=await asyncio.create_subprocess_exec('echo','x',stdout=-1)\n assert (await p.communicate())[0]==b'x\\n'\nasyncio.run(m())"
    ),
    "serve on the loopback": py(
        "import socket; s=socket.create_server(('127.0.0.1',0)); c=socket.create_connection(s.getsockname()); s.accept()[0].send(b'x'); assert c.recv(1)==b'x'"
    ),
    "serve on IPv6 loopback": py("import socket; s=socket.create_server(('::1',0),family=socket.AF_INET6); socket.create_connection(s.getsockname()[:2])"),
    "serve on a Unix socket": py(
        "import socket; s=socket.socket(socket.AF_UNIX); s.bind('s'); s.listen(); c=socket.socket(socket.AF_UNIX); c.connect('s'); s.accept()[0].send(b'x'); assert c.recv(1)==b'x'"
    ),
    "serve on a Unix socket in /tmp": py(
        "import socket,tempfile; d=tempfile.TemporaryDirectory(); p=d.name+'/s'; s=socket.socket(socket.AF_UNIX); s.bind(p); s.listen(); socket.socket(socket.AF_UNIX).connect(p)"
    ),
    "list network interfaces": py("import socket; assert 'lo' in dict(map(reversed,socket.if_nameindex()))"),
    "look up localhost, where the system knows it": "! grep -qs localhost /etc/hosts || " + py("import socket; assert socket.gethostbyname('localhost')=='127.0.0.1'"),
    "use a FIFO": "mkfifo p && { echo x >p & } && grep -q x p",
    "lock a file": "exec 7>l && flock 7",
    "map a file": py("import mmap; f=open('m','w+b'); f.truncate(4096); mmap.mmap(f.fileno(),0)[0:1]=b'x'"),
    "use threads": py("import threading; t=threading.Thread(target=print); t.start(); t.join()"),
    "use a database file": py("import sqlite3; c=sqlite3.connect('d'); c.execute('pragma journal_mode=wal'); c.execute('create table t(a)'); c.commit()"),
    "make a virtual environment": "/usr/bin/python3 -m venv --without-pip v && v/bin/python -c 'import sys; assert sys.prefix != sys.base_prefix'",
    "compile Python": "echo 'x = 1' >m.py && /usr/bin/python3 -m compileall -q m.py && ls __pycache__/*.pyc >/dev/null",
    "run a test suite": "printf 'import unittest\\nclass T(unittest.TestCase):\\n def test(self): self.assertTrue(True)\\n' >test_a.py && /usr/bin/python3 -m unittest -q",
    "read the clock and the time zone": '[ "$(TZ=Asia/Tokyo date +%Z)" = JST ] && date -Ins >/dev/null',
    "keep UTF-8 names": "echo x >'naïve – 名前' && ls | grep -q 名前",
    "keep names that are not UTF-8": "echo x >$'\\xff' && [ -e $'\\xff' ]",
    "rename between directories": "mkdir a b && echo x >a/f && mv a/f b/ && [ -e b/f ]",
    "link hard between directories": "mkdir a b && echo x >a/f && ln a/f b/g && [ a/f -ef b/g ]",
    "rename by the system call between repositories": "git init -q r && git init -q s && echo x >r/f && " + py("import os; os.rename('r/f','s/f')"),
    "change modes and times": "echo x >f && chmod 640 f && touch -d @86400 f && [ $(stat -c %a.%Y f) = 640.86400 ]",
    "set attributes": py("import os; open('f','w'); os.setxattr('f','user.x',b'y'); assert os.getxattr('f','user.x')==b'y'"),
    "edit in place": "echo a >f && sed -i s/a/b/ f && grep -q b f",
    "pack and unpack": "mkdir d && echo x >d/f && tar czf t.tgz d && rm -r d && tar xzf t.tgz && grep -q x d/f",
    "sort a large file": "seq 200000 | sort -R | sort -n | tail -1 | grep -qx 200000",
    "run a long pipe": "yes | head -c 3000000 | cat | cat | cat | wc -c | grep -qx 3000000",
    "run many arguments": "seq 20000 | xargs echo | wc -w | grep -qx 20000",
    "see its own processes": "ps -e -o comm= | grep -q bash && [ -d /proc/self/task ]",
    "limit a program's time": "! timeout 0.1 sleep 5",
    "trace a program": "! command -v strace >/dev/null || strace -o t true",
    "run a job in the background": "sleep 0.05 & wait $!",
    "use a here document": "cat >f <<'X'\na\nX\ngrep -q a f",
    "use a pseudo-terminal": "script -qec 'test -t 1' /dev/null >/dev/null",
    "watch a directory": py("import ctypes; c=ctypes.CDLL(None); assert c.inotify_add_watch(c.inotify_init(),b'.',256)>0"),
    "compile C": "! command -v cc >/dev/null || { echo 'int main(){return 0;}' >a.c && cc a.c -o a && ./a; }",
    "run make": "! command -v make >/dev/null || { printf 'all:\\n\\t@echo made\\n' >Makefile && make | grep -q made; }",
    "run perl": "! command -v perl >/dev/null || perl -e 'exit 0'",
    "make a repository and commit": "git init -q r && cd r && echo x >f && git add f && git commit -qm x && git log --oneline | grep -q x",
    "set an option of a repository made here": "git init -q r && cd r && git config user.name Other && [ $(git config user.name) = Other ]",
    "know who commits": '[ "$(git config user.email)" = t@example.org ]',
}  # fmt: skip

# Run in a repository that existed before the cage, with one commit on main and a second branch.
GIT = {
    "status": "git status --porcelain",
    "commit": "echo y >>file && git commit -qam y",
    "amend": "git commit -q --amend -m z",
    "branch and switch": "git switch -q -c new && git switch -q main",
    "merge": "git merge -q other -m m && [ -e second ]",
    "rebase": "echo y >third && git add third && git commit -qm y && git rebase -q other",
    "cherry-pick": "git cherry-pick other >/dev/null",
    "stash": "echo y >>file && git stash -q && git stash pop -q",
    "tag": "git tag -a v1 -m v1 && git describe | grep -q v1",
    "reset": "echo y >>file && git reset -q --hard && ! grep -q y file",
    "diff": "echo y >>file && git diff | grep -q +y",
    "log": "git log --stat | grep -q file",
    "blame": "git blame file >/dev/null",
    "a linked worktree": "git worktree add -q ../w$$ other && cd ../w$$ && echo y >f && git add f && git commit -qm y && cd - >/dev/null && git worktree remove ../w$$",
    "clone": "git clone -q . ../c$$ && cd ../c$$ && git log --oneline | grep -q one",
    "fetch from a clone": "git clone -q . ../c$$ && (cd ../c$$ && echo y >f && git add f && git commit -qm y) && git fetch -q ../c$$ main",
    "collect garbage": "git gc -q && git fsck",
    "check out a branch": "git checkout -q other && git checkout -q -",
    "apply a patch": "git format-patch -q --stdout other~1..other >p && git apply p && [ -e second ]",
    "bisect": "git bisect start && git bisect bad && git bisect reset",
    "clean": "touch junk && git clean -fdq && [ ! -e junk ]",
    "archive": "git archive HEAD | tar t | grep -q file",
    "ignore": "echo '*.o' >.gitignore && touch a.o && ! git status --porcelain | grep -q a.o",
}


WHEEL = (
    "import zipfile; z=zipfile.ZipFile('made-1.0-py3-none-any.whl','w'); i='made-1.0.dist-info/'; z.writestr('made.py','answer=42\\n');"
    "z.writestr(i+'METADATA','Metadata-Version: 2.1\\nName: made\\nVersion: 1.0\\n'); z.writestr(i+'RECORD','');"
    "z.writestr(i+'WHEEL','Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')"
)
# Programs that a machine may not have; $PYTEST is where the pytest is that runs here.
TOOLS = {
    "install a package offline with pip": ("pip3", f"{py(WHEEL)} && pip3 install -q --no-index --target t ./made-1.0-py3-none-any.whl && PYTHONPATH=t /usr/bin/python3 -c 'import made'"),
    "install a package offline with uv": ("uv", f"{py(WHEEL)} && uv venv -q --offline v && uv pip install -q --offline --python v/bin/python ./made-1.0-py3-none-any.whl && v/bin/python -c 'import made'"),
    "run tests with pytest": ("bash", "echo 'def test_a(tmp_path): assert not list(tmp_path.iterdir())' >test_a.py && PYTHONPATH=\"$PYTEST\" /usr/bin/python3 -m pytest -q -p no:cacheprovider test_a.py"),
    "pack with npm": ("npm", "echo '{\"name\":\"x\",\"version\":\"1.0.0\"}' >package.json && npm pack --offline >out 2>&1 && [ -e x-1.0.0.tgz ]"),
    "run a worker of node": ("node", "node -e 'new (require(\"worker_threads\").Worker)(\"require(\\\"fs\\\").writeFileSync(\\\"w\\\",\\\"x\\\")\",{eval:true})' && [ -e w ]"),
    "link a shared library": ("gcc", "echo 'int f(){return 7;}' >l.c && gcc -shared -fPIC -o l.so l.c && " + py("import ctypes; assert ctypes.CDLL('./l.so').f()==7")),
    "debug what it started": ("strace", "strace -f -o t sh -c 'true & wait' && grep -q exited t"),
    "know the locales": ("locale", "[ $(LC_ALL=C.UTF-8 locale charmap) = UTF-8 ] && LC_ALL=C.UTF-8 sort <<<$'b\\na' | head -1 | grep -qx a"),
    "find with many matches": ("find", "mkdir -p d/{1..50}/{1..20} && [ $(find d -type d | wc -l) = 1051 ] && rm -r d"),
    "watch the time": ("timeout", "timeout -s INT 5 sleep 0.01 && ! timeout 0.05 sleep 9"),
}  # fmt: skip


@pytest.fixture(scope="session")
def pytest_for_all(tools: Path) -> Path:
    """The pytest that runs here, where every user can read it: the clone may lie in root's own home."""
    directory = tools / "pytest"
    for name in ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"):
        shutil.copytree(Path(str(importlib.import_module(name).__file__)).parent, directory / name)
    shutil.copy(Path(pytest.__file__).parents[1] / "py.py", directory)
    subprocess.run(["chmod", "-R", "a+rX", directory], check=True)
    return directory


@pytest.mark.parametrize("program,code", TOOLS.values(), ids=TOOLS.keys())
def test_tools_of_the_trade(world: World, place: Path, pytest_for_all: Path, program: str, code: str) -> None:
    if not shutil.which(program, path="/usr/local/bin:/usr/bin:/bin"):
        pytest.skip(f"{program} is not installed")
    works(world, f"PYTEST={pytest_for_all}; {code}", place, timeout=100)


@pytest.fixture
def place(world: World) -> Path:
    path = Path(tempfile.mkdtemp(dir=world.projects))
    world.give(path)
    return path


def works(world: World, code: str, where: Path, **options: object) -> None:
    done = world.caged("/bin/bash", "-euc", code, cwd=where, **options)
    assert done.returncode == 0, done


@pytest.mark.parametrize("code", WORK.values(), ids=WORK.keys())
def test_a_day_of_work(world: World, place: Path, code: str) -> None:
    works(world, code, place)


@pytest.mark.parametrize("code", GIT.values(), ids=GIT.keys())
def test_git_in_a_repository_that_was_there(world: World, place: Path, code: str) -> None:
    repository = world.repository(place.name + "/r")
    second = "git switch -q -c other; echo two >second; git add second; git commit -qm two; git switch -q main"
    assert world.bare("bash", "-ec", second, cwd=repository).returncode == 0
    works(world, code, repository)
    assert world.bare("git", "fsck", cwd=repository).returncode == 0


METHODS = ["fork", "spawn", "forkserver"]


@pytest.mark.parametrize("method", METHODS)
def test_multiprocessing(world: World, place: Path, method: str) -> None:
    (place / "work.py").write_text(
        "import multiprocessing as m, os\n"
        "def double(x):\n    return 2 * x\n"
        "if __name__ == '__main__':\n"
        f"    c = m.get_context('{method}')\n"
        "    with c.Pool(2) as p:\n        assert p.map(double, [1, 2]) == [2, 4]\n"
        "    with c.Manager() as g:\n        d = g.dict(a=1)\n        assert d['a'] == 1\n"
    )
    works(world, "/usr/bin/python3 work.py", place)


def test_a_file_handed_over_in_tmp(world: World, place: Path) -> None:
    common = world.top / "common" / place.name
    common.mkdir()
    (common / "in").write_text("from outside")
    world.give(common)
    works(world, f'grep -q outside "{common}/in" && echo inside >"{common}/out"', place)
    assert (common / "out").read_text() == "inside\n"


def test_the_cache_lasts_from_cage_to_cage(world: World, place: Path) -> None:
    works(world, f"echo kept >~/.cache/{place.name}; echo changed >~/.cache/extra-{place.name}", place)
    works(world, f"grep -q kept ~/.cache/{place.name}", place)
    assert not (world.home / ".cache" / place.name).exists()


@pytest.mark.parametrize("code", [0, 1, 2, 77, 124, 125, 126, 127, 128, 137, 255])
def test_exit_codes(world: World, code: int) -> None:
    assert world.caged("sh", "-c", f"exit {code}").returncode == code


@pytest.mark.parametrize("name", ["TERM", "KILL", "SEGV", "PIPE", "USR1"])
def test_a_command_ended_by_a_signal(world: World, name: str) -> None:
    number = signal.Signals[f"SIG{name}"].value
    assert world.caged("bash", "-c", f"kill -{name} $$").returncode == 128 + number


def test_a_command_in_a_session_of_its_own_is_waited_for(world: World) -> None:
    done = world.caged("setsid", "sh", "-c", "sleep 0.2; echo done; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, "done\n", "")


def test_a_caller_that_ignores_the_end_of_children(world: World) -> None:
    code = "import os,signal,sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    done = world.bare("/usr/bin/python3", "-c", code, str(world.sbox), "sh", "-c", "sh -c true; exit 6")
    assert (done.returncode, done.stderr) == (6, "")


def test_not_found_and_not_runnable(world: World, place: Path) -> None:
    (place / "plain").write_text("x")
    (place / "bad").write_text("#!/nonexistent/program\n")
    (place / "bad").chmod(0o755)
    for command, code in (("no-such-program", 127), ("./none", 127), ("./plain", 126), ("/etc", 126)):
        done = world.caged(command, cwd=place)
        assert (done.returncode, done.stdout) == (code, ""), (command, done)
        assert done.stderr.startswith("sbox: ") and len(done.stderr.splitlines()) == 1, done.stderr
    assert world.caged("./bad", cwd=place).returncode in (126, 127)  # shells differ


def test_a_script_without_an_interpreter_line(world: World, place: Path) -> None:
    (place / "s").write_text("echo ran\n")
    (place / "s").chmod(0o755)
    assert world.caged("./s", cwd=place).stdout == "ran\n"


ARGUMENTS = [
    [""], ["a b", "c"], ["line\nbreak"], ["-x", "--", "--bind"], ["*", "$HOME", "`id`", "'", '"', "\\"], ["é名"], ["x" * 131071], ["a"] * 9500,
]  # fmt: skip


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=lambda a: repr(a[0][:9]) + f"x{len(a)}")
def test_arguments_arrive_unchanged(world: World, arguments: list[str]) -> None:
    show = "import sys,json; print(json.dumps(sys.argv[1:]))"
    done = world.caged("/usr/bin/python3", "-c", show, *arguments)
    assert done.stdout == world.bare("/usr/bin/python3", "-c", show, *arguments).stdout != "", done.stderr[-300:]


def test_an_argument_that_is_too_long_is_refused_with_a_reason(world: World) -> None:
    with pytest.raises(OSError, match="Argument list too long"):
        world.caged("echo", "x" * 131072)


def test_standard_input_and_output_pass_bytes(world: World) -> None:
    data = bytes(range(256)) * 4096
    done = world.start([str(world.sbox), "cat"], stdin=subprocess.PIPE, text=False, errors=None)
    out, err = done.communicate(data, 100)  # type: ignore[arg-type]
    assert out == data and not err  # type: ignore[comparison-overlap]


def test_both_streams_keep_their_order(world: World) -> None:
    done = world.caged("sh", "-c", "for i in 1 2 3; do echo o$i; echo e$i >&2; done", stderr=subprocess.STDOUT)
    assert done.stdout.split() == ["o1", "e1", "o2", "e2", "o3", "e3"]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_does_no_harm(world: World, place: Path, closed: str) -> None:
    world.bare("sh", "-c", f'"$0" sh -c "echo x >f" {closed}', str(world.sbox), cwd=place)
    assert (place / "f").read_text() == "x\n"


def test_a_reader_that_goes_away_ends_the_command(world: World) -> None:
    assert world.bare("bash", "-c", '"$0" yes | head -1', str(world.sbox)).stdout == "y\n"


def test_much_output(world: World) -> None:
    size = 1 << 30 if LONG else 1 << 25
    done = world.bare("bash", "-c", f'"$0" head -c {size} /dev/zero | wc -c', str(world.sbox), timeout=100)
    assert done.stdout.strip() == str(size)


def test_much_on_standard_error(world: World) -> None:
    done = world.caged("sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x >&2")
    assert done.stderr == "x" * 3000000


@pytest.mark.parametrize("where", ["projects", "top", "outside", "root", "etc"])
def test_the_working_directory_stays(world: World, where: str) -> None:
    path = {
        "projects": world.projects,
        "top": world.top,
        "outside": world.outside,
        "root": Path("/"),
        "etc": Path("/etc"),
    }[where]
    assert world.caged("pwd", "-P", cwd=path).stdout == f"{path}\n"
    assert world.caged("/usr/bin/python3", "-c", "import os; print(os.environ['PWD'])", cwd=path).stdout == f"{path}\n"


@pytest.mark.parametrize("depth", [20, 60])
def test_a_deep_working_directory(world: World, depth: int) -> None:
    where = world.projects.joinpath(*["d"] * depth)
    where.mkdir(parents=True)
    world.give(world.projects / "d")
    done = world.caged("pwd", cwd=where)
    assert (done.returncode, done.stdout) == (0, f"{where}\n"), done


def test_a_hidden_working_directory_is_refused(world: World) -> None:
    done = world.caged("touch", "marker", cwd=world.home / ".aws")
    assert done.returncode == 125 and "does not exist in the cage" in done.stderr
    assert not (world.home / ".aws/marker").exists()


def test_a_directory_of_another_owner_is_left_alone(world: World) -> None:
    """Repositories below a directory that nobody here may write, which is none itself."""
    place = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        subprocess.run(["git", "init", "-q", place / "repo"], check=True)
        if world.uid == os.geteuid() == 0:
            os.chown(place, 1, 1)
            os.chown(place / "repo", 1, 1)
        (place / "repo/README").write_text("read me\n")
        place.chmod(0o755)
        before = [(p.name, p.stat().st_mode, p.stat().st_mtime_ns) for p in [place, *sorted(place.rglob("*"))]]
        assert world.caged("ls", cwd=place).stdout == "repo\n"
        assert world.caged("cat", "repo/README", cwd=place).stdout == "read me\n"
        assert before == [(p.name, p.stat().st_mode, p.stat().st_mtime_ns) for p in [place, *sorted(place.rglob("*"))]]
    finally:
        shutil.rmtree(place)


def test_git_variables_of_the_caller_stay_outside(world: World, place: Path) -> None:
    """A caller inside a git hook has GIT_DIR set; a git in the cage must not touch that repository."""
    outer = world.repository(place.name + "-outer")
    before = (outer / ".git/index").read_bytes()
    names = {"GIT_DIR": f"{outer}/.git", "GIT_INDEX_FILE": f"{outer}/.git/index", "GIT_WORK_TREE": str(outer)}
    done = world.caged("bash", "-ec", "git init -q; touch f; git add -A", cwd=place, env=world.environment(names))
    assert done.returncode == 0 and (place / ".git/index").exists()
    assert (outer / ".git/index").read_bytes() == before
    named = subprocess.run(["git", "rev-parse", "--local-env-vars"], capture_output=True, text=True, check=True)
    more = "GIT_EXTERNAL_DIFF GIT_SSH GIT_SSH_COMMAND GIT_PAGER GIT_EDITOR GIT_ASKPASS GIT_EXEC_PATH"
    every = dict.fromkeys([*named.stdout.split(), *more.split()], "/x")
    assert "GIT_INDEX_FILE" in every
    assert "GIT_" not in world.caged("/usr/bin/env", env=world.environment(every)).stdout


def test_variables_that_are_passed_on(world: World) -> None:
    wanted = {
        "VIRTUAL_ENV": "/v", "CUDA_VISIBLE_DEVICES": "0", "JAVA_HOME": "/j", "NODE_ENV": "test", "PYTHONPATH": "/p", "CI": "1",
        "LC_ALL": "C.UTF-8", "TERM": "dumb", "TZ": "UTC", "LANG": "C.UTF-8", "USER": "u",
    }  # fmt: skip
    shown = world.caged("env", env=world.environment(wanted)).stdout.splitlines()
    assert [f"{name}={value}" for name, value in wanted.items() if f"{name}={value}" not in shown] == []


def test_no_litter(world: World) -> None:
    repository = world.repository(f"litter-{world.sbox.name}-{world.uid}")
    before = sorted(str(p) for p in repository.rglob("*"))
    world.caged("true", cwd=repository)
    world.caged("false", cwd=repository)
    assert sorted(str(p) for p in repository.rglob("*")) == before
    assert not list((world.home / ".local/state/sbox").glob("run.*"))


def test_many_cages_at_once(world: World, place: Path) -> None:
    count = 50
    cages = [
        world.start([str(world.sbox), "sh", "-c", f"echo {n} >~/.cache/many-{n} && cat ~/.cache/many-{n} && grep -q d ~/.cache/tool/data"], cwd=place)
        for n in range(count)
    ]  # fmt: skip
    ends = [(*cage.communicate(timeout=100), cage.returncode) for cage in cages]
    assert ends == [(f"{n}\n", "", 0) for n in range(count)]


def on_a_terminal(world: World, argv: list[str], talk: Callable[[int], None]) -> int:
    """Run `argv` as the user on a new terminal and return its exit code; `talk` gets our end."""
    child, terminal = pty.fork()
    if child == 0:
        if world.uid != os.geteuid():
            os.setgroups([])
            os.setresgid(world.uid, world.uid, world.uid)
            os.setresuid(world.uid, world.uid, world.uid)
        os.chdir(world.projects)
        os.execve(argv[0], argv, world.environment())
    try:
        talk(terminal)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        os.close(terminal)


def read_until(terminal: int, words: bytes, limit: float = 60) -> bytes:
    seen, end = b"", time.monotonic() + limit
    while words not in seen:
        assert select.select([terminal], [], [], max(0, end - time.monotonic()))[0], f"{words!r} did not come: {seen!r}"
        seen += os.read(terminal, 65536)
    return seen


def test_a_terminal_with_its_size(world: World) -> None:
    def talk(terminal: int) -> None:
        import fcntl
        import struct
        import termios

        read_until(terminal, b"ready")
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 99, 0, 0))
        os.write(terminal, b"\n")
        read_until(terminal, b"33 99")

    assert (
        on_a_terminal(world, [str(world.sbox), "sh", "-c", "test -t 0 && echo ready && read x && stty size"], talk) == 0
    )


def test_control_c_is_for_the_command(world: World) -> None:
    def talk(terminal: int) -> None:
        read_until(terminal, b"ready")
        os.write(terminal, b"\x03")
        read_until(terminal, b"caught")

    code = "import time\ntry:\n print('ready',flush=True); time.sleep(30)\nexcept KeyboardInterrupt:\n print('caught',flush=True); raise SystemExit(7)"
    assert on_a_terminal(world, [str(world.sbox), "/usr/bin/python3", "-c", code], talk) == 7


def test_control_c_ends_all_of_a_command_that_sees_no_terminal(world: World) -> None:
    def talk(terminal: int) -> None:
        read_until(terminal, b"ready")
        os.write(terminal, b"\x03")
        read_until(terminal, b"code 130")

    code = (
        'trap : INT; "$0" bash -c "echo ready; sleep 30; true" </dev/null > >(trap "" INT; exec cat) 2>&1; echo code $?'
    )
    assert on_a_terminal(world, ["/bin/bash", "-c", code, str(world.sbox)], talk) == 0


def test_job_control_in_a_shell(world: World) -> None:
    def talk(terminal: int) -> None:
        read_until(terminal, b"bash-")  # its prompt: what is typed before may be thrown away
        os.write(terminal, b"echo $((6 * 7)); sleep 600\n")
        read_until(terminal, b"42")
        seen = b""
        for _ in range(60):  # nothing tells when the shell has put its job in the foreground; it does not stop itself
            os.write(terminal, b"\x1a")
            while b"Stopped" not in seen and select.select([terminal], [], [], 1)[0]:
                seen += os.read(terminal, 65536)
            if b"Stopped" in seen:
                break
        assert b"Stopped" in seen, seen
        os.write(terminal, b"kill %1; exit 4\n")
        os.write(terminal, b"exit 4\n")

    assert on_a_terminal(world, [str(world.sbox), "bash", "--norc", "-i"], talk) == 4


GPUS = """
mount --make-rprivate /; mkdir -p "$1"; mount -t tmpfs none "$1"; cd "$1"; mkdir dri pts shm nvidia-caps
node() { mknod -m 666 "$1" c "$2" "$3"; }
node null 1 3; node zero 1 5; node full 1 7; node random 1 8; node urandom 1 9; node tty 5 0
for n in nvidia0 nvidia1 nvidiactl nvidia-uvm nvidia-uvm-tools dri/renderD128 dxg kfd; do node $n 1 5; done
for n in nvidia-modeset dri/card0 vda kmsg; do node $n 1 5; done
cd /; mount --move "$1" /dev
exec "$2" bash -c 'cd /dev; ls -d nvidia* dri/* dxg kfd vda kmsg 2>/dev/null | tr "\\n" " "; head -c 3 nvidia0 dri/renderD128 | wc -c'
"""


def test_the_nodes_of_gpus_are_passed_on(world: World) -> None:
    if world.uid != 0:
        pytest.skip("only root can make devices")
    done = world.bare("unshare", "-m", "bash", "-ec", GPUS, "gpus", str(world.outside / "dev"), str(world.sbox))
    shown, _, size = done.stdout.strip().rpartition(" ")
    expected = "dri/renderD128 dxg kfd nvidia-uvm nvidia-uvm-tools nvidia0 nvidia1 nvidiactl"
    assert sorted(name for name in shown.split() if name != "nvidia-caps") == expected.split(), done
    assert int(size) > 6, done


@pytest.fixture(scope="module")
def postgres() -> Iterator[Path]:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip("PostgreSQL is not installed")
    yield found[-1].parent


def test_a_database_server(world: World, place: Path, postgres: Path) -> None:
    if world.uid == 0:
        pytest.skip("PostgreSQL refuses to run as root")
    code = (
        f"export PATH={postgres}:$PATH USER=u; initdb -D d -U u -A trust >/dev/null && pg_ctl -D d -o \"-k /tmp -h ''\" -l log -w start >/dev/null "
        "&& psql -h /tmp -U u -Atc 'select 6*7' postgres | grep -qx 42; r=$?; pg_ctl -D d -m immediate stop >/dev/null; exit $r"
    )
    works(world, code, place, timeout=100)


def test_node(world: World, place: Path) -> None:
    if not (node := shutil.which("node", path="/usr/local/bin:/usr/bin:/bin")):
        pytest.skip("node is not installed")
    code = "require('net').createServer().listen('s',function(){require('net').connect('s').on('connect',()=>process.exit(0))})"
    works(world, f"{node} -e {shlex.quote(code)}", place)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a directory in /")
def test_a_home_named_like_a_system_directory_and_more(world: World) -> None:
    home = Path(tempfile.mkdtemp(prefix="runner-", dir="/"))
    try:
        (home / "projects").mkdir()
        world.give(home)
        done = world.caged(
            "sh", "-c", "echo done >made", env=world.environment({"HOME": str(home)}), cwd=home / "projects"
        )
        assert (done.returncode, done.stderr, (home / "projects/made").read_text()) == (0, "", "done\n")
    finally:
        shutil.rmtree(home)
