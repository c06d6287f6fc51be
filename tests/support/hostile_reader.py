"""A worker of the fuzzer whose files make readers crash, hang, and take all memory, one after the other."""

import os
import signal
import sys

from fuzzing.record_formats import JsonLines
from fuzzing.table import FORMATS
from fuzzing.worker import main


class Hostile(JsonLines):
    def mutated(self, rng, made, other):
        return "intact", made.content

    def source(self, path):
        if path.endswith("case-1.jsonl"):
            os.kill(os.getpid(), signal.SIGSEGV)
        while path.endswith("case-2.jsonl"):
            pass
        if path.endswith("case-3.jsonl"):
            b"x" * 2**27
        return super().source(path)


if __name__ == "__main__":
    FORMATS["jsonlines"] = Hostile()
    main(*sys.argv[1:])
