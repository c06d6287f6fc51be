"""What a script defines goes to workers and comes back, also where `multiprocessing` has started the script anew."""

import pytest

from support.programs import program

SCRIPT = """
import abc, collections, dataclasses, enum, functools, multiprocessing, sys, typing
import grain

class Slotted:
    __slots__ = ("x",)
    def __init__(self, x):
        self.x = x

class Child(Slotted):
    __slots__ = ("y", "__dict__")

class WithDict(Slotted):
    pass

class OneName:
    __slots__ = "x"
    def __init__(self, x):
        self.x = x

class Private:
    __slots__ = ("__x", "__weakref__")
    def __init__(self, x):
        self.__x = x

class Described(Slotted):
    __slots__ = {"y": "what it is"}

class Abstract(abc.ABC):
    __slots__ = ("x",)
    @abc.abstractmethod
    def method(self): ...

class Concrete(Abstract):
    __slots__ = ()
    def __init__(self, x):
        self.x = x
    def method(self): ...

T = typing.TypeVar("T")

class Generic(typing.Generic[T]):
    __slots__ = ("x",)
    def __init__(self, x: T):
        self.x = x

class WithState(Slotted):
    __slots__ = ()
    def __getstate__(self):
        return {"y": self.x}
    def __setstate__(self, state):
        self.x = state["y"]

class Reduced(Slotted):
    __slots__ = ()
    def __reduce__(self):
        return Reduced, (self.x,)

class Outer:
    class Inner(Slotted):
        __slots__ = ()

class Error(Exception):
    __slots__ = ("code",)
    def __init__(self, code):
        super().__init__(code)
        self.code = code

class Word(str):
    __slots__ = ()

class Color(enum.Enum):
    RED = 0
    GREEN = 1

class Level(enum.IntEnum):
    LOW = 0
    HIGH = 1

class Typed(typing.NamedTuple):
    x: int

@dataclasses.dataclass
class Plain:
    x: int

@dataclasses.dataclass(slots=True)
class Data:
    x: int

@dataclasses.dataclass(slots=True, frozen=True)
class Frozen:
    x: int

@dataclasses.dataclass(slots=True, frozen=True)
class FrozenChild(Frozen):
    y: int = 1

Tuple = collections.namedtuple("AnotherName", "x")
Made = dataclasses.make_dataclass("YetAnotherName", ["x"], slots=True)

def local():
    @dataclasses.dataclass(slots=True)
    class Local:
        x: int
    return Local

Local = local()

NAMED = [
    Slotted, Child, WithDict, OneName, Private, Described, Concrete, Generic, WithState, Reduced, Error, Word, Color,
    Level, Typed, Plain, Data, Frozen, FrozenChild,
]
UNNAMED = [Outer.Inner, Tuple, Made, Local]

@functools.cache
def kept(x):
    return x + 1

def fails(x):
    raise Error(x + 7)

class Make(grain.transforms.Map):
    def __init__(self, classes):
        self.classes = classes
    def map(self, x):
        return [cls(x) for cls in self.classes]

WORKER = grain.MultiprocessingOptions(num_workers=1)

def made(function, count=2):
    return list(grain.MapDataset.range(count).map(function).to_iter_dataset().mp_prefetch(WORKER))

def value(element):
    return str(element) if isinstance(element, (Word, enum.Enum)) else getattr(element, "x", None)

def main():
    for classes in (NAMED, UNNAMED):
        sampler = grain.samplers.SequentialSampler(2)
        loaded = grain.DataLoader(data_source=range(2), sampler=sampler, operations=[Make(classes)], worker_count=1)
        for elements in (made(lambda x: [cls(x) for cls in classes]), list(loaded)):
            for x, element in enumerate(elements):
                assert [type(each) for each in element] == classes, element
                assert [value(each) for each in element] == [value(cls(x)) for cls in classes], element
    assert made(lambda x: hasattr(Data(x), "__dict__")) == [False, False]
    assert made(lambda x: [Slotted, Plain(x), {"a": Data(x)}]) == [[Slotted, Plain(x), {"a": Data(x)}] for x in (0, 1)]
    assert made(kept) == [1, 2]
    offset = 5
    assert made(lambda x: kept(x) + offset) == [6, 7]
    assert made(lambda x: multiprocessing.__name__ and made(Plain, x + 1)[-1].x, 3) == [0, 1, 2]  # workers of workers
    try:
        made(fails)
        raise AssertionError("it did not fail")
    except Error as error:
        assert error.code == 7
    print("all right", flush=True)

def run(methods):
    if not methods:
        return main()
    process = multiprocessing.get_context(methods[0]).Process(target=run, args=(methods[1:],))
    process.start()
    process.join()
    assert process.exitcode == 0

if __name__ == "__main__":
    run({methods})
"""


@pytest.mark.parametrize("methods", [[], ["spawn"], ["forkserver"], ["spawn", "spawn"], ["forkserver", "fork"]])
def test_what_the_main_module_defines_goes_and_comes_back(tmp_path, methods):
    running = program(SCRIPT.replace("{methods}", str(methods)), folder=tmp_path)
    assert running.finish() == (0, "all right\n", "")
    running.assert_nothing_left()


def test_classes_of_the_main_module_stay_as_they_are(tmp_path):
    """Elements are of the very class; what was set on it since is not undone, and the next epoch's workers have it."""
    running = program(
        """
        import grain

        def defined():
            class Local:
                count = 0
                def __init__(self, x):
                    self.x, self.seen = x, self.count
            return Local

        class Point:
            count = 0
            def __init__(self, x):
                self.x, self.seen = x, self.count

        for cls in (Point, defined()):
            dataset = grain.MapDataset.range(3).map(cls).to_iter_dataset()
            dataset = dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=1))
            iterator = iter(dataset)
            next(iterator)
            cls.count = 7
            element = next(iterator)
            print(type(element) is cls, element.x, element.count, cls.count, element.seen)
            del iterator
            print(next(iter(dataset)).seen)
        """,
        folder=tmp_path,
    )
    assert running.finish() == (0, "True 1 7 7 0\n7\nTrue 1 7 7 0\n7\n", "")
    running.assert_nothing_left()
