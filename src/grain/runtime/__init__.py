"""Where pipelines are run: inline, by threads, by worker processes. Whoever runs them keeps these rules.

1. **Order.** Elements come in the order of the pipeline, whatever is finished first, and are those that would be made
   inline. In processes, worker i of n makes the elements i, i + n, ... (`ops/worker_parts.py`), and they are taken in
   turn.
2. **Ahead.** Nothing runs before the first element is asked for, or `start_prefetch` is called. From then on users'
   functions run at most a buffer ahead.
3. **Exhaustion.** After the last element every call raises StopIteration. Workers then wait for the next epoch or the
   next iterator of this process, and end when none comes within a minute.
4. **Errors.** An exception of a user's function is raised in the place of its element: the same type, with a note that
   names the operator and the element, and, from a worker, caused by the traceback as it was there. The next call goes
   on with the next element: no other is lost. An exception that cannot be pickled becomes a RuntimeError that tells
   all about it; an element that cannot, the error that pickling it raised.
5. **A worker that ends**, by itself or killed, whatever its exit code, before or after its job has begun: the elements
   that it had sent arrive, then a RuntimeError names the worker, its exit code and the state. The next call starts
   another worker from there. A fork server that ends takes its workers along.
6. **The user's process is killed**: the fork server sees it and ends, and with it, by the kernel, all workers, within a
   second or two, whatever they are doing. Spawned workers look for themselves once a second.
7. **Ctrl-C** is for the user's process: threads and workers do not get it. Whatever was being waited for comes with the
   next call, and the state is the one before the call that was interrupted (`streams/cursor.py`). A function that
   raises such an interrupt in a thread or a worker interrupts the consumer. Wherever it strikes, no lock stays locked:
   processes are looked after by a thread that gets no signals, and a stream is in doubt about a worker that it was
   talking to, and takes another.
8. **`close`** may be called at any time, twice, and from another thread. It does not wait for workers: those that are
   in a user's function get two seconds, and are then killed. For threads it waits a second; they end after their
   function.
9. **Garbage collection** of an iterator is a `close`.
10. **At the end of the program** all threads and processes end, stuck or not. What does not end by itself within five
    seconds is killed.
11. **Fork.** In a copy of the process an iterator goes on with the element that was next, with threads and workers of
    its own; those of the original are let alone. Arrays from workers that were held at the time stay what they are in
    both, but what one writes to them the other sees.
12. **Blocking.** When no element has come for a minute, a warning says which worker or thread is waited for, what
    function it is in and after which state or at which index; and again after two, four, ...
13. **Workers are as good as new** for every iterator: the pipeline, pickled when the iterator begins, is opened anew,
    and a process whose imported modules have been edited since is replaced. `worker_init_fn` is called once in a
    process, which then gets only jobs with that function, for that worker, in that environment.
14. **Shared memory** has no name, so nobody has to remove it. A consumer may keep what it gets: its bytes are not used
    again before the last view of them is gone, and one that keeps everything gets copies in the end.
15. **The main module** is not imported by workers: its functions and classes go by value, also where `multiprocessing`
    has spawned this process and calls it `__mp_main__`. What comes back is of the very classes, with their slots, and a
    class is never changed by a copy of it.
16. **A thread that cannot be started** is an error of the call that needed it, and the next call tries again; where
    threads only make it faster, it is done with fewer. An interrupt while one is started loses nothing.
17. **Shared iterators.** Several threads may call `next`, and each element comes once. `get_state` in another thread
    waits for the call that runs; inside of that call, in a user's function or the handler of a signal, it gives the
    position before it. A function that wants the next element of the iterator that has called it gets an error.

`docs/reference/faults.md` names the tests that hold each of them.
"""
