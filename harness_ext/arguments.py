"""Which `--model_args` names exist: ours, those of lm-eval's `hf`, and those of transformers."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from lm_eval.models.huggingface import HFLM

from harness_ext.config import FIELDS
from harness_ext.errors import UsageError
from harness_ext.parsing import suggestion

LOADING = (
    "attn_implementation",
    "cache_dir",
    "device_map",
    "force_download",
    "load_in_4bit",
    "load_in_8bit",
    "local_files_only",
    "low_cpu_mem_usage",
    "max_memory",
    "offload_buffers",
    "offload_state_dict",
    "proxies",
    "token",
    "use_safetensors",
    "variant",
    "weights_only",
)
"""Arguments of transformers' `from_pretrained` that `hf` hands through; the bitsandbytes options
begin with `bnb_4bit_` or `llm_int8_`."""


def known_names() -> tuple[str, ...]:
    """Every accepted argument that does not depend on the model."""
    hf = inspect.signature(HFLM.__init__).parameters
    own = [name for name, p in hf.items() if p.kind is not p.VAR_KEYWORD and name != "self"]
    return (*FIELDS, *own, *LOADING)


def check_unknown(given: Mapping[str, Any], config: Any | None = None) -> None:
    """Raise :class:`UsageError` for a name that nothing takes.

    With the model's configuration at hand its own attributes are accepted too: transformers lets
    them be overridden at loading.
    """
    known = known_names()
    for name, value in given.items():
        if name in known or name.startswith(("bnb_4bit_", "llm_int8_")):
            continue
        if config is not None and hasattr(config, name):
            continue
        raise UsageError(
            f"unknown argument {name}={value} in --model_args.{suggestion(name, known)} Accepted: "
            f"the steering arguments ({', '.join(FIELDS)}) and all arguments of lm-eval's hf."
        )
