"""Prints what a forwarder has put into a RabbitMQ stream: bridge_consumer.py amqp://user@host STREAM [COUNT]

A message with headers has a line before it, which begins with a # and tells its time, key and trace."""
import datetime, struct, sys, uuid
import pika

HEADER = struct.Struct("<4sBBBBII16sqqq16s")  # docs/BRIDGE.md specifies it


def headers_of(block):
    """What a header block says (docs/FORMAT.md), as a dictionary."""
    if not block:
        return {}
    _, fields, key_length, state_length = struct.unpack_from("<HHHH", block)
    at, found = 8, {}
    if fields & 1:
        ticks = struct.unpack_from("<q", block, at)[0]
        found["time"] = (datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=ticks // 10)).isoformat() + "Z"
        at += 8
    if fields & 6:
        found["producer"], found["sequence"] = struct.unpack_from("<QQ", block, at)
        at += 16
    if fields & 8:
        found["traceparent"] = f"00-{block[at:at + 16].hex()}-{block[at + 16:at + 24].hex()}-{block[at + 24]:02x}"
        at += 32
        found["tracestate"] = block[at:at + state_length].decode("ascii")
        at += (state_length + 7) // 8 * 8
    if fields & 16:
        found["key"] = block[at:at + key_length].decode("utf-8", "backslashreplace")
    return found


def unpack(body):
    """The records of one broker message: (store, epoch, offset, headers, payload)."""
    if len(body) < HEADER.size or not body.startswith(b"MFQE\x01"):
        raise ValueError("no envelope of version 1")
    _, _, kind, length, _, _, count, store, epoch, start, _, _ = HEADER.unpack_from(body)
    at = length
    for _ in range(count if kind == 1 else 0):
        place, size = struct.unpack_from("<II", body, at)
        at, size, has_headers = at + 8, size & 0x7FFFFFFF, size >> 31
        headers = struct.unpack_from("<I", body, at)[0] if has_headers else 0
        if headers > size or at + size > len(body):
            raise ValueError("a record goes beyond the end")
        block = body[at + 4:at + headers] if headers else b""
        yield uuid.UUID(bytes=store), epoch, start + 8 * place, headers_of(block), body[at + headers:at + size]
        at += size


def main(address, stream, left=None):
    channel = pika.BlockingConnection(pika.URLParameters(address)).channel()
    channel.basic_qos(prefetch_count=100)
    seen = {}
    for delivery, properties, body in channel.consume(stream, arguments={"x-stream-offset": "first"}):
        try:
            records = list(unpack(body))
        except (ValueError, struct.error) as error:  # anybody may publish into a stream
            place = properties.headers["x-stream-offset"]
            print(f"left out the message at {place}: {error}", file=sys.stderr)
            records = []
        for store, epoch, offset, headers, payload in records:
            if (epoch, offset) > seen.get(store, (-1, -1)):  # a retry may bring a record again
                seen[store] = (epoch, offset)
                if headers:
                    sys.stdout.buffer.write(("# " + " ".join(f"{k}={v}" for k, v in headers.items()) + "\n").encode())
                sys.stdout.buffer.write(payload + b"\n")
                left = left and left - 1
        channel.basic_ack(delivery.delivery_tag)
        if left == 0:
            break


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else None)
