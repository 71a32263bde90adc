"""A binary search tree that does not balance itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")


class TreeNode(Generic[K, V]):
    """A key with its value, smaller keys at its left and larger ones at its right.

    Where a tree has no node stands its `nil`, which has neither key nor value. `RedBlackTree` has colours.
    """

    __slots__ = ("is_red", "key", "left", "parent", "right", "value")

    key: K
    value: V

    def __init__(self, nil: TreeNode[K, V] | None) -> None:
        self.left = self.right = self.parent = self if nil is None else nil
        self.is_red = False


class BinarySearchTree(Generic[K, V]):
    """A mapping in the order of its keys, which need `<`.

    A search takes as many steps as the tree is high: few after keys in random order, one for each key after
    sorted ones. `RedBlackTree` stays low.

    >>> ages = BinarySearchTree[str, int]()
    >>> ages["mia"], ages["ben"], ages["zoe"] = 31, 44, 27
    >>> ages.first(), ages.keys(), ages.between("c", "z"), ages.pop("mia")
    (('ben', 44), ['ben', 'mia', 'zoe'], [('mia', 31)], 31)
    """

    def __init__(self) -> None:
        self._nil = self._root = TreeNode[K, V](None)
        self._length = 0

    def insert(self, key: K, value: V) -> None:
        """Give a key a value, in place of the one that it had. The same as `tree[key] = value`."""
        parent, node = self._nil, self._root
        while node is not self._nil:
            parent = node
            if _is_less(key, node.key):
                node = node.left
            elif _is_less(node.key, key):
                node = node.right
            else:
                node.value = value
                return
        node = TreeNode(self._nil)
        node.key, node.value, node.parent = key, value, parent
        if parent is self._nil:
            self._root = node
        elif _is_less(key, parent.key):
            parent.left = node
        else:
            parent.right = node
        self._length += 1
        self._inserted(node)

    @overload
    def get(self, key: K) -> V | None: ...

    @overload
    def get(self, key: K, default: V) -> V: ...

    def get(self, key: K, default: V | None = None) -> V | None:
        """The value of a key, or the default."""
        node = self._find(key)
        return default if node is self._nil else node.value

    def pop(self, key: K) -> V:
        """Remove a key and return its value. Raises KeyError if it is not there."""
        node = self._find(key)
        if node is self._nil:
            raise KeyError(key)
        value = node.value
        self._length -= 1
        if node.left is not self._nil and node.right is not self._nil:
            # The next key takes this place, and its node goes, which has no left child.
            after = self._leftmost(node.right)
            node.key, node.value = after.key, after.value
            node = after
        child = node.right if node.left is self._nil else node.left
        self._replace(node, child)
        self._removed(node, child)
        self._nil.parent = self._nil
        return value

    def clear(self) -> None:
        """Remove all keys."""
        self._root, self._length = self._nil, 0

    def first(self) -> tuple[K, V]:
        """The smallest key with its value. Raises KeyError if the tree is empty."""
        node = self._leftmost(self._root)
        if node is self._nil:
            raise KeyError("the tree is empty")
        return node.key, node.value

    def last(self) -> tuple[K, V]:
        """The largest key with its value. Raises KeyError if the tree is empty."""
        node = self._root
        if node is self._nil:
            raise KeyError("the tree is empty")
        while node.right is not self._nil:
            node = node.right
        return node.key, node.value

    def between(self, low: K, high: K) -> list[tuple[K, V]]:
        """Keys from `low` on and below `high`, with their values, in order."""
        found: list[tuple[K, V]] = []
        path: list[TreeNode[K, V]] = []
        node = self._root
        while node is not self._nil or path:
            while node is not self._nil:
                path.append(node)
                node = self._nil if _is_less(node.key, low) else node.left
            node = path.pop()
            if not _is_less(node.key, high):
                return found
            if not _is_less(node.key, low):
                found.append((node.key, node.value))
            node = node.right
        return found

    def items(self) -> list[tuple[K, V]]:
        """All keys with their values, in order."""
        found: list[tuple[K, V]] = []
        path: list[TreeNode[K, V]] = []
        node = self._root
        while node is not self._nil or path:
            while node is not self._nil:
                path.append(node)
                node = node.left
            node = path.pop()
            found.append((node.key, node.value))
            node = node.right
        return found

    def keys(self) -> list[K]:
        """All keys, in order."""
        return [key for key, _ in self.items()]

    def values(self) -> list[V]:
        """All values, in the order of their keys."""
        return [value for _, value in self.items()]

    def height(self) -> int:
        """How many nodes lie on the longest way from the root to a leaf."""
        height, level = 0, [self._root]
        while True:
            level = [node for node in level if node is not self._nil]
            if not level:
                return height
            height += 1
            level = [child for node in level for child in (node.left, node.right)]

    def __getitem__(self, key: K) -> V:
        node = self._find(key)
        if node is self._nil:
            raise KeyError(key)
        return node.value

    def __setitem__(self, key: K, value: V) -> None:
        self.insert(key, value)

    def __delitem__(self, key: K) -> None:
        self.pop(key)

    def __contains__(self, key: K) -> bool:
        return self._find(key) is not self._nil

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())

    def _find(self, key: K) -> TreeNode[K, V]:
        node = self._root
        while node is not self._nil:
            if _is_less(key, node.key):
                node = node.left
            elif _is_less(node.key, key):
                node = node.right
            else:
                return node
        return node

    def _leftmost(self, node: TreeNode[K, V]) -> TreeNode[K, V]:
        while node.left is not self._nil:
            node = node.left
        return node

    def _replace(self, node: TreeNode[K, V], other: TreeNode[K, V]) -> None:
        """Put another node, with all below it, in the place of a node."""
        if node.parent is self._nil:
            self._root = other
        elif node is node.parent.left:
            node.parent.left = other
        else:
            node.parent.right = other
        # A nil has one too, for `_removed` to start from; then it goes, with the nodes that it would keep.
        other.parent = node.parent

    def _inserted(self, node: TreeNode[K, V]) -> None:
        """A node was added, below all others."""

    def _removed(self, node: TreeNode[K, V], child: TreeNode[K, V]) -> None:
        """A node is gone, and its only child, or nil, in its place."""


def _is_less(one: Any, other: Any) -> bool:
    return bool(one < other)
