"""An agent's only command tool, as one file of the standard library: the contract that `/run` keeps."""

import json
import sys
import urllib.request

ENDPOINT = "http://127.0.0.1:8765/run"


def run_command(command: str, reason: str = "", timeout_seconds: int = 30) -> dict[str, object]:
    """The answer's JSON object; waits as long as a person may take, and the command after that."""
    fields = {"command": command, "reason": reason, "timeoutSeconds": timeout_seconds}
    request = urllib.request.Request(
        ENDPOINT, json.dumps(fields).encode(), headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=timeout_seconds + 330) as answer:
        found: dict[str, object] = json.load(answer)
        return found


if __name__ == "__main__":
    ENDPOINT = sys.argv[1]
    print(json.dumps(run_command(*sys.argv[2:4])))
