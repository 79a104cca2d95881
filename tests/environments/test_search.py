"""The bundle `search` on the real packages: its questions, its players, its server and its retrievers."""

import asyncio
import json
import random
from collections import Counter

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from agent_env import Episode, load_bundle
from agent_env.bundles.search.library import Library, Settings
from agent_env.checking import check_bundle
from agent_env.demonstrator import play
from agent_env.errors import BundleError, EpisodeFailed
from agent_env.hosting.local import LocalHandle
from agent_env.training.sessions import opened
from agent_env.training.shared import Shared
from agent_env.training.step_layout import combined
from agent_env.training.tiny.plays import plays
from agent_env.training.tiny.steps import demonstrated_steps
from agent_env.training.tiny.tokenizer import blank_tokenizer
from support.inprocess import running
from support.servers import serving

RETRIEVER, CORPUS, DATA = "AGENT_ENV_SEARCH_RETRIEVER", "AGENT_ENV_SEARCH_CORPUS", "SEARCH_R1_DATA"


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory):
    """A cache of the tests' own, so that what is kept in it was made by them."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("home")
        patch.setenv("AGENT_ENV_HOME", str(folder))
        for name in (RETRIEVER, CORPUS):
            patch.delenv(name, raising=False)
        patch.setenv(DATA, str(folder / "none"))
        yield folder


@pytest.fixture(scope="session")
def bundle(home):
    return load_bundle("search")


async def demonstrated(bundle, tasks, error_rate=0.0):
    """The demonstrator's plays, a hundred at once."""

    async def one(task):
        episode = Episode(bundle, task, LocalHandle(bundle))
        try:
            return await play(episode, bundle.demonstrator, random.Random(task.id), error_rate)
        finally:
            await episode.close()

    return [r for n in range(0, len(tasks), 100) for r in await asyncio.gather(*map(one, tasks[n : n + 100]))]


class TestQuestions:
    def test_two_thousand_of_one_hop_and_two(self, bundle):
        kinds = {split: Counter(task.env["source"] for task in bundle.tasks(split)) for split in ("train", "eval")}
        assert {split: sum(of.values()) for split, of in kinds.items()} == {"train": 1600, "eval": 400}
        for split, share in (("train", 4), ("eval", 1)):
            assert kinds[split]["place-country"] == kinds[split]["country-country"] == 100 * share
            assert sum(kinds[split][kind] for kind in ("creator", "element", "place", "nationality", "country")) == (
                200 * share
            )
        # A split does not begin with one kind, nor end with one.
        assert len({task.env["source"] for task in bundle.tasks("eval")[:20]}) >= 4

    def test_the_splits_share_no_question_and_no_answer_to_find(self, bundle):
        asked = {split: {task.turns[0].prompt for task in bundle.tasks(split)} for split in ("train", "eval")}
        assert {split: len(questions) for split, questions in asked.items()} == {"train": 1600, "eval": 400}
        assert not asked["train"] & asked["eval"]

    def test_a_second_load_reads_what_is_kept(self, bundle, home):
        (file,) = home.rglob("*-questions.json")
        kept = file.stat().st_mtime_ns
        assert load_bundle("search").splits == bundle.splits
        assert file.stat().st_mtime_ns == kept


class TestPlayers:
    async def test_the_demonstrator_answers_every_question_by_searching(self, bundle):
        played = await demonstrated(bundle, bundle.tasks("all"))
        assert [
            p.task.turns[0].prompt for p in played if p.ended.scores != {"answer/exact": 1.0, "answer/f1": 1.0}
        ] == []
        hops = Counter(len(p.turns[0].moves) for p in played)
        assert hops == {1: 1000, 2: 1000}

    async def test_it_errs_as_often_as_it_is_asked_to(self, bundle):
        played = await demonstrated(bundle, bundle.tasks("eval"), 0.5)
        assert 0.4 < sum(p.ended.reward for p in played) / len(played) < 0.6

    async def test_searches_end_and_an_empty_query_is_none(self, bundle):
        episode = Episode(bundle, bundle.tasks("eval")[0], LocalHandle(bundle))
        await episode.start()
        assert (await episode.call("search", {"query": "  "})).text == "query: write what to look for"
        assert (await episode.call("search", {"query": "zzzzqqq"})).text == "No document was found."
        for _ in range(3):
            assert (await episode.call("search", {"query": "gold"})).text.startswith("Doc 1 (Title: Gold)\n")
        assert (
            await episode.call("search", {"query": "gold"})
        ).text == "all 4 searches are used: answer with what you know"
        assert (await episode.end_turn("<answer>gold</answer>")).scores == {"answer/exact": 0.0, "answer/f1": 0.0}
        await episode.close()

    def test_its_check_finds_nothing(self, bundle):
        assert check_bundle("search").findings == ()

    def test_the_step_layout_is_tags(self, bundle):
        played = plays(bundle, "eval", times=1, error_rate=0.0, seed=0, progress=lambda *_: None)
        two_hops = [play for play in played if len(play.turns[0].moves) == 2][:1]
        steps = demonstrated_steps(bundle, two_hops, combined([bundle.step_layout], {}, bundle.path), blank_tokenizer())
        said = [step.messages[-1]["content"] for step in steps]
        assert [text.split(">")[0] for text in said] == ["<search", "<search", "<answer"]
        assert said[2] == f"<answer>{two_hops[0].task.env['answers'][0]}</answer>"
        shown = steps[2].messages[-2]["content"]
        assert shown.startswith(two_hops[0].turns[0].turn.prompt)
        assert shown.count("Doc 1 (Title: ") == 2
        assert {step.tools for step in steps} == {()}


async def over_the_wire(shared, split, index, player):
    async with opened(shared, split, index) as session:
        reply = await player(session)
        return await session.finish(reply)


async def searching(bundle, session, task):
    """The demonstrator on a session."""
    script = bundle.demonstrator(task.turns[0], random.Random(0), 0.0)
    move = next(script)
    while hasattr(move, "name"):
        answer = await session.call(move.name, move.arguments)
        move = script.send([answer.text])
    return move.text


async def at_random(session, rng, words):
    for _ in range(rng.randrange(6)):
        await session.call("search", {"query": " ".join(rng.sample(words, rng.randrange(5)))})
    return " ".join(rng.sample(words, 2))


async def test_a_hundred_of_each_player_at_once_on_a_server_that_keeps_nothing_of_them(bundle):
    tasks = bundle.tasks("eval")
    words = sorted({word for task in tasks for word in task.turns[0].prompt.split()})

    async def crowd(shared):
        shown = [over_the_wire(shared, "eval", n, lambda s, n=n: searching(bundle, s, tasks[n])) for n in range(100)]
        drawn = [
            over_the_wire(shared, "eval", n, lambda s, n=n: at_random(s, random.Random(n), words)) for n in range(100)
        ]
        return [ended.reward for ended in await asyncio.gather(*shown, *drawn)]

    with serving("search", "--max-sessions", "256") as server:
        process = psutil.Process(server.process.pid)
        rewards = await crowd(Shared(server.url))
        assert rewards[:100] == [1.0] * 100
        assert sum(rewards[100:]) <= 2
        before = process.num_threads(), process.num_fds(), len(process.children())
        assert await crowd(Shared(server.url)) == rewards
        assert (process.num_threads(), process.num_fds(), len(process.children())) == before
        assert server.stop() == 0


class TestEndpoint:
    """A retriever elsewhere, in Search-R1's format."""

    @pytest.fixture
    def endpoint(self, bundle):
        bm25, asked = Library(Settings()).bm25(), []

        async def retrieve(request: Request):
            wanted = await request.json()
            asked.append(len(wanted["queries"]))
            found = bm25.search(wanted["queries"], wanted["topk"])
            result = [
                [{"document": {"id": "0", "contents": f'"{p.title}"\n{p.text}'}, "score": 1.0} for p in passages]
                for passages in found
            ]
            return JSONResponse({"result": result})

        with running(Starlette(routes=[Route("/retrieve", retrieve, methods=["POST"])])) as server:
            yield f"{server.url}/retrieve", asked

    async def test_it_is_played_on_as_on_a_retriever_here(self, endpoint, monkeypatch):
        url, asked = endpoint
        monkeypatch.setenv(RETRIEVER, url)
        bundle = load_bundle("search")
        played = await demonstrated(bundle, bundle.tasks("eval"))
        assert {p.ended.reward for p in played} == {1.0}
        # Queries that were asked at once went together.
        assert max(asked) > 1

    async def test_one_that_is_gone_fails_the_episode_and_is_no_empty_result(self, bundle):
        env = {RETRIEVER: "http://127.0.0.1:9/retrieve", "AGENT_ENV_SEARCH_TIMEOUT": "1"}
        failed = pytest.raises(EpisodeFailed, match=r"http://127\.0\.0\.1:9/retrieve: ConnectError|within 1 s")
        with serving("search", env=env) as server, failed:
            await over_the_wire(Shared(server.url), "eval", 0, lambda s: searching(bundle, s, bundle.tasks("eval")[0]))


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Official-looking questions and a small corpus of one's own."""
    passages = [
        ("Carmen", "Carmen is an opera in four acts by the French composer Georges Bizet."),
        ("Gold", "Gold is a chemical element; it has symbol Au."),
        ("Kangaroo", "A kangaroo is a marsupial that hops, native to Australia."),
        ("Violin", "The violin is a wooden chordophone, and the smallest instrument of its family."),
    ]
    lines = [json.dumps({"id": str(n), "contents": f'"{title}"\n{text}'}) for n, (title, text) in enumerate(passages)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    rows = {
        "train": [("who wrote the opera carmen", ["Georges Bizet", "Bizet"])],
        "test": [
            ("which animal jumps around down under", ["kangaroo"]),
            ("which small string thing is bowed", ["violin"]),
        ],
    }
    for name, asked in rows.items():
        table = [{"id": f"{name}_0", "question": q, "golden_answers": a, "data_source": "nq"} for q, a in asked]
        pq.write_table(pa.Table.from_pylist(table), tmp_path / f"{name}.parquet")
    monkeypatch.setenv(CORPUS, str(tmp_path / "corpus.jsonl"))
    monkeypatch.setenv(DATA, str(tmp_path))
    return monkeypatch


class TestOfficialQuestions:
    async def test_they_are_asked_where_they_are(self, own):
        bundle = load_bundle("search")
        assert {split: [task.turns[0].prompt for task in bundle.tasks(split)] for split in bundle.splits} == {
            "train": ["who wrote the opera carmen?"],
            "eval": ["which animal jumps around down under?", "which small string thing is bowed?"],
        }
        (task,) = bundle.tasks("train")
        assert (task.id, task.env) == ("train-0", {"answers": ["Georges Bizet", "Bizet"], "source": "nq"})
        episode = Episode(bundle, task, LocalHandle(bundle))
        await episode.start()
        assert (await episode.call("search", {"query": "opera"})).text.startswith("Doc 1 (Title: Carmen)\nCarmen is an")
        assert (await episode.end_turn("The composer is <answer>the Bizet.</answer>")).reward == 1.0
        await episode.close()

    def test_they_are_not_quietly_searched_for_in_other_texts(self, own, caplog):
        with caplog.at_level("WARNING"):
            load_bundle("search")
            assert caplog.messages == []
            own.delenv(CORPUS)
            load_bundle("search")
        (said,) = caplog.messages
        assert said.startswith("official questions are searched for in the packages' texts, which answer few of them")

    def test_an_own_corpus_needs_questions_of_its_own(self, own, tmp_path):
        own.setenv(DATA, str(tmp_path / "none"))
        with pytest.raises(BundleError, match="AGENT_ENV_SEARCH_CORPUS: is searched, but the questions here are about"):
            load_bundle("search")

    def test_what_cannot_be_used_is_one_problem_each(self, own):
        own.setenv(RETRIEVER, "bm52")
        own.setenv("AGENT_ENV_SEARCH_TIMEOUT", "0")
        with pytest.raises(BundleError) as refused:
            load_bundle("search")
        (problem,) = refused.value.problems
        assert "there is no retriever 'bm52'" in str(problem)
        assert "expected seconds" in str(problem)


class TestMeaning:
    """The dense retriever, and the hybrid one, on MiniLM and faiss."""

    @pytest.mark.parametrize("retriever", ["dense", "hybrid"])
    async def test_what_shares_no_word_is_found_by_its_meaning(self, own, retriever):
        own.setenv(RETRIEVER, retriever)
        bundle = load_bundle("search")
        for task, title in zip(bundle.tasks("eval"), ("Kangaroo", "Violin"), strict=True):
            episode = Episode(bundle, task, LocalHandle(bundle))
            await episode.start()
            assert (await episode.call("search", {"query": task.turns[0].prompt})).text.startswith(
                f"Doc 1 (Title: {title})"
            )
            await episode.close()

    async def test_searches_at_once_are_embedded_together(self, own):
        own.setenv(RETRIEVER, "dense")
        bundle = load_bundle("search")
        found = await demonstrated(bundle, bundle.tasks("eval") * 20)
        assert {play.turns[0].moves[0].answers[0].text.split("\n")[0] for play in found} == {
            "Doc 1 (Title: Kangaroo)",
            "Doc 1 (Title: Violin)",
        }
