"""A small web server for one page: its files, its numbers, its requests, and a stream of states."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlparse

Reply = tuple[str, bytes]  # content type, content
MAX_REQUEST_BYTES = 1 << 20
PORTS_TRIED = 50  # after the one that was asked for


class PageServer:
    """Serves in threads of its own until stopped.

    Arguments:
        host, port: where to listen; where the port is in use, one of the next is taken; 0 takes any.
        get: from a path and its query to what is sent, or None.
        post: from a path and a JSON object to a JSON object.
        stream: what `/stream` sends, piece by piece; it ends when `stopped` is set.
    """

    def __init__(
        self,
        host: str,
        port: int,
        get: Callable[[str, dict[str, str]], Reply | None],
        post: Callable[[str, dict[str, Any]], dict[str, Any]],
        stream: Callable[[], Iterator[bytes]],
    ):
        self.stopped = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

            def do_GET(self) -> None:
                url = urlparse(self.path)
                if url.path == "/stream":
                    return self._stream()
                query = {key: values[-1] for key, values in parse_qs(url.query).items()}
                try:
                    found = get(url.path, query)
                except Exception as error:  # the page shows the reason
                    return self._send("text/plain; charset=utf-8", str(error).encode(), HTTPStatus.BAD_REQUEST)
                if found is None:
                    return self._send("text/plain", b"nothing is here", HTTPStatus.NOT_FOUND)
                return self._send(*found)

            def do_POST(self) -> None:
                # A page of another site can not send JSON here without asking first, and it is never allowed to.
                size = int(self.headers.get("Content-Length") or 0)
                if self.headers.get("Content-Type") != "application/json" or not 0 <= size <= MAX_REQUEST_BYTES:
                    return self._send("text/plain", b"JSON is expected", HTTPStatus.BAD_REQUEST)
                try:
                    answer = post(urlparse(self.path).path, json.loads(self.rfile.read(size)))
                except Exception as error:
                    return self._send("text/plain; charset=utf-8", str(error).encode(), HTTPStatus.BAD_REQUEST)
                return self._send("application/json", json.dumps(answer).encode())

            def _send(self, kind: str, content: bytes, status: HTTPStatus = HTTPStatus.OK) -> None:
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", kind)
                    self.send_header("Content-Length", str(len(content)))
                    self.send_header("Cache-Control", "no-store")
                    self.end_headers()
                    self.wfile.write(content)
                except OSError:  # the browser has gone
                    self.close_connection = True

            def _stream(self) -> None:
                try:
                    self.send_response(HTTPStatus.OK)
                    self.send_header("Content-Type", "application/octet-stream")
                    self.send_header("Cache-Control", "no-store")
                    self.send_header("Connection", "close")
                    self.end_headers()
                    for piece in stream():
                        self.wfile.write(piece)
                        self.wfile.flush()
                except OSError:
                    pass
                self.close_connection = True

        self._server = _listen(host, port, Handler)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop listening. Streams end by themselves."""
        if not self.stopped.is_set():
            self.stopped.set()
            self._server.shutdown()
            self._server.server_close()
            self._thread.join(2)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = False  # Two viewers must not share a port.

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is no error."""


class _Server6(_Server):
    address_family = socket.AF_INET6


def _listen(host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    kind = _Server6 if ":" in host else _Server
    last: OSError | None = None
    for wanted in [0] if port == 0 else range(port, min(port + PORTS_TRIED, 65536)):
        try:
            return kind((host, wanted), handler)
        except OSError as error:
            last = error
    raise OSError(f"the viewer can not listen on {host}:{port}: {last}")
