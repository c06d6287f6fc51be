"""What is passed to the methods of `orbax.checkpoint.CheckpointManager`. Imports Orbax."""

from __future__ import annotations

import dataclasses
from typing import Any

import orbax.checkpoint as ocp


@dataclasses.dataclass
class CheckpointSave(ocp.args.CheckpointArgs):  # type: ignore[misc]
    """Save the position of an iterator."""

    item: Any


@dataclasses.dataclass
class CheckpointRestore(ocp.args.CheckpointArgs):  # type: ignore[misc]
    """Take an iterator to the position that was saved."""

    item: Any


def register(handler: type) -> None:
    """Tell Orbax that these are the arguments of `handler`."""
    ocp.args.register_with_handler(handler, for_save=True)(CheckpointSave)
    ocp.args.register_with_handler(handler, for_restore=True)(CheckpointRestore)
