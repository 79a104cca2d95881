"""Where a task server's token is kept: in an environment variable or in a file, for the server and its clients alike.

A file holds a token a line. The server admits each of them, a client sends the first: so one file serves both, and a
token is changed without a moment in which one side knows what the other does not.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from agent_env.errors import InputError, Problem

MAX_FILE = 64 * 1024
"""Bytes that a file of tokens may have."""


@dataclass(frozen=True)
class TokenSource:
    """Where the token is. Holds no token; hashable, picklable, and false if it names no place.

    Args:
        var: an environment variable with one token.
        file: a file with a token a line; kept as an absolute path.

    Raises:
        InputError: both are given, or the variable has a name that none can have.
    """

    var: str | None = None
    file: str | None = None

    def __post_init__(self) -> None:
        problems = []
        if self.var is not None and (not self.var or "=" in self.var or "\0" in self.var):
            problems.append(Problem("token_var", f"{self.var!r} names no environment variable"))
        if self.var is not None and self.file is not None:
            problems.append(Problem("token_file", "a token is in a variable or in a file, not in both", "name one"))
        if self.file is not None and (not self.file or "\0" in self.file):
            problems.append(Problem("token_file", f"{self.file!r} names no file"))
        if problems:
            raise InputError(problems)
        if self.file is not None:
            object.__setattr__(self, "file", str(Path(self.file).absolute()))

    def __bool__(self) -> bool:
        return self.var is not None or self.file is not None

    def __str__(self) -> str:
        """The place in words."""
        return f"environment variable {self.var}" if self.file is None else f"file {self.file}"

    @property
    def options(self) -> list[str]:
        """The options that name this place on a command line of ours."""
        if self.file is not None:
            return ["--token-file", self.file]
        return [] if self.var is None else ["--token-var", self.var]

    def read(self) -> tuple[str, ...]:
        """The tokens there now, in order, each once; none if no place is named.

        Raises:
            InputError: there is none, or one that no HTTP header can carry; no token is repeated in its message.
        """
        if self.file is not None:
            return self._in_file(self.file)
        if self.var is None:
            return ()
        token = os.environ.get(self.var, "")
        if not token:
            state = "is empty" if self.var in os.environ else "is not set"
            fix = "export it where this process starts"
            raise InputError(Problem(str(self), f"{state}, and is to hold the token", fix))
        check_token(token, str(self))
        return (token,)

    def _in_file(self, name: str) -> tuple[str, ...]:
        try:
            # A pipe gives its tokens to the first reader alone, and would be waited for without this flag.
            with open(name, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise InputError(Problem(str(self), "is no regular file", "write the tokens into one"))
                content = file.read(MAX_FILE + 1)
        except OSError as error:
            fix = "a file with a token a line"
            raise InputError(Problem(str(self), f"cannot be read: {error.strerror or error}", fix)) from None
        if len(content) > MAX_FILE:
            raise InputError(Problem(str(self), f"has more than {MAX_FILE} bytes", "a token a line is enough"))
        found: dict[str, None] = {}
        for number, line in enumerate(content.split(b"\n"), 1):
            if token := line.strip(b" \t\r").decode("latin-1"):
                check_token(token, f"{self}, line {number}")
                found[token] = None
        if not found:
            raise InputError(Problem(str(self), "holds no token", "write a token a line"))
        return tuple(found)


NO_TOKEN = TokenSource()
"""Of a server that asks for none."""


def check_token(token: str, where: str) -> None:
    """Raises InputError for a token that is empty or that no HTTP header can carry, without repeating it."""
    if not token:
        raise InputError(Problem(where, "is empty"))
    if not all("!" <= character <= "~" for character in token):
        what = "holds a character other than visible ASCII, which a token in an HTTP header cannot have"
        raise InputError(Problem(where, what, "letters, digits and punctuation, without a space"))
