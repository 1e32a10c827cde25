"""Carries out the Dockerfile's steps in plain Debian roots, without a container engine, and tries what comes out.

    python .ci/dockerfile.py WORK      as root, with debootstrap and the network; WORK: an empty directory outside /tmp

Knows only the instructions that the Dockerfile uses and stops at any other. What it cannot show: layers, and how an
engine itself treats VOLUME, HEALTHCHECK and networks.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slack_gate.install.program import base_python
from slack_gate.local_slack import LocalSlack

CONTEXT = Path(__file__).resolve().parents[1]
STEP_S = 600
START_S = 60
ENGINE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OWNER = 12345  # the host's user of the trial
APPROVER = "U0TRIAL"
STATE = "/var/lib/slack-gate"
CA = "/run/host-ca.crt"  # where the steps see the host's bundle of certificates
CA_ENV = dict.fromkeys(("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE"), CA)
BUILD_BINDS = (("/etc/ssl/certs/ca-certificates.crt", CA, "ro"), ("/etc/resolv.conf", "/etc/resolv.conf", "ro"))
EVENT = {
    "session_id": "trial",
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "make deploy"},
    "tool_use_id": "toolu_1",
    "cwd": "/",
}

Env = Mapping[str, str]
NOTHING: Env = {}
Binds = tuple[tuple[str, str, str], ...]  # source on the host, target in the root, ro or rw


@dataclass
class Stage:
    """One FROM: its root directory, and what its instructions say about the process that will run in it."""

    root: Path
    env: dict[str, str] = field(default_factory=lambda: {"PATH": ENGINE_PATH})
    workdir: str = "/"
    user: str = "0:0"
    health: list[str] = field(default_factory=list)
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)

    def inside(self, argv: list[str], user: str = "", binds: Binds = (), env: Env = NOTHING) -> list[str]:
        """The command line of `argv` with this root as /: own mounts and process ids, no environment of the caller."""
        script = [f"cd {shlex.quote(str(self.root))}", "mount --rbind /dev dev", "mount -t proc proc proc"]
        for source, target, mode in binds:
            place = shlex.quote(f".{target}")
            make = f"mkdir -p {place}" if os.path.isdir(source) else f"touch {place}"
            script += [make, f"mount --rbind {shlex.quote(source)} {place}"]
            if mode == "ro":
                script.append(f"mount -o remount,bind,ro {place}")
        variables = [f"{name}={value}" for name, value in {**self.env, **env}.items()]
        chroot = ["chroot", f"--userspec={user or self.user}", ".", "env", "-i", *variables]
        chroot += ["sh", "-c", 'cd "$0" && exec "$@"', self.workdir, *argv]
        script.append(f"exec {shlex.join(chroot)}")
        unshare = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]
        return [*unshare, "sh", "-c", " && ".join(script)]


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """(name, rest) of each instruction, continued lines joined."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        name, _, rest = line.strip().partition(" ")
        yield name, rest.strip()


def build(work: Path) -> Stage:
    """The last stage of the Dockerfile, built."""
    base = work / "base"
    subprocess.run(["debootstrap", "--variant=minbase", "bookworm", str(base)], check=True, stdout=subprocess.DEVNULL)
    stages: dict[str, Stage] = {}
    stage: Stage | None = None
    for name, rest in instructions((CONTEXT / "Dockerfile").read_text()):
        print(f"{name} {rest}", flush=True)
        if name == "FROM":
            image, *alias = rest.split()
            assert image == "debian:bookworm-slim", "the base is not what debootstrap makes"
            stage = Stage(work / f"stage-{len(stages)}")
            subprocess.run(["cp", "-a", str(base), str(stage.root)], check=True)
            stages[alias[1] if alias else ""] = stage
        else:
            assert stage is not None, "an instruction before FROM"
            carry_out(stage, name, rest, stages)
    assert stage is not None, "the Dockerfile is empty"
    return stage


def carry_out(stage: Stage, name: str, rest: str, stages: dict[str, Stage]) -> None:
    match name:
        case "RUN":
            command = stage.inside(["/bin/sh", "-c", rest], binds=BUILD_BINDS, env=CA_ENV)
            subprocess.run(command, check=True, timeout=STEP_S, stdout=subprocess.DEVNULL)
        case "COPY":
            copy(stage, shlex.split(rest), stages)
        case "ENV":
            for word in shlex.split(rest):
                variable, _, value = word.partition("=")
                stage.env[variable] = value
        case "WORKDIR":
            stage.workdir = rest
            (stage.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        case "USER":
            stage.user = rest
        case "VOLUME":
            missing = [place for place in json.loads(rest) if not (stage.root / place.lstrip("/")).is_dir()]
            assert not missing, f"{missing} are not made by any step, so an engine would make them root's"
        case "HEALTHCHECK":
            stage.health = json.loads(rest.partition("CMD ")[2])
        case "ENTRYPOINT":
            stage.entrypoint = json.loads(rest)
        case "CMD":
            stage.command = json.loads(rest)
        case _:
            raise SystemExit(f"{name} is an instruction that this program does not know.")


def copy(stage: Stage, words: list[str], stages: dict[str, Stage]) -> None:
    options = dict(word.removeprefix("--").split("=", 1) for word in words if word.startswith("--"))
    *sources, target = [word for word in words if not word.startswith("--")]
    origin = stages[options["from"]].root if "from" in options else CONTEXT
    kept = [line[1:] for line in (CONTEXT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    to = stage.root / os.path.join(stage.workdir, target).lstrip("/")
    for source in sources:
        assert "from" in options or source.split("/")[0] in kept, f"{source} is kept out by .dockerignore"
        path = origin / source.lstrip("/")
        if path.is_dir():
            ignore = shutil.ignore_patterns("__pycache__") if "from" not in options else None
            shutil.copytree(path, to, symlinks=True, dirs_exist_ok=True, ignore=ignore)
            continue
        to.mkdir(parents=True, exist_ok=True)
        copied = Path(shutil.copy(path, to))
        if "chmod" in options:
            copied.chmod(int(options["chmod"], 8))


def try_alone(stage: Stage) -> None:
    """Help is shown, nothing is healthy, and the daemon refuses to judge files that it cannot see."""
    told = run(stage.inside([*stage.entrypoint, "--help"]))
    assert told.returncode == 0 and "Usage: slack-gate" in told.stdout, told
    sick = run(stage.inside(stage.health))
    assert sick.returncode == 1 and "no daemon answers" in sick.stdout, sick
    blind = run(stage.inside([*stage.entrypoint, *stage.command], env={"HOME": "/home/nobody"}))
    assert blind.returncode == 78 and "docs/docker.md" in blind.stderr, blind


async def try_with_a_host(stage: Stage, work: Path) -> None:
    """The run line of docs/docker.md: a hook of the host's user asks, a person clicks, the hook goes on."""
    state, home, program = work / "state", work / "home", work / "program"
    shutil.copytree(CONTEXT / "slack_gate", program / "slack_gate", ignore=shutil.ignore_patterns("__pycache__"))
    for directory in (state, home):
        directory.mkdir(mode=0o700)
        os.chown(directory, OWNER, OWNER)
    async with LocalSlack() as slack:
        person = slack.add_user(APPROVER, name="Trial")
        config = state / "config.toml"
        settings = {
            "slack_bot_token": slack.bot_token,
            "slack_app_token": slack.app_token,
            "slack_api_url": slack.api_url,
            "approvers": APPROVER,
        }
        config.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items()))
        os.chown(config, OWNER, OWNER)
        place: Binds = ((str(state), STATE, "rw"), (str(home), str(home), "ro"), ("/tmp", "/tmp", "ro"))
        owner, env = f"{OWNER}:{OWNER}", {"HOME": str(home)}
        daemon = await asyncio.create_subprocess_exec(
            *stage.inside([*stage.entrypoint, *stage.command], owner, place, env)
        )
        try:
            async with asyncio.timeout(START_S):
                while (await asked(stage.inside(stage.health, owner, place, env)))[0] != 0:
                    assert daemon.returncode is None, "the daemon did not start"
                    await asyncio.sleep(1)
            hook = [str(base_python()), "-IS", str(program / "slack_gate" / "hook.py"), "claude-code"]
            hook += ["--socket", str(state / "run" / "gate.sock")]
            async with asyncio.TaskGroup() as group:  # a hook that fails ends the wait for its card
                asking = group.create_task(asked(hook, json.dumps(EVENT)))
                card = await person.wait_for_message(lambda message: message.has_button("Approve"), START_S)
                await person.click(card, "Approve")
            code, output = asking.result()
            assert code == 0 and '"allow"' in output, (code, output)
            stop(daemon.pid, signal.SIGTERM)
            async with asyncio.timeout(START_S):
                assert await daemon.wait() == 0, "the daemon did not stop in peace"
        finally:
            if daemon.returncode is None:
                stop(daemon.pid, signal.SIGKILL)
                await daemon.wait()


def stop(unshare: int, number: int) -> None:
    """As an engine stops a container: a signal to its first process. `unshare` passes none on."""
    for child in Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split():
        os.kill(int(child), number)


async def asked(command: list[str], text: str = "") -> tuple[int | None, str]:
    """Exit code and stdout; a hook runs as the host's user, whatever starts a root of its own begins as root."""
    user = OWNER if text else None
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        user=user,
        group=user,
        extra_groups=[] if text else None,
    )
    async with asyncio.timeout(START_S):
        output, _ = await process.communicate(text.encode())
    return process.returncode, output.decode()


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=START_S)


def size(root: Path) -> int:
    """In MB."""
    return int(subprocess.run(["du", "-sm", root], check=True, capture_output=True, text=True).stdout.split()[0])


def main(work: Path) -> None:
    work.chmod(0o711)
    stage = build(work)
    try_alone(stage)
    asyncio.run(try_with_a_host(stage, work))
    print(f"The steps of the Dockerfile hold. The root has {size(stage.root)} MB, its base {size(work / 'base')} MB.")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
