"""What can go wrong. Failed system calls are OSError."""

from __future__ import annotations


class QueueError(Exception):
    """The base of all errors of this package. `kind` is one word; `offset` is a place in the log, or None."""

    kind = "error"

    def __init__(self, message: str, offset: int | None = None) -> None:
        super().__init__(message)
        self.offset = offset


class NotFoundError(QueueError):
    """There is no store."""

    kind = "not-found"


class FormatError(QueueError):
    """Not a store that this version may use: another version, an unknown feature, a damaged meta page."""

    kind = "format"


class CorruptError(QueueError):
    """The log or a cursor is damaged there. The position stays."""

    kind = "corrupt"


class OutOfRangeError(QueueError):
    """The messages there were removed or cut off, or no frame begins there."""

    kind = "removed"


class InUseError(QueueError):
    """Another consumer holds the name, or another process a lock."""

    kind = "in-use"


class RecoveryNeededError(QueueError):
    """Nobody has the store open, and the last one did not leave it in order: open it once from C#."""

    kind = "recovery"


class FencedError(QueueError):
    """An operator took the claim of this message away: it was not appended."""

    kind = "fenced"


class DeletedError(QueueError):
    """The store was deleted or replaced."""

    kind = "deleted"
