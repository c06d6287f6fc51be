"""Servers on this machine that files are read from as if they were far away, and that count what they are asked."""

from __future__ import annotations

import contextlib
import http.server
import threading
from email.utils import formatdate
from pathlib import Path


@contextlib.contextmanager
def s3_server():
    """An object store with a bucket, at a free port: its address, and all requests so far as (method, path, range)."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    application, requests = DomainDispatcherApplication(create_backend_app), []

    def counted(environment, start_response):
        requests.append((environment["REQUEST_METHOD"], environment["PATH_INFO"], environment.get("HTTP_RANGE")))
        return application(environment, start_response)

    with _served(make_server("127.0.0.1", 0, counted, threaded=True)) as server:
        yield f"http://127.0.0.1:{server.server_port}", requests


@contextlib.contextmanager
def http_server(folder, answers_ranges=True, mark="ETag", cut=lambda: 0):
    """A web server for the files of a folder, where ranges may be asked for: its address and the requests.

    `mark` is the header that tells versions apart, or None. From the end of each answer `cut()` bytes are missing, of
    which nothing is said.
    """
    requests = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self):
            self._answer(is_sent=False)

        def do_GET(self):
            self._answer(is_sent=True)

        def _answer(self, is_sent):
            path = Path(folder, self.path.lstrip("/"))
            if not path.is_file():
                return self.send_error(404)
            content, wanted = path.read_bytes(), self.headers.get("Range")
            requests.append((self.command, self.path, wanted))
            start, stop = 0, len(content)
            wanted = wanted if answers_ranges else None
            if wanted:
                first, _, last = wanted.removeprefix("bytes=").partition("-")
                start, stop = int(first), min(int(last or stop) + 1, stop)
                if start >= len(content):
                    return self.send_error(416)
            self.send_response(206 if wanted else 200)
            self.send_header("Accept-Ranges", "bytes")
            if mark == "ETag":
                self.send_header("ETag", f'"{path.stat().st_mtime_ns}"')
            elif mark == "Last-Modified":
                self.send_header("Last-Modified", formatdate(path.stat().st_mtime, usegmt=True))
            missing = cut() if is_sent else 0
            if not missing:
                self.send_header("Content-Length", str(stop - start))
            if wanted:
                self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(content)}")
            self.end_headers()
            if is_sent:
                self.wfile.write(content[start : stop - missing])
            return None

        def log_message(self, *args):
            """Nothing is written anywhere."""

    with _served(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}", requests


@contextlib.contextmanager
def _served(server):
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
