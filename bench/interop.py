"""The loops of the suite `interop` of MappedFileQueues.Bench in Python: reads a store of its messages, which are 64 bytes, from
the first to the last, several times, and prints nanoseconds each as JSON.

    interop.py read|structs STORE COUNT REPETITIONS SUM

SUM is what the messages' numbers have to add up to.
"""
import json
import struct
import sys
import time

from mappedfilequeues import Reader


def read_each(reader: Reader, count: int) -> int:
    unpack = struct.Struct("<Q").unpack_from
    total = 0
    for _ in range(count):
        message = reader.read()
        assert message is not None
        total += unpack(message.data)[0]
    return total


def read_structs(reader: Reader, count: int) -> int:
    import numpy

    dtype = numpy.dtype([("number", "<u8"), ("words", "<u8", 7)])
    total = read = 0
    while read < count:
        batch = reader.read_structs(dtype, min(count - read, 1 << 16))
        assert len(batch) > 0
        total += int(batch["number"].sum())
        read += len(batch)
    return total


def main() -> None:
    what, store, count, repetitions, expected = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
    read = {"read": read_each, "structs": read_structs}[what]
    took = []
    for _ in range(repetitions):
        with Reader(store) as reader:
            start = time.perf_counter_ns()
            total = read(reader, count)
            took.append((time.perf_counter_ns() - start) / count)
        assert total == expected, f"sum={total}, expected={expected}"
    print(json.dumps(took))


main()
