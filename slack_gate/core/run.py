"""A command that the gate carries out itself: what an executor reports, and the words for it."""

from __future__ import annotations

from dataclasses import dataclass

UNKNOWN = "OUTCOME_UNKNOWN"
NOT_STARTED = "NOT_STARTED"
STOPPED = "STOPPED"
MAX_TIMEOUT_S = 600
LIVE = 512 * 1024  # bytes of a stream told while it runs: no more than what is kept of its beginning in any case


@dataclass(frozen=True, slots=True)
class Result:
    """How one run ended. `exit_code` is None when there is none or it is not known: never 0 by default.

    `stdout` and `stderr` are bytes, bounded, with what was cut said inside. `code` and `error` name a fault of the
    executor, never of the command. `known` is False when the command may have run and nobody can say how it ended,
    `started` when it is sure that nothing ran.
    """

    exit_code: int | None
    stdout: bytes = b""
    stderr: bytes = b""
    timed_out: bool = False
    command_id: str | None = None
    code: str | None = None
    error: str | None = None
    known: bool = True
    started: bool = True


def printable(output: bytes) -> str:
    """Output as text: bytes that are not UTF-8 stay readable as `\\xNN`."""
    return output.decode("utf-8", "backslashreplace")


def unknown(error: str, code: str | None = None) -> Result:
    """It may have run; it is not started again."""
    return Result(None, code=code or UNKNOWN, error=f"{error} outcome unknown".strip(), known=False)


def not_started(error: str, code: str | None = None) -> Result:
    """The executor is sure that nothing ran."""
    return Result(None, code=code or NOT_STARTED, error=error, started=False)


@dataclass(frozen=True, slots=True)
class Ran:
    """What a door tells whoever asked for a run. `result` is None when it was refused, `message` then says why; else it
    says what a person changed, and is empty for nothing."""

    by: str
    request: str | None = None
    result: Result | None = None
    message: str = ""

    def as_dict(self) -> dict[str, object]:
        """The answer of the agent endpoint, field by field."""
        if self.result is None:
            return {"decision": "denied", "by": self.by, "request": self.request, "message": self.message}
        result = self.result
        told = {"message": self.message} if self.message else {}
        return {
            "decision": "ran",
            "by": self.by,
            "request": self.request,
            "exitCode": result.exit_code,
            "stdout": printable(result.stdout),
            "stderr": printable(result.stderr),
            "timedOut": result.timed_out,
            "commandId": result.command_id,
            "code": result.code,
            "error": result.error,
            **told,
        }


@dataclass(frozen=True, slots=True)
class Carried:
    """A run as it is on file: times in seconds since the epoch, output masked and printable."""

    executor: str
    started_at: float
    ended_at: float | None
    exit_code: int | None
    timed_out: bool
    error: str
    stdout: str
    stderr: str
