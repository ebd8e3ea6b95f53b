/*
 * Reads, consumes and appends messages of stores of MappedFileQueues from C and C++, beside processes in C#.
 * Linux, x64 and arm64. docs/FORMAT.md has the bytes; mfq.3 is the manual page.
 *
 * A handle is for one thread at a time, and for the process that opened it: after fork(2) the child may only close it, which
 * takes nothing from the parent. What a message points to is in the mapping, and valid until the next call with its handle other
 * than mfq_commit. Nothing here prints, exits, or installs a signal handler.
 */
#ifndef MFQ_H
#define MFQ_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mfq_status {
    MFQ_OK = 0,
    MFQ_EMPTY = 1,             /* no message now; no offset yet; the time is up */
    MFQ_E_NOT_FOUND = -1,      /* there is no store */
    MFQ_E_FORMAT = -2,         /* not a store that this library may use: another version, an unknown feature, a damaged page */
    MFQ_E_CORRUPT = -3,        /* the log or a cursor is damaged there */
    MFQ_E_OUT_OF_RANGE = -4,   /* the messages there were removed or cut off, or no frame begins there */
    MFQ_E_DISK = -5,           /* a system call failed; `error` in mfq_error tells which way */
    MFQ_E_IN_USE = -6,         /* another consumer holds the name, or an opener did not finish */
    MFQ_E_RECOVERY = -7,       /* nobody has the store open, or a flush has failed: it needs a recovery, which C# alone does */
    MFQ_E_DELETED = -8,        /* the store was deleted or replaced under the handle */
    MFQ_E_ARGUMENT = -9,       /* the caller's mistake */
    MFQ_E_NO_MEMORY = -10,
    MFQ_E_FENCED = -11,        /* an operator took the claim of this message away: it was not appended */
    MFQ_E_TIMEOUT = -12        /* the message is appended; whether it is on disk is not known yet */
} mfq_status;

/* What failed. Any call takes NULL for it. */
typedef struct mfq_error {
    mfq_status status;
    int error;                 /* errno, with MFQ_E_DISK */
    int64_t offset;            /* in the log; -1 when it is not about a place there */
    char text[232];            /* a sentence, with the file */
} mfq_error;

#define MFQ_EARLIEST ((int64_t)-1)
#define MFQ_LATEST ((int64_t)-2)

typedef struct mfq_reader mfq_reader;
typedef struct mfq_producer mfq_producer;

typedef struct mfq_message {
    const void *data;
    size_t length;
    int64_t offset;
    int64_t next;              /* the offset after it */
    const void *block;         /* its header block; NULL when it has no headers */
    size_t block_length;
} mfq_message;

#define MFQ_HAS_TIME 1u
#define MFQ_HAS_PRODUCER 2u
#define MFQ_HAS_CARRIED_PRODUCER 4u
#define MFQ_HAS_TRACE 8u
#define MFQ_HAS_KEY 16u

/* The headers of a message; what `fields` does not name is 0. The pointers are into the message's block. */
typedef struct mfq_headers {
    uint32_t fields;
    int64_t time;              /* 100 ns since 1970-01-01 UTC */
    uint64_t producer;
    uint64_t sequence;
    const uint8_t *trace_id;   /* 16 bytes */
    const uint8_t *span_id;    /* 8 bytes */
    uint8_t trace_flags;
    const char *trace_state;   /* not terminated */
    size_t trace_state_length;
    const uint8_t *key;
    size_t key_length;
} mfq_headers;

typedef struct mfq_info {
    int is_struct;             /* 1: structs of one size; 0: messages of any length */
    int32_t struct_size;
    int64_t segment_length;
    uint64_t fingerprint;      /* of the struct's layout; 0 for messages */
    uint8_t store_id[16];
    int64_t first;             /* where the log starts now; -1 when that cannot be read */
} mfq_info;

/* Opens a store for reading. It takes no name and leaves no trace. `start` is an offset, MFQ_EARLIEST or MFQ_LATEST. */
mfq_status mfq_reader_open(const char *path, int64_t start, mfq_reader **reader, mfq_error *error);

/*
 * Opens a named consumer ("" is the default one) where it stopped last; a new one at `start`. The name is held against every
 * other process until mfq_close. Works beside processes that have the store open; alone, only where nothing has to be repaired.
 */
mfq_status mfq_consumer_open(const char *path, const char *name, int64_t start, mfq_reader **consumer, mfq_error *error);

/* Releases everything; a consumer's name last. NULL is allowed. */
void mfq_close(mfq_reader *reader);

/* The next message, verified. MFQ_EMPTY: none yet. After an error the position stays. */
mfq_status mfq_read(mfq_reader *reader, mfq_message *message, mfq_error *error);

/* The same, sleeping until there is one; at most so many milliseconds, -1: without a limit. */
mfq_status mfq_wait(mfq_reader *reader, mfq_message *message, int timeout_ms, mfq_error *error);

/* Moves to an offset, MFQ_EARLIEST or MFQ_LATEST. A consumer's stored offset moves with its next mfq_commit. */
mfq_status mfq_seek(mfq_reader *reader, int64_t start, mfq_error *error);

/* A consumer only: everything read so far is done, the last message included. Survives the death of every process. */
mfq_status mfq_commit(mfq_reader *consumer, mfq_error *error);

/* A consumer only: what was committed survives a power loss too. */
mfq_status mfq_flush(mfq_reader *consumer, mfq_error *error);

/* Who else may produce meanwhile. */
typedef enum mfq_mode {
    MFQ_SHARED = 0,            /* any number of producers, in every language */
    MFQ_EXCLUSIVE = 1          /* nobody: nothing has to be claimed, which is faster */
} mfq_mode;

/* What survives a power loss. The death of every process takes nothing at either. */
typedef enum mfq_durability {
    MFQ_PAGE_CACHE = 0,        /* what the system has written, and what somebody has flushed */
    MFQ_GROUP = 1              /* each message when mfq_produce returns, with everything before it; all processes share a sync */
} mfq_durability;

/* Zeros are Shared, at PageCache, without a limit of time. */
typedef struct mfq_producer_options {
    mfq_mode mode;
    mfq_durability durability;
    int flush_timeout_ms;      /* how long a call waits until its messages are on disk; 0 or less: without a limit */
} mfq_producer_options;

/*
 * Opens a producer of a store that exists. NULL for the options is zeros. Like a consumer, it works beside processes in C#, and
 * alone only where nothing has to be repaired.
 */
mfq_status mfq_producer_open(const char *path, const mfq_producer_options *options, mfq_producer **producer, mfq_error *error);

/*
 * Appends a message, with headers unless NULL is given for them (time, key and trace; not those of producers). In a store of
 * structs it has the struct's size. After an error nothing was appended, unless the text says so.
 */
mfq_status mfq_produce(mfq_producer *producer, const mfq_headers *headers, const void *data, size_t length, int64_t *offset,
    mfq_error *error);

/*
 * Makes blocks and pages for so many bytes of messages with their headers of 8 bytes, at most to the end of the segment, so that
 * the next calls meet no page fault. Without it they make 256 KiB to 1 MiB at a time.
 */
mfq_status mfq_producer_prepare(mfq_producer *producer, int64_t length, mfq_error *error);

/* Returns when everything that this producer has appended, and everything before it, is on disk; at any durability. */
mfq_status mfq_producer_flush(mfq_producer *producer, mfq_error *error);

/* Releases everything. NULL is allowed. */
void mfq_producer_close(mfq_producer *producer);

/* The offset of the last message that was read, or else of the next one. */
int64_t mfq_offset(const mfq_reader *reader);

/* The stored offset of any consumer; MFQ_EMPTY when it has none. */
mfq_status mfq_stored_offset(mfq_reader *reader, const char *name, int64_t *offset, mfq_error *error);

void mfq_get_info(mfq_reader *reader, mfq_info *info);

/* The headers of a message; 0 when it has none. */
int mfq_get_headers(const mfq_message *message, mfq_headers *headers);

/* A word for a status, such as "corrupt". */
const char *mfq_status_name(mfq_status status);

/* CRC-32C without inversions, as frames have it: by an instruction, and by a table. For tests and measurements. */
uint32_t mfq_crc32c(uint32_t crc, const void *data, size_t length);
uint32_t mfq_crc32c_by_table(uint32_t crc, const void *data, size_t length);

/*
 * How many of so many frames in a row, of messages of one length and without headers, are whole; the first is at an offset of a
 * log with a seed, the checksum of its id. It is for readers in languages that compute no checksums.
 */
size_t mfq_count_whole(uint32_t seed, int64_t offset, const void *frames, size_t length, size_t count);

#ifdef __cplusplus
}
#endif

#endif
