#!/usr/bin/env python3
"""The test program of the Python package; the tests in C# drive it. The lines are those of interop/c/test_vectors.c.

    dump STORE…                 what a reader answers, for each store
    attach STORE…               what a consumer and then a producer answer that come alone; they write to the stores
    follow STORE COUNT MS       waits for so many messages and prints them as text
    consume STORE NAME COUNT MS the same as a named consumer that commits each; then prints the stored offset
    hold STORE NAME             opens a consumer, prints "held", and keeps it until standard input ends
    produce STORE MODE WORD FIRST COUNT  appends messages like those of the test program in C, and prints the number of each
    read-on STORE [NAME]        reads one message for each line of standard input, after a move to the offset in it: the
                                message's offset, or why there is none; a consumer commits at a line "commit"
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import mappedfilequeues as mfq  # noqa: E402


def _hex(data: bytes) -> str:
    return data.hex() or "-"


def _headers(headers: mfq.Headers | None) -> str:
    if headers is None:
        return ""
    text = " headers"
    if headers.time is not None:
        text += f" time={headers.time}"
    if headers.producer is not None:
        text += f" producer={headers.producer[0]},{headers.producer[1]},{int(headers.is_carried)}"
    if headers.trace_id is not None and headers.span_id is not None:
        text += f" trace={headers.trace_id.hex()},{headers.span_id.hex()},{headers.trace_flags},{headers.trace_state}"
    if headers.key is not None:
        text += f" key={_hex(headers.key)}"
    return text


def dump(path: str) -> None:
    print(f"store {path}")
    try:
        reader = mfq.Reader(path)
    except mfq.QueueError as error:
        print(f"open {error.kind}")
        return
    with reader:
        print("open ok")
        print(f"kind {1 if reader.is_struct else 2} {reader.struct_size} {reader.segment_length}")
        print(f"first {reader.offset}")
        end = "empty"
        try:
            for message in reader:
                print(f"message {message.offset} {message.next_offset} {_hex(bytes(message))}{_headers(message.headers)}")
        except mfq.QueueError as error:
            end = error.kind
        print(f"end {end} {reader.offset}")
        for name in sorted({"", *reader.consumers()}):
            try:
                stored = reader.stored_offset(name)
                print(f'cursor "{name}" {"empty" if stored is None else stored}')
            except mfq.QueueError as error:
                print(f'cursor "{name}" {error.kind}')


def attach(path: str) -> None:
    print(f"store {path}")
    status, count = "ok", 0
    try:
        with mfq.Consumer(path, "attach") as consumer:
            count = sum(1 for _ in consumer)
    except mfq.QueueError as error:
        status = error.kind
    print(f"consume {status} {count}")
    status = "ok"
    try:
        mfq.Producer(path).close()
    except mfq.QueueError as error:
        status = error.kind
    print(f"produce {status}")


def _open(path: str, name: str | None) -> mfq.Reader:
    return mfq.Reader(path) if name is None else mfq.Consumer(path, name)


def follow(path: str, name: str | None, count: int, seconds: float) -> int:
    try:
        reader = _open(path, name)
    except mfq.QueueError as error:
        print(f"open: {error.kind}: {error}", file=sys.stderr)
        return 1
    with reader:
        print(f"opened {reader.offset}", flush=True)
        for _ in range(count):
            try:
                message = reader.wait(seconds)
            except mfq.QueueError as error:
                print(f"wait: {error.kind}: {error}", file=sys.stderr)
                return 1
            if message is None:
                print("wait: empty", file=sys.stderr)
                return 1
            print(bytes(message).decode(), flush=True)
            if isinstance(reader, mfq.Consumer):
                reader.commit()
        if name is not None:
            print(f"stored {reader.stored_offset(name)}")
    return 0


def hold(path: str, name: str) -> int:
    try:
        with mfq.Consumer(path, name):
            print("held", flush=True)
            sys.stdin.read()
    except mfq.QueueError as error:
        print(f"open: {error.kind}: {error}", file=sys.stderr)
        return 1
    return 0


def produce(path: str, mode: str, word: str, first: int, count: int) -> int:
    try:
        with mfq.Producer(path, exclusive=mode.startswith("exclusive"), group="-group" in mode) as producer:
            print("opened", flush=True)
            for i in range(first, first + count):
                producer.produce(f"{word} {i} {'.' * (i % 50)}!".encode(), mfq.Headers(key=b"message") if i % 10 == 0 else None)
                if "-flush" in mode and i % 100 == 99:
                    producer.flush()
                print(i, flush=True)
                if "-bursts" in mode and i % 16 == 15:
                    time.sleep(0.002)
    except mfq.QueueError as error:
        print(f"produce: {error.kind}: {error}", file=sys.stderr)
        return 1
    return 0


def read_on(path: str, name: str | None = None) -> int:
    with _open(path, name) as reader:
        for line in sys.stdin:
            status = "ok"
            try:
                if line == "commit\n":
                    reader.commit()
                else:
                    if line.strip():
                        reader.seek(int(line))
                    status = "empty" if reader.read() is None else "ok"
            except mfq.QueueError as error:
                status = error.kind
            print(f"{status} {reader.offset}", flush=True)
    return 0


def main(arguments: list[str]) -> int:
    match arguments:
        case ["dump", *paths]:
            for path in paths:
                dump(path)
            return 0
        case ["attach", *paths]:
            for path in paths:
                attach(path)
            return 0
        case ["follow", path, count, ms]:
            return follow(path, None, int(count), int(ms) / 1000)
        case ["consume", path, name, count, ms]:
            return follow(path, name, int(count), int(ms) / 1000)
        case ["hold", path, name]:
            return hold(path, name)
        case ["produce", path, mode, word, first, count]:
            return produce(path, mode, word, int(first), int(count))
        case ["read-on", path, *name]:
            return read_on(path, *name)
    print(__doc__, file=sys.stderr)
    return 64


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
