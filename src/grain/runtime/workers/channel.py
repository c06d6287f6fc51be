"""Messages between two processes: a kind, a body of bytes, and perhaps an open file."""

from __future__ import annotations

import array
import select
import socket
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

_HEADER = struct.Struct("<QB")
# The system takes no more than 1,024 at once.
_MOST_PARTS = 512


class Message(NamedTuple):
    """What one side sent."""

    kind: int
    body: memoryview
    file: int | None
    """The descriptor of a file that came along; it belongs to the receiver."""


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

    def send(self, kind: int, parts: Sequence[Any] = (), file: int | None = None) -> None:
        """Send a message whose body is all `parts`, one after the other."""
        views = [memoryview(part).cast("B") for part in parts]
        views.insert(0, memoryview(_HEADER.pack(sum(view.nbytes for view in views), kind)))
        rights = [] if file is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))]
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
        header, files, _, _ = socket.recv_fds(self._socket, _HEADER.size, 1)
        if not header:
            raise EOFError("The other process has closed its end.")
        header += self._exactly(_HEADER.size - len(header))
        size, kind = _HEADER.unpack(header)
        message = Message(kind, memoryview(self._exactly(size)), files[0] if files else None)
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
