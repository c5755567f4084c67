"""The mirror: every vendor's host name over HTTP and HTTPS, from /srv/mirror/<host>/<path>."""

import functools
import http.server
import posixpath
import ssl
import threading
import urllib.parse


class Handler(http.server.SimpleHTTPRequestHandler):
    """The folder is the Host header's."""

    protocol_version = "HTTP/1.1"

    def translate_path(self, path):
        host = (self.headers.get("Host") or "").partition(":")[0]
        clean = posixpath.normpath(urllib.parse.unquote(path.partition("?")[0]))
        return "/srv/mirror/%s%s" % (host, clean)

    def log_message(self, format, *args):
        print(self.headers.get("Host"), format % args, flush=True)


def serve(port, secure):
    server = http.server.ThreadingHTTPServer(("", port), Handler)
    if secure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain("/srv/gnupg/mirror.crt", "/srv/gnupg/mirror.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


threading.Thread(target=functools.partial(serve, 80, False), daemon=True).start()
serve(443, True)
