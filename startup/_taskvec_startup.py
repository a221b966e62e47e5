"""Start-up hook: lets harness_ext know when modules of lm-eval are imported.

lm-eval up to 0.4.13 discovers no plug-ins, so ``taskvec-harness.pth`` (from Python 3.15 on,
``taskvec-harness.start``) calls :func:`install` whenever Python starts. It must therefore be cheap
and silent: nothing but sys is imported until lm-eval is. The module is installed beside those
files, outside the package: pip compiles it there in editable installations too, and it needs no
package that may have been moved away.
"""

import sys


class HookFinder:
    """Has lm-eval's modules found by the finders behind it, with harness_ext's hooks."""

    def find_spec(self, fullname, path=None, target=None):  # type: ignore[no-untyped-def]
        """The spec of a module that harness_ext has a hook for; None for any other."""
        if not fullname.startswith("lm_eval."):
            return None
        try:
            from harness_ext import hooks
        except ImportError:  # the source folder of an editable installation is gone
            return None
        return hooks.find_hooked_spec(self, fullname, path, target)


def install() -> None:
    """Watch the imports of lm-eval's modules; calling this again changes nothing.

    (Python 3.15 runs the ``.start`` files of a virtual environment twice.)
    """
    if not any(isinstance(finder, HookFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, HookFinder())
