"""A crash in the cage starts nothing outside: the kernel starts what core_pattern names at every limit but 1."""

from __future__ import annotations

import os

import pytest

from tests.cage.sbox.test_attacks import py
from tests.cage.sbox.world import World

CHANGES = {
    "by the C library": "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))",
    "of another by number": "subprocess.run(['prlimit', '--pid', str(os.getpid()), '--core=0'])",
    "by the old call": "ctypes.CDLL(None).syscall({'x86_64': 160, 'aarch64': 164}[os.uname().machine], 4, bytes(16))",
    "by a shell": "subprocess.run(['bash', '-c', 'ulimit -c 0 && prlimit --core=0 true'], check=True)",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_no_program_outside_is_started_for_a_crash(world: World, change: str) -> None:
    code = py(
        f"import ctypes, os, resource, subprocess; {change}; print(*resource.getrlimit(resource.RLIMIT_CORE));"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    done = world.caged("bash", "-c", code)
    assert (done.returncode, done.stdout) == (0, "1 1\n64 64\n"), done


def test_a_crash_leaves_no_core(world: World) -> None:
    done = world.caged("bash", "-c", "ulimit -c unlimited; kill -SEGV $$")
    assert done.returncode == 139 and not os.listdir(world.projects)
