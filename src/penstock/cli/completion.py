"""`penstock completion`."""

from __future__ import annotations

from typing import Literal

from penstock.cli.output import print_line


def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print a script that lets a shell complete commands and options.

    bash: penstock completion bash > ~/.local/share/bash-completion/completions/penstock;
    zsh: penstock completion zsh > a folder of $fpath, as _penstock;
    fish: penstock completion fish > ~/.config/fish/completions/penstock.fish.

    Example: source <(penstock completion bash)

    Parameters
    ----------
    shell
        The shell.
    """
    from penstock.cli import application

    print_line(application("").generate_completion(prog_name="penstock", shell=shell))
    return 0
