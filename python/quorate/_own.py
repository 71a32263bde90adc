"""The objects that every group has for itself: they are called and kept like those of its users."""

from __future__ import annotations

from quorate import _directory, _feed, _outbox

CLASSES: dict[int, type[_directory.Directory | _feed.Feed | _outbox.Outbox]] = {
    _directory.NUMBER: _directory.Directory,
    _feed.NUMBER: _feed.Feed,
    _outbox.NUMBER: _outbox.Outbox,
}
"""By number."""
