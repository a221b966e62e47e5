"""Start-up hook: has the plug-in called when lm-eval's modules are imported.

lm-eval up to 0.4.13 discovers no plug-ins, so ``taskvec-harness.pth`` (from Python 3.15 on,
``taskvec-harness.start``) calls :func:`install` whenever Python starts. It must therefore be cheap
and silent: nothing but sys is imported until lm-eval itself is.
"""

import sys

# lm-eval's module: the function of harness_ext.plugin to call with it.
HOOKS = {
    "lm_eval.models": "register_model",
    "lm_eval.tasks": "add_tasks_folder",
    "lm_eval.loggers.evaluation_tracker": "name_results_folder",
}


class HookFinder:
    """Has the modules in HOOKS found by the finders behind it, and hooked."""

    def find_spec(self, fullname, path=None, target=None):  # type: ignore[no-untyped-def]
        """The spec of a module in HOOKS, changed to call its hook; None for any other."""
        if fullname not in HOOKS:
            return None
        try:
            from harness_ext import _hooks
        except ImportError:  # the package is being removed
            return None
        return _hooks.find_hooked_spec(self, fullname, path, target)


def install() -> None:
    """Watch the import of lm-eval's modules; calling this again changes nothing.

    (Python 3.15 runs the ``.start`` files of a virtual environment twice.)
    """
    if not any(isinstance(finder, HookFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, HookFinder())
