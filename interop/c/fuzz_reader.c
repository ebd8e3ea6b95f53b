/*
 * A fuzzer over the reader. An input names one of the vectors' stores and says what to do to its files; each message that is read
 * from the damaged store must be one that the whole store has at that offset, byte for byte. The stores are changed in place, in
 * memory, and mended after each input.
 *
 *   python3 interop/vectors/make.py /dev/shm/fuzzed
 *   clang -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -pthread -o fuzz_reader \
 *       interop/c/mfq.c interop/c/mfq_*.c interop/c/test_stores.c interop/c/fuzz_reader.c
 *   MFQ_VECTORS=/dev/shm/fuzzed ./fuzz_reader -runs=1000000 -len_control=0 -max_len=128 -timeout=10 -rss_limit_mb=0
 *
 * Where clang or its runtime is missing, `gcc -DMFQ_BLIND` with -fsanitize=address,undefined makes a program that takes the same
 * -runs=, -max_total_time= and -seed=, and invents its inputs without a look at what they reach. Either runs the files that are
 * its arguments once.
 *
 * An input: the store (1 byte), where to begin (2 bytes), then operations: what (1 byte), file (1 byte), position (2 bytes), and
 * what the operation takes.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "test_stores.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* An operation's first byte: what, and when. */
enum { WHAT = 7, LATE = 0x40, SEALED = 0x80 };

static struct vector stores[VECTORS_MAX];
static int store_count;
static long runs, read_count, damage_count, forged_count;

/* The files of one store as they are now; those that were not touched are as the store has them. */
static struct {
    uint8_t data[1 << 17];
    size_t length;
    int is_touched;
    int is_removed;
    int is_changed; /* since it was written */
} now[FILES_MAX];

struct input {
    const uint8_t *at;
    size_t left;
};

static unsigned take(struct input *input) {
    if (input->left == 0)
        return 0;
    input->left--;
    return *input->at++;
}

static unsigned take_two(struct input *input) {
    unsigned low = take(input);
    return low | take(input) << 8;
}

static void store_path(char *path, size_t size, const struct vector *store, int file) {
    snprintf(path, size, "%.500s/%s", store->path, store->files[file].name);
}

static void write_whole(const char *path, const uint8_t *data, size_t length) {
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || pwrite(fd, data, length, 0) != (ssize_t)length || ftruncate(fd, (off_t)length) != 0)
        abort();
    close(fd);
}

/* The record of a slot, sealed. */
static void seal_record(uint8_t *record) {
    uint32_t sum = ~mfq_crc32c(UINT32_MAX, record, 60);
    memcpy(record + 60, &sum, 4);
}

/* A page that somebody has changed has a right checksum again; frames never get one. */
static void seal_file(const char *name, uint8_t *data, size_t length) {
    if (strcmp(name, "queue.meta") == 0 && length == 4096)
        seal(data);
    else if (strcmp(name, "control") == 0 && length == 4096)
        seal_control(data);
    else if ((strcmp(name, "offset/producer.checkpoint") == 0 || strcmp(name, "offset/log-start") == 0) && length == 8192) {
        seal_record(data);
        seal_record(data + 4096);
    }
}

/* One operation on a file's bytes. What is mapped stays there: a page that a reader has is not taken away. */
static void operate(unsigned what, struct input *input, uint8_t *data, size_t *length, size_t at) {
    uint8_t bytes[8];
    switch (what & WHAT) {
    case 0:
        data[at] ^= (uint8_t)(1u << (take(input) & 7u));
        break;
    case 1:
        data[at] = (uint8_t)take(input);
        break;
    case 2:
    case 3:
        /* A word at its place. */
        at &= ~(size_t)7;
        for (size_t i = 0; i < 8; i++)
            bytes[i] = (uint8_t)take(input);
        memcpy(data + at, bytes, *length - at < 8 ? *length - at : 8);
        break;
    case 4: {
        size_t count = (size_t)take(input) + 1;
        memset(data + at, 0, count < *length - at ? count : *length - at);
        break;
    }
    case 5: {
        size_t from = take_two(input) % *length, count = (size_t)take(input) + 1;
        count = count < *length - at ? count : *length - at;
        memmove(data + at, data + from, count < *length - from ? count : *length - from);
        break;
    }
    default:
        if ((what & LATE) == 0)
            *length = at;
    }
}

static void write_changed(const struct vector *store) {
    char path[700];
    for (int i = 0; i < store->file_count; i++) {
        if (!now[i].is_changed)
            continue;
        now[i].is_changed = 0;
        store_path(path, sizeof path, store, i);
        if (now[i].is_removed)
            (void)unlink(path);
        else
            write_whole(path, now[i].data, now[i].length);
    }
}

/* Does what the input says, up to the next operation of the other time. */
static void damage(const struct vector *store, struct input *input, int is_late) {
    while (input->left >= 4 && ((input->at[0] & LATE) != 0) == is_late) {
        unsigned what = take(input), file = take(input) % (unsigned)store->file_count, at = take_two(input);
        const struct file *whole = &store->files[file];
        if (whole->length > sizeof now[file].data || now[file].is_removed)
            continue;
        if (!now[file].is_touched) {
            memcpy(now[file].data, whole->data, whole->length);
            now[file].length = whole->length;
            now[file].is_touched = 1;
        }
        if ((what & WHAT) == 7 && (at & 1u) != 0 && !is_late) {
            now[file].is_removed = now[file].is_changed = 1;
            continue;
        }
        if (now[file].length == 0)
            continue;
        operate(what, input, now[file].data, &now[file].length, at % now[file].length);
        if ((what & SEALED) != 0)
            seal_file(whole->name, now[file].data, now[file].length);
        now[file].is_changed = 1;
        damage_count++;
    }
    write_changed(store);
}

static void mend(const struct vector *store) {
    char path[700];
    for (int i = 0; i < store->file_count; i++) {
        if (!now[i].is_touched)
            continue;
        store_path(path, sizeof path, store, i);
        write_whole(path, store->files[i].data, store->files[i].length);
        now[i].is_touched = now[i].is_removed = 0;
    }
}

/*
 * Whether an input has made this message: it is whole in the damaged file, by a checksum of our own. The fuzzer watches what the
 * library compares, so it can put a checksum where the library expects it.
 */
static int is_forged(const struct vector *store, const mfq_message *message) {
    const uint8_t *meta = NULL;
    for (int i = 0; i < store->file_count; i++)
        if (strcmp(store->files[i].name, "queue.meta") == 0)
            meta = now[i].is_touched ? now[i].data : store->files[i].data;
    for (int i = 0; i < store->file_count && meta != NULL; i++) {
        int64_t start = segment_start(store->files[i].name);
        uint32_t low;
        if (start >= 0 && message->offset >= start && now[i].is_touched
            && (is_message(meta + 56, now[i].data, now[i].length, start, (size_t)(message->offset - start), &low)
                || is_message(meta + 80, now[i].data, now[i].length, start, (size_t)(message->offset - start), &low)))
            return (low & 0x0FFFFFFFu) == message->length + message->block_length;
    }
    return 0;
}

static void check(const struct vector *store, const mfq_message *message, int64_t last) {
    mfq_headers headers;
    volatile uint8_t sum = 0;
    (void)mfq_get_headers(message, &headers);
    for (size_t i = 0; i < headers.key_length; i++)
        sum = (uint8_t)(sum + headers.key[i]);
    for (size_t i = 0; i < headers.trace_state_length; i++)
        sum = (uint8_t)(sum + (uint8_t)headers.trace_state[i]);
    for (size_t i = 0; headers.trace_id != NULL && i < 16; i++)
        sum = (uint8_t)(sum + headers.trace_id[i]);
    int64_t length = (int64_t)((message->length + message->block_length + 15) & ~(size_t)7);
    if (is_known(store, message) && message->offset > last && message->next == message->offset + length)
        read_count++;
    else if (is_forged(store, message) && message->offset > last)
        forged_count++;
    else {
        fprintf(stderr, "A wrong message: store=%s, offset=%lld, length=%zu\n", store->path, (long long)message->offset,
            message->length);
        abort();
    }
}

/* Reads to the end; what is late happens after each message. */
static void read_all(const struct vector *store, mfq_reader *reader, struct input *input) {
    mfq_message message;
    mfq_error error;
    int64_t last = -1;
    while (mfq_read(reader, &message, &error) == MFQ_OK) {
        check(store, &message, last);
        last = message.offset;
        damage(store, input, 1);
        /* Whatever is next ends this turn. */
        if (input->left >= 4)
            (void)take(input);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input input = {data, size};
    mfq_reader *reader;
    mfq_info info;
    mfq_error error;
    int64_t offset;
    const struct vector *store = &stores[take(&input) % (unsigned)store_count];
    unsigned place = take_two(&input);
    runs++;
    if (store->file_count == 0)
        return 0;
    damage(store, &input, 0);
    int64_t start = (place & 3u) == 0 ? (int64_t)(place >> 2) * 8 : (place & 3u) == 1 ? MFQ_LATEST : MFQ_EARLIEST;
    if (mfq_reader_open(store->path, start, &reader, &error) == MFQ_OK) {
        read_all(store, reader, &input);
        mfq_get_info(reader, &info);
        (void)mfq_stored_offset(reader, "", &offset, &error);
        (void)mfq_stored_offset(reader, "second", &offset, &error);
        if (mfq_seek(reader, (int64_t)(place >> 1) * 8, &error) == MFQ_OK)
            read_all(store, reader, &input);
        if (mfq_seek(reader, start == MFQ_EARLIEST ? MFQ_LATEST : MFQ_EARLIEST, &error) == MFQ_OK)
            read_all(store, reader, &input);
        mfq_close(reader);
    }
    mend(store);
    return 0;
}

static void tell(void) {
    printf("%ld damaged stores, %ld changes, %ld messages, %ld of them forged, 0 wrong messages\n", runs, damage_count,
        read_count + forged_count, forged_count);
}

int LLVMFuzzerInitialize(int *count, char ***arguments) {
    const char *folder = getenv("MFQ_VECTORS");
    (void)count;
    (void)arguments;
    store_count = folder == NULL ? 0 : load_vectors(folder, stores);
    if (store_count == 0) {
        fprintf(stderr, "MFQ_VECTORS is a folder of vectors; the head of fuzz_reader.c says how it is made.\n");
        exit(64);
    }
    atexit(tell);
    return 0;
}

#ifdef MFQ_BLIND
static long replay(const char *path) {
    uint8_t input[4096];
    FILE *stream = fopen(path, "rb");
    if (stream == NULL)
        return 0;
    (void)LLVMFuzzerTestOneInput(input, fread(input, 1, sizeof input, stream));
    fclose(stream);
    return 1;
}

int main(int count, char **arguments) {
    uint64_t state = 88172645463325252u;
    long wanted = 100000, seconds = 1000000, seed = 1, replayed = 0;
    LLVMFuzzerInitialize(&count, &arguments);
    for (int i = 1; i < count; i++)
        if (sscanf(arguments[i], "-runs=%ld", &wanted) != 1 && sscanf(arguments[i], "-max_total_time=%ld", &seconds) != 1
            && sscanf(arguments[i], "-seed=%ld", &seed) != 1)
            replayed += replay(arguments[i]);
    state += (uint64_t)seed * 2654435761u;
    for (time_t end = time(NULL) + seconds; replayed == 0 && runs < wanted && time(NULL) < end;) {
        uint8_t input[64];
        for (size_t i = 0; i < sizeof input; i += 8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            memcpy(input + i, &state, 8);
        }
        (void)LLVMFuzzerTestOneInput(input, 3 + input[63] % (sizeof input - 3));
    }
    return 0;
}
#endif
