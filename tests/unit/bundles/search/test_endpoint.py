"""A retriever over HTTP in Search-R1's format, on a real server."""

import json

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from agent_env.bundles.search.endpoint import Endpoint
from agent_env.bundles.search.passages import Passage
from agent_env.bundles.search.retriever import RetrieverFailed
from support.inprocess import running


@pytest.fixture
def serve():
    """A server at ``/retrieve`` whose answers are given in their order, the last one for ever; what it was sent."""
    sent, answers = [], []

    async def retrieve(request: Request):
        sent.append(await request.json())
        return answers.pop(0) if len(answers) > 1 else answers[0]

    with running(Starlette(routes=[Route("/retrieve", retrieve, methods=["POST"])])) as server:

        def told(*of, timeout=30.0):
            answers[:] = of
            return Endpoint(f"{server.url}/retrieve", timeout)

        yield told, sent


def document(title, text):
    return {"id": "1", "contents": f'"{title}"\n{text}'}


def test_what_is_sent_and_read(serve):
    told, sent = serve
    scored = [{"document": document("Paris", "A city.\nIn France."), "score": 0.9}, {"document": document("Seine", "")}]
    found = told(JSONResponse({"result": [scored, []]})).search(["capital of France", "zzz"], 3)
    assert found == [[Passage("Paris", "A city.\nIn France."), Passage("Seine", "")], []]
    assert sent == [{"queries": ["capital of France", "zzz"], "topk": 3, "return_scores": True}]


def test_without_scores_a_passage_is_the_document(serve):
    told, _ = serve
    documents = [document("a", "1"), document("b", "2")]
    assert told(JSONResponse({"result": [documents]})).search(["q"], 1) == [[Passage("a", "1")]]


def test_what_may_pass_is_asked_again(serve):
    told, sent = serve
    busy, limited = PlainTextResponse("busy", 503), PlainTextResponse("slowly", 429)
    assert told(busy, limited, JSONResponse({"result": [[]]})).search(["q"], 3) == [[]]
    assert len(sent) == 3


def test_not_for_longer_than_its_time(serve):
    told, sent = serve
    with pytest.raises(RetrieverFailed, match=r"/retrieve: status 503: 'busy'"):
        told(PlainTextResponse("busy", 503), timeout=0.5).search(["q"], 3)
    assert 1 <= len(sent) <= 2


def test_what_will_not_pass_is_not(serve):
    told, sent = serve
    with pytest.raises(RetrieverFailed, match=r"status 422: 'topk\?'"):
        told(PlainTextResponse("topk?", 422)).search(["q"], 3)
    assert len(sent) == 1


@pytest.mark.parametrize(
    "answer",
    [
        {"result": [[], []]},
        {"result": [["text"]]},
        {"result": [[{"document": {"text": "a"}}]]},
        {"result": [[{"document": {"contents": 7}}]]},
        {"result": None},
        {"results": [[]]},
        [],
    ],
)
def test_another_format_is_no_empty_result(serve, answer):
    told, _ = serve
    with pytest.raises(RetrieverFailed, match="answered what Search-R1's retrieval server does not"):
        told(JSONResponse(answer)).search(["q"], 3)
    with pytest.raises(RetrieverFailed, match="JSONDecodeError"):
        told(PlainTextResponse(json.dumps(answer)[:-1] + "?")).search(["q"], 3)


def test_nobody_there():
    with pytest.raises(RetrieverFailed, match=r"http://127\.0\.0\.1:9/retrieve: ConnectError"):
        Endpoint("http://127.0.0.1:9/retrieve", 0.3).search(["q"], 3)
