"""Run a server: uvicorn with the application of a registry."""

from __future__ import annotations

import dataclasses
import errno
import ipaddress
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

from fiol.server.access import LOOPBACK, Access
from fiol.server.app import Limits, Server, make_app
from fiol.server.registry import Registry

#: Seconds that open requests have to finish when the server stops.
GRACE_SECONDS = 10


@dataclasses.dataclass
class Listen:
    """Where a server listens, and who may use it."""

    host: str = "127.0.0.1"
    port: int = 8080
    read_tokens: tuple[str, ...] = ()
    write_tokens: tuple[str, ...] = ()
    rate: float | None = None
    certificate: str | None = None
    certificate_key: str | None = None

    def check(self) -> None:
        """Raise ValueError for an address beyond this machine without tokens."""
        if not self.read_tokens and not self.write_tokens and not is_loopback(self.host):
            raise ValueError(
                f"--host {self.host} can be reached by other machines: give a token (--write-token-file FILE), or "
                "listen on 127.0.0.1"
            )


def is_loopback(host: str) -> bool:
    """Return whether an address is of this machine alone.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket at an address.

    asyncio sends small answers at once (TCP_NODELAY) only if the socket names TCP; otherwise many wait 40 ms for the
    client's acknowledgement of the part before.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except OSError as error:
        found.close()
        if error.errno == errno.EADDRINUSE:
            advice = "choose another with --port, or let the system choose with --port 0"
            raise OSError(f"port {port} of {host} is in use: {advice}") from error
        raise
    return found


def run_server(registry: Registry, listen: Listen, limits: Limits, started: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; then answer what was accepted, save all models, and close the journal.

    `started` is called with the address once connections are accepted.
    """
    import uvicorn

    listen.check()
    sys.setswitchinterval(0.001)  # the event loop and the writer share one interpreter
    hosts = None if listen.read_tokens or listen.write_tokens else (*LOOPBACK, listen.host)
    server = Server(registry, Access(listen.read_tokens, listen.write_tokens, listen.rate, hosts), limits)
    bound = bound_socket(listen.host, listen.port)
    bound.listen(2048)  # clients that come before uvicorn has started wait
    config = uvicorn.Config(
        make_app(server),
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        ssl_certfile=listen.certificate,
        ssl_keyfile=listen.certificate_key,
    )
    runner: Any = uvicorn.Server(config)
    server.is_closing = lambda: runner.should_exit
    registry.writer.on_failure = lambda: setattr(runner, "should_exit", True)
    scheme = "http" if listen.certificate is None else "https"
    host = f"[{listen.host}]" if ":" in listen.host else listen.host
    started(f"{scheme}://{host}:{bound.getsockname()[1]}")
    if threading.current_thread() is threading.main_thread():  # uvicorn raises signals again after its end
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: setattr(runner, "should_exit", True))
    runner.run(sockets=[bound])
    if registry.writer.broken is not None:
        raise RuntimeError(f"the server failed: {registry.writer.broken}")
