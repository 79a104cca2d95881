"""A retriever at a URL, which answers as Search-R1's retrieval server does.

It is sent ``{"queries": […], "topk": 3, "return_scores": true}`` by POST and answers ``{"result": [[{"document":
{"contents": "\\"Title\\"\\nText"}, "score": 0.9}, …], …]}``, a list of passages for each query; without scores each
passage is the document itself.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Sequence

import httpx

from .corpus import passage_of
from .passages import Passage
from .retriever import RetrieverFailed

FIRST_PAUSE = 0.2
"""Seconds before a request is sent again; doubled each time."""
_AGAIN = (429, 500, 502, 503, 504)


class Endpoint:
    """A `Retriever`.

    A search changes nothing there, so one that got no answer, or 429 or 5xx, is sent again until its time is over.

    Args:
        url: of the route, such as ``http://127.0.0.1:8000/retrieve``.
        timeout: seconds for the queries of one `search`.
    """

    def __init__(self, url: str, timeout: float) -> None:
        self._url, self._timeout = url, timeout
        self._client = httpx.Client(limits=httpx.Limits(max_connections=None, max_keepalive_connections=16))
        weakref.finalize(self, self._client.close)

    def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """The passages that the endpoint finds. Raises RetrieverFailed, which says what it answered."""
        asked = {"queries": list(queries), "topk": k, "return_scores": True}
        deadline, pause = time.monotonic() + self._timeout, FIRST_PAUSE
        while True:
            response: httpx.Response | None = None
            try:
                response = self._client.post(self._url, json=asked, timeout=max(0.1, deadline - time.monotonic()))
                what = f"status {response.status_code}: {response.text[:200]!r}"
            except httpx.TransportError as error:
                what = f"{type(error).__name__}: {error}"
            if response is not None and response.is_success:
                return self._read(response, len(queries), k)
            again = response is None or response.status_code in _AGAIN
            if not again or time.monotonic() + pause >= deadline:
                raise RetrieverFailed(f"{self._url}: {what}")
            time.sleep(pause)
            pause *= 2

    def _read(self, response: httpx.Response, queries: int, k: int) -> list[list[Passage]]:
        try:
            result = response.json()["result"]
            if len(result) != queries:
                raise ValueError(f"{len(result)} results for {queries} queries")
            return [[passage_of(item.get("document", item)["contents"]) for item in found[:k]] for found in result]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            what = f"answered what Search-R1's retrieval server does not: {type(error).__name__}: {error}"
            raise RetrieverFailed(f"{self._url} {what}: {response.text[:200]!r}") from error
