"""The system calls refused in the cage, and the classic BPF program that refuses them.

`python3 cage/sbox_seccomp.py` prints the programs as `sbox` holds them: one string of octal bytes for each machine,
eight bytes an instruction (`struct sock_filter`, little-endian).
"""

from __future__ import annotations

import struct

EPERM, EAFNOSUPPORT, ENOSYS = 1, 97, 38

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # AUDIT_ARCH_*

# name: (number on x86_64, number on aarch64); None where the machine has no such call
KEYRING = {"add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219)}
KERNEL_SURFACE = {
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "open_by_handle_at": (304, 265),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "acct": (163, 89),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "quotactl": (179, 60),
    "lookup_dcookie": (212, 18),
    "syslog": (103, 116),
    "iopl": (172, None),
    "ioperm": (173, None),
}
MOUNTS = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "setns": (308, 268),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
}
# Refused as if the kernel were older, so that programs fall back: io_uring opens sockets behind the socket rule, and
# clone3 hides its flags in memory, where a filter cannot read them.
UNKNOWN = {
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "clone3": (435, 435),
}
SOCKET, IOCTL, CLONE, UNSHARE = (41, 198), (16, 29), (56, 220), (272, 97)
SETRLIMIT, PRLIMIT = (160, 164), (302, 261)
SOCKET_FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK
# TIOCSTI and TIOCLINUX type into the caller's terminal; TIOCSETD has the kernel load line disciplines of modems.
TERMINAL_IOCTLS = (0x5412, 0x541C, 0x5423)
CLONE_NEWUSER = 0x10000000
# Where core_pattern names a program, the kernel starts it for a crash, outside and as root, at any limit but 1. So the
# limit stays there, and who sets another for itself is told that it was done.
RLIMIT_CORE = 4
X32_BIT = 0x40000000

LOAD, JUMP_EQUAL, JUMP_NOT_BELOW, JUMP_ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER, ARCH, ARG0, ARG1, ARG2 = 0, 4, 16, 24, 32  # offsets in seccomp_data; the low half of an argument comes first
ALLOW, ERRNO = 0x7FFF0000, 0x00050000

Instruction = tuple[int, int, int, int]


def program(machine: str) -> list[Instruction]:
    """Return the filter for one machine as (code, jump if true, jump if false, k)."""
    column = list(ARCHITECTURES).index(machine)

    def refuse(error: int) -> Instruction:
        return (RETURN, 0, 0, ERRNO | error)

    def when(number: tuple[int | None, int | None], body: list[Instruction]) -> list[Instruction]:
        """Run `body` for one system call; it must end in a return."""
        if number[column] is None:
            return []
        return [(JUMP_EQUAL, 0, len(body), number[column] or 0), *body]

    def argument(
        offset: int, code: int, values: tuple[int, ...], hit: Instruction, miss: Instruction
    ) -> list[Instruction]:
        """Return `hit` when the low half of the argument meets one of `values`, else `miss`."""
        tests = [(code, len(values) - place, 0, value) for place, value in enumerate(values)]
        return [(LOAD, 0, 0, offset), *tests, miss, hit]

    allow: Instruction = (RETURN, 0, 0, ALLOW)
    out = [(LOAD, 0, 0, ARCH), (JUMP_EQUAL, 1, 0, ARCHITECTURES[machine]), refuse(ENOSYS), (LOAD, 0, 0, NUMBER)]
    if machine == "x86_64":
        out += [(JUMP_NOT_BELOW, 0, 1, X32_BIT), refuse(ENOSYS)]
    out += when(SOCKET, argument(ARG0, JUMP_EQUAL, SOCKET_FAMILIES, allow, refuse(EAFNOSUPPORT)))
    out += when(IOCTL, argument(ARG1, JUMP_EQUAL, TERMINAL_IOCTLS, refuse(EPERM), allow))
    for number in (CLONE, UNSHARE):
        out += when(number, argument(ARG0, JUMP_ANY_BIT, (CLONE_NEWUSER,), refuse(EPERM), allow))
    done = refuse(0)
    out += when(SETRLIMIT, argument(ARG0, JUMP_EQUAL, (RLIMIT_CORE,), done, allow))
    for_cores = [(LOAD, 0, 0, ARG1), (JUMP_EQUAL, 0, 8, RLIMIT_CORE)]
    reads_only = [(LOAD, 0, 0, ARG2), (JUMP_EQUAL, 0, 2, 0), (LOAD, 0, 0, ARG2 + 4), (JUMP_EQUAL, 4, 0, 0)]
    by_number = [(LOAD, 0, 0, ARG0), (JUMP_EQUAL, 0, 1, 0)]  # of another process
    out += when(PRLIMIT, [*for_cores, *reads_only, *by_number, done, refuse(EPERM), allow])
    for call in UNKNOWN.values():
        out += when(call, [refuse(ENOSYS)])
    for refused in [*KEYRING.values(), *KERNEL_SURFACE.values(), *MOUNTS.values()]:
        out += when(refused, [refuse(EPERM)])
    return [*out, allow]


def octal(machine: str) -> str:
    """Return the program's bytes as `\\ooo` escapes, which printf of a shell and C read alike."""
    raw = b"".join(struct.pack("<HBBI", code, yes, no, k) for code, yes, no, k in program(machine))
    return "".join(f"\\{byte:03o}" for byte in raw)


def lines(machine: str, width: int = 28) -> list[str]:
    """Return `octal` in pieces of `width` bytes, as they stand in the source."""
    text = octal(machine)
    return [text[i : i + 4 * width] for i in range(0, len(text), 4 * width)]


if __name__ == "__main__":
    for name in ARCHITECTURES:
        print(name, *lines(name), sep="\n")
