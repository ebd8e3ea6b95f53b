/*
 * What the files of the library share; no part of its interface. mfq.c reads, mfq_consume.c attaches and consumes, mfq_produce.c
 * appends, mfq_flush.c makes messages durable. Everything follows docs/FORMAT.md and docs/DESIGN.md.
 */
#ifndef MFQ_INTERNAL_H
#define MFQ_INTERNAL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "mfq.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <linux/futex.h>

#if !defined(__linux__) || !defined(__LP64__) || !(defined(__x86_64__) || defined(__aarch64__)) \
    || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "MappedFileQueues needs 64-bit little-endian Linux (x64, arm64)."
#endif

/* A test stops or kills the process at a step, and maps each file once in a process, so that a race detector sees one address. */
#ifdef MFQ_TEST
#ifdef __cplusplus
extern "C" {
#endif
void mfq_test_step(const char *name);
void *mfq_test_map(int fd, size_t length, int protection);
void mfq_test_unmap(void *address, size_t length);
#ifdef __cplusplus
}
#endif
#define MFQ_STEP(name) mfq_test_step(name)
#define MFQ_MAP(fd, length, protection) mfq_test_map(fd, length, protection)
#define MFQ_UNMAP(address, length) mfq_test_unmap(address, length)
#else
#define MFQ_STEP(name) ((void)0)
#define MFQ_MAP(fd, length, protection) mmap(NULL, length, protection, MAP_SHARED, fd, 0)
#define MFQ_UNMAP(address, length) ((void)munmap(address, length))
#endif

enum { PAGE = 4096, HEADER = 8, NAME_MAX_LENGTH = 100, SLOT_TABLE = 65536 };
enum { FREE = 0, CLAIMED = 1, PUBLISHED = 2, PADDING = 3, IN_BATCH = 4 };
enum { CLAIM_MET = 2 }; /* beside MFQ_OK and MFQ_EMPTY: a claimed frame is in the way */

#define LENGTH_MASK UINT32_C(0x0FFFFFFF)
#define EXTENDED UINT32_C(0x80000000)
#define NOTHING_LIKELY UINT32_MAX /* no frame has it; with a size that fits no segment it leads nowhere */
#define SEGMENT_MAX (INT64_C(1) << 40)
#define OFFSET_MAX ((INT64_C(1) << 57) - 4 * SEGMENT_MAX)
#define POISON (UINT64_C(1) << 63)
#define FIRST_STEP (INT64_C(64) << 10)
#define LAST_STEP (INT64_C(1) << 20)

/* Words of the control page. */
enum {
    C_STORE = 8, C_BOOT = 24, C_EPOCH = 40, C_SUM = 48, C_NEXT_SUM = 52, C_STAGE = 56, C_FLUSHED = 64, C_TAIL = 128,
    C_CONFIRMED = 256, C_ALLOCATED = 384, C_SEQUENCE = 512, C_FLAG = 640, C_LOG_START = 768, C_MAY_WAIT = 776,
    C_NAMES_FLUSHED = 896, C_EXCLUSIVE = 1024, C_FLUSH_TARGET = 1152, C_FENCE = 1280, C_FLUSH_SEQUENCE = 1408,
    C_FLUSH_FLAG = 1536, C_REPAIRS = 1664, C_POLLERS = 1792, C_CORRUPT = 1920, C_ROOM_SEQUENCE = 3072, C_ROOM_FLAG = 3200,
    C_CONSUMERS = 3328, C_META_INODE = 3968, C_META_BIRTH = 3976
};

struct segment {
    uint8_t *base;   /* NULL when the file is too short for anything */
    int64_t start;
    int64_t usable;  /* mapped bytes, a multiple of 8 */
    int fd;          /* -1: no segment */
};

/* A place in the log. */
struct place {
    struct segment segment;
    int64_t offset;
    int64_t bound;   /* positions below it may be loaded; a producer's lane: stored to */
    int64_t limit;   /* up to here the bound may be raised without asking what is allocated */
    int64_t asked_from; /* all pages from this position to the bound were asked for */
    int64_t step;
    int repairs;     /* its segments are mapped for writing */
};

struct record {
    int64_t offset;
    int64_t epoch;
    int64_t sequence;
    uint8_t boot[16];
    int is_there;
    int error;           /* errno, where nobody knows whether there is one */
};

struct mfq_reader {
    char *path;
    pid_t owner;         /* the process that opened it: a child of fork may only close its copy */
    int directory;
    int meta_fd;
    struct stat meta_stat;
    mfq_info info;
    uint8_t log_id[16];
    uint32_t seed;       /* the checksum after the log id */
    uint8_t boot[16];    /* as files hold it */
    uint8_t boot_id[16];
    uint8_t *control;    /* NULL: missing or short */
    int is_writable;     /* the control page is mapped for writing */
    int is_wait_tried;
    int64_t checkpoint;
    int64_t epoch;
    struct place place;
    int64_t in_hand;     /* the length of the frame that was read last; 0: none */
    uint32_t likely;     /* the low half of the header of the last plain message */
    int64_t likely_size; /* of its frame */
    int is_at_claim;
    /* Where the store is attached: a consumer, or the store of a producer. */
    int is_attached;
    int attached;
    int meta_lock;
    int name_lock;
    int cursor_fd;
    uint64_t *cursor;
    char cursor_name[NAME_MAX_LENGTH + 40];
};

enum { UNFLUSHED_MAX = 64 };

/* A segment that a producer has left: an error of the disk is reported only to descriptors that were open before it. */
struct unflushed {
    int64_t start;
    int fd;
};

struct mfq_producer {
    mfq_reader *store;
    mfq_producer_options options;
    int lock;              /* `producers` */
    int slot_lock;
    int slot;
    uint32_t generation;
    uint8_t *slots;
    struct place lane;
    int has_started;
    int is_marked;         /* "exclusive at work" was set by this producer */
    int is_dirty;          /* Exclusive: bytes beyond the tail may be left */
    int fences;            /* Exclusive: waiters cannot reach this process's threads, so each publish is an exchange */
    size_t plain_least;    /* lengths of messages that take the short way: from the least on, so many more */
    size_t plain_span;
    int64_t end;           /* after the last message */
    unsigned made;
    char id[33];           /* of its temporary files */
    int flush_lock;
    struct place walk;     /* of its flushes */
    int64_t flushed_to;    /* by this producer */
    int64_t checkpoint_ms; /* when it wrote a checkpoint last */
    struct unflushed unflushed[UNFLUSHED_MAX];
    int unflushed_count;
};

/* ---- small things ---- */

static inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

static inline uint64_t word_at(const void *bytes) {
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

static inline uint64_t *control_word(const mfq_reader *r, int at) { return (uint64_t *)(void *)(r->control + at); }

static inline uint64_t control(const mfq_reader *r, int at) { return __atomic_load_n(control_word(r, at), __ATOMIC_ACQUIRE); }

static inline int64_t frame_length(uint32_t length) { return ((int64_t)length + HEADER + 7) & ~INT64_C(7); }

static inline uint32_t state_of(uint64_t header) { return ((uint32_t)header >> 28) & 7u; }

static inline int is_plausible(uint64_t header, int64_t room) {
    /* A bit for each value of bit 31 and the state: every state but free, and the two of messages with a block. */
    const uint32_t possible = UINT32_C(0x141E);
    return ((possible >> ((uint32_t)header >> 28)) & 1u) != 0 && frame_length((uint32_t)header & LENGTH_MASK) <= room;
}

static inline uint64_t *header_at(const struct place *p) {
    return (uint64_t *)(void *)(p->segment.base + (p->offset - p->segment.start));
}

static inline uint64_t load_header(const struct place *p) { return __atomic_load_n(header_at(p), __ATOMIC_ACQUIRE); }

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(hidden)

/* Whether the processor has the instruction of mfqi_crc_word. */
extern int mfqi_has_crc_instruction;

/* mfq.c: errors, files, the control page, places in the log, claims, frames, waiting */
__attribute__((format(printf, 4, 5)))
mfq_status mfqi_fail(mfq_error *error, mfq_status status, int64_t offset, const char *format, ...);
mfq_status mfqi_fail_disk(const mfq_reader *r, mfq_error *error, int64_t offset, const char *file);
mfq_status mfqi_corrupt(const mfq_reader *r, const struct place *p, mfq_error *error, const char *what);
uint32_t mfqi_page_crc(const void *data, size_t length);
uint32_t mfqi_frame_crc_by_table(uint32_t seed, uint64_t first, const uint8_t *payload, size_t length);
int mfqi_is_same_file(const struct stat *a, const struct stat *b);
int mfqi_is_in_place(int directory, const char *name, int fd);
int mfqi_open_file(int directory, const char *name, int flags, struct stat *status);
int mfqi_sync_folder(int fd);
ssize_t mfqi_read_at(int fd, void *buffer, size_t length, int64_t position);
int mfqi_try_flock(int fd, int kind);
void mfqi_close_fd(const mfq_reader *r, int *fd);
int64_t mfqi_now_ms(void);
void mfqi_sleep_ms(int64_t ms);
DIR *mfqi_open_folder(int directory, const char *name);
struct dirent *mfqi_next_entry(DIR *folder);
int mfqi_has_data(int fd, int64_t from, int64_t to);
mfq_status mfqi_open_store(const char *path, mfq_reader **result, mfq_error *error);
mfq_status mfqi_check_replaced(const mfq_reader *r, mfq_error *error);
int mfqi_is_this_boot(const mfq_reader *r, const uint8_t *stored);
mfq_status mfqi_map_control(mfq_reader *r, int writable, mfq_error *error);
uint32_t mfqi_cold_sum(const mfq_reader *r, int changed, uint64_t value);
int mfqi_is_cold_block_valid(const mfq_reader *r);
int64_t mfqi_passed_to(const mfq_reader *r);
mfq_status mfqi_read_checkpoint(const mfq_reader *r, struct record *checkpoint, mfq_error *error);
int64_t mfqi_find_log_start(const mfq_reader *r);
void mfqi_segment_name(char *name, size_t size, int64_t start);
void mfqi_leave(const mfq_reader *r, struct place *p);
void mfqi_move_to(const mfq_reader *r, struct place *p, int64_t offset);
void mfqi_begin_place(struct place *p, int64_t offset);
int mfqi_populate(const struct place *p, int64_t from, int64_t to, int advice);
mfq_status mfqi_raise_bound(const mfq_reader *r, struct place *p, int64_t from, int64_t needed, int64_t wanted,
    mfq_error *error);
mfq_status mfqi_next_header(const mfq_reader *r, struct place *p, uint64_t *header, int64_t *room, mfq_error *error);
int mfqi_parse_block(uint64_t first, size_t room, size_t *length);
int mfqi_is_locked(const mfq_reader *r, const char *name, int kind, int *is_missing);
mfq_status mfqi_look_at_claim(const mfq_reader *r, const struct place *p, uint64_t claim, mfq_error *error);
int mfqi_find_message(const mfq_reader *r, struct place *p, int stops_at_claims, mfq_message *message, int64_t *frame,
    mfq_error *error);
mfq_status mfqi_is_frame_start(const mfq_reader *r, int64_t offset, mfq_error *error);
mfq_status mfqi_find_start(const mfq_reader *r, int64_t start, int64_t *offset, mfq_error *error);
int mfqi_is_registered(void);
int64_t mfqi_prepare_sleep(const mfq_reader *r, int sequence_at, int flag_at, uint64_t *sequence);
void mfqi_sleep_on(const mfq_reader *r, int sequence_at, uint64_t sequence, int64_t ms);

/* mfq_consume.c: locks, attaching, waking */
void mfqi_adopt(const mfq_reader *r, int fd);
int mfqi_open_or_make(const mfq_reader *r, const char *name, struct stat *status);
int mfqi_open_locked(const mfq_reader *r, const char *name, int flags, int kind, struct stat *status);
int mfqi_lock(const mfq_reader *r, const char *name, int kind, int64_t patience_ms);
int mfqi_lock_range(int fd, short type, int64_t patience_ms);
mfq_status mfqi_fail_lock(const mfq_reader *r, mfq_error *error, const char *name);
mfq_status mfqi_attach(mfq_reader *r, mfq_error *error);
void mfqi_wake_sleepers(const mfq_reader *r, int sequence_at, int flag_at, uint64_t flag);

/* mfq_produce.c */
void mfqi_raise_to(const mfq_reader *r, int at, int64_t value);
mfq_status mfqi_flush_names(const mfq_reader *r, int64_t start, mfq_error *error);
uint64_t mfqi_padding_header(const mfq_reader *r, int64_t offset, int64_t length);

/* mfq_flush.c */
mfq_status mfqi_poisoned(const mfq_reader *r, mfq_error *error);
mfq_status mfqi_poison(const mfq_reader *r, mfq_error *error);
void mfqi_keep_unflushed(mfq_producer *p);
void mfqi_end_flushing(mfq_producer *p);
mfq_status mfqi_repair_claim(const mfq_reader *r, const struct place *p, uint64_t claim, mfq_error *error);
mfq_status mfqi_wait_durable(mfq_producer *p, int64_t goal, mfq_error *error);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

/* ---- what every message takes ---- */

/* One step of CRC-32C; the caller knows that the processor has it. */
static inline uint64_t mfqi_crc_word(uint64_t crc, uint64_t word) {
#if defined(__x86_64__)
    __asm__("crc32q %1, %0" : "+r"(crc) : "rm"(word));
#else
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
#endif
    return crc;
}

/* What the checksum of a frame begins with. */
static inline uint64_t mfqi_crc_first(int64_t offset, uint32_t low) { return ((uint64_t)offset / 8) ^ ((uint64_t)low << 32); }

/*
 * Word by word, four to a turn. The last word is loaded whole: it is in the frame, whose length is a multiple of 8. What is after
 * the payload does not count.
 */
#define MASK_OF_REST(length) ((UINT64_C(1) << ((length) % 8 * 8)) - 1)

static inline uint32_t mfqi_frame_crc_by_instruction(uint32_t seed, uint64_t first, const uint8_t *payload, size_t length) {
    uint64_t crc = mfqi_crc_word(seed, first);
    const uint8_t *end = payload + (length & ~(size_t)7);
    for (; end - payload >= 32; payload += 32) {
        crc = mfqi_crc_word(crc, word_at(payload));
        crc = mfqi_crc_word(crc, word_at(payload + 8));
        crc = mfqi_crc_word(crc, word_at(payload + 16));
        crc = mfqi_crc_word(crc, word_at(payload + 24));
    }
    for (; payload != end; payload += 8)
        crc = mfqi_crc_word(crc, word_at(payload));
    return (uint32_t)(length % 8 == 0 ? crc : mfqi_crc_word(crc, word_at(payload) & MASK_OF_REST(length)));
}

static inline uint32_t mfqi_frame_crc(uint32_t seed, int64_t offset, uint32_t low, const uint8_t *payload, size_t length) {
    return mfqi_has_crc_instruction
        ? mfqi_frame_crc_by_instruction(seed, mfqi_crc_first(offset, low), payload, length)
        : mfqi_frame_crc_by_table(seed, mfqi_crc_first(offset, low), payload, length);
}

/* Whether the low half of a header is that of a message without headers. */
static inline int is_plain_message(uint32_t low) {
    uint32_t kind = low & ~LENGTH_MASK;
    return kind == (uint32_t)PUBLISHED << 28 || kind == (uint32_t)IN_BATCH << 28;
}

static inline int mfqi_is_poisoned(const mfq_reader *r) { return (control(r, C_FLAG) & POISON) != 0; }

/*
 * The waker's steps after a change that is visible: the flag, the sequence, all sleepers, the flag as it was read. The load of
 * the flag comes after the change in the order of all sequentially consistent accesses, of which the waiter's fence is one; after
 * an Exclusive publish the waiter fences this process.
 */
static inline void mfqi_wake(const mfq_reader *r, int sequence_at, int flag_at) {
    uint64_t flag = __atomic_load_n(control_word(r, flag_at), __ATOMIC_SEQ_CST);
    if ((flag & ~POISON) != 0)
        mfqi_wake_sleepers(r, sequence_at, flag_at, flag);
}

#endif
