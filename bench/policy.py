"""What one decision costs: classify() for kinds of calls, long texts, and what the import adds to the interpreter.

    python bench/policy.py

Times are medians on this machine; the ratios are what can be compared.
"""

from __future__ import annotations

import functools
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from cage.cage_policy import MAX_COMMAND, base_tokens, classify  # noqa: E402

COMMANDS = [  # ordinary ones, as agents write them
    "sbox ls -la",
    "sbox pytest -q tests/test_a.py",
    "sbox bash -c 'cd ~/projects/x && python train.py | tee /tmp/log'",
    "sbox python3 -c 'import os; print(os.getcwd())'",
    "sbox make -j8 2>&1",
    "ls -la src",
    "cat README.md | head -20",
    "npm run build",
    "cd ~/projects/app && npm test",
    'echo "$HOME"',
    "grep -rn 'a b' src 2>/dev/null",
    "curl -sSL https://example.com/x",
    "python3 - <<'EOF'\nx\nEOF",
]
GIT = [
    "git status",
    "git diff --stat",
    "git log --oneline -5",
    "git -C . show HEAD",
    "git add -A && git commit -m 'a b'",
    "git push origin main",
]
PIECES = ["a", "a ", "'a'", '"a"', "\\a", "a;", 'a\'b"c"', "{", "$", "'", '"', "\\", '"\\', "~/", "é"]


def median_us(call: Callable[[], object], repeat: int) -> float:
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def repository(home: Path) -> Path:
    repo = home / "projects" / "app"
    repo.mkdir(parents=True)
    for words in (["init", "-q"], ["config", "remote.origin.url", "https://github.com/acme/app.git"], ["add", "."]):
        (repo / "a.txt").write_text("a\n")
        subprocess.run(["git", *words], cwd=repo, check=True)
    shutil.rmtree(repo / ".git" / "hooks", ignore_errors=True)
    return repo


def call_us(fields: dict[str, object], tool: str = "Bash", repeat: int = 500) -> float:
    return median_us(functools.partial(classify, tool, fields), repeat)


def interpreter_ms(*codes: str) -> list[float]:
    """Median start-to-end time of the interpreter with each code, run in turns so that all see the same machine."""
    times: list[list[float]] = [[] for _ in codes]
    for _ in range(25):
        for code, row in zip(codes, times, strict=True):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-I", "-S", "-c", code], cwd=ROOT / "cage", check=True)
            row.append(time.perf_counter() - start)
    return [statistics.median(row) * 1e3 for row in times]


def report_calls() -> None:
    for title, commands in (("ordinary commands", COMMANDS), ("git, which reads the repository", GIT)):
        costs = {command: call_us({"command": command}) for command in commands}
        print(f"{title}: median {statistics.median(costs.values()):.1f} us")
        for command, cost in costs.items():
            print(f"  {cost:8.1f} us  {classify('Bash', {'command': command}):6}  {command[:60]!r}")
    print(f"a write in the zone: {call_us({'file_path': os.getcwd() + '/a.txt', 'content': 'x'}, 'Write'):.1f} us")
    keys = [median_us(functools.partial(base_tokens, command), 500) for command in COMMANDS]
    print(f"base_tokens: median {statistics.median(keys):.1f} us")


def report_long_texts(hook_ms: float) -> None:
    """`hook_ms`: what a stand-alone hook takes for an ordinary command."""
    print("long texts, repeated pieces: 16 kB, 128 kB and 1 MB (refused unread), 128 kB in quotes, in us")
    slowest = 0.0
    for piece in PIECES:
        texts = [piece * (size // len(piece)) for size in (MAX_COMMAND // 8, MAX_COMMAND, 1 << 20)]
        texts += ['"' + text[2:] + '"' for text in texts[1:2]]  # as one long quoted word
        costs = [call_us({"command": text}, repeat=3) for text in texts]
        slowest = max(slowest, *costs)
        print(f"  {piece!r:10}" + "".join(f"{cost:10.0f}" for cost in costs))
    print(f"the slowest adds {slowest / 1e3 / hook_ms:.1f} x an ordinary command's hook")


def report_interpreter() -> float:
    load = "import sys; sys.path.insert(0, ''); import cage_policy as p"
    bare, imported, hook = interpreter_ms("pass", load, load + "; p.classify('Bash', {'command': 'sbox ls'})")
    print(
        f"interpreter {bare:.1f} ms; the import adds {imported / bare - 1:.2f} x; alone as a hook {hook / bare:.2f} x"
    )
    return hook


def main() -> None:
    home = Path(tempfile.mkdtemp(prefix="bench-", dir="/var/tmp"))
    try:
        for name in [name for name in os.environ if name.startswith("GIT_")]:
            del os.environ[name]
        os.environ.update(HOME=str(home), GIT_CONFIG_NOSYSTEM="1")
        os.chdir(repository(home))
        report_calls()
        report_long_texts(report_interpreter())
    finally:
        shutil.rmtree(home)


if __name__ == "__main__":
    main()
