"""Who may do what: bearer tokens with roles, the dashboard's cookie, origins of browsers, names of hosts, rates."""

from __future__ import annotations

import hashlib
import hmac
import time
from typing import Literal

from fiol.server.labels import RefusedError

Role = Literal["read", "write"]
COOKIE = "fiol_session"
#: Names of this machine that browsers may use while there are no tokens: others would be pages that guess addresses.
LOOPBACK = ("localhost", "127.0.0.1", "[::1]", "::1")
#: Clients whose rates are remembered.
MOST_CLIENTS = 10_000


class Access:
    """Decides about requests.

    Parameters
    ----------
    read_tokens, write_tokens : secrets; a token to write may read as well. Without any, everybody may do everything.
    rate : requests per second and client; None for any number.
    hosts : names that the server may be called by; None for any.
    """

    def __init__(
        self,
        read_tokens: tuple[str, ...] = (),
        write_tokens: tuple[str, ...] = (),
        rate: float | None = None,
        hosts: tuple[str, ...] | None = None,
    ) -> None:
        self.tokens: list[tuple[bytes, Role]] = [(token.encode(), "write") for token in write_tokens]
        self.tokens += [(token.encode(), "read") for token in read_tokens]
        self.cookies = [session_cookie(token).encode() for token, _ in self.tokens]
        self.rate, self.hosts = rate, hosts
        self.buckets: dict[str, tuple[float, float]] = {}

    def role_of(self, token: bytes) -> Role | None:
        """Return the role of a token, in a time that does not depend on how much of it is right."""
        found: Role | None = None
        for known, role in self.tokens:
            if hmac.compare_digest(known, token) and found is None:
                found = role
        return found

    def check(self, headers: dict[bytes, bytes], client: str, needs: Role) -> None:
        """Raise RefusedError unless the request may go on."""
        host = host_of(headers.get(b"host", b""))
        if self.hosts is not None and host not in self.hosts:
            raise RefusedError(f"the server is not called {host!r}", status=421)
        origin = headers.get(b"origin")
        if origin is not None and not is_of_host(origin, headers.get(b"host", b"")):
            raise RefusedError("pages of other sites may not use the server", status=403)
        if self.rate is not None:
            self._spend(client)
        self.check_role(headers, needs)

    def check_role(self, headers: dict[bytes, bytes], needs: Role) -> None:
        """Raise RefusedError unless the token of a request has a role."""
        if not self.tokens:
            return
        token, cookie = token_in(headers), cookie_in(headers)
        role = None if token is None else self.role_of(token)
        if token is None and cookie is not None and any(hmac.compare_digest(one, cookie) for one in self.cookies):
            role = "read"
        if role is None:
            raise RefusedError("a bearer token is needed", status=401)
        if needs == "write" and role != "write":
            raise RefusedError("this token may only read", status=403)

    def _spend(self, client: str) -> None:
        """Take one request from the client's bucket, which holds two seconds' worth."""
        assert self.rate is not None
        now, most = time.monotonic(), max(1.0, 2.0 * self.rate)
        left, when = self.buckets.get(client, (most, now))
        left = min(most, left + (now - when) * self.rate)
        if left < 1.0:
            raise RefusedError("too many requests", status=429, retry=(1.0 - left) / self.rate)
        if len(self.buckets) > MOST_CLIENTS:
            self.buckets.clear()
        self.buckets[client] = left - 1.0, now


def token_in(headers: dict[bytes, bytes]) -> bytes | None:
    """Return the bearer token of a request.

    >>> token_in({b"authorization": b"Bearer abc"}), token_in({b"authorization": b"Basic abc"}), token_in({})
    (b'abc', None, None)
    """
    kind, _, token = headers.get(b"authorization", b"").partition(b" ")
    return token.strip() if kind.lower() == b"bearer" else None


def cookie_in(headers: dict[bytes, bytes]) -> bytes | None:
    """Return the dashboard's cookie of a request.

    >>> cookie_in({b"cookie": b'a={"b": 1}; fiol_session=xyz'}), cookie_in({})
    (b'xyz', None)
    """
    cookies = (one.strip().partition(b"=") for one in headers.get(b"cookie", b"").split(b";"))  # some hold JSON
    return next((value for name, _, value in cookies if name == COOKIE.encode()), None)


def session_cookie(token: bytes) -> str:
    """Return the value of the dashboard's cookie: it proves the token without containing it, and may only read.

    The browser's EventSource sends cookies but no tokens. Browsers also send cookies to other ports of the same host.

    >>> session_cookie(b"a token") == session_cookie(b"a token") != session_cookie(b"another token")
    True
    """
    return hmac.new(token, b"fiol dashboard, read", hashlib.sha256).hexdigest()


def is_of_host(origin: bytes, host: bytes) -> bool:
    """Return whether the origin of a request is the server; some proxies add the usual port, which origins leave out.

    >>> is_of_host(b"https://a.example", b"A.example:443"), is_of_host(b"https://a.example:8443", b"a.example:443")
    (True, False)
    """
    scheme, _, rest = origin.lower().partition(b"://")
    usual = {b"http": b":80", b"https": b":443"}.get(scheme, b"")
    return bool(rest) and host.lower() in (rest, rest + usual)


def host_of(given: bytes) -> str:
    """Return the name of a host without its port, in lower case.

    >>> host_of(b"LocalHost:8080"), host_of(b"[::1]:80"), host_of(b"127.0.0.1")
    ('localhost', '[::1]', '127.0.0.1')
    """
    text = given.decode("latin-1").lower()
    return text.partition("]")[0] + "]" if text.startswith("[") else text.partition(":")[0]
