"""A binary search tree that balances itself."""

from __future__ import annotations

from typing import TypeVar

from quorate.objects._binary_search_tree import BinarySearchTree, TreeNode

K = TypeVar("K")
V = TypeVar("V")


class RedBlackTree(BinarySearchTree[K, V]):
    """A mapping in the order of its keys, which need `<`. Searches and changes take logarithmic time.

    It has the methods of `BinarySearchTree`, which explains them.

    >>> squares = RedBlackTree[int, int]()
    >>> for number in range(1000):
    ...     squares[number] = number * number
    >>> squares[31], squares.last(), squares.height() < 20
    (961, (999, 998001), True)
    """

    # Invariant: the root is black, no red node has a red child, all ways down have equally many black nodes.

    def _inserted(self, node: TreeNode[K, V]) -> None:
        """Two red nodes after each other move up by recolouring, or end by turning."""
        node.is_red = True
        while node.parent.is_red:
            parent, grandparent = node.parent, node.parent.parent
            is_left = parent is grandparent.left
            uncle = grandparent.right if is_left else grandparent.left
            if uncle.is_red:
                parent.is_red = uncle.is_red = False
                grandparent.is_red = True
                node = grandparent
                continue
            if node is (parent.right if is_left else parent.left):
                self._turn(parent, to_left=is_left)
                node, parent = parent, node
            parent.is_red, grandparent.is_red = False, True
            self._turn(grandparent, to_left=not is_left)
        self._root.is_red = False

    def _removed(self, node: TreeNode[K, V], child: TreeNode[K, V]) -> None:
        """Ways through the child have one black node too few if a black one is gone."""
        if node.is_red:
            return
        while child is not self._root and not child.is_red:
            parent = child.parent
            is_left = child is parent.left
            sibling = parent.right if is_left else parent.left
            if sibling.is_red:
                sibling.is_red, parent.is_red = False, True
                self._turn(parent, to_left=is_left)
                sibling = parent.right if is_left else parent.left
            near, far = (sibling.left, sibling.right) if is_left else (sibling.right, sibling.left)
            if not near.is_red and not far.is_red:
                sibling.is_red = True
                child = parent
                continue
            if not far.is_red:
                near.is_red, sibling.is_red = False, True
                self._turn(sibling, to_left=not is_left)
                sibling, far = near, sibling
            sibling.is_red, parent.is_red, far.is_red = parent.is_red, False, False
            self._turn(parent, to_left=is_left)
            child = self._root
        child.is_red = False

    def _turn(self, node: TreeNode[K, V], *, to_left: bool) -> None:
        """Move a node down to the left or right; its other child comes into its place."""
        child = node.right if to_left else node.left
        moved = child.left if to_left else child.right
        self._replace(node, child)
        if to_left:
            node.right, child.left = moved, node
        else:
            node.left, child.right = moved, node
        node.parent = child
        if moved is not self._nil:
            moved.parent = node
