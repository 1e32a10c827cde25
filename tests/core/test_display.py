"""What a card shows decodes to the exact text; nothing hides."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slack_gate.core.display import exact, one_line, sentence, shape, shortened, units, visible

TRICKY = st.text(
    st.one_of(
        st.sampled_from(list("\\u{}5c \t\n\r⟨⟩blanks0123456789abcdef")),
        st.characters(),
    )
)


@given(TRICKY)
@example("a\\u{5c}u{202e}")
@example("x" + " " * 9 + "\n" * 5 + "\t\t\t")
@example("⟨9 blanks⟩\n")
@example("         \n")
@example("gi\u0442")
def test_what_is_shown_decodes_to_what_runs(text: str) -> None:
    assert exact(visible(text)) == text


@given(TRICKY)
def test_nothing_invisible_is_left(text: str) -> None:
    for char in visible(text):
        assert char in "\n\t" or unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rm a\u2028# safe\u200b", "rm a\\u{2028}# safe\\u{200b}"),
        ("\u202egpj.x\u202c", "\\u{202e}gpj.x\\u{202c}"),
        ("\x1b[2K\x08\x07\x9b", "\\u{1b}[2K\\u{8}\\u{7}\\u{9b}"),
        ("a\rb", "a\\u{d}b"),
        ("git\u00a0status", "git\\u{a0}status"),
        ("\uff47it", "\\u{ff47}it"),
        ("gi\u0442 status", "gi\\u{442} status"),
        ("\u0433\u0438\u0442", "\u0433\u0438\u0442"),  # a word wholly in another script is no imitation
        ("caf\u00e9", "caf\u00e9"),
        ("x\ufe0f\u3164\u2800", "x\\u{fe0f}\\u{3164}\\u{2800}"),
        ("a" + " " * 8 + "b", "a" + " " * 8 + "b"),
        ("a" + " " * 200 + "; rm", "a⟨200 blanks⟩; rm"),
        ("ls" + "\n" * 60 + "curl", "ls⟨60 line ends⟩\ncurl"),
        ("ls\n\n\ncurl", "ls\n\n\ncurl"),
        ("a" + " \t" * 5 + "b", "a" + "⟨1 blanks⟩⟨1 tabs⟩" * 5 + "b"),
        ("   \n", "⟨3 blanks⟩⟨1 line ends⟩\n"),  # a text of blanks alone
        ("a\u23ceb", "a\\u{23ce}b"),
        ("g\u0131t \u0261it", "g\\u{131}t \\u{261}it"),
        ("na\u00efve \u0142\u00f3d\u017a", "na\u00efve \u0142\u00f3d\u017a"),
        ("\u2018a\u201d \u2010\u2212n \u2223", "\\u{2018}a\\u{201d} \\u{2010}\\u{2212}n \\u{2223}"),
        ("a\u2215b\u2044c \ua789 \u02bc", "a\\u{2215}b\\u{2044}c \\u{a789} \\u{2bc}"),
        ("e\u0301 a\u20dd", "e\\u{301} a\\u{20dd}"),
        ("\u0441.com", "\\u{441}.com"),
        ("/\u0441 @\u0441 \u0441/ -\u0441", "/\\u{441} @\\u{441} \\u{441}/ -\\u{441}"),
        ("\u043e\u043d: \u0434\u0430. \u65e5\u672c\u8a9e", "\u043e\u043d: \u0434\u0430. \u65e5\u672c\u8a9e"),  # prose
        ("caf\u00e9.fr/\u00fc", "caf\u00e9.fr/\u00fc"),
        ("⟨3 blanks⟩", "\\u{27e8}3 blanks\\u{27e9}"),
        ("\\u{41}", "\\u{5c}u{41}"),
    ],
)
def test_shown_as(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert exact(shown) == text


def test_shape_counts_what_a_reader_must_know() -> None:
    size = shape("one\ntwo\u200b\nlast; rm -rf x\n")
    assert (size.characters, size.lines, size.hidden, size.last_line) == (24, 3, 1, "last; rm -rf x")


@pytest.mark.parametrize("end", ["", "\n", "\n\n\n", "\n    \n\t", "   "])
def test_blanks_at_the_end_do_not_stand_for_the_last_line(end: str) -> None:
    assert shape("ls\nrm -rf x" + end).last_line == "rm -rf x"
    assert shape("ls\nrm -rf x" + end).lines == len(("ls\nrm -rf x" + end).removesuffix("\n").split("\n"))


def test_hidden_characters_are_counted_as_they_are_drawn() -> None:
    assert shape("gi\u0442 \u200b\u200b \\u{41}").hidden == 3
    assert (shape("").characters, shape("").lines, shape("").last_line) == (0, 1, "")


@given(st.text(max_size=400), st.integers(40, 200))
@example("\U0001f600" * 100, 40)
@example("a" + "\n" * 60 + "b", 40)
def test_one_line_is_one_line_within_its_limit(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert "\n" not in line
    assert units(line) <= limit


def test_a_cut_line_says_how_much_is_missing() -> None:
    assert one_line("x" * 100, 40).endswith("more)")
    assert one_line("short", 40) == "short"
    assert one_line("one\ntwo\u23ce", 40) == "one\u23cetwo\\u{23ce}"


@given(st.text())
def test_units_are_utf16(text: str) -> None:
    assert units(text) == len(text.encode("utf-16-le")) // 2


def test_a_sentence_keeps_what_it_quotes_as_it_was_drawn() -> None:
    quoted = one_line("O\u2019Brien\n\u202eend" + " " * 12 + "x" * 90, 60)
    said = f"{quoted} wrote xoxb-…"
    assert sentence(said) == said
    assert shortened(sentence(said), 300) == said
    assert sentence("a\x1b[2K\u202eb\nc\td") == "a\\u{1b}[2K\\u{202e}b\u23cec\td"
    assert sentence("xoxb-123456789012 is wrong") == "[masked 17] is wrong"
