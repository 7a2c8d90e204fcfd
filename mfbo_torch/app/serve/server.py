"""The server of the page: it listens on this machine, and answers who has its token.

Nobody else is answered: the address has a random token, the ``Host`` header must name this machine (a page of another
site that has rebound its name to it does not), and requests that another site makes are refused. No file is opened by a
name from the address. Everything is read, but for notes, which a ``POST`` with the token keeps.
"""

from __future__ import annotations

import errno
import gzip
import hmac
import ipaddress
import json
import socket
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_urlsafe
from typing import Any
from urllib.parse import parse_qs, urlsplit

from mfbo_torch.app.serve.live_run import LiveRun
from mfbo_torch.utils.errors import SettingError

MOST_BYTES, MOST_SECONDS = 65_536, 30.0
"""Bytes of a note's request, and the seconds that a client may take to send it."""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Server(ThreadingHTTPServer):
    """Serves one run under an address that has a token."""

    daemon_threads = True

    def __init__(self, run: LiveRun, host: str = "127.0.0.1", port: int = 0) -> None:
        self.run, self.token, self.host = run, token_urlsafe(24), host
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            if isinstance(error, socket.gaierror) or getattr(error, "errno", None) == errno.EADDRNOTAVAIL:
                raise SettingError("host", host, "a name or an address of this machine") from error
            reason = getattr(error, "strerror", None) or error
            raise SettingError("port", port, f"a free port of {host}, or 0 for any ({reason})") from error

    @property
    def address(self) -> str:
        """Where the page is, its token included."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.server_port}/{self.token}/"

    def named(self, header: str) -> bool:
        """Whether a ``Host`` header names this machine as it was told to listen: a name that is not its own may have
        been rebound. An address of its own is right where it listens on all of them."""
        try:
            parts = urlsplit(f"//{header}")
            name, port = parts.hostname or "", parts.port
        except ValueError:
            return False
        if port != self.server_port:
            return False
        if name in LOOPBACK or name == self.host:
            return True
        try:
            return ipaddress.ip_address(self.host).is_unspecified and bool(ipaddress.ip_address(name))
        except ValueError:
            return False


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "mfbo", ""
    timeout = MOST_SECONDS

    def do_GET(self) -> None:
        routes: dict[str, Callable[[], tuple[str, bytes]]] = {
            "": self._page,
            "state": self._state,
            "query": self._query,
        }
        self._answer(routes)

    def do_POST(self) -> None:
        self._answer({"note": self._note})

    def _answer(self, routes: dict[str, Callable[[], tuple[str, bytes]]]) -> None:
        self.close_connection |= self.command == "POST"
        name = None
        with suppress(ValueError):  # of an address that is none
            name = self._name()
        if name is None:
            return self._send(HTTPStatus.FORBIDDEN, "text/plain", b"no")
        if name not in routes:
            return self._send(HTTPStatus.NOT_FOUND, "text/plain", b"nothing here")
        try:
            kind, body = routes[name]()
        except (SettingError, ValueError, RecursionError) as error:
            return self._send(HTTPStatus.BAD_REQUEST, "text/plain", str(error).encode("utf-8", "replace"))
        self._send(HTTPStatus.OK, kind, body)

    def _name(self) -> str | None:
        """What is asked for, ``None`` where the token, the host or the site that asks is not the right one."""
        parts = urlsplit(self.path).path.split("/")
        given = parts[1] if len(parts) > 1 else ""
        same = hmac.compare_digest(given.encode("utf-8", "replace"), self.server.token.encode())
        hosts, origin = self.headers.get_all("Host") or [], self.headers.get("Origin")
        if not same or len(hosts) != 1 or not self.server.named(hosts[0]):
            return None
        if origin is not None and origin != f"http://{hosts[0]}":
            return None
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return None
        return parts[2] if len(parts) == 3 else "/"

    def _page(self) -> tuple[str, bytes]:
        return "text/html; charset=utf-8", self.server.run.page().encode()

    def _state(self) -> tuple[str, bytes]:
        return _json(self.server.run.state(self._number("seen")))

    def _query(self) -> tuple[str, bytes]:
        return _json(self.server.run.query(self._number("id")))

    def _note(self) -> tuple[str, bytes]:
        length = self.headers.get("Content-Length", "")
        if self.headers.get_content_type() != "application/json" or not length.isdecimal() or int(length) > MOST_BYTES:
            raise SettingError("note", length, f"JSON of at most {MOST_BYTES:,} bytes")
        found = json.loads(self.rfile.read(int(length)))
        if not isinstance(found, dict):
            raise SettingError("note", type(found).__name__, 'as in {"id": 17, "text": "worth a second look"}')
        self.server.run.note(found.get("id"), found.get("text"))
        return _json({})

    def _number(self, name: str) -> int:
        given = parse_qs(urlsplit(self.path).query).get(name, [""])[-1]
        if not given.isdecimal() or len(given) > 12:
            raise SettingError(name, given, "a whole number")
        return int(given)

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        packed = len(body) > 4096 and "gzip" in self.headers.get("Accept-Encoding", "")
        if packed:
            body = gzip.compress(body, 1)
            self.send_header("Content-Encoding", "gzip")
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        try:
            self.end_headers()
            self.wfile.write(body)
        except OSError:  # who asked has gone
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed for each request."""


def _json(value: Any) -> tuple[str, bytes]:
    return "application/json", json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
