"""The objects that every group has for itself: they are called and kept like those of its users."""

from __future__ import annotations

from quorate import _directory, _feed

CLASSES: dict[int, type[_directory.Directory | _feed.Feed]] = {
    _directory.NUMBER: _directory.Directory,
    _feed.NUMBER: _feed.Feed,
}
"""By number."""
