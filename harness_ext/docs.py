"""Writes the generated sections of the README files, and checks that they are current.

``python -m harness_ext.docs --write`` or ``--check``, in a source tree. A section stands between
``<!-- generated:NAME -->`` and ``<!-- /generated -->``; SECTIONS holds what each name stands for.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness_ext.errors import UsageError

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "tasks/README.md", "results/README.md")
_SECTION = re.compile(
    r"(<!-- generated:(?P<name>\w+) -->\n).*?(<!-- /generated -->)", flags=re.DOTALL
)


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check all pages, printing which ones it concerns.

    Returns 1 where a page is missing, names an unknown section, or is found not to be current.
    """
    parser = argparse.ArgumentParser(prog="python -m harness_ext.docs", description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true", help="write the sections again")
    action.add_argument("--check", action="store_true", help="fail where a section is not current")
    check = parser.parse_args(argv).check
    try:
        stale = [page for page in PAGES if update(ROOT / page, write=not check)]
    except UsageError as error:
        print(error, file=sys.stderr)
        return 1
    for page in stale:
        print(f"{page}: not current; run python -m harness_ext.docs --write" if check else page)
    return int(check and bool(stale))


def update(page: Path, *, write: bool) -> bool:
    """Whether the page's generated sections differ from what they should be; `write` puts it right.

    Raises :class:`UsageError` where there is no such page, or it names an unknown section.
    """
    if not page.is_file():
        raise UsageError(f"{page} is missing: the pages are in a source tree, not in a wheel.")
    text = page.read_text(encoding="utf-8")
    current = _SECTION.sub(_generate, text)
    if write and current != text:
        page.write_text(current, encoding="utf-8")
    return current != text


def _generate(match: re.Match[str]) -> str:
    name = match["name"]
    if name not in SECTIONS:
        raise UsageError(f"Section {name} is not known; sections: {', '.join(SECTIONS)}.")
    return f"{match[1]}{SECTIONS[name]()}{match[3]}"


def arguments_table() -> str:
    """The steering arguments of `--model_args`, from the class that holds them."""
    from harness_ext.config import FIELDS

    return _table(
        ("argument", "meaning", "accepted", "default"),
        (
            (f"`{name}`", field.metadata["help"], field.metadata["accepted"], _default(field))
            for name, field in FIELDS.items()
        ),
    )


def _default(field: Any) -> str:
    other = field.metadata["with_heads"]
    return f"`{field.default}`" + ("" if other is None else f" (heads: `{other}`)")


def tasks_table() -> str:
    """The word tasks, by category and word list, from the tasks themselves."""
    rows = _tasks(lambda name: not name.startswith(_OTHERS))
    rows.sort(key=lambda row: (row[0], row[1].DATASET_NAME, _ORDER.index(row[1].direction)))
    return _table(
        ("task", "category", "pairs train / test", "test documents", "example", "version"),
        ((f"`{task.task_name}`", category, *_facts(task)) for category, task in rows),
    )


def classification_table() -> str:
    """The tasks over sentences, by category and set, from the tasks themselves."""
    rows = _tasks(lambda name: name.startswith("classify_"))
    return _table(
        ("task", "tag", "labels", "sentences train / test", "version"),
        (
            (
                f"`{task.task_name}`",
                f"`taskvec_{category}`",
                ", ".join(dict.fromkeys(pair.forms("y")[0] for pair in task.pairs)),
                _facts(task)[0],
                str(task.VERSION),
            )
            for category, task in sorted(rows, key=lambda row: (row[0], row[1].DATASET_NAME))
        ),
    )


def generation_table() -> str:
    """The tasks with open answers, from the tasks themselves."""
    return _table(
        ("task", "tag", "subjects train / test", "example", "version"),
        (
            (f"`{task.task_name}`", f"`taskvec_{category}`", subjects, example, version)
            for category, task in _tasks(lambda name: name.startswith("generate_"))
            for subjects, _, example, version in [_facts(task)]
        ),
    )


def hub_table() -> str:
    """The tasks over data sets of the hub, from their YAML files: loading them would fetch data."""
    from lm_eval.tasks._yaml_loader import load_yaml

    manager = _manager()
    return _table(
        ("task", "data set", "labels", "train / test", "version"),
        (
            (
                f"`{config['task']}`",
                " ".join(f"`{config[key]}`" for key in _DATA_SET if key in config),
                ", ".join(options["labels"].values()),
                f"{options['splits']['train']} / {options['splits']['test']}",
                str(config["metadata"]["version"]),
            )
            for name in manager.all_subtasks
            if name.startswith("hub_")
            for config in [load_yaml(manager.task_index[name].yaml_path, resolve_func=False)]
            for options in [config["dataset_kwargs"]]
        ),
    )


def results_tables() -> str:
    """The recorded results of the packaged models, from the files below results/."""
    from harness_ext.compare.tables import section

    return section(_recorded())


def leaderboard_table() -> str:
    """The leaderboard of the packaged models' recorded results, means over tasks only."""
    from harness_ext.compare.board_formats import markdown
    from harness_ext.compare.leaderboard import build
    from harness_ext.compare.reading import read

    reading = read(_recorded())
    if reading.problems:
        raise UsageError(str(reading.problems[0]))
    return markdown(build(reading), None)


def _recorded() -> list[Path]:
    """The folders of recorded results of the packaged models, in every dtype."""
    from harness_ext.packaged_models import MODELS

    results = ROOT / "results"
    return [
        path for name in MODELS for path in (results / name, *sorted(results.glob(f"{name}-*")))
    ]


def shots_tables() -> str:
    """Task vectors at 0 to 4 shots, means over tasks, from the files below results/shots/."""
    from harness_ext.compare.shots_tables import section

    return section(ROOT / "results/shots")


def shots_tasks_table() -> str:
    """Task vectors at 0 to 4 shots, task by task, from the files below results/shots/."""
    from harness_ext.compare.shots_tables import tasks_section

    return tasks_section(ROOT / "results/shots")


def heads_tables() -> str:
    """Head vectors and ablations, from the files below results/heads/."""
    from harness_ext.compare.heads_tables import section

    return section(ROOT / "results/heads", link="results/heads/")


def head_choices_tables() -> str:
    """Where heads were added, seed by seed, from the files below results/heads/."""
    from harness_ext.compare.heads_tables import choices_section

    return choices_section(ROOT / "results/heads")


SECTIONS: Mapping[str, Callable[[], str]] = {
    "arguments": arguments_table,
    "tasks": tasks_table,
    "classification": classification_table,
    "generation": generation_table,
    "hub": hub_table,
    "results": results_tables,
    "leaderboard": leaderboard_table,
    "shots": shots_tables,
    "shots_tasks": shots_tasks_table,
    "heads": heads_tables,
    "head_choices": head_choices_tables,
}
_ORDER = ("forward", "inverse", "bijection")
# How the names of tasks begin that are over no word list.
_OTHERS = ("classify_", "generate_", "hub_")
_DATA_SET = ("dataset_path", "dataset_name")


def _manager() -> Any:
    from lm_eval.tasks import TaskManager

    from harness_ext.plugin import tasks_dir

    return TaskManager(include_path=str(tasks_dir()), include_defaults=False)


def _tasks(wanted: Callable[[str], bool]) -> list[tuple[str, Any]]:
    """The tasks of the wanted names, each with its category."""
    manager = _manager()
    names = [name for name in manager.all_subtasks if wanted(name)]
    return [
        (_category(manager.task_index[name].tags), task)
        for name, task in manager.load(names)["tasks"].items()
    ]


def _category(tags: Iterable[str]) -> str:
    return ", ".join(sorted(tag.removeprefix("taskvec_") for tag in tags))


def _facts(task: Any) -> tuple[str, ...]:
    """What the table says of a task, from the number of pairs on."""
    splits = [pair.split for pair in task.pairs]
    first = task.eval_docs[0]
    return (
        f"{splits.count('train')} / {splits.count('test')}",
        str(len(task.eval_docs)),
        f"{first['query']} → {first['target']}",
        str(task.VERSION),
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; a bar inside a cell is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    cells = ([cell.replace("|", r"\|") for cell in line] for line in lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


if __name__ == "__main__":
    sys.exit(main())
