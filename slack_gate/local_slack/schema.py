"""A few combinators that check JSON values and report faults in Slack's words, with a JSON pointer to the place."""

from __future__ import annotations

from collections.abc import Callable, Mapping

Check = Callable[[object, str, list[str]], None]
"""`check(value, pointer, faults)` appends one sentence to `faults` for each thing Slack would refuse."""


def length(text: str) -> int:
    """Characters as Slack's servers count them at worst: UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def fault(what: str, at: str) -> str:
    return f"{what} [json-pointer:{at}]"


def string(longest: int, shortest: int = 1) -> Check:
    def check(value: object, at: str, faults: list[str]) -> None:
        if not isinstance(value, str):
            faults.append(fault("must provide a string", at))
        elif length(value) > longest:
            faults.append(fault(f"must be less than {longest + 1} characters", at))
        elif length(value) < shortest:
            faults.append(fault(f"must be more than {shortest - 1} characters", at))

    return check


def boolean(value: object, at: str, faults: list[str]) -> None:
    if not isinstance(value, bool):
        faults.append(fault("must provide a boolean", at))


def integer(least: int, most: int) -> Check:
    def check(value: object, at: str, faults: list[str]) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            faults.append(fault("must provide an integer", at))
        elif not least <= value <= most:
            faults.append(fault(f"must be between {least} and {most}", at))

    return check


def one_of(*allowed: str) -> Check:
    def check(value: object, at: str, faults: list[str]) -> None:
        if value not in allowed:
            faults.append(fault(f"must be one of: {', '.join(allowed)}", at))

    return check


def items(each: Check, fewest: int, most: int) -> Check:
    def check(value: object, at: str, faults: list[str]) -> None:
        if not isinstance(value, list):
            faults.append(fault("must provide an array", at))
            return
        if len(value) > most:
            faults.append(fault(f"no more than {most} items allowed", at))
        if len(value) < fewest:
            faults.append(fault(f"no fewer than {fewest} items allowed", at))
        for number, item in enumerate(value):
            each(item, f"{at}/{number}", faults)

    return check


def record(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """An object with exactly these properties."""
    known = {**required, **(optional or {})}

    def check(value: object, at: str, faults: list[str]) -> None:
        if not isinstance(value, dict):
            faults.append(fault("must provide an object", at))
            return
        for name in required:
            if name not in value:
                faults.append(fault(f"missing required field: {name}", at))
        for name, item in value.items():
            if name in known:
                known[name](item, f"{at}/{name}", faults)
            else:
                faults.append(fault(f"invalid additional property: {name}", at))

    return check


def tagged(kinds: Mapping[str, Check]) -> Check:
    """An object whose `type` names the check for the rest of it."""

    def check(value: object, at: str, faults: list[str]) -> None:
        if not isinstance(value, dict):
            faults.append(fault("must provide an object", at))
        elif "type" not in value:
            faults.append(fault("missing required field: type", at))
        elif not isinstance(value["type"], str) or value["type"] not in kinds:
            faults.append(fault(f"unsupported type: {value['type']}", f"{at}/type"))
        else:
            rest = {name: item for name, item in value.items() if name != "type"}
            kinds[value["type"]](rest, at, faults)

    return check
