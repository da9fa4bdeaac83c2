# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""An HTTP proxy before the array that loses answers: the request is carried out, and the connection is closed without a word."""

import http.client
import http.server
import threading
from urllib.parse import urlsplit


class Proxy:
    """'loses' says of a method and path whether its answer is lost; 'then' is called before it is."""

    def __init__(self, url, loses, then=lambda: None):
        self.lost = []
        proxy = self
        address = urlsplit(url).netloc

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                upstream = http.client.HTTPConnection(address, timeout=30)
                upstream.request(self.command, self.path, body, dict(self.headers))
                answer = upstream.getresponse()
                text = answer.read()
                upstream.close()
                if loses(self.command, self.path):
                    proxy.lost.append((self.command, self.path))
                    then()
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

            def log_message(self, *unused):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = "http://127.0.0.1:%d" % self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def end(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
