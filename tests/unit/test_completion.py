"""Shell completions are scripts that the shell reads."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from penstock.cli import COMMANDS, main


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_all_commands(shell: str, capsys) -> None:
    with pytest.raises(SystemExit):
        main(["completion", shell])
    script = capsys.readouterr().out

    assert [] == [name for name in COMMANDS if name not in script]
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)
