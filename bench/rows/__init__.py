# SPDX-License-Identifier: Apache-2.0
"""The rows of the table, in order. A row is a function (bench, table) that fills the table in."""

from rows import failure, scale, start

ROWS = {
    "help": ("`--help`", start.help_text),
    "start": ("N x `true`, whole", start.whole),
    "first": ("start to the last rank's first instruction, 2 workers", start.first_instruction),
    "idle": ("2 workers asleep: our memory, our wake-ups", start.idle),
    "missing": ("a program that does not exist", start.missing),
    "restart": ("one node, 2 workers: death to the replacement's first instruction", failure.restart),
    "other_node": ("2 nodes, no restart left: a death on one reaches the other", failure.other_node),
    "next_round": ("2 nodes, one restart: death to the last worker of the next round", failure.next_round),
    "lost_agent": ("2 nodes: a launcher killed with -9, SIGTERM at the other node", failure.lost_agent),
    "left": ("SIGKILL of the launcher: what is left of 2 workers, 2 children, 2 with own sessions", failure.left_over),
    "rendezvous": ("N nodes started at once, whole job of `true`", scale.rendezvous),
    "output": ("prefixed output of 2 workers, lines of 100 bytes", scale.output),
    "store": ("the worker store beside PyTorch's", scale.store),
}
