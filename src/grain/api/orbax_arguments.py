"""What is passed to the methods of `orbax.checkpoint.CheckpointManager`. Imports Orbax."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import orbax.checkpoint as ocp

if TYPE_CHECKING:
    from grain.checkpoint import BytesAsState
    from grain.files.state_files import Checkpointable


@dataclasses.dataclass
class CheckpointSave(ocp.args.CheckpointArgs):  # type: ignore[misc]
    """Save the position of an iterator."""

    item: Checkpointable | BytesAsState


@dataclasses.dataclass
class CheckpointRestore(ocp.args.CheckpointArgs):  # type: ignore[misc]
    """Take an iterator to the position that was saved."""

    item: Checkpointable | BytesAsState


def register(handler: type) -> None:
    """Tell Orbax that these are the arguments of `handler`."""
    ocp.args.register_with_handler(handler, for_save=True)(CheckpointSave)
    ocp.args.register_with_handler(handler, for_restore=True)(CheckpointRestore)
