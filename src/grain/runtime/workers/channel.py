"""Messages between two processes: a kind, a body of bytes, and perhaps an open file."""

from __future__ import annotations

import os
import select
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

_HEADER = struct.Struct("<QB")
_FILES = struct.Struct("i")
_ROOM_FOR_A_FILE = socket.CMSG_LEN(_FILES.size)
# The system takes no more than 1,024 at once.
_MOST_PARTS = 512


def is_readable(file: File, timeout: float) -> bool:
    """Whether there is something to read, or the other end is gone, within that many seconds."""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(timeout * 1000))


class File:
    """An open file, which is closed when nobody has this any more, whatever interrupts them."""

    def __init__(self, number: int) -> None:
        self._number = number

    def fileno(self) -> int:
        return self._number

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self._number)


class Message(NamedTuple):
    """What one side sent."""

    kind: int
    body: memoryview
    file: File | None
    """What came along."""


class Channel:
    """One end of a stream socket.

    A message that is interrupted half-way leaves the two sides out of step: the channel is then `broken` and only good
    for closing. Waiting can be interrupted at any time.
    """

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._poll = select.poll()
        self._poll.register(end, select.POLLIN)
        self.broken = False

    @classmethod
    def pair(cls) -> tuple[Channel, socket.socket]:
        """A channel, and the socket at its other end, to be given to another process."""
        here, there = socket.socketpair()
        return cls(here), there

    def send(self, kind: int, parts: Sequence[Any] = (), file: File | None = None) -> None:
        """Send a message whose body is all `parts`, one after the other."""
        views = [memoryview(part).cast("B") for part in parts]
        views.insert(0, memoryview(_HEADER.pack(sum(view.nbytes for view in views), kind)))
        rights = [] if file is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, _FILES.pack(file.fileno()))]
        self.broken, was_broken = True, self.broken
        while views:
            try:
                sent = self._socket.sendmsg(views[:_MOST_PARTS], rights)
            except OSError:  # nobody will read it; but there may be something left to receive
                self.broken = was_broken
                raise
            rights = []
            while views and sent >= views[0].nbytes:
                sent -= views.pop(0).nbytes
            if views:
                views[0] = views[0][sent:]
        self.broken = was_broken

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message; None if there is none in time. EOFError when the other side is gone."""
        if not self._poll.poll(None if timeout is None else timeout * 1000):
            return None
        self.broken, was_broken = True, self.broken
        header, rights, _, _ = self._socket.recvmsg(_HEADER.size, _ROOM_FOR_A_FILE)
        file = File(*_FILES.unpack(rights[0][2])) if rights and rights[0][2] else None
        if not header:
            raise EOFError("The other process has closed its end.")
        header += self._exactly(_HEADER.size - len(header))
        size, kind = _HEADER.unpack(header)
        message = Message(kind, memoryview(self._exactly(size)), file)
        self.broken = was_broken
        return message

    def _exactly(self, size: int) -> bytearray:
        body = bytearray(size)
        rest = memoryview(body)
        while rest:
            count = self._socket.recv_into(rest)
            if not count:
                raise EOFError("The other process has ended in the middle of a message.")
            rest = rest[count:]
        return body

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        """Let the other side know that there is nothing more to come."""
        self.broken = True
        self._socket.close()
