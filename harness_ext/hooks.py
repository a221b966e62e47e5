"""Calls the plug-in's hooks when their modules of lm-eval have been executed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from harness_ext.plugin import HOOKS


def find_hooked_spec(
    asking: Any, fullname: str, path: Sequence[str] | None, target: ModuleType | None
) -> ModuleSpec | None:
    """The spec that the finders behind the asking one give, its loader set to call the hook.

    None for a module without a hook.
    """
    if fullname not in HOOKS:
        return None
    finders = iter(sys.meta_path)
    for finder in finders:
        if finder is asking:
            break
    for finder in finders:
        spec = finder.find_spec(fullname, path, target)
        if spec is not None:
            if spec.loader is not None:
                _call_hook_after(spec.loader)
            return spec
    return None


def _call_hook_after(loader: Loader) -> None:
    """Let the loader's next execution of a module end with the call of its hook."""
    execute = loader.exec_module

    def execute_and_call(module: ModuleType) -> None:
        # From here on the loader is as it was: who inspects the module meets no wrapper.
        vars(loader).pop("exec_module", None)
        execute(module)
        _call_hook(module)

    try:
        vars(loader)["exec_module"] = execute_and_call
    except TypeError:  # a loader without attributes of its own, as in frozen applications
        return


def _call_hook(module: ModuleType) -> None:
    hook = HOOKS.get(module.__name__)
    if hook is None:  # a loader that serves several modules was asked for another one first
        return
    try:
        hook(module)
    except Exception:
        # Whoever imports lm-eval need not want the plug-in, so its import must not fail for it.
        # Whoever does gets the reason: plugin.activate() calls the hook again and reports.
        return
