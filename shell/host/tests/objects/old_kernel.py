#!/usr/bin/env python3
"""Runs Python as on a kernel without Landlock and seccomp: both are unknown system calls.

Stands in for the repository's interpreter, and runs it.
"""

import ctypes
import os
import platform
import struct
import sys

X86 = platform.machine() == "x86_64"
CALLS = (444, 317 if X86 else 277)
PRCTL = 157 if X86 else 167
ENOSYS, EINVAL = 38, 22
SET_NO_NEW_PRIVS, SET_SECCOMP, FILTER = 38, 22, 2
LOAD, EQUAL, RETURN, ALLOW, ERRNO = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050000


def step(code, yes, no, value):
    return struct.pack("HBBI", code, yes, no, value)


program = [
    step(LOAD, 0, 0, 0),
    step(EQUAL, 0, 1, CALLS[0]),
    step(RETURN, 0, 0, ERRNO | ENOSYS),
    step(EQUAL, 0, 1, CALLS[1]),
    step(RETURN, 0, 0, ERRNO | ENOSYS),
    step(EQUAL, 0, 3, PRCTL),
    step(LOAD, 0, 0, 16),
    step(EQUAL, 0, 1, SET_SECCOMP),
    step(RETURN, 0, 0, ERRNO | EINVAL),
    step(RETURN, 0, 0, ALLOW),
]
code = b"".join(program)
buffer = ctypes.create_string_buffer(code, len(code))
filter_ = struct.pack("HxxxxxxP", len(program), ctypes.addressof(buffer))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
assert libc.prctl(SET_SECCOMP, FILTER, ctypes.c_char_p(filter_), 0, 0) == 0, ctypes.get_errno()
interpreter = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "../../../../.venv/bin/python"
)
os.execv(interpreter, [interpreter, *sys.argv[1:]])
