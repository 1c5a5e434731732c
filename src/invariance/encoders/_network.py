"""Whether weights can be fetched, asked once and briefly.

Libraries that fetch weights try a missing network again and again, for a minute. Here
it is tried once before; where it cannot be reached, they look at their cache only.
"""

import contextlib
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

SECONDS = 3.0
PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


def is_reachable(address: str) -> bool:
    """Whether the server of an address, or the proxy before it, answers in seconds.

    >>> is_reachable("http://localhost:1")
    False
    """
    url = urlsplit(address)
    proxies = getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    if proxy and not proxy_bypass(url.hostname or ""):
        url = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    place = url.hostname or "", url.port or PORTS.get(url.scheme, 443)
    answers: list[bool] = []

    def ask() -> None:
        with contextlib.suppress(OSError):
            socket.create_connection(place, timeout=SECONDS).close()
            answers.append(True)

    asking = threading.Thread(target=ask, daemon=True)  # a name may take minutes
    asking.start()
    asking.join(SECONDS)
    return bool(answers)


@contextlib.contextmanager
def hub_without_retries() -> Iterator[None]:
    """Inside, the hub of timm's weights keeps to its cache if it is out of reach."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = before or not is_reachable(constants.ENDPOINT)
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
