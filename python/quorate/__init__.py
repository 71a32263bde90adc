"""Replicate ordinary Python classes: they stay correct and available while machines fail.

::

    import quorate
    from bank import Account

    with quorate.connect("quorate://127.0.0.1:7400/Account", Account) as account:
        account.deposit(10)

Errors form one tree under `QuorateError`; see `quorate.QuorateError`.
"""

from __future__ import annotations

from quorate._calling import Caller, caller, park
from quorate._capturing import capture, effect
from quorate._conditions import wait_until
from quorate._connect import (
    AsyncConnection,
    Connection,
    aconnect,
    agather,
    connect,
    gather,
    submit,
)
from quorate._early import AsyncEarly, Early, aearly, early
from quorate._errors import (
    BudgetExceeded,
    CallerGone,
    CallsLost,
    CaptureFailed,
    Closed,
    Forked,
    LockLost,
    MalformedValue,
    MethodSkipped,
    NameTaken,
    NoSuchMethod,
    NotExecuted,
    NotFound,
    NotInCall,
    NotReadOnly,
    NotReplicable,
    ObjectDropped,
    OtherClass,
    OtherCluster,
    OutcomeUnknown,
    Overloaded,
    ParkLost,
    ParkTimeout,
    QuorateError,
    ReadEnded,
    Refused,
    RemoteError,
    SessionExpired,
    SessionInUse,
    StaleToken,
    StorageFull,
    Superseded,
    TimedOut,
    Unavailable,
    UnsupportedResult,
    UnsupportedValue,
    WaitsOutside,
)
from quorate._fence import Fence, check
from quorate._follow import AsyncFollow, DecidedCall, Follow, afollow, follow
from quorate._group import AsyncGroup, Group, agroup, group
from quorate._guards import AsyncGuard, Guard, aguard, guard
from quorate._holders import Holder
from quorate._labels import label
from quorate._local import local
from quorate._local_group import Comparison, LocalGroup
from quorate._names import register
from quorate._native import __version__
from quorate._options import Freshness, Level, Options, Tls, readonly
from quorate._proxy import freshness, options, reading, weak
from quorate._publish import publish
from quorate._sending import send
from quorate._session_states import (
    SessionState,
    asession_states,
    on_session_state,
    session_resumed,
    session_state,
    session_states,
)
from quorate._timers import Timer, after, every
from quorate._undo import undoes
from quorate._watch import AsyncWatch, Change, Watch, awatch, watch

__all__ = [
    "AsyncConnection",
    "AsyncEarly",
    "AsyncFollow",
    "AsyncGroup",
    "AsyncGuard",
    "AsyncWatch",
    "BudgetExceeded",
    "Caller",
    "CallerGone",
    "CallsLost",
    "CaptureFailed",
    "Change",
    "Closed",
    "Comparison",
    "Connection",
    "DecidedCall",
    "Early",
    "Fence",
    "Follow",
    "Forked",
    "Freshness",
    "Group",
    "Guard",
    "Holder",
    "Level",
    "LocalGroup",
    "LockLost",
    "MalformedValue",
    "MethodSkipped",
    "NameTaken",
    "NoSuchMethod",
    "NotExecuted",
    "NotFound",
    "NotInCall",
    "NotReadOnly",
    "NotReplicable",
    "ObjectDropped",
    "Options",
    "OtherClass",
    "OtherCluster",
    "OutcomeUnknown",
    "Overloaded",
    "ParkLost",
    "ParkTimeout",
    "QuorateError",
    "ReadEnded",
    "Refused",
    "RemoteError",
    "SessionExpired",
    "SessionInUse",
    "SessionState",
    "StaleToken",
    "StorageFull",
    "Superseded",
    "TimedOut",
    "Timer",
    "Tls",
    "Unavailable",
    "UnsupportedResult",
    "UnsupportedValue",
    "WaitsOutside",
    "Watch",
    "__version__",
    "aconnect",
    "aearly",
    "afollow",
    "after",
    "agather",
    "agroup",
    "aguard",
    "asession_states",
    "awatch",
    "caller",
    "capture",
    "check",
    "connect",
    "early",
    "effect",
    "every",
    "follow",
    "freshness",
    "gather",
    "group",
    "guard",
    "label",
    "local",
    "on_session_state",
    "options",
    "park",
    "publish",
    "reading",
    "readonly",
    "register",
    "send",
    "session_resumed",
    "session_state",
    "session_states",
    "submit",
    "undoes",
    "wait_until",
    "watch",
    "weak",
]
