"""`quorate check`, `lint` and `proxy`, which the program `quorate` starts as ``python -m quorate._commands``.

Exit codes: 0 no problems, 1 problems found, 2 the command or its arguments are wrong.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import json
import os
import sys
from pathlib import Path
from typing import Any

from quorate import _check, _client_module, _lint
from quorate._findings import Found, as_json, table

FAILED, USAGE = 1, 2


def main(words: list[str] | None = None) -> int:
    """Run a command; the exit code."""
    options = _parser().parse_args(words)
    sys.path.insert(0, os.getcwd())
    try:
        return int(options.run(options))
    except (LookupError, _Usage) as error:
        return _failed(options, USAGE, str(error.args[0]))
    except _check.Unfit as error:
        return _failed(options, FAILED, str(error))


def _failed(options: Any, code: int, message: str) -> int:
    """Say what is wrong, in the form of all commands; the exit code."""
    if options.output != "json":
        print(f"quorate: {message}", file=sys.stderr)
        return code
    advice = "correct the command" if code == USAGE else "correct the class, or give it other arguments"
    error = "usage" if code == USAGE else "failed"
    told = {"advice": advice, "error": error, "exit_code": code, "message": message}
    print(json.dumps(told), file=sys.stderr)
    return code


class _Usage(Exception):
    """What the command line says makes no sense."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="quorate", description="Find out what a group would do with a class."
    )
    commands = parser.add_subparsers(required=True)
    check = commands.add_parser("check", help="run the class in several processes, and compare them")
    lint = commands.add_parser("lint", help="read its source only")
    for command, run in ((check, _run_check), (lint, _run_lint)):
        command.add_argument("class_path", metavar="MODULE:CLASS")
        command.add_argument("-o", "--output", choices=("table", "json"), default="table")
        command.set_defaults(run=run)
    proxy = commands.add_parser("proxy", help="write a client module that does without the class's own")
    proxy.add_argument("class_path", metavar="MODULE:CLASS")
    proxy.add_argument("-o", "--output", help="ignored: a module is no table")
    proxy.add_argument("--out", help="the file; default: standard output")
    proxy.add_argument("--check", action="store_true", help="compare the file with the class, change nothing")
    proxy.set_defaults(run=_run_proxy)
    check.add_argument("--args", help="constructor arguments, a JSON list; default: made up where needed")
    check.add_argument("--kwargs", help="constructor keyword arguments, a JSON object")
    check.add_argument(
        "--calls", help='a file of calls that come first, one JSON list a line: ["deposit", 10]'
    )
    check.add_argument(
        "--allow", action="append", default=[], help="a package whose instances may be in the state"
    )
    check.add_argument("--short", action="store_true", help="in a second, without what needs time to pass")
    return parser


def _run_lint(options: Any) -> int:
    found = _lint.lint(_lint.class_of(options.class_path, [os.getcwd()]))
    if options.output == "json":
        print(as_json(found))
    else:
        _print_found(found)
    return int(any(each.level == "problem" for each in found))


def _run_proxy(options: Any) -> int:
    text = _client_module.write(_lint.class_of(options.class_path, [os.getcwd()]), options.class_path)
    if options.out is None:
        if options.check:
            raise _Usage("--check compares a file: name it with --out")
        print(text, end="")
        return 0
    path = Path(options.out)
    if not options.check:
        try:
            path.write_text(text, "utf-8")
        except OSError as error:
            words = f"{path} cannot be written: {error.strerror}; name another file with --out"
            raise _check.Unfit(words) from error
        return 0
    try:
        held = path.read_text("utf-8") if path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise _Usage(f"{path} cannot be read as a module: {error}; name another file with --out") from error
    was, is_now = held.splitlines(keepends=True), text.splitlines(keepends=True)
    sys.stdout.writelines(difflib.unified_diff(was, is_now, str(path), options.class_path))
    return int(held != text)


def _run_check(options: Any) -> int:
    plan = _check.Plan(
        options.class_path,
        [os.getcwd()],
        args=_json(options.args, list),
        kwargs=_json(options.kwargs, dict),
        allow=options.allow,
        given=_given(options.calls),
        calls=60 if options.short else _check.Plan("", []).calls,
        is_short=options.short,
    )
    report = _check.check(plan)
    if options.output == "json":
        print(as_json(report.found, methods=[dataclasses.asdict(method) for method in report.methods]))
    else:
        if not options.short:
            print(table(_check.TITLES, _check.rows(report.methods)), end="\n\n")
        _print_found(report.found)
        _print_unproven(report, is_short=options.short)
    return int(report.problems > 0)


def _print_found(found: list[Found]) -> None:
    for each in found:
        print(each)
    if not found:
        print("nothing found")


def _print_unproven(report: _check.Report, *, is_short: bool) -> None:
    told = {each.function.rpartition(".")[2] for each in report.found if each.rule == "outside"}
    if not report.methods and not is_short:
        print("the class has no public methods of its own: nothing was called; special methods are not")
    for method in report.methods if not is_short else []:
        place = f"{method.file}:{method.line}: " if method.file else ""
        if method.unguessed:
            print(f"{place}{method.name} was not called: {method.unguessed}; see --calls")
        elif method.calls and method.calls == method.raised:
            print(f"{place}{method.name} raised whenever it was called, as {method.last_raised}; see --calls")
        elif method.is_outside and method.calls and not method.changed and method.name not in told:
            why = _check.because(method.why)
            words = f"{method.name} changed nothing of the object, and is ordered because {why}"
            print(f"{place}{words}: a variable of a module is no part of the state, and no snapshot has it")
        elif not method.kind and method.changed_nothing and method.hook is None:
            words = f"{method.name} changed nothing, and is ordered because {_check.because(method.why)}"
            print(f"{place}{words}: mark it @quorate.readonly if it never does")


def _json(text: str | None, kind: type) -> Any:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise _Usage(f"'{text}' is not JSON ({error}); {_example(kind)}") from error
    if not isinstance(value, kind):
        what = "list" if kind is list else "object"
        raise _Usage(f"'{text}' is not a JSON {what}; {_example(kind)}")
    return value


def _example(kind: type) -> str:
    words = """--args '["A-1", 100]'""" if kind is list else """--kwargs '{"balance": 100}'"""
    return f"write for example {words}; text is in double quotes"


def _given(path: str | None) -> list[tuple[str, list[Any], dict[str, Any]]]:
    """The calls of a file: lists of a method and arguments, or objects with method, args and kwargs."""
    if path is None:
        return []
    try:
        with open(path, encoding="utf-8") as file:
            lines = [(number, line) for number, line in enumerate(file, 1) if line.strip()]
    except OSError as error:
        raise _Usage(f"{path}: {error.strerror}") from error
    calls: list[tuple[str, list[Any], dict[str, Any]]] = []
    for number, line in lines:
        try:
            call = json.loads(line)
            if isinstance(call, list):
                calls.append((str(call[0]), call[1:], {}))
            else:
                calls.append((call["method"], call.get("args", []), call.get("kwargs", {})))
        except (ValueError, LookupError, TypeError) as error:
            raise _Usage(f'{path}:{number}: a call is a JSON list such as ["deposit", 10]') from error
    return calls


if __name__ == "__main__":
    sys.exit(main())
