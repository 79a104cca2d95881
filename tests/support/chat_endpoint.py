"""A server on loopback that answers as OpenAI's chat API does, by a script."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Message = dict[str, Any]
Script = Callable[[list[Message]], Message | int | bytes]
"""From the messages of a request to the one that answers it, the status that refuses it, or what is sent instead."""


@dataclass
class ChatEndpoint:
    """Where it is, and what it was asked: the body of each request, and its ``Authorization``."""

    url: str
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)


@contextmanager
def chat_endpoint(script: Script) -> Iterator[ChatEndpoint]:
    """Answer ``POST …/chat/completions`` by `script`, in a thread a request, until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            endpoint.asked.append(body)
            endpoint.keys.append(self.headers.get("Authorization", ""))
            said = script(body["messages"])
            if isinstance(said, int):
                self._send(said, json.dumps({"error": {"message": "refused by the script"}}).encode())
            elif isinstance(said, bytes):
                self._send(200, said)
            else:
                self._send(200, json.dumps(_completion(body["model"], said)).encode())

        def _send(self, status: int, body: bytes) -> None:
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except ConnectionError:
                self.close_connection = True  # who asked has gone

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    endpoint = ChatEndpoint(f"http://127.0.0.1:{server.server_port}/v1")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def calling(name: str, arguments: dict[str, Any]) -> Message:
    """The message that calls a tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": f"call_{name}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def saying(text: str) -> Message:
    """The message that says something."""
    return {"role": "assistant", "content": text}


def _completion(model: str, message: Message) -> dict[str, Any]:
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    choice = {"index": 0, "finish_reason": reason, "message": message}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {"id": "x", "object": "chat.completion", "created": 0, "model": model, "choices": [choice], "usage": usage}
