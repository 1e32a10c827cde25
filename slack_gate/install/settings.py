"""Claude Code's settings file: our hook in, our hook out, nothing else touched.

A settings file is JSON: `{"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [HOOK, …]}, …]}, …}`.
"""

from __future__ import annotations

import json
import re
import shlex
import stat
from pathlib import Path
from typing import Any, NoReturn

from slack_gate.errors import InstallError
from slack_gate.install.files import replace_file

Json = dict[str, Any]

HOST_MARGIN = (
    60  # seconds that Claude Code waits longer than our hook: its own time-out lets older versions run the call
)
EVERY_TOOL = "*"


def hook_entry(python: Path | str, hook: Path | str, socket: Path | str | None = None, limit: int = 330) -> Json:
    """The group for `hooks.PreToolUse`: `hook` under `python` for every tool, waiting at most `limit` seconds.

    `socket` and `limit` are spelled out so that no project can redirect the hook by the environment it sets.
    `|| exit 2` blocks the call when the interpreter is missing or killed; older versions know no `onFailure`.
    """
    words = [str(python), "-IS", str(hook), "claude-code"]
    words += ["--socket", str(socket)] if socket else []
    words += ["--limit", str(limit)]
    command: Json = {
        "type": "command",
        "command": f"{shlex.join(words)} || exit 2",
        "timeout": limit + HOST_MARGIN,
        "onFailure": "block",
        "statusMessage": "Asking slack-gate",
    }
    return {"matcher": EVERY_TOOL, "hooks": [command]}


def write_hook(settings_path: Path, entry: Json) -> None:
    """Put `entry` into the file, in place of an earlier one of ours. Raises InstallError and changes nothing."""
    _replace(settings_path, with_hook(settings_path, entry))


def remove_hook(settings_path: Path) -> bool:
    """Take our entry out; False when there was none. Raises InstallError and changes nothing."""
    after = without_hook(settings_path)
    if after is not None:
        _replace(settings_path, after)
    return after is not None


def with_hook(settings_path: Path, entry: Json) -> bytes:
    """What the file will hold with `entry` in it."""
    text, settings = _read(settings_path)
    if settings.get("disableAllHooks"):
        raise InstallError(f"{settings_path} switches all hooks off.", "Take `disableAllHooks` out of it first.")
    groups = settings.setdefault("hooks", {}).setdefault("PreToolUse", [])
    place = next((index for index, group in enumerate(groups) if any(map(_is_ours, group["hooks"]))), len(groups))
    rest = [_without_ours(group) for group in groups]
    groups[:] = [group for group in (*rest[:place], entry, *rest[place:]) if group is not None]
    return _dump(settings_path, text, settings)


def without_hook(settings_path: Path) -> bytes | None:
    """What the file will hold without our entry, None when it has none."""
    if not settings_path.exists():
        return None
    text, settings = _read(settings_path)
    groups = settings.get("hooks", {}).get("PreToolUse", [])
    if not any(_is_ours(hook) for group in groups for hook in group["hooks"]):
        return None
    groups[:] = [group for group in map(_without_ours, groups) if group is not None]
    if not groups:
        del settings["hooks"]["PreToolUse"]
    if not settings["hooks"]:
        del settings["hooks"]
    return _dump(settings_path, text, settings)


def other_hooks(settings_path: Path) -> int:
    """How many hooks besides ours see a call before it runs; each may change it after a person approved it."""
    groups = _read(settings_path)[1].get("hooks", {}).get("PreToolUse", [])
    return sum(not _is_ours(hook) for group in groups for hook in group["hooks"])


def _replace(path: Path, data: bytes) -> None:
    """A symlink stays and its target is replaced, with the mode it had."""
    target = path.resolve()
    replace_file(target, data, stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o644)


def _is_ours(hook: Json) -> bool:
    try:
        words = shlex.split(str(hook.get("command", ""))) + [str(word) for word in hook.get("args", ())]
    except ValueError:
        return False
    return any(word.endswith("/slack_gate/hook.py") for word in words)


def _without_ours(group: Json) -> Json | None:
    """The group without our hook, None when nothing else was in it."""
    if not any(map(_is_ours, group["hooks"])):
        return group
    rest = [hook for hook in group["hooks"] if not _is_ours(hook)]
    return {**group, "hooks": rest} if rest else None


def _read(path: Path) -> tuple[str, Json]:
    """The file's text and what it means; an absent or empty file is no settings."""
    try:
        text = path.read_bytes().decode()
        settings = json.loads(text, object_pairs_hook=_no_twins, parse_constant=_no_constant) if text.strip() else {}
    except FileNotFoundError:
        return "", {}
    except (OSError, ValueError) as error:
        raise InstallError(f"{path} cannot be read as JSON: {error}.", "Correct it; nothing was changed.") from error
    _check_shape(path, settings)
    return text, settings


def _no_twins(pairs: list[tuple[str, Any]]) -> Json:
    twins = {key for key, _ in pairs if [name for name, _ in pairs].count(key) > 1}
    if twins:
        raise ValueError(f"the key {min(twins)!r} stands twice in one object")
    return dict(pairs)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _check_shape(path: Path, settings: object) -> None:
    """Refuse what we could only overwrite: anything but objects and lists where Claude Code wants them."""
    hooks = settings.get("hooks", {}) if isinstance(settings, dict) else None
    groups = hooks.get("PreToolUse", []) if isinstance(hooks, dict) else None
    whole = isinstance(groups, list) and all(
        isinstance(group, dict)
        and isinstance(group.get("hooks"), list)
        and all(isinstance(hook, dict) for hook in group["hooks"])
        for group in groups
    )
    if not whole:
        raise InstallError(f"{path} does not hold settings of Claude Code.", "Correct it; nothing was changed.")


def _dump(path: Path, before: str, settings: Json) -> bytes:
    """JSON with the file's own indentation and line end, two blanks and a line end in a new one."""
    indent = re.search(r"^([ \t]+)\S", before, re.MULTILINE)
    text = json.dumps(settings, indent=indent[1] if indent else 2, ensure_ascii=False)
    try:
        return (text if before and not before.endswith("\n") else text + "\n").encode()
    except UnicodeEncodeError as error:
        raise InstallError(f"{path} holds half a character: {error}.", "Correct it; nothing was changed.") from error
