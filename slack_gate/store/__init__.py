"""Requests, cards, rules and the log in one database; the JSONL log written from it."""
