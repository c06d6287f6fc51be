"""What `kills` kills: a small pipeline with threads and workers, for two epochs and a part of a third.

Ends with status 0 if all elements came, 1 after an exception, and WRONG if elements are missing or changed.
"""

import sys
import time

import numpy as np

import grain

WRONG = 3
LENGTH = 480


def main() -> None:
    # Every function is of the main module, and there is no guard: both have to work.
    dataset = grain.MapDataset.range(LENGTH).shuffle(seed=1).map(lambda i: np.full((64, 64), i))
    stream = dataset.to_iter_dataset().batch(8).mp_prefetch(grain.MultiprocessingOptions(num_workers=2))
    for _ in range(2):
        seen = []
        for batch in stream:
            if (batch != batch[:, :1, :1]).any():
                sys.exit(WRONG)
            seen += batch[:, 0, 0].tolist()
            time.sleep(0.004)
        if sorted(seen) != list(range(LENGTH)):
            sys.exit(WRONG)
    iterator = iter(stream)
    for _ in range(5):
        next(iterator)


main()
