"""`r2cc completion`: the script that teaches a shell to complete r2cc's commands, options and files."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")


@click.command(
    epilog="""\b
Examples:
  eval "$(r2cc completion bash)"                                        # this shell only; in ~/.bashrc: every one
  r2cc completion bash > ~/.local/share/bash-completion/completions/r2cc
  r2cc completion zsh > ~/.zfunc/_r2cc                                  # fpath+=~/.zfunc before compinit in ~/.zshrc
  r2cc completion fish > ~/.config/fish/completions/r2cc.fish

\b
r2cc has to be on the PATH of that shell: export PATH="$PATH:/path/to/checkout/.venv/bin"
"""
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that makes SHELL complete r2cc's commands."""
    from click.shell_completion import get_completion_class

    from harness.plugins import COMPLETING

    kind = get_completion_class(shell)
    assert kind is not None, "click knows all of SHELLS"
    click.echo(kind(click.get_current_context().find_root().command, {}, "r2cc", COMPLETING).source())
