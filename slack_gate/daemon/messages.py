"""The daemon's own messages on stderr: for people, or one JSON object a line."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from pathlib import Path
from typing import Literal, TextIO, cast

import structlog

from slack_gate.core.display import visible
from slack_gate.core.secrets import mask
from slack_gate.install.trust import warn_if_writable


def configure(form: Literal["text", "json"]) -> None:
    """Every value is masked and made visible first; the SDK's loggers speak only of errors."""
    logging.basicConfig(stream=sys.stderr, level=logging.ERROR, format="%(message)s")
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if form == "json" else structlog.dev.ConsoleRenderer(colors=False)
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            _safe,
            renderer,
        ],
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", _Stderr())),
    )


class _Stderr:
    """Where messages go; a terminal or pipe that is gone stops the messages, never the daemon."""

    def write(self, text: str) -> None:
        with suppress(OSError, ValueError):
            sys.stderr.write(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            sys.stderr.flush()


def _safe(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    texts = {key: mask(value) for key, value in event.items() if isinstance(value, str)}
    # A traceback keeps its lines and their indents; nothing in it steers a terminal.
    return {**event, **{key: _lines(text) if key == "exception" else visible(text) for key, text in texts.items()}}


def _lines(text: str) -> str:
    return "".join(char if char == "\n" or char.isprintable() else visible(char) for char in text)


def warn_of_writable_program() -> None:
    """Where the agent could change this program, it could answer its own questions; `install` makes a safe copy."""
    for path in (sys.executable, Path(__file__).parents[1]):
        for sentence in warn_if_writable(path):
            structlog.get_logger().warning(sentence)
