"""The other hosts of the tests of named hosts: run in an own user, network and mount namespace, it
gives their addresses to a second network namespace, leads routes there, maps their names in
/etc/hosts, serves them in both, and ends when its standard input does. It prints "ready" and
the id of a process in the second namespace, or the reason for which it cannot serve.

Arguments: a directory of its own, a directory of files to serve, the file for the certificate.
"""

import base64
import ctypes
import hashlib
import http.server
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading

ADDRESSES = {
    "93.184.215.14/32": ["one.example", "www.one.example", "deep.www.one.example", "dual.example"],
    "93.184.215.15/32": ["two.example"],
    "93.184.215.66/32": ["evil.example"],
    "93.184.215.77/32": ["parent.example"],
    "2a00:1450::5/128": ["six.example", "dual.example"],
    "10.0.0.5/32": ["private.example"],
    "169.254.169.254/32": ["metadata.example"],
    "127.0.0.1/8": ["localhost", "loop.example"],
    # No route leads to it.
    "93.184.215.99/32": ["gone.example"],
}

UNASSIGNED = {"93.184.215.99/32", "127.0.0.1/8"}
HTTP = [80, 8080, 9999]
TLS = 443
SPEAKS_FIRST = 2200
ECHO = 9000
POSTGRES = 5432
PARENT = 3129
BANNER = b"SSH-2.0-own\r\n"


def run(*command):
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


class Network:
    """A network namespace with the addresses, as other machines: an address of this one is refused."""

    CLONE_NEWNET = 0x40000000

    def __init__(self):
        hold = ["unshare", "--net", "sh", "-c", "echo; exec cat"]
        self.holder = subprocess.Popen(hold, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.holder.stdout.readline()
        self.pid = str(self.holder.pid)
        self.first = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "others", "type", "veth", "peer", "name", "first", "netns", self.pid)
        self.inside("link", "set", "lo", "up")
        for at, link, ip in [(1, "others", lambda *words: run("ip", *words)), (2, "first", self.inside)]:
            ip("address", "add", "192.168.77.%d/30" % at, "dev", link)
            ip("address", "add", "fd77::%d/64" % at, "dev", link, "nodad")
            ip("link", "set", link, "up")
        for address in ADDRESSES:
            if address not in UNASSIGNED:
                is_ipv6 = ":" in address
                self.inside("address", "add", address, "dev", "lo", *(["nodad"] if is_ipv6 else []))
                run("ip", "route", "add", address, "via", "fd77::2" if is_ipv6 else "192.168.77.2")

    def inside(self, *words):
        run("nsenter", "--target", self.pid, "--net", "ip", *words)

    def enter(self, namespace):
        if ctypes.CDLL(None, use_errno=True).setns(namespace, self.CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")

    def __enter__(self):
        second = os.open("/proc/%s/ns/net" % self.pid, os.O_RDONLY)
        self.enter(second)
        os.close(second)

    def __exit__(self, *_):
        self.enter(self.first)


def set_up(own):
    files = {"hosts": "", "resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"}
    for address, names in ADDRESSES.items():
        files["hosts"] += "%s %s\n" % (address.split("/")[0], " ".join(names))
    for name, text in files.items():
        path = os.path.join(own, name)
        with open(path, "w") as file:
            file.write(text)
        run("mount", "--bind", path, "/etc/" + name)


def certificate(own, copy):
    names = [name for names in ADDRESSES.values() for name in names]
    key, made = os.path.join(own, "key"), os.path.join(own, "made")
    run(
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
        "-days", "2", "-subj", "/CN=test", "-keyout", key, "-out", made,
        "-addext", "subjectAltName=" + ",".join("DNS:" + name for name in names),
        # rustls takes no authority for the certificate of a server.
        "-addext", "basicConstraints=critical,CA:FALSE",
    )
    with open(made) as file, open(copy, "w") as to:
        to.write(file.read())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, key)
    return context


class Handler(http.server.SimpleHTTPRequestHandler):
    # The file with the keys that were shown.
    keys = None
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.headers.get("Upgrade", "").lower() == "websocket":
            return self.web_socket()
        if self.path.startswith("/git/"):
            return self.git()
        if self.path.startswith("/key"):
            with open(self.keys, "a") as file:
                file.write(self.headers.get("Authorization", "none") + "\n")
            return self.answer(b"noted")
        path = self.translate_path(self.path)
        if self.path != "/" and os.path.exists(path):
            return super().do_GET()
        if self.path != "/":
            return self.send_error(404)
        self.answer(b"hello of " + self.headers.get("Host", "").encode())

    def do_POST(self):
        if self.path.startswith("/git/"):
            return self.git()
        self.answer(self.rfile.read(int(self.headers["Content-Length"])))

    do_PUT = do_POST

    def answer(self, body):
        body += b"\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def git(self):
        """Git's own protocol, by git-http-backend(1)."""
        path, _, query = self.path.partition("?")
        variables = {
            "GIT_PROJECT_ROOT": self.directory,
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path[len("/git"):],
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
        }
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = subprocess.run(
            ["git", "http-backend"], input=body, stdout=subprocess.PIPE, env={**os.environ, **variables}
        ).stdout
        head, _, body = answer.partition(b"\r\n\r\n")
        headers = [line.split(": ", 1) for line in head.decode().split("\r\n")]
        status = dict(headers).get("Status", "200")
        self.send_response(int(status[:3]))
        for name, value in headers:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def web_socket(self):
        """Greets, and echoes one short text frame (RFC 6455)."""
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        self.send_header("Sec-WebSocket-Accept", accept)
        self.end_headers()
        _, length = self.rfile.read(2)
        mask = self.rfile.read(4)
        text = bytes(byte ^ mask[at % 4] for at, byte in enumerate(self.rfile.read(length & 127)))
        self.wfile.write(bytes([0x81, len(text)]) + text)
        self.close_connection = True


class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
    daemon_threads = True
    request_queue_size = 128

    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        socket.socket.setsockopt(self.socket, socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "test", self.server_address[1]

    def handle_error(self, *_):
        pass


def start(function, *arguments):
    threading.Thread(target=function, args=arguments, daemon=True).start()


def accept(port, handle):
    listener = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)

    def serve():
        while True:
            stream, _ = listener.accept()
            start(handle, stream)

    start(serve)


def speak_first(stream):
    with stream:
        stream.sendall(BANNER)
        stream.recv(256)


def echo(stream):
    with stream:
        while True:
            bytes_ = stream.recv(65536)
            if not bytes_:
                break
            stream.sendall(bytes_)


def parent_proxy(heads):
    """A proxy that wants a password and connects every name to the first address."""

    def handle(stream):
        with stream:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                byte = stream.recv(1)
                if not byte:
                    return
                head += byte
            target = head.split()[1].decode()
            # The credentials me:s3cret.
            allowed = b"Proxy-Authorization: Basic bWU6czNjcmV0\r\n" in head
            with open(heads, "a") as file:
                file.write("%s %s\n" % (target, allowed))
            if not allowed:
                return stream.sendall(b"HTTP/1.1 407 Password\r\n\r\n")
            port = int(target.rsplit(":", 1)[1])
            with socket.create_connection(("93.184.215.14", port)) as server:
                stream.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                start(pass_on, server, stream)
                pass_on(stream, server)

    return handle


def pass_on(source, to):
    try:
        while True:
            bytes_ = source.recv(65536)
            if not bytes_:
                break
            to.sendall(bytes_)
        to.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def refuse_as_postgres(stream):
    """Refuses TLS and every user, with an own text."""
    with stream:
        while True:
            length, code = struct.unpack(">2I", stream.recv(8, socket.MSG_WAITALL))
            if length > 8:
                stream.recv(length - 8, socket.MSG_WAITALL)
            # Protocol 3.0 of a startup message.
            if code == 3 << 16:
                break
            stream.sendall(b"N")
        text = b"SFATAL\0C28000\0Mhello of postgres\0\0"
        stream.sendall(b"E" + struct.pack(">I", 4 + len(text)) + text)


def note_datagrams(port, file):
    """Datagrams must not arrive: the file stays empty."""
    listener = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listener.bind(("::", port))

    def serve():
        while True:
            got, peer = listener.recvfrom(4096)
            with open(file, "ab") as to:
                to.write(repr((port, peer, got)).encode() + b"\n")
            # As a name server that fails, so that the host's own questions end at once.
            if port == 53 and len(got) > 3:
                listener.sendto(got[:2] + bytes([0x80 | got[2] & 1, 2]) + got[4:], peer)

    start(serve)


def serve(own, files, context):
    """Serves in the network namespace of this thread."""
    handler = lambda *arguments: Handler(*arguments, directory=files)
    for port in HTTP:
        start(Server(("::", port), handler).serve_forever)
    secure = Server(("::", TLS), handler)
    secure.socket = context.wrap_socket(secure.socket, server_side=True, do_handshake_on_connect=False)
    start(secure.serve_forever)
    accept(SPEAKS_FIRST, speak_first)
    accept(ECHO, echo)
    accept(POSTGRES, refuse_as_postgres)
    accept(PARENT, parent_proxy(os.path.join(own, "heads")))
    for port in [53, 443]:
        note_datagrams(port, os.path.join(own, "datagrams"))


def main():
    own, files, copy = sys.argv[1:]
    Handler.keys = os.path.join(own, "keys")
    network = Network()
    set_up(own)
    context = certificate(own, copy)
    serve(own, files, context)
    with network:
        serve(own, files, context)
    print("ready", network.pid, flush=True)
    sys.stdin.read()


try:
    main()
except (OSError, subprocess.CalledProcessError) as error:
    print(error, flush=True)
