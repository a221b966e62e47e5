"""Ships the start-up files in editable installs too, where the wheel's own list does not apply."""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

STARTUP_FILES = ("_taskvec_startup.py", "taskvec-harness.pth", "taskvec-harness.start")


class StartupFilesHook(BuildHookInterface[Any]):
    """Adds the start-up files, and nothing else, beside the link to the source folder."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Hatchling reads this key for editable builds alone."""
        build_data["force_include_editable"] = {f"startup/{name}": name for name in STARTUP_FILES}
