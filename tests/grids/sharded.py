"""`taskvec bench` as on several GPUs: each process answers its share, and some cells fail.

lm-eval shares nothing out where there are no GPUs, so the model is told here who it is. The number
of development episodes says where a cell fails: 3 in both processes, 4 in the first, 5 in the
second.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from harness_ext import TaskVectorLM
from harness_ext.commands.bench import main
from harness_ext.errors import UsageError
from harness_ext.grids import runner

RANK, COUNT = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
load, steered, answer = runner._load, TaskVectorLM.with_steering, TaskVectorLM.generate_until


def share(*args: Any) -> TaskVectorLM:
    lm = load(*args)
    lm._rank, lm._world_size = RANK, COUNT
    return lm


def refuse(self: TaskVectorLM, **arguments: Any) -> TaskVectorLM:
    if arguments.get("dev") == 3:
        raise UsageError("this model has no such heads")
    return steered(self, **arguments)


def fail(self: TaskVectorLM, requests: list[Any], **kwargs: Any) -> list[str]:
    assert len(requests) == 2
    if (self.steering.dev, RANK) in ((4, 0), (5, 1)):
        raise RuntimeError(f"out of memory in process {RANK}")
    return answer(self, requests, **kwargs)


if __name__ == "__main__":
    runner._load = share
    TaskVectorLM.with_steering, TaskVectorLM.generate_until = refuse, fail
    sys.exit(main(sys.argv[1:]))
