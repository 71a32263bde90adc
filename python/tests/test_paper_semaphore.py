"""The semaphore of the OpenReplica paper as it stands there, on a group whose nodes are lost and restored."""

from __future__ import annotations

import ast
import inspect
from concurrent.futures import Future, ThreadPoolExecutor

from paper_semaphore import Semaphore
from patience import PATIENCE_S, until

import quorate

FIGURE_3 = """
class Semaphore():
    def __init__(self, count=1):
        self.count = int(count)
        self.queue = []
        self.atomic = Lock()

    def acquire(self, _concoord_cmd):
        with self.atomic:
            self.count -= 1
            if self.count < 0:
                self.queue.append(_concoord_cmd)
                raise BlockingReturn(None)
            else:
                return True

    def release(self, _concoord_cmd):
        with self.atomic:
            self.count += 1
            if len(self.queue) > 0:
                unblockcmd = self.queue.pop(0)
                unblocked = {}
                unblocked[unblockcmd] = True
                raise UnblockingReturn(None, unblocked)
"""

OTHERWISE = {
    "self.queue.append(_concoord_cmd)": "self.queue.append(quorate.caller())",
    "raise BlockingReturn(None)": "return quorate.park()",
    # Of the dictionary of callers to unblock nothing is left: each is woken with its value.
    "unblocked = {}": None,
    "unblocked[unblockcmd] = True": "unblockcmd.wake(True)",
    "raise UnblockingReturn(None, unblocked)": None,
}
"""Lines of the figure, and what stands in their place."""


class _WithoutTypes(ast.NodeTransformer):
    """Takes away what the figure's Python did not have, and the parameter that its proxy added."""

    def visit_arguments(self, node: ast.arguments) -> ast.arguments:
        node.args = [ast.arg(each.arg) for each in node.args if each.arg != "_concoord_cmd"]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        assert node.value is not None
        return ast.Assign([node.target], node.value, lineno=node.lineno)


def lines_of(source: str) -> list[str]:
    """The lines of a class, written in one way."""
    return ast.unparse(_WithoutTypes().visit(ast.parse(source))).splitlines()


def test_the_class_is_the_figure_but_for_how_callers_are_named_blocked_and_woken() -> None:
    expected = []
    for line in lines_of(FIGURE_3):
        indent, text = line[: len(line) - len(line.lstrip())], line.strip()
        other = OTHERWISE.get(text, text)
        if other is not None:
            expected.append(indent + other)
    assert lines_of(inspect.getsource(Semaphore)) == expected


def test_the_figure_blocks_and_unblocks_over_a_snapshot_and_a_killed_leader() -> None:
    """Claim rp-113."""
    nodes = quorate.local(Semaphore, 2, persist="disk", timeout=PATIENCE_S)
    with ThreadPoolExecutor(4) as threads, nodes as semaphore:
        late = next(node for node in nodes.nodes if node != nodes.leader)
        nodes.kill(late)
        assert [semaphore.acquire(), semaphore.acquire()] == [True, True]
        waiting: list[Future[bool]] = []
        for number in range(1, 5):
            waiting.append(threads.submit(semaphore.acquire))
            until(lambda: semaphore.count == -number)  # noqa: B023
        nodes.snapshot()
        nodes.restart(late)
        killed = nodes.leader
        nodes.kill(killed)
        assert (semaphore.count, [one.done() for one in waiting]) == (-4, [False] * 4)
        for woken in range(1, 5):
            semaphore.release()
            assert waiting[woken - 1].result(PATIENCE_S) is True
            assert [one.done() for one in waiting] == [True] * woken + [False] * (4 - woken)
            if woken == 2:
                nodes.restart(killed)
                nodes.snapshot()
                killed = nodes.leader
                nodes.kill(killed)
        nodes.restart(killed)
        with quorate.group(nodes.endpoint, timeout=PATIENCE_S) as group:
            assert group.describe("Semaphore")["waiting"] == []
        for _ in range(2):
            semaphore.release()
        assert semaphore.count == 2
        assert nodes.compare().is_equal
