"""How agents open a path that a call names: without the blanks around it, with accents composed. One place for that."""

from __future__ import annotations

from cage import cage_policy

# What JavaScript's trim() takes away, more than Python's strip() does.
_BLANKS = "".join(
    map(chr, (*range(9, 14), 32, 160, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0xFEFF))
)


def opened(path: str) -> str:
    """The path that is opened where this one is named."""
    return cage_policy.composed(path.strip(_BLANKS))
