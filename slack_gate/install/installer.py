"""The whole installation as a list of steps: every check comes before the first step, so a refusal changes nothing."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from slack_gate.errors import InstallError
from slack_gate.install.files import fingerprint, replace_file, replace_link
from slack_gate.install.layout import PINNED, Layout, Record, Scope
from slack_gate.install.program import base_python, build_sbox, copy_program, interpreter_paths, prove_copy
from slack_gate.install.settings import Json, hook_entry, other_hooks, remove_hook, with_hook, without_hook, write_hook
from slack_gate.install.trust import untrusted_reason

ASIDE = ".before-slack-gate"


@dataclass(frozen=True)
class Step:
    """`sentence` is what is said, in a dry run too; a step without `act` only says it."""

    sentence: str
    act: Callable[[], object] | None = None


def perform(steps: Iterable[Step], say: Callable[[str], None], dry_run: bool = False) -> None:
    """Say each step and take it; nobody else gets to write what is created."""
    with _umask(0o022):
        for step in steps:
            say(step.sentence)
            if step.act and not dry_run:
                step.act()


def install_steps(home: Path, scope: Scope, project: Path, socket: Path, limit: int) -> list[Step]:
    """Everything `slack-gate install claude-code` will do. Raises InstallError when it may not be done."""
    layout = Layout(home)
    settings = layout.settings(scope, project)
    record = Record.read(layout.record)
    files = (
        (layout.sbox_proxy, "the proxy of the cage", 0o644),  # first: the new command may need what is new in it
        (layout.whole_git, "what starts git in the cage", 0o644),
        (layout.sbox, "the cage's command", 0o755),
        (layout.policy, "the classifier", 0o644),
        (layout.helper, "the GitHub helper", 0o755),
    )
    foreign = _foreign(layout, record)
    entry = hook_entry(base_python(), layout.hook, socket, limit)
    _refuse_untrusted(layout, settings if scope == "user" else None)
    _refuse_taken(foreign)
    with_hook(settings, entry)  # a file that cannot be edited is refused before anything is copied
    return [
        *(Step(f"Note: {path} was there before; it is kept as {_aside(path)}.") for path in foreign),
        *_warnings(layout, settings, scope),
        Step(f"Copy the program to {layout.root}.", partial(_copy, layout)),
        Step(f"Link {layout.command} to it.", partial(_put_link, layout, record)),
        *(
            Step(f"Copy {what} to {path}.", partial(_put_file, layout, record, path, mode))
            for path, what, mode in files
        ),
        Step(f"Add the hook to {settings}.", partial(_add_hook, layout, record, settings, entry)),
        *_pin_note(layout),
    ]


def uninstall_steps(home: Path, scope: Scope, project: Path) -> Iterator[Step]:
    """Everything `slack-gate uninstall claude-code` will do; the program goes with the last hook that runs it."""
    layout = Layout(home)
    settings = layout.settings(scope, project)
    record = Record.read(layout.record)
    users = [name for name in record.settings if name != str(settings) and without_hook(Path(name)) is not None]
    if without_hook(settings) is None:
        yield Step(f"{settings} holds no hook of slack-gate.")
    else:
        yield Step(f"Take the hook out of {settings}.", partial(remove_hook, settings))
    if users:
        yield Step(f"The program stays in {layout.root}: it is still the hook of {', '.join(users)}.")
        return
    for path in map(Path, record.files):
        if record.is_ours(path):
            yield Step(f"Remove {path}.", partial(_take_away, path))
        elif fingerprint(path):
            yield Step(f"{path} stays: it was changed since.")
    if layout.root.exists():
        yield Step(f"Remove {layout.root}.", partial(shutil.rmtree, layout.root))
    if PINNED.exists():
        yield Step(f"Warning: {PINNED} still blocks every call. Run `sudo rm {PINNED}`.")


def _refuse_untrusted(layout: Layout, settings: Path | None) -> None:
    for path in (
        *interpreter_paths(),
        layout.hook,
        layout.versions,
        *_single_files(layout),
        *([settings] if settings else []),
    ):
        if reason := untrusted_reason(path, layout.home):
            raise InstallError(
                f"Nothing was installed: {reason}.", 'See "Where it refuses" in docs/install.md for what to do.'
            )


def _refuse_taken(foreign: list[Path]) -> None:
    for path in foreign:
        if fingerprint(_aside(path)):
            raise InstallError(
                f"Nothing was installed: {path} is not ours, and {_aside(path)} exists already.",
                "Move one of them away.",
            )


def _warnings(layout: Layout, settings: Path, scope: Scope) -> Iterator[Step]:
    if scope == "project" and (reason := untrusted_reason(settings, layout.home)):
        yield Step(f"Warning: {reason}: it can take the hook out. Prefer `--scope user`.")
    if count := other_hooks(settings):
        yield Step(f"Warning: {settings} holds {count} more PreToolUse hook(s), which may change an approved call.")
    place = layout.command.parent
    if str(place) not in os.environ.get("PATH", "").split(os.pathsep):
        yield Step(f'Note: {place} is not in PATH. Add this line to ~/.profile: export PATH="{place}:$PATH"')


def _pin_note(layout: Layout) -> Iterator[Step]:
    if not PINNED.exists():
        yield Step(
            "Warning: `disableAllHooks` in a project's settings, which the cage can write, switches this hook off. "
            f"Only root can pin it: sudo install -D -m 644 {shlex.quote(str(layout.managed))} {PINNED}"
        )


def _foreign(layout: Layout, record: Record) -> list[Path]:
    """What stands in our places and is not as we left it."""
    return [path for path in _single_files(layout) if fingerprint(path) and not record.is_ours(path)]


def _single_files(layout: Layout) -> tuple[Path, ...]:
    return (layout.command, layout.sbox, layout.sbox_proxy, layout.whole_git, layout.policy, layout.helper)


def _copy(layout: Layout) -> None:
    """A complete, proven version first, then the switch; the version before stays for a daemon that runs from it."""
    layout.versions.mkdir(parents=True, exist_ok=True)
    before, version = layout.current.resolve(), Path(tempfile.mkdtemp(dir=layout.versions))
    version.chmod(0o755)
    try:
        copy_program(version)
        prove_copy(version)
        build_sbox(version, layout.home)
    except BaseException:
        shutil.rmtree(version)
        raise
    os.sync()  # an empty hook.py after a power cut would say nothing, and silence lets calls run
    replace_link(layout.current, Path("versions", version.name))
    for old in layout.versions.iterdir():
        if old not in (version, before):
            shutil.rmtree(old)


def _put_link(layout: Layout, record: Record) -> None:
    _make_room(record, layout.command)
    replace_link(layout.command, layout.current / "bin" / "slack-gate")
    record.add(file=layout.command)


def _put_file(layout: Layout, record: Record, path: Path, mode: int) -> None:
    _make_room(record, path)
    built = layout.current / "built" / path.name
    source = built if built.exists() else layout.current / "lib" / "cage" / path.name
    replace_file(path, source.read_bytes(), mode)
    record.add(file=path)


def _make_room(record: Record, path: Path) -> None:
    if fingerprint(path) and not record.is_ours(path):
        path.rename(_aside(path))


def _add_hook(layout: Layout, record: Record, settings: Path, entry: Json) -> None:
    write_hook(layout.managed, entry)
    record.add(settings=settings)
    write_hook(settings, entry)


def _take_away(path: Path) -> None:
    path.unlink()
    if fingerprint(_aside(path)):
        _aside(path).rename(path)


def _aside(path: Path) -> Path:
    return path.with_name(path.name + ASIDE)


@contextmanager
def _umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)
