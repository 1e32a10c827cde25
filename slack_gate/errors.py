"""The error tree. Every error is one sentence and, where there is one, the next step.

GateError
├── ConfigError          a setting is missing, unreadable or wrong                       exit 78
├── SlackError           Slack refused a token, a scope, an approver or a message        exit 69
├── SocketError          the hook socket cannot be private, or another daemon holds it   exit 73
├── StoreError           the database cannot be read or written                          exit 74
│   ├── LogError         a decision cannot be recorded; nothing is released              exit 74
│   └── RuleGone         a rule that an answer rests on does not count any more          exit 74
├── InstallError         a file cannot be installed where nothing else can write it      exit 73
└── NotFound             no rule or request has that id                                  exit 1
"""

from __future__ import annotations

from typing import ClassVar


class GateError(Exception):
    """`sentence` says what happened; `next_step` what the reader can do. `exit_code` is the process's when uncaught."""

    exit_code: ClassVar[int] = 1

    def __init__(self, sentence: str, next_step: str = "") -> None:
        super().__init__(f"{sentence} {next_step}".strip())
        self.sentence = sentence
        self.next_step = next_step


class ConfigError(GateError):
    exit_code = 78


class SlackError(GateError):
    exit_code = 69


class SocketError(GateError):
    exit_code = 73


class StoreError(GateError):
    exit_code = 74


class LogError(StoreError):
    exit_code = 74


class RuleGone(StoreError):
    exit_code = 74


class InstallError(GateError):
    exit_code = 73


class NotFound(GateError):
    exit_code = 1
