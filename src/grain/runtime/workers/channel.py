"""Messages between two processes: a kind, a body of bytes, and perhaps an open file."""

from __future__ import annotations

import os
import select
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

_HEADER = struct.Struct("<QB?")
"""The size of the body, the kind, and whether a file follows."""
_FILE = struct.Struct("i")
# The system takes no more than 1,024 at once.
_MOST_PARTS = 512


def is_readable(file: File, timeout: float) -> bool:
    """Whether there is something to read, or the other end is gone, within that many seconds."""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(timeout * 1000))


class File:
    """The open file that `make` makes of its arguments: it is closed when nobody has this any more.

    `make` is called from C, so that no interrupt comes between opening a file and knowing of it.
    """

    def __init__(self, make: Callable[..., Any], *args: Any) -> None:
        self._made: list[Any] = []
        self._made.extend(map(make, *([argument] for argument in args)))

    def numbers(self) -> list[int]:
        """Its descriptor, if there is one."""
        return self._made

    def fileno(self) -> int:
        (number,) = self.numbers()
        return number

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        for number in self.numbers():
            close(number)


class _ReceivedFile(File):
    """What came with a byte; nothing where too many files are open."""

    def __init__(self, end: socket.socket) -> None:
        super().__init__(end.recvmsg, 1, socket.CMSG_LEN(_FILE.size))

    def numbers(self) -> list[int]:
        return [_FILE.unpack(data)[0] for _, rights, _, _ in self._made for _, _, data in rights if data]


class Message(NamedTuple):
    """What one side sent."""

    kind: int
    body: memoryview
    file: File | None
    """What came along, if there was room for it."""


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
        views.insert(0, memoryview(_HEADER.pack(sum(view.nbytes for view in views), kind, file is not None)))
        self.broken, was_broken = True, self.broken
        try:
            while views:
                sent = self._socket.sendmsg(views[:_MOST_PARTS])
                while views and sent >= views[0].nbytes:
                    sent -= views.pop(0).nbytes
                if views:
                    views[0] = views[0][sent:]
            if file is not None:
                socket.send_fds(self._socket, [b"f"], [file.fileno()])
        except OSError:  # nobody will read it; but there may be something left to receive
            self.broken = was_broken
            raise
        self.broken = was_broken

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message; None if there is none in time. EOFError when the other side is gone."""
        if not self._poll.poll(None if timeout is None else timeout * 1000):
            return None
        self.broken, was_broken = True, self.broken
        header = self._socket.recv(_HEADER.size)
        if not header:
            raise EOFError("The other process has closed its end.")
        size, kind, has_file = _HEADER.unpack(header + self._exactly(_HEADER.size - len(header)))
        body = memoryview(self._exactly(size))
        file = _ReceivedFile(self._socket) if has_file else None
        self.broken = was_broken
        return Message(kind, body, file if file is not None and file.numbers() else None)

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
