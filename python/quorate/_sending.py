"""Inside a method: messages to other objects of the group."""

from __future__ import annotations

from quorate import _data_model, _directory, _native
from quorate._errors import NoSuchMethod, NotInCall


def send(name: str, method: str, /, *args: object, **kwargs: object) -> None:
    """Have another object of the group called, after this call and at most once.

    A call that leaves no trace sends nothing.

    The message is part of that object's state until it is delivered, as agreed time goes on: soon. Messages
    to one object are delivered in the order in which they were sent. Nobody hears what the method returns,
    and what it raises goes to the log. A message takes at most 64 KiB, and 10,000 wait at one object; one
    more is `Overloaded`. Messages to an object that is dropped meanwhile go with it.

    Raises NotFound when the group has no such object, and NoSuchMethod when that has no such method.

    >>> send("jobs", "put", 1)
    Traceback (most recent call last):
    ...
    quorate.NotInCall: quorate.send() is for methods of a served object: no such method runs here
    """
    directory = _native.object_of(_directory.NUMBER) if _native.running_object() is not None else None
    if directory is None:
        raise NotInCall("quorate.send() is for methods of a served object: no such method runs here")
    number = directory.find(name)[0]
    cls = type(_native.object_of(number))
    if method.startswith("_") or _data_model.kind_of(cls, method) != "method":
        raise NoSuchMethod(f"quorate.send(): {cls.__name__} has no public method `{method}`")
    _native.send_message(number, _native.dump_call(method, args, kwargs))
