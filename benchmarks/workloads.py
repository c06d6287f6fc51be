"""The table of workloads: what each one runs, whom it is measured against, and the bar it has to clear.

Nothing here imports a data loader (nor NumPy), so the driver can read it with a bare Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# Who can run a workload: the environment it runs in, and the module of this folder that holds its function.
# `ours` and `grain` run the very same code; `floor` is the plain Python or NumPy that no loader can avoid.
CONTESTANTS = {
    "ours": ("ours", "pipelines"),
    "grain": ("grain", "pipelines"),
    "torch": ("torch", "torch_loaders"),
    "tf.data": ("tensorflow", "tf_data"),
    "webdataset": ("webdataset", "webdataset_loaders"),
    "floor": ("ours", "by_hand"),
    "datasets": ("ours", "hugging_face"),
    "take": ("ours", "by_arrow"),
}


@dataclass(frozen=True)
class Call:
    """What one contestant does: `function(*args)` of `module`, under the Python of `environment`."""

    environment: str
    module: str
    function: str
    args: tuple[object, ...]


@dataclass(frozen=True)
class Workload:
    """One row of the table.

    The function returns either an iterable, of which `measure` is taken, or a float already in `unit`. An iterable is
    started anew when it ends; a generator must therefore never end.
    """

    name: str
    function: str
    args: tuple[object, ...] = ()
    # Rival -> how many times as fast as it we have to be: 2 is twice as fast, 0.5 is at most twice as slow, and None
    # shows the ratio without judging it. A rival is a contestant from above, or one of `variants`.
    at_least: Mapping[str, float | None] = field(default_factory=dict)
    # Rivals that are ourselves with other arguments.
    variants: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    # A bar for the measured number itself, in `unit`.
    at_most: float | None = None
    unit: str = "ns"
    # How many elements one item of the iterable carries.
    batch: int = 1
    # What to measure of the iterable: the name of a function of measuring.py.
    measure: str = "ns_per_element"
    # For how long at least to time it; the more threads and processes take part, the longer the average has to be.
    seconds: float = 0.25
    # Whether threads or workers of its own take part: what comes in a short while then depends on their buffers.
    is_concurrent: bool = False

    @property
    def contestants(self) -> list[str]:
        return ["ours", *self.at_least]

    def call(self, contestant: str) -> Call:
        environment, module = CONTESTANTS["ours" if contestant in self.variants else contestant]
        return Call(environment, module, self.function, self.variants.get(contestant, self.args))


MAPS_BARS = {"grain": 25, "torch": 1, "floor": 1 / 2}
ARRAY_BARS = {"grain": None, "floor": 1 / 1.5}
FEW = "100 components"
HANDOVER_BARS = {"grain": 3, "torch": 2.5, "floor": 1 / 2.5}
INLINE = {"inline": (0,)}
PACKING_BARS = {"grain": 8, "floor": 1 / 3}

WORKLOADS = [
    Workload("shuffle", "shuffle", at_least={"grain": 40}),
    Workload("maps_batch", "maps_batch", batch=128, at_least={**MAPS_BARS, "tf.data": None}),
    Workload("maps_iter_batch", "maps_iter_batch", batch=128, at_least=MAPS_BARS),
    Workload("images", "images", batch=64, at_least={"grain": 5, "torch": 1, "tf.data": None}),
    Workload("array_1d", "array", ("1d",), batch=64, at_least=ARRAY_BARS),
    Workload("array_16", "array", ("16",), batch=64, at_least=ARRAY_BARS),
    Workload("array_img", "array", ("img",), batch=64, at_least=ARRAY_BARS),
    Workload("columns", "columns", batch=256, seconds=1, at_least={"floor": 1 / 1.5}),
    Workload("parquet", "parquet", batch=256, seconds=1, at_least={"datasets": 1, "take": 20}),
    Workload("arrow", "arrow", batch=256, seconds=1, at_least={"datasets": 1, "take": None}),
    Workload("random_map_integers", "random_map", ("integers",), at_least={"grain": 8}),
    Workload("random_map_random", "random_map", ("random",), at_least={"grain": 8}),
    Workload("mixture", "mixture", (20,), at_least={"grain": 25}),
    Workload("filter", "keep_one_in_ten", at_least={"grain": 20}),
    Workload("concatenate_ranges", "concatenate", ("range", 1_000), at_least={"grain": 25}),
    Workload("concatenate_lists", "concatenate", ("list", 1_000), at_least={"grain": 25}),
    Workload("window_shuffle", "window_shuffle", at_least={"grain": 15}),
    Workload("state", "save_and_restore", at_least={"grain": 5}),
    Workload("getitem_shuffle_map", "getitem", ("shuffle_map",), at_least={"grain": 1}),
    Workload("getitem_mixture", "getitem", ("mixture",), at_least={"grain": 1}),
    Workload("getitem_small_windows", "getitem", ("small_windows",), at_least={"grain": 1}),
    Workload("getitem_small_shuffles", "getitem", ("small_shuffles",), at_least={"grain": 1}),
    Workload("getitem_slice_repeat", "getitem", ("slice_repeat",), at_least={"grain": 1}),
    Workload("getitem_batch", "getitem", ("batch",), at_least={"grain": 1}),
    Workload(
        "import",
        "start_python",
        ("grain",),
        measure="ms_per_item",
        unit="ms",
        at_least={"numpy": 1 / 1.5},
        variants={"numpy": ("numpy",)},
    ),
    Workload("many_mixture_build", "build_many", ("mixture",), unit="s", at_most=1),
    Workload("many_concatenate_build", "build_many", ("concatenate",), unit="s", at_most=1),
    Workload("many_mixture", "mixture", (10_000,), at_least={FEW: 1 / 2}, variants={FEW: (100,)}),
    Workload(
        "many_concatenate", "concatenate", ("range", 10_000), at_least={FEW: 1 / 2}, variants={FEW: ("range", 100)}
    ),
    Workload("memory", "memory_growth", unit="MB", at_most=30),
    Workload(
        "defaults_batch", "defaults_batch", batch=64, seconds=1, is_concurrent=True, at_least={"grain": 40, "torch": 1}
    ),
    Workload("handover", "handover", batch=64, seconds=2, is_concurrent=True, at_least=HANDOVER_BARS),
    Workload("handover_memory", "handover", measure="peak_mb", unit="MB", at_least={"grain": None, "torch": 1}),
    Workload(
        "small_elements_mp", "small_elements_mp", seconds=1, is_concurrent=True, at_least={"grain": None, "torch": None}
    ),
    Workload("first_batch_cold", "first_batch", measure="ms_to_first", unit="ms", at_least={"grain": 4, "torch": 4}),
    Workload(
        "first_batch_warm", "first_batch", measure="ms_to_first_again", unit="ms", at_least={"grain": 20, "torch": 20}
    ),
    Workload(
        "jpeg",
        "jpeg",
        (2,),
        batch=32,
        seconds=2,
        is_concurrent=True,
        at_least={"grain": 1.3, "inline": 1.7},
        variants=INLINE,
    ),
    Workload(
        "jpeg_defaults",
        "jpeg",
        (16,),  # threads are the default
        batch=32,
        seconds=2,
        is_concurrent=True,
        at_least={"grain": None, "tf.data": None, "inline": None},
        variants=INLINE,
    ),
    Workload("array_record", "array_record", (0,), batch=128, at_least={"grain": 8, "floor": 1 / 1.5}),
    Workload(
        "array_record_defaults", "array_record", (16,), batch=128, seconds=1, is_concurrent=True, at_least={"grain": 15}
    ),
    Workload("loader", "loader", (0,), batch=64, at_least={"grain": 20, "torch": 1}),
    Workload("loader_mp", "loader", (2,), batch=64, seconds=2, is_concurrent=True, at_least={"grain": 20, "torch": 1}),
    Workload("loader_random", "loader_random", batch=64, seconds=1, at_least={"grain": 10}),
    Workload("padded_batch", "padded_batch", batch=32, seconds=1, at_least={"floor": 1 / 3}),
    Workload("bucket_by_length", "bucket_by_length", batch=32, seconds=1, at_least={"floor": 1 / 4}),
    Workload("pack_first_fit", "packing", ("first",), seconds=1, at_least=PACKING_BARS),
    Workload("pack_best_fit", "packing", ("best",), seconds=1, at_least=PACKING_BARS),
    Workload("concat_and_split", "packing", ("split",), seconds=1, at_least=PACKING_BARS),
    Workload("blocking", "blocking", seconds=1, is_concurrent=True, at_least={"grain": None}),
    Workload("webdataset_1k", "shard", (1_000,), seconds=1, at_least={"webdataset": 1}),
    Workload("webdataset_100k", "shard", (100_000,), seconds=1, at_least={"webdataset": 1}),
    Workload(
        "json_lines_reopen",
        "open_lines",
        (1_000_000,),
        unit="ms",
        at_least={"1,000 lines": 1 / 2},
        variants={"1,000 lines": (1_000,)},
    ),
]
