"""For the tests of heads."""

from __future__ import annotations

import torch

# Tensors are tiny here: handing them to several threads costs more than it saves.
torch.set_num_threads(1)
