"""Searches of many episodes: together, once each, in time, and failing as failures."""

import asyncio
import threading
import time

import pytest

from agent_env.bundles.search.desk import Desk
from agent_env.bundles.search.passages import Passage
from agent_env.bundles.search.retriever import RetrieverFailed


async def until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.001)


class Echo:
    """Finds each query itself; holds its answers back until `go`, and fails for the query ``bad``."""

    def __init__(self):
        self.go = threading.Event()
        self.go.set()
        self.batches = []

    def search(self, queries, k):
        self.batches.append(list(queries))
        assert self.go.wait(30)
        if "bad" in queries:
            raise ZeroDivisionError("in the index")
        return [[Passage(query, str(k))] for query in queries]


def desk(echo, **options):
    return Desk(lambda: echo, **{"found": 3, "timeout": 30.0, **options})


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "search"]


async def held(echo, desk, *queries):
    """Tasks that ask for each query, the first of which the retriever is busy with."""
    echo.go.clear()
    first = asyncio.create_task(desk.ask("first"))
    await until(lambda: echo.batches)
    asking = [first, *(asyncio.create_task(desk.ask(query)) for query in queries)]
    await asyncio.sleep(0)
    return asking


async def test_what_waits_meanwhile_is_one_batch_and_equal_queries_are_one():
    echo = Echo()
    asking = await held(echo, desk(echo), "a", "b", "a")
    echo.go.set()
    found = await asyncio.gather(*asking)
    assert found == [(Passage(query, "3"),) for query in ("first", "a", "b", "a")]
    assert echo.batches == [["first"], ["a", "b"]]


async def test_a_batch_has_its_bound():
    echo = Echo()
    asking = await held(echo, desk(echo, batch=2), "a", "b", "c")
    echo.go.set()
    await asyncio.gather(*asking)
    assert echo.batches == [["first"], ["a", "b"], ["c"]]


async def test_several_workers_search_at_once():
    echo = Echo()
    taken = desk(echo, workers=3)
    asking = await held(echo, taken, "a", "b", "c")
    await until(lambda: len(echo.batches) == 3)
    assert len(threads()) == 3
    echo.go.set()
    await asyncio.gather(*asking)
    assert sorted(query for batch in echo.batches for query in batch) == ["a", "b", "c", "first"]


async def test_a_query_is_asked_once_and_then_known():
    echo = Echo()
    known = desk(echo)
    assert await known.ask("a") == await known.ask("a") == (Passage("a", "3"),)
    assert echo.batches == [["a"]]


async def test_only_so_many_are_remembered_the_last_used():
    echo = Echo()
    known = desk(echo, kept=3)
    for query in ("a", "b", "c", "a", "d", "a", "b"):  # for d, b is forgotten
        await known.ask(query)
    assert echo.batches == [["a"], ["b"], ["c"], ["d"], ["b"]]


async def test_a_query_that_fails_costs_no_other():
    echo = Echo()
    failing = desk(echo)
    asking = await held(echo, failing, "a", "bad", "a", "b")
    echo.go.set()
    found = await asyncio.gather(*asking, return_exceptions=True)
    assert [found[n] for n in (0, 1, 3, 4)] == [(Passage(query, "3"),) for query in ("first", "a", "a", "b")]
    assert (type(found[2]), str(found[2])) == (RetrieverFailed, "ZeroDivisionError: in the index")
    assert echo.batches == [["first"], ["a", "bad", "b"], ["a"], ["bad"], ["b"]]
    with pytest.raises(RetrieverFailed):
        await failing.ask("bad")  # of which nothing is remembered


async def test_a_retriever_that_cannot_be_opened_is_tried_again():
    tries = []

    def make():
        tries.append(1)
        if len(tries) == 1:
            raise FileNotFoundError("no index")
        return Echo()

    opening = Desk(make, found=3, timeout=30.0)
    with pytest.raises(RetrieverFailed, match="FileNotFoundError: no index"):
        await opening.ask("a")
    assert await opening.ask("a") == (Passage("a", "3"),)
    assert await opening.ask("b") == (Passage("b", "3"),)
    assert len(tries) == 2


async def test_each_search_has_its_time():
    echo = Echo()
    late = desk(echo, timeout=0.1)
    asking = await held(echo, late, "a")
    found = await asyncio.gather(*asking, return_exceptions=True)
    assert [str(error) for error in found] == ["a search was not answered within 0.1 s"] * 2
    echo.go.set()
    # What nobody waits for any more is not searched for.
    assert await late.ask("b") == (Passage("b", "3"),)
    assert echo.batches == [["first"], ["b"]]


async def test_an_episode_that_is_over_takes_its_search_with_it():
    echo = Echo()
    asking = await held(echo, desk(echo), "a", "b")
    asking[1].cancel()
    await asyncio.sleep(0)
    echo.go.set()
    assert (await asking[2]) == (Passage("b", "3"),)
    assert echo.batches == [["first"], ["b"]]


async def test_more_than_may_wait_is_refused():
    echo = Echo()
    full = desk(echo, waiting=2)
    asking = await held(echo, full, "a", "b")
    with pytest.raises(RetrieverFailed, match="2 searches wait already"):
        await full.ask("one more")
    echo.go.set()
    await asyncio.gather(*asking)


async def test_an_idle_desk_has_no_thread():
    await desk(Echo()).ask("a")
    await until(lambda: not threads())


def test_two_event_loops_share_one():
    echo = Echo()
    shared = desk(echo)
    found = [asyncio.run(shared.ask(query)) for query in ("a", "a", "b")]
    assert found == [(Passage(query, "3"),) for query in ("a", "a", "b")]
    assert echo.batches == [["a"], ["b"]]
