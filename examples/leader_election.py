"""One leader among several processes: when it is killed, the next candidate leads.

python examples/leader_election.py [ENDPOINT]  # as of `quorate up quorate.objects:Election`"""

import sys
from multiprocessing import get_context

import quorate
from quorate.objects import Election


def stand(endpoint: str, name: str) -> None:
    """A candidate: waits until it leads, and leads until its session ends."""
    with quorate.connect(endpoint, Election[str], session_timeout=1) as election:
        while True:
            try:
                with quorate.guard(election, name, methods=("campaign", "resign")) as guard:
                    print(f"{name} leads in term {guard.token}", flush=True)
                    election.watch(guard.token)  # beside this it does what a leader does
            except (quorate.LockLost, quorate.SessionExpired):
                print(f"{name} stood still for too long: it leads no more", flush=True)


def run(endpoint: str) -> None:
    """Kill two of three candidates, each when it leads."""
    process = get_context("spawn").Process
    names = ["host-1", "host-2", "host-3"]
    candidates = {name: process(target=stand, args=(endpoint, name), daemon=True) for name in names}
    for candidate in candidates.values():
        candidate.start()
    with quorate.connect(endpoint, Election[str]) as election:
        term = 0
        for _ in range(3):
            while (term := election.watch(term)) == 0:
                pass  # nobody leads: wait for the next term
            leader = election.leader()
            print(f"term {term}: {leader} is killed", flush=True)
            candidates[leader or ""].kill()


if __name__ == "__main__":
    if sys.argv[1:]:
        run(sys.argv[1])
    else:
        with (group := quorate.local(Election)):
            run(group.endpoint)
