"""An object that tries to get out of its host process; each method says how far it came."""

import contextlib
import ctypes
import errno
import os

libc = ctypes.CDLL(None, use_errno=True)

AF_INET, SOCK_STREAM, SOCK_DGRAM = 2, 1, 2
PTRACE_SEIZE = 0x4206
O_WRONLY, O_CREAT = 1, 0o100
F_GETFD = 1


def outcome(result):
    """`through`, or the name of the error."""
    return "through" if result >= 0 else errno.errorcode[ctypes.get_errno()]


class Prisoner:
    __quorate_reads__ = ("here",)

    def __init__(self):
        self.held = []
        self.written_at = None
        self.passed_on = [number for number in range(1024) if libc.fcntl(number, F_GETFD) >= 0]

    def __getstate__(self):
        return vars(self) | {"written_at": libc.getpriority(os.PRIO_PROCESS, 0)}

    def here(self):
        return "here"

    def socket(self):
        return outcome(libc.socket(AF_INET, SOCK_STREAM, 0))

    def udp(self):
        return outcome(libc.socket(AF_INET, SOCK_DGRAM, 0))

    def files(self):
        written = outcome(libc.open(b"/tmp/quorate-escaped", O_WRONLY | O_CREAT, 0o600))
        return f"read {outcome(libc.open(b'/etc/shadow', 0))}, write {written}"

    def signal(self):
        return outcome(libc.kill(libc.getppid(), 0))

    def ptrace(self):
        # The memory of the node; reading it changes nothing there.
        class Span(ctypes.Structure):
            _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))

        target = ctypes.create_string_buffer(8)
        own = Span(ctypes.addressof(target), 0)
        read = libc.process_vm_readv(libc.getppid(), ctypes.byref(own), 1, ctypes.byref(own), 1, 0)
        return outcome(read)

    def priority(self):
        # Of the node; its own, to another value, and to the one of a snapshot process.
        node = outcome(libc.setpriority(os.PRIO_PROCESS, libc.getppid(), 10))
        own = outcome(libc.setpriority(os.PRIO_PROCESS, 0, 19))
        snapshot = outcome(libc.setpriority(os.PRIO_PROCESS, 0, 10))
        return f"node {node}, own {own}, as a snapshot {snapshot}"

    def niceness(self):
        return f"{libc.getpriority(os.PRIO_PROCESS, 0)}, a snapshot {self.written_at}"

    def fork(self):
        child = libc.fork()
        if child == 0:
            while True:
                libc.pause()
        return str(child)

    def program(self):
        pid = ctypes.c_int()
        words = (ctypes.c_char_p * 2)(b"true", None)
        error = libc.posix_spawn(ctypes.byref(pid), b"/bin/true", None, None, words, None)
        return errno.errorcode[error] if error else "through"

    def proc(self):
        return outcome(libc.open(f"/proc/{libc.getppid()}/environ".encode(), 0))

    def environment(self):
        # Cargo gives variables to the test, which stands for the node: none of them belong here.
        return ",".join(
            sorted(name for name in os.environ if name.startswith(("CARGO", "QUORATE")))
        )

    def memory(self):
        while True:
            self.held.append(bytearray(1 << 24))

    def descriptors(self):
        # Standard streams, the stream to the node, and the activity.
        if len(self.passed_on) > 5:
            return f"{self.passed_on} were passed on"
        opened = []
        with contextlib.suppress(OSError):
            while len(opened) < 100_000:
                opened.append(os.open("/dev/null", os.O_RDONLY))
        for descriptor in opened:
            os.close(descriptor)
        return "bounded" if len(opened) < 1024 else f"{len(opened)} files"

    def output(self):
        for _ in range(200_000):
            print("an object that prints and prints and prints")
        return "printed"

    def scratch(self):
        path = os.path.join(os.environ["TMPDIR"], "own")
        descriptor = libc.open(path.encode(), O_WRONLY | O_CREAT, 0o600)
        return outcome(descriptor)
