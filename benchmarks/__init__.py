"""Measures what Penstock does on this machine, and what it could do at best.

    python -m benchmarks                every figure at full size, kept, and the page written
    python -m benchmarks drain --help   one figure, with its settings
    python -m benchmarks --quick        what has a ratio, small: which got worse since kept

Invariants:
- what is measured is `penstock run` as a user starts it, in processes of its own;
- rows are counted by readers that are not ours, before a figure is reported;
- every process that was started has ended, also after Ctrl-C or when time is up;
- a figure always comes with its command, commit and machine, and with the load that other
  programs put on the machine meanwhile.
"""
