"""Inside a method: telling those who watch the object."""

from __future__ import annotations

from quorate import _feed, _native
from quorate._errors import NotInCall, UnsupportedValue


def publish(topic: str, value: object = None, /) -> None:
    """Tell those who watch this object, by `quorate.watch`, after this call.

    The newest 1,024 changes of an object are kept for those who come back, and at most 1 MiB of them. A call
    that leaves no trace publishes nothing. The value must travel, and takes at most 64 KiB; 10,000 changes of
    all objects may be on their way, and one more is `Overloaded`.

    ::

        def post(self, line):
            self.lines.append(line)
            quorate.publish("lines", line)

    >>> publish("lines", "hello")
    Traceback (most recent call last):
    ...
    quorate.NotInCall: quorate.publish() is for methods of a served object: no such method runs here
    """
    number = _native.running_number()
    if number is None:
        raise NotInCall("quorate.publish() is for methods of a served object: no such method runs here")
    if not _feed.is_topic(topic):
        raise UnsupportedValue(f"a topic is a text of 1 to {_feed.TOPIC_BYTES_MAX} bytes, not {topic!r:.80}")
    encoded = _native.dumps(value)
    _native.send_message(_feed.NUMBER, _native.dump_call("_add", (number, topic, encoded), {}))
