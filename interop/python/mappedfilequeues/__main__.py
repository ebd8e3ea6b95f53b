"""Prints the messages of a store: python -m mappedfilequeues STORE."""

from __future__ import annotations

import argparse
import signal
import sys

from . import Consumer, QueueError, Reader
from ._reader import EARLIEST


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m mappedfilequeues", description="Prints the messages of a store.")
    parser.add_argument("store", help="the folder")
    parser.add_argument("--follow", action="store_true", help="wait for further messages")
    parser.add_argument("--from", dest="start", type=int, default=EARLIEST, metavar="OFFSET", help="begin there")
    parser.add_argument("--consumer", metavar="NAME", help="read as this consumer, and commit each message")
    parser.add_argument("--offsets", action="store_true", help="print each message's offset before it")
    parser.add_argument("--hex", action="store_true", help="print bytes as hexadecimal numbers")
    arguments = parser.parse_args()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        if arguments.consumer is not None:
            reader: Reader = Consumer(arguments.store, arguments.consumer, arguments.start)
        else:
            reader = Reader(arguments.store, arguments.start)
        with reader:
            for message in reader.follow() if arguments.follow else iter(reader):
                prefix = f"{message.offset}: ".encode() if arguments.offsets else b""
                content = bytes(message).hex().encode() if arguments.hex else bytes(message)
                sys.stdout.buffer.write(prefix + content + b"\n")
                sys.stdout.buffer.flush()
                if isinstance(reader, Consumer):
                    reader.commit()
    except QueueError as error:
        print(f"mappedfilequeues: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
