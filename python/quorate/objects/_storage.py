"""Contents by name that lie on disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from quorate._on_disk import OnDisk, content_of, joined


class Storage:
    """Contents by name, which lie in files on the disk of each replica and not in its memory.

    >>> storage = Storage({"letter": b"dear"})
    >>> storage.append("letter", b" mia"), storage.get("letter"), storage.get("letter", 5, 7)
    (8, b'dear mia', b'mi')
    >>> storage["letter"] = b"x" * 100_000
    >>> storage.size("letter"), storage.names(), storage.delete("letter"), len(storage)
    (100000, ['letter'], None, 0)
    """

    def __init__(self, contents: Mapping[str, bytes] | None = None) -> None:
        self._contents: dict[str, OnDisk] = {}
        for name, content in (contents or {}).items():
            self.put(name, content)

    def put(self, name: str, content: bytes) -> None:
        """Give a name this content, in place of what it had."""
        self._contents[name] = OnDisk(checked(content))

    def append(self, name: str, content: bytes) -> int:
        """Add to the end of a content, which begins empty; its size then."""
        before = self._contents[name] if name in self._contents else OnDisk(b"")
        self._contents[name] = joined(before, checked(content))
        return self.size(name)

    def get(self, name: str, start: int = 0, stop: int | None = None) -> bytes:
        """A content, or its bytes from `start` up to `stop`. Raises KeyError where there is none."""
        return content_of(self._contents[name], start, stop)

    def size(self, name: str) -> int:
        """The bytes of a content. Raises KeyError where there is none."""
        return len(self._contents[name])

    def delete(self, name: str) -> None:
        """Remove a name with its content. Raises KeyError where there is none."""
        del self._contents[name]

    def clear(self) -> None:
        """Remove everything."""
        self._contents.clear()

    def names(self) -> list[str]:
        """All names, the oldest first."""
        return list(self._contents)

    def __getitem__(self, name: str) -> bytes:
        return self.get(name)

    def __setitem__(self, name: str, content: bytes) -> None:
        self.put(name, content)

    def __delitem__(self, name: str) -> None:
        self.delete(name)

    def __contains__(self, name: str) -> bool:
        return name in self._contents

    def __len__(self) -> int:
        return len(self._contents)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._contents))


def checked(content: bytes) -> bytes:
    """Bytes, of whatever kind."""
    if not isinstance(content, bytes | bytearray | memoryview):
        raise TypeError(f"a content is bytes, not {type(content).__name__}: encode it")
    return bytes(content)
