"""Several clients that share one rate: together they make no more calls than it allows.

python examples/rate_limit.py [ENDPOINT]
# such as that of `quorate up quorate.objects:RateLimiter --args '[5, 5]'`: 5 a second, 5 at once"""

import sys
import time
from multiprocessing import get_context

import quorate
from quorate.objects import RateLimiter

CLIENTS, CALLS = 3, 5


def call_often(endpoint: str, name: str) -> None:
    """A client that makes its calls as soon as the rate lets it."""
    with quorate.connect(endpoint, RateLimiter) as limiter:
        for number in range(CALLS):
            while not limiter.allow("interface"):
                time.sleep(limiter.wait("interface"))
            print(f"{time.strftime('%X')} {name} makes call {number}", flush=True)


def run(endpoint: str) -> None:
    """Start the clients, and say how long their calls took together."""
    process = get_context("spawn").Process
    names = [f"client-{number}" for number in range(CLIENTS)]
    clients = [process(target=call_often, args=(endpoint, name)) for name in names]
    began = time.monotonic()
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    print(f"{CLIENTS * CALLS} calls took {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    if sys.argv[1:]:
        run(sys.argv[1])
    else:
        with (group := quorate.local(RateLimiter, rate=5, burst=5)):
            run(group.endpoint)
