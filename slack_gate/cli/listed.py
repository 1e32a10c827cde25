"""A group of subcommands of which `list` may be left out: `rules --json` is `rules list --json`."""

from __future__ import annotations

import click


class Listed(click.Group):
    """Its options, but for --help, are those of `list`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)
