from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from harness_ext.errors import UsageError
from harness_ext.steering.episodes import (
    Episode,
    EpisodeShape,
    companions,
    development_episodes,
    episode_about,
    members,
    reusable_episodes,
)
from harness_ext.steering.task_context import TaskContext

MakeTask = Callable[..., Any]
SHAPE = EpisodeShape(demonstrations=4, shots=2, queries=2)


def context(task: Any) -> TaskContext:
    return TaskContext(task, {})


def asked(task: Any) -> list[Any]:
    return list(task.test_docs())


def identities(own: TaskContext, episode: Episode) -> list[str]:
    return [own.identity(d) for d in (*episode.demonstrations, *episode.dummies)]


def words(document: Any) -> set[str]:
    return {document["query"], document["target"]}


@pytest.mark.parametrize("shots", [0, 4])
def test_the_tested_query_and_its_mirror_stand_nowhere_in_its_episodes_and_no_pair_twice(
    word_tasks: dict[str, Any], shots: int
) -> None:
    shape = EpisodeShape(demonstrations=10, shots=shots, queries=2)
    for task in word_tasks.values():
        own = context(task)
        for query in (*asked(task)[::9], *own.pool()[::40]):
            for draw in (0, 1, "development 0 3"):
                episode = episode_about(own, query, shape, draw, 0)
                shown = (*episode.demonstrations, *episode.dummies)
                pairs = [document["pair"] for document in shown]
                assert query["pair"] not in pairs
                assert len(set(pairs)) == len(pairs) == 12
                assert not any(query["query"] in words(document) for document in shown)


def test_every_word_task_has_room_for_ten_demonstrations_and_two_dummies(
    word_tasks: dict[str, Any],
) -> None:
    assert len(word_tasks) >= 45
    shape = EpisodeShape(demonstrations=10, shots=10, queries=2)
    for task in word_tasks.values():
        for query in asked(task)[::7]:
            assert len(context(task).order(query, 0, 0)) >= shape.total


def test_the_shots_of_word_tasks_are_the_first_extraction_demonstrations_and_those_of_lm_eval(
    word_tasks: dict[str, Any],
) -> None:
    shape = EpisodeShape(demonstrations=10, shots=3, queries=1)
    for task in word_tasks.values():
        own = context(task)
        for query in asked(task)[:3]:
            episode = episode_about(own, query, shape, 0, 0)
            assert episode.shots == episode.demonstrations[:3]
            assert own.prompt(episode.shots, query) == task.fewshot_context(query, num_fewshot=3)


@pytest.mark.parametrize(
    "shape", [SHAPE, EpisodeShape(2, 5, 3), EpisodeShape(3, 3, 1), EpisodeShape(1, 0, 1)]
)
def test_an_episode_has_its_shape_and_dummies_apart_from_what_is_shown(
    stock_task: MakeTask, shape: EpisodeShape
) -> None:
    own = context(stock_task())
    episode = episode_about(own, asked(own.task)[0], shape, 0, 0)
    assert len(episode.demonstrations) == shape.demonstrations
    assert len(episode.shots) == shape.shots
    assert len(episode.dummies) == shape.queries
    common = min(shape.demonstrations, shape.shots)
    assert episode.shots[:common] == episode.demonstrations[:common]
    dummies = {own.identity(d) for d in episode.dummies}
    shown = {own.identity(d) for d in (*episode.demonstrations, *episode.shots)}
    assert not dummies & shown
    assert len(dummies) == shape.queries


def test_episodes_are_a_function_of_document_draw_and_seed(stock_task: MakeTask) -> None:
    own = context(stock_task())
    one, two = asked(own.task)[:2]
    given = episode_about(own, one, SHAPE, 0, 0)
    episode_about(own, two, SHAPE, 0, 0)
    assert episode_about(context(stock_task()), one, SHAPE, 0, 0) == given
    for other in (
        episode_about(own, two, SHAPE, 0, 0),
        episode_about(own, one, SHAPE, 1, 0),
        episode_about(own, one, SHAPE, 0, 1),
    ):
        assert other.demonstrations != given.demonstrations


def test_a_longer_episode_begins_with_the_shorter_one(stock_task: MakeTask) -> None:
    own = context(stock_task())
    query = asked(own.task)[0]
    short = episode_about(own, query, EpisodeShape(3, 0, 1), 0, 0)
    long = episode_about(own, query, EpisodeShape(6, 0, 1), 0, 0)
    assert long.demonstrations[:3] == short.demonstrations


# ---- development and reusable episodes ----------------------------------------------------------


def test_development_queries_come_from_the_few_shot_split_each_once_before_one_comes_again(
    stock_task: MakeTask,
) -> None:
    own = context(stock_task())
    episodes = development_episodes(own, SHAPE, 30, 0)
    counts = Counter(own.identity(episode.query) for episode in episodes)
    assert set(counts) == {own.identity(document) for document in own.pool()}
    assert sorted(counts.values()) == [2] * 6 + [3] * 6
    first_round = [own.identity(episode.query) for episode in episodes[:12]]
    assert len(set(first_round)) == 12
    assert first_round != [own.identity(document) for document in own.pool()]


def test_a_development_query_that_comes_again_has_other_demonstrations(
    stock_task: MakeTask,
) -> None:
    own = context(stock_task())
    episodes = development_episodes(own, SHAPE, 24, 0)
    for one, again in zip(episodes[:12], episodes[12:], strict=True):
        assert one.query == again.query
        assert one.demonstrations != again.demonstrations


@pytest.mark.parametrize("make", [development_episodes, reusable_episodes])
def test_episodes_of_few_shot_documents_never_hold_a_document_twice(
    stock_task: MakeTask, word_tasks: dict[str, Any], make: Any
) -> None:
    for task in (stock_task(), word_tasks["bijection_antonym"], word_tasks["bijection_copy"]):
        own = context(task)
        for episode in make(own, SHAPE, 30, 0):
            held = identities(own, episode)
            assert len(set(held)) == len(held) == 6
            if make is development_episodes:
                assert own.identity(episode.query) not in held


@pytest.mark.parametrize("make", [development_episodes, reusable_episodes])
def test_drawn_episodes_follow_from_the_seed(stock_task: MakeTask, make: Any) -> None:
    own = context(stock_task())
    given = make(own, SHAPE, 8, 0)
    assert given == make(own, SHAPE, 8, 0)
    assert given == make(own, SHAPE, 12, 0)[:8], "more episodes begin with fewer"
    assert [e.query for e in given] != [e.query for e in make(own, SHAPE, 8, 1)]


def test_development_and_reusable_episodes_are_drawn_apart(stock_task: MakeTask) -> None:
    own = context(stock_task())
    development = development_episodes(own, SHAPE, 12, 0)
    reusable = reusable_episodes(own, SHAPE, 12, 0)
    assert [e.demonstrations for e in development] != [e.demonstrations for e in reusable]


def test_the_first_dummy_of_a_reusable_episode_is_the_document_it_is_drawn_about(
    stock_task: MakeTask,
) -> None:
    own = context(stock_task())
    for episode in reusable_episodes(own, SHAPE, 12, 0):
        assert episode.dummies[0] == episode.query
        assert len(episode.dummies) == SHAPE.queries


# ---- splits that are too small ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "wanted", "most"),
    [
        (EpisodeShape(12, 0, 1), "demos=12 with queries=1 needs 13 documents", "is 11"),
        (EpisodeShape(10, 0, 3), "demos=10 with queries=3 needs 13 documents", "is 9"),
        (EpisodeShape(5, 12, 1), "num_fewshot=12 with queries=1 needs 13 documents", "is 11"),
    ],
)
def test_too_many_demonstrations_are_refused_with_the_numbers(
    stock_task: MakeTask, shape: EpisodeShape, wanted: str, most: str
) -> None:
    own = context(stock_task())
    with pytest.raises(UsageError) as caught:
        episode_about(own, asked(own.task)[0], shape, 0, 0)
    message = str(caught.value)
    assert message.startswith(wanted)
    assert "'stock' has 12" in message
    assert f"the most it allows {most}" in message


def test_a_split_that_allows_no_demonstration_is_said_to() -> None:
    class One(TaskContext):
        def order(self, *_: Any) -> list[Any]:
            return [{}]

    class Named:
        task_name = "tiny"

    with pytest.raises(UsageError, match="'tiny' has 1; it is too small for any"):
        episode_about(One(Named(), {}), {}, EpisodeShape(1, 0, 1), 0, 0)  # type: ignore[arg-type]


def test_the_largest_episode_a_split_allows_uses_all_of_it(stock_task: MakeTask) -> None:
    own = context(stock_task())
    query = asked(own.task)[0]
    episode = episode_about(own, query, EpisodeShape(10, 0, 2), 0, 0)
    assert sorted(identities(own, episode)) == sorted(own.identity(d) for d in own.pool())


# ---- companions: episodes that lend vectors to demonstrations' cues -----------------------------

NARROW = EpisodeShape(demonstrations=10, shots=4, queries=1)


@pytest.mark.parametrize("name", ["bijection_upper", "forward_plural"])
@pytest.mark.parametrize("dev", [2, 50])
def test_companions_differ_from_each_other_and_do_not_hold_the_query(
    word_tasks: dict[str, Any], name: str, dev: int
) -> None:
    own = context(word_tasks[name])
    developing = development_episodes(own, NARROW, dev, 0)
    testing = [episode_about(own, d, NARROW, 0, 0) for d in asked(word_tasks[name])[:12]]
    for episodes in (developing, testing):
        others, chosen = companions(own, episodes, NARROW, 4, dev, 0)
        assert {k for each in chosen for k in each} == set(range(len(others)))
        for episode, numbers in zip(episodes, chosen, strict=True):
            lent = [others[k] for k in numbers]
            assert len(lent) == len(set(numbers)) == 4
            assert all(other != episode for other in lent)
            assert all(own.identity(episode.query) not in members(own, other) for other in lent)


def test_companions_are_a_function_of_their_query_and_vary_over_queries(
    word_tasks: dict[str, Any],
) -> None:
    task = word_tasks["forward_plural"]
    own = context(task)
    episodes = [episode_about(own, d, NARROW, 0, 0) for d in asked(task)[:12]]

    def lent(some: list[Episode]) -> list[list[Episode]]:
        others, chosen = companions(own, some, NARROW, 2, 50, 0)
        return [[others[k] for k in numbers] for numbers in chosen]

    together = lent(episodes)
    assert lent(episodes[::-1]) == together[::-1]
    assert [lent([episode])[0] for episode in episodes[:3]] == together[:3]
    assert sum(a != b for a, b in pairwise(together)) > 8
    developing = development_episodes(own, NARROW, 50, 0)
    assert all(episode in developing for each in together for episode in each)


def test_a_split_just_large_enough_draws_further_companions_about_the_query(
    stock_task: MakeTask,
) -> None:
    """Every development episode about another document holds all documents but that one."""
    own = context(stock_task())
    shape = EpisodeShape(demonstrations=10, shots=3, queries=1)
    episodes = development_episodes(own, shape, 12, 0)
    others, chosen = companions(own, episodes, shape, 3, 12, 0)
    for episode, numbers in zip(episodes, chosen, strict=True):
        assert [others[k].query for k in numbers] == [episode.query] * 3
