"""``invariance watch``: a page that follows running trainings, local and read-only.

It listens on this machine alone, answers GET and HEAD, and takes no name of a file from
a request: a run is looked up among those that are there.
"""

import errno
import http.server
import json
import sys
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs, urlsplit

from tyro import conf

from ..errors import DataError, SettingError, near_path
from ..report import Gaze, make_live_page, show_now

HOST = "127.0.0.1"
OURS = {HOST, "localhost"}  # who else asks was sent here by a name that is not ours
LARGEST_PORT = 65_535
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Follow running trainings in the browser; it only reads."""

    folder: Annotated[str, conf.Positional, conf.arg(metavar="[FOLDER]")] = "runs"
    """Folder of run folders, or one run folder."""
    port: int = 8650
    """Port of the page: http://127.0.0.1:PORT. 0 takes any free one."""
    open: bool = False
    """Open the page in the browser."""

    def run(self) -> int:
        """Answer until Ctrl-C."""
        with make_server(self.folder, self.port) as server:
            address = f"http://{HOST}:{server.server_address[1]}/"
            print(f"watching {self.folder}: {address}", flush=True)
            print("Ctrl-C closes this page; training continues.", flush=True)
            if self.open:
                import webbrowser

                webbrowser.open(address)
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                print(file=sys.stderr)
        return 0


def make_server(folder: str | Path, port: int) -> http.server.ThreadingHTTPServer:
    """A server of the page for a folder, on this machine alone."""
    place = Path(folder).expanduser()
    if not place.is_dir():
        raise DataError(
            f"There is no folder {str(folder)!r} to watch: 'invariance train' makes "
            f"runs/.{near_path(place)}"
        )
    if not 0 <= port <= LARGEST_PORT:
        raise SettingError(f"port is a number from 0 to {LARGEST_PORT}: got {port}.")
    handler = type("Handler", (Answers,), {"gaze": Gaze(place)})
    try:
        return http.server.ThreadingHTTPServer((HOST, port), handler)
    except OSError as cause:
        if cause.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        raise SettingError(
            f"Port {port} is in use, maybe by another 'invariance watch': choose "
            "another with --port, or --port 0 for any free one."
        ) from None


class Answers(http.server.BaseHTTPRequestHandler):
    """What is answered to a request."""

    gaze: Gaze
    server_version, sys_version = "invariance", ""
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """The page, what it shows now, or the report of a run."""
        host = urlsplit(f"//{self.headers.get('Host', '')}").hostname
        if host not in OURS:
            self.refuse(HTTPStatus.FORBIDDEN, f"This page is only at http://{HOST}.")
            return
        asked = urlsplit(self.path)
        names = parse_qs(asked.query).get("run", [])
        if asked.path == "/":
            self.answer(make_live_page(self.gaze.title), "text/html")
        elif asked.path == "/now":
            self.answer(json.dumps(show_now(self.gaze, names)), "application/json")
        elif asked.path == "/report" and names:
            report = self.gaze.find_report(names[0])
            if report is None:
                self.refuse(HTTPStatus.NOT_FOUND, "There is no such report.")
            else:
                self.answer(report.read_bytes(), "text/html")
        else:
            self.refuse(HTTPStatus.NOT_FOUND, "There is nothing here.")

    do_HEAD = do_GET  # noqa: N815 - the library's own form of name

    def refuse_method(self) -> None:
        """Nothing can be changed from here."""
        self.close_connection = True
        self.refuse(HTTPStatus.METHOD_NOT_ALLOWED, "This page is read-only.")

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = refuse_method  # noqa: N815

    def answer(
        self, content: str | bytes, kind: str, status: HTTPStatus = HTTPStatus.OK
    ) -> None:
        """Headers, and the content unless only they are asked for."""
        data = (
            content.encode("utf-8", "replace") if isinstance(content, str) else content
        )
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def refuse(self, status: HTTPStatus, sentence: str) -> None:
        """A sentence instead of an answer."""
        self.answer(sentence + "\n", "text/plain", status)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the page asks every two seconds."""
