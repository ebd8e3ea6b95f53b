"""Reads, consumes and appends to stores of MappedFileQueues, beside processes in C# and other languages. Linux, x64 and arm64.

    with Reader("/data/orders") as reader:
        for message in reader.follow():
            print(message.offset, bytes(message))

    with Consumer("/data/orders", "billing") as consumer:
        for message in consumer.follow():
            handle(message)
            consumer.commit()

    with Producer("/data/orders") as producer:      # where the C library is installed
        producer.produce(b"an order")
"""

from ._consumer import Consumer
from ._headers import Headers
from ._producer import Producer
from ._reader import EARLIEST, LATEST, Message, Reader
from .errors import (CorruptError, DeletedError, FencedError, FormatError, InUseError, NotFoundError, OutOfRangeError, QueueError,
                     RecoveryNeededError)

__all__ = [
    "EARLIEST", "LATEST", "Consumer", "CorruptError", "DeletedError", "FencedError", "FormatError", "Headers", "InUseError",
    "Message", "NotFoundError", "OutOfRangeError", "Producer", "QueueError", "Reader", "RecoveryNeededError",
]
