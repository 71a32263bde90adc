"""Classes of a user that are made of objects of the library."""

from __future__ import annotations

from quorate.objects import Counter, RedBlackTree, Stack


class Desk:
    """Papers on a stack, and what was read of them."""

    def __init__(self) -> None:
        self.papers: Stack[str] = Stack()
        self.read: RedBlackTree[str, int] = RedBlackTree()
        self.words: Counter[str] = Counter()

    def put(self, paper: str) -> int:
        """Lay a paper on top."""
        self.papers.push(paper)
        return len(self.papers)

    def take(self) -> str:
        """Read the paper on top."""
        paper = self.papers.pop()
        self.words.update(paper.split())
        self.read[paper] = len(self.read)
        return paper

    def common(self) -> list[tuple[str, int]]:
        """Return the words that were read most."""
        return self.words.most_common(2)

    def all_read(self) -> list[tuple[str, int]]:
        """Return what was read."""
        return self.read.items()
