"""The rows of the contract table that pack documents into rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from grain import IterDataset, MapDataset
from grain.experimental import BOSHandling, ConcatThenSplitIterDataset


def as_document(x):
    """A document of 0 to 7 tokens, all of them different from those of others."""
    return {"tokens": np.arange(10 * x, 10 * x + x * 5 % 8, dtype=np.int32)}


def as_document_with_more(x):
    """A document with a feature of another length and shape, one that is never cut, and one that is no array."""
    return {**as_document(x), "boxes": np.full((x % 3, 2), x, np.float32), "kind": np.array([x]), "name": f"n{x}"}


def without_name(document):
    return {key: value for key, value in document.items() if key != "name"}


def is_not_in_three(x):
    return x % 3 != 0


def is_none_of_these(x):
    return False


def documents(stream, count=13):
    return stream(MapDataset.range(count).shuffle(seed=2).map(as_document))


def documents_with_more(stream):
    return stream(MapDataset.range(11).shuffle(seed=4).map(as_document_with_more))


TOKENS = {"length_struct": {"tokens": 8}}
MORE: dict[str, Any] = {
    "length_struct": {"tokens": 9, "boxes": 4, "kind": 3},
    "meta_features": ["name", "kind"],
    "max_sequences_per_bin": 3,
    "pack_alignment_struct": {"tokens": 2, "boxes": 1, "kind": 1},
    "padding_struct": {"tokens": -1, "boxes": 0.5, "kind": None},
}

PACKING_PIPELINES: dict[str, Callable[[Any], IterDataset[Any]]] = {
    "pack_first_fit": lambda stream: documents(stream).pack_first_fit(**TOKENS, num_packing_bins=2, seed=3),
    "pack_first_fit in order": lambda stream: documents(stream).pack_first_fit(
        **TOKENS, num_packing_bins=3, shuffle_bins=False
    ),
    "pack_first_fit of more features": lambda stream: documents_with_more(stream).pack_first_fit(
        **MORE, num_packing_bins=2
    ),
    "pack_first_fit, one row at a time, with gaps": lambda stream: stream(
        MapDataset.range(9).filter(is_not_in_three).map(as_document)
    ).pack_first_fit(**TOKENS, num_packing_bins=1),
    "pack_best_fit": lambda stream: documents(stream).pack_best_fit(**TOKENS, num_packing_bins=3, seed=1),
    "pack_best_fit of more features, grouped": lambda stream: documents_with_more(stream).pack_best_fit(
        **MORE, num_packing_bins=3, shuffle_bins_group_by_feature="kind"
    ),
    "pack_best_fit of a few documents, batched and repeated": lambda stream: (
        documents(stream, 5).pack_best_fit(**TOKENS, num_packing_bins=8).batch(2).repeat(2)
    ),
    "pack_first_fit of nothing": lambda stream: documents(stream, 0).pack_first_fit(**TOKENS, num_packing_bins=2),
    "concat_and_split": lambda stream: documents(stream).concat_and_split(**TOKENS),
    "concat_and_split into short rows": lambda stream: documents(stream, 8).concat_and_split(
        length_struct={"tokens": 3}, split_full_length_features=False
    ),
    "concat_and_split, with whole rows passing by": lambda stream: documents(stream).concat_and_split(
        length_struct={"tokens": 5}, split_full_length_features=False
    ),
    "concat_and_split of more features": lambda stream: ConcatThenSplitIterDataset(
        documents_with_more(stream).map(without_name),
        length_struct={"tokens": 4, "boxes": 2, "kind": 4},
        meta_features=("kind",),
        bos_handling=BOSHandling.REPLACE_FIRST_TOKEN_WITH_BOS,
        bos_features=("tokens",),
        bos_token_id=-1,
    ),
    "concat_and_split of nothing but gaps": lambda stream: stream(
        MapDataset.range(3).filter(is_none_of_these).map(as_document)
    ).concat_and_split(**TOKENS),
}
