"""The tree of errors. The class says whether to retry, whether the call was executed, and whose fault it is.

::

    QuorateError
    ├── NotExecuted            nothing happened; the call may be made again
    │   ├── Unavailable        no majority, no leader, no route: try again later
    │   │   └── SessionInUse   a process that has the session of this file open is running
    │   ├── Overloaded         queues are full: try again more slowly
    │   ├── StorageFull        no node has room on its disk: reads continue, calls when there is room
    │   └── Refused            this request will never be accepted as it is
    │       ├── UnsupportedValue   (also TypeError)       an argument cannot be sent
    │       ├── NoSuchMethod       (also AttributeError)  unknown or private method
    │       ├── NotFound           (also LookupError)     no such object
    │       ├── NameTaken          (also ValueError)      the group has another object of that name
    │       ├── OtherClass         (also TypeError)       the object is of another class than was asked for
    │       ├── NotReplicable      (also TypeError)       no object can be created so
    │       ├── NotReadOnly        a method that is not known to be read-only, or wrote, was read
    │       ├── OtherCluster       another cluster answers at the addresses: connect anew if you mean it
    │       ├── MethodSkipped      the group decided to skip a call that ends every host
    │       ├── BudgetExceeded     the call took more steps than --budget allows, and changed nothing
    │       ├── Forked             this connection belongs to the process that this one was forked off
    │       └── Closed             this connection was closed
    ├── OutcomeUnknown         it may have been executed: look before calling again
    │   ├── TimedOut           (also TimeoutError)
    │   └── SessionExpired     the session ended while calls were under way
    │       └── Superseded     another process resumed it
    ├── ReadEnded              a read ran too long or crashed: it was ended and changed nothing
    ├── UnsupportedResult      (also TypeError)           executed: what the method returned cannot be sent
    ├── WaitsOutside       (also RuntimeError)        executed up to where an async method waits
    ├── NotInCall          (also RuntimeError)        caller() or park() where nobody calls
    ├── CallerGone         (also LookupError)         executed: it answered a call that does not wait
    ├── ObjectDropped      (also LookupError)         executed: the object was dropped while it waited there
    ├── ParkLost           (also RuntimeError)        executed: it called park() and returned something else
    ├── ParkTimeout        (also TimeoutError)        executed: nobody answered it within the time it waits
    ├── StaleToken         (also RuntimeError)        executed up to a check that has seen a newer holder
    ├── LockLost           (also RuntimeError)        what a guard held is lost, or may be another's
    ├── RemoteError            executed: the method raised an exception that is unknown here
    └── MalformedValue         (also ValueError)          bytes that do not encode a value
"""

from __future__ import annotations

from typing import Any, ClassVar


class QuorateError(Exception):
    """Root of everything that quorate itself raises.

    >>> issubclass(TimedOut, QuorateError)
    True
    """

    retry: ClassVar[bool] = False
    """Whether the same call is safe to retry."""
    executed: ClassVar[bool | None] = None
    """Whether it was executed; None when that is unknown."""
    fault: ClassVar[str] = "service"
    """Whose fault it is: caller, service or method."""
    cause: str | None = None
    """The name of the cause of a failed call, such as "overloaded"; None if there was no call."""


class NotExecuted(QuorateError):
    """Nothing happened.

    >>> NotExecuted.executed
    False
    """

    retry = True
    executed = False


class Unavailable(NotExecuted):
    """No majority, no leader or no connection; retry later.

    >>> Unavailable.retry
    True
    """


class SessionInUse(Unavailable):
    """A process that has the session of this file open is running: wait for its end, or name another file.

    >>> SessionInUse.executed
    False
    """


class Overloaded(NotExecuted):
    """Queues are full.

    >>> Overloaded.retry
    True
    """


class StorageFull(NotExecuted):
    """The disks of the group are full; calls are accepted again as soon as there is space.

    >>> StorageFull.executed
    False
    """


class Refused(NotExecuted):
    """The request can never be accepted as it is.

    >>> Refused.retry, Refused.fault
    (False, 'caller')
    """

    retry = False
    fault = "caller"


class UnsupportedValue(Refused, TypeError):
    """An argument, or a part of it, of a kind that cannot be sent; the message begins with its path.

    >>> from quorate import _native
    >>> _native.dumps([object()])
    Traceback (most recent call last):
    ...
    quorate.UnsupportedValue: value[0]: object is not supported
    """


class NoSuchMethod(Refused, AttributeError):
    """The object's class has no public method of that name.

    >>> issubclass(NoSuchMethod, AttributeError)
    True
    """


class StoredMethod(NoSuchMethod):
    """An attribute was asked for, and the object has a method there that its class has not: call it.

    >>> issubclass(StoredMethod, NoSuchMethod)
    True
    """


class NotFound(Refused, LookupError):
    """The group has no such object.

    >>> issubclass(NotFound, LookupError)
    True
    """


class NameTaken(Refused, ValueError):
    """The group has another object of that name already.

    >>> NameTaken.executed, NameTaken.retry
    (False, False)
    """


class OtherClass(Refused, TypeError):
    """The object is of another class than the one that was asked for.

    >>> OtherClass.executed, OtherClass.retry
    (False, False)
    """


class NotReplicable(Refused, TypeError):
    """No object can be created so: no such class, its constructor raises, or its state cannot be kept.

    >>> NotReplicable.executed, NotReplicable.fault
    (False, 'caller')
    """


class NotReadOnly(Refused):
    """A method that changes its object, or is not known to change nothing, was asked for as a read.

    >>> NotReadOnly.executed
    False
    """


class OtherCluster(Refused):
    """Another cluster answers where the one was that this connection first spoke to; nothing was sent to it.

    >>> OtherCluster.executed, OtherCluster.retry
    (False, False)
    """


class MethodSkipped(Refused):
    """The group skips the call: it ends every process that executes it, or an operator had it skipped.

    With ``quorate object skip --unsafe`` a replica may have executed it: it heals from the majority.

    >>> MethodSkipped.executed
    False
    """

    fault = "method"


class BudgetExceeded(Refused):
    """The call took more steps than `--budget` allows: it was ended everywhere, and has changed nothing.

    >>> BudgetExceeded.executed, BudgetExceeded.fault
    (False, 'method')
    """

    fault = "method"


class Closed(Refused):
    """The connection was closed on this side.

    >>> Closed.retry
    False
    """


class Forked(Refused):
    """The connection was opened before this process was forked off: connect in this process.

    >>> Forked.executed, Forked.retry
    (False, False)
    """


class OutcomeUnknown(QuorateError):
    """It may have been executed.

    >>> OutcomeUnknown.executed is None
    True
    """


class TimedOut(OutcomeUnknown, TimeoutError):
    """The timeout passed before an answer arrived.

    >>> issubclass(TimedOut, TimeoutError)
    True
    """


class SessionExpired(OutcomeUnknown):
    """The session ended while calls were under way.

    >>> issubclass(SessionExpired, OutcomeUnknown)
    True
    """


class Superseded(SessionExpired):
    """Another process has resumed the session while calls were under way: it has what this one owned.

    >>> issubclass(Superseded, SessionExpired)
    True
    """


class ReadEnded(QuorateError):
    """A read ran longer than `--call-timeout`, or crashed: its host process ended, and it changed nothing.

    >>> ReadEnded.fault, ReadEnded.retry
    ('method', False)
    """

    fault = "method"


class UnsupportedResult(QuorateError, TypeError):
    """The method was executed; what it returned is of a kind that cannot be sent, or too large.

    >>> UnsupportedResult.executed
    True
    """

    executed = True
    fault = "method"


class WaitsOutside(QuorateError, RuntimeError):
    """An `async` method waited for something that is not in its object, such as a timer or a socket.

    It was executed up to there: what it changed before stays, as with any exception. Methods that
    wait for nothing outside run as if they were not `async`.

    >>> WaitsOutside.executed, WaitsOutside.fault
    (True, 'method')
    """

    executed = True
    fault = "method"


class NotInCall(QuorateError, RuntimeError):
    """`quorate.caller()` or `quorate.park()` was used where nobody calls, as in a read or a program.

    >>> NotInCall.executed, NotInCall.fault
    (True, 'method')
    """

    executed = True
    fault = "method"


class CallerGone(QuorateError, LookupError):
    """A method answered a call that does not wait: it was answered already, or its client's session is over.

    >>> CallerGone.executed, CallerGone.fault
    (True, 'method')
    """

    executed = True
    fault = "method"


class ObjectDropped(QuorateError, LookupError):
    """The object was dropped while a call waited at it. What the call had changed went with the object.

    >>> ObjectDropped.executed, ObjectDropped.retry
    (True, False)
    """

    executed = True
    fault = "caller"


class ParkLost(QuorateError, RuntimeError):
    """A method called `quorate.park()` and returned something else. What it changed stays.

    >>> ParkLost.executed, ParkLost.fault
    (True, 'method')
    """

    executed = True
    fault = "method"


class ParkTimeout(QuorateError, TimeoutError):
    """Nobody answered a call that waits within the time that its method gave it.

    What the method changed stays.

    >>> ParkTimeout.executed, ParkTimeout.fault
    (True, 'method')
    """

    executed = True
    fault = "method"


class CallsLost(Refused):
    """Calls that `quorate.follow` is to tell are kept no more: take the state, and follow from there.

    >>> CallsLost.executed, CallsLost.retry
    (False, False)
    """


class CaptureFailed(QuorateError, RuntimeError):
    """There is no value from outside that `quorate.capture` could return: it is too large, or took too long.

    What the function itself raises is raised as it is.

    >>> CaptureFailed.executed, CaptureFailed.fault
    (True, 'method')
    """

    executed = True
    fault = "method"


class StaleToken(QuorateError, RuntimeError):
    """A newer token was seen by `quorate.check` or a `Fence`: the caller has lost the lock that gave its own.

    >>> StaleToken(6, 7).token, StaleToken(6, 7).newest
    (6, 7)
    """

    executed = True
    fault = "caller"

    def __init__(self, token: int, newest: int) -> None:
        super().__init__(token, newest)
        self.token = token
        self.newest = newest

    def __str__(self) -> str:
        return (
            f"token {self.token} is older than {self.newest}, which was seen here: "
            "its holder has lost the lock"
        )


class LockLost(QuorateError, RuntimeError):
    """What a guard held is lost, or may be: no sign of life of its session was acknowledged in time.

    >>> LockLost("the lock is lost", 7).token
    7
    """

    def __init__(self, message: str, token: int) -> None:
        super().__init__(message, token)
        self.token = token

    def __str__(self) -> str:
        return str(self.args[0])


class RemoteError(QuorateError):
    """The method raised an exception whose class is unknown here.

    It is of a class of that name, which is also below those base classes that are known here. It has
    the text, arguments, attributes and notes of the exception.

    >>> error = RemoteError("shop.Overdrawn", "3 missing", "shop.py:12 in debit")
    >>> error.type_name, str(error)
    ('shop.Overdrawn', 'shop.Overdrawn: 3 missing')
    """

    executed = True
    fault = "method"
    details: ClassVar[dict[str, Any]] = {}

    def __init__(self, type_name: str, message: str = "", remote_traceback: str = "") -> None:
        super().__init__(message)
        self.type_name = type_name
        self.message = message
        self.remote_traceback = remote_traceback

    def __str__(self) -> str:
        return f"{self.type_name}: {self.message}"

    def __reduce__(self) -> tuple[Any, ...]:
        from quorate import _raised  # noqa: PLC0415  (it needs this module)

        args = [] if self.args == (self.message,) else list(self.args)
        parts = self.type_name, self.message, self.remote_traceback, args, self.details
        return _raised.stand_in, parts, vars(self)


class MalformedValue(QuorateError, ValueError):
    """Bytes that are not the encoding of a value.

    >>> from quorate import _native
    >>> _native.loads(b"")
    Traceback (most recent call last):
    ...
    quorate.MalformedValue: the bytes end inside a value
    """


_LEAVES: dict[tuple[str, str], type[QuorateError]] = {
    ("not_executed", "overloaded"): Overloaded,
    ("not_executed", "too_many_parked"): Overloaded,
    ("not_executed", "storage_full"): StorageFull,
    ("not_executed", "other_cluster"): OtherCluster,
    ("outcome_unknown", "deadline_passed"): TimedOut,
    ("outcome_unknown", "session_expired"): SessionExpired,
    ("outcome_unknown", "superseded"): Superseded,
    ("invalid", "no_such_object"): NotFound,
}
"""Causes with a class of their own, by how the call ended."""

_BRANCHES: dict[str, type[QuorateError]] = {
    "not_executed": Unavailable,
    "outcome_unknown": OutcomeUnknown,
    "invalid": Refused,
    "closed": Closed,
    "forked": Forked,
}
"""Every other cause."""


def of_call(end: str, cause: str, message: str) -> QuorateError:
    """The error of a call without an answer.

    >>> of_call("not_executed", "overloaded", "not executed: the group is overloaded")
    Overloaded('not executed: the group is overloaded')
    """
    error = _LEAVES.get((end, cause), _BRANCHES[end])(message)
    error.cause = cause
    return error


for _class in (
    QuorateError,
    NotExecuted,
    Unavailable,
    SessionInUse,
    Overloaded,
    StorageFull,
    Refused,
    UnsupportedValue,
    NoSuchMethod,
    StoredMethod,
    NotFound,
    NameTaken,
    OtherClass,
    NotReplicable,
    NotReadOnly,
    OtherCluster,
    MethodSkipped,
    BudgetExceeded,
    Forked,
    Closed,
    OutcomeUnknown,
    TimedOut,
    SessionExpired,
    Superseded,
    ReadEnded,
    UnsupportedResult,
    WaitsOutside,
    NotInCall,
    CallerGone,
    ObjectDropped,
    ParkLost,
    ParkTimeout,
    CallsLost,
    CaptureFailed,
    StaleToken,
    LockLost,
    RemoteError,
    MalformedValue,
):
    # Users meet them as quorate.X, in tracebacks and over the wire.
    _class.__module__ = "quorate"
