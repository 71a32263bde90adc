"""A chat room: a class of its own, whose callers wait for what is said next.

python examples/chat_room.py [ENDPOINT]  # such as that of `quorate up chat_room:ChatRoom`"""

import sys
from multiprocessing import get_context

import quorate


class ChatRoom:
    """Members that talk, and all that was said, for those that join later."""

    def __init__(self) -> None:
        self.members, self.lines = dict[int, str](), list[str]()

    def join(self, name: str) -> None:
        """Enter under a name, until the session of the caller ends."""
        self.members[quorate.caller().session] = name
        self.lines.append(f"{name} joins")

    def say(self, text: str) -> None:
        """Tell all. Raises KeyError if the caller has not joined."""
        self.lines.append(f"{self.members[quorate.caller().session]}: {text}")

    def listen(self, heard: int) -> list[str]:
        """The lines after the first `heard`, as soon as there are some."""
        quorate.wait_until(lambda: len(self.lines) > heard)
        return self.lines[heard:]

    def on_session_end(self, session: int) -> None:
        """Tell the others who is gone."""
        if session in self.members:
            self.lines.append(f"{self.members.pop(session)} leaves")


def talk(endpoint: str, name: str) -> None:
    """A member that greets, and leaves when it has heard three greetings."""
    with quorate.connect(endpoint, ChatRoom, session_timeout=2) as room:
        room.join(name)
        room.say("hello")
        heard: list[str] = []
        while sum(line.endswith(": hello") for line in heard) < 3:
            heard += room.listen(len(heard))
        print(f"{name} heard: {', '.join(heard)}", flush=True)


def run(endpoint: str) -> None:
    """Three members, each in a process of its own."""
    with get_context("spawn").Pool(3) as members:
        members.starmap(talk, [(endpoint, name) for name in ("mia", "ben", "zoe")])


if __name__ == "__main__":
    if sys.argv[1:]:
        run(sys.argv[1])
    else:
        with (group := quorate.local("chat_room:ChatRoom")):
            run(group.endpoint)
