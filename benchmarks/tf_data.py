"""The workloads that tf.data can also do, in TensorFlow's own operators, with as many threads as it likes."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from material import (
    IMAGES_BATCH,
    IMAGES_LENGTH,
    JPEGS_BATCH,
    MAPS_BATCH,
    MAPS_LENGTH,
    array_of,
    as_record,
    double,
    increment,
    jpegs,
)

AUTOTUNE = tf.data.AUTOTUNE


class _Batches:
    """As NumPy arrays; an iterator of tf.data ends, and this begins again."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset.prefetch(AUTOTUNE)

    def __iter__(self) -> Any:
        return self.dataset.as_numpy_iterator()


def maps_batch() -> _Batches:
    numbers = tf.data.Dataset.range(MAPS_LENGTH).shuffle(MAPS_LENGTH)
    # One call for all three functions, which are those of the other contestants: calls are what takes the time here.
    records = numbers.map(lambda x: as_record(double(increment(x))), num_parallel_calls=AUTOTUNE)
    return _Batches(records.batch(MAPS_BATCH))


def images() -> _Batches:
    pictures = array_of("img")
    columns = {"image": pictures, "label": [i % 10 for i in range(IMAGES_LENGTH)]}
    records = tf.data.Dataset.from_tensor_slices(columns).shuffle(IMAGES_LENGTH)

    def to_float(record: dict[str, Any]) -> dict[str, Any]:
        return {"image": tf.cast(record["image"], tf.float32), "label": record["label"]}

    return _Batches(records.map(to_float, num_parallel_calls=AUTOTUNE).batch(IMAGES_BATCH))


def jpeg(num_threads: int) -> _Batches:
    def decode_and_crop(file: Any) -> Any:
        shape = tf.image.extract_jpeg_shape(file)
        window = tf.stack([(shape[0] - 224) // 2, (shape[1] - 224) // 2, 224, 224])
        return tf.image.decode_and_crop_jpeg(file, window, channels=3)

    files = tf.data.Dataset.from_tensor_slices(jpegs()).repeat()
    return _Batches(files.map(decode_and_crop, num_parallel_calls=AUTOTUNE).batch(JPEGS_BATCH))
