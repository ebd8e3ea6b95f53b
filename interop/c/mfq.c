/*
 * Reading stores of MappedFileQueues, consuming and producing. Everything here follows docs/FORMAT.md and docs/DESIGN.md.
 *
 * What a file holds is hostile: each number is loaded once, checked against the room that is left, and only then leads to a
 * place. No load is made from a page that the system was not asked for, so a bad sector or a truncated file is an error and not
 * a signal; a page that was there and is lost later still is one.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "mfq.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <linux/futex.h>
#include <linux/membarrier.h>

#if !defined(__linux__) || !(defined(__x86_64__) || defined(__aarch64__)) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "MappedFileQueues needs 64-bit little-endian Linux (x64, arm64)."
#endif

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

enum { PAGE = 4096, HEADER = 8, NAME_MAX_LENGTH = 100, SLOT_TABLE = 65536 };
enum { FREE = 0, CLAIMED = 1, PUBLISHED = 2, PADDING = 3, IN_BATCH = 4 };
enum { CLAIM_MET = 2 }; /* beside MFQ_OK and MFQ_EMPTY: a claimed frame is in the way */

#define LENGTH_MASK UINT32_C(0x0FFFFFFF)
#define EXTENDED UINT32_C(0x80000000)
#define SEGMENT_MAX (INT64_C(1) << 40)
#define OFFSET_MAX ((INT64_C(1) << 57) - 4 * SEGMENT_MAX)
#define CURSOR_NEW UINT64_C(0x454E4F4E2D51464D) /* "MFQ-NONE" */
#define CURSOR_CHECK UINT64_C(0xFE00000000000000)
#define CURSOR_FACTOR UINT64_C(0xD5029C1D890D25FB)
#define POISON (UINT64_C(1) << 63)
#define FIRST_STEP (INT64_C(64) << 10)
#define LAST_STEP (INT64_C(1) << 20)

/* Words of the control page. */
enum {
    C_STORE = 8, C_BOOT = 24, C_EPOCH = 40, C_SUM = 48, C_NEXT_SUM = 52, C_STAGE = 56, C_FLUSHED = 64, C_TAIL = 128,
    C_CONFIRMED = 256, C_ALLOCATED = 384, C_SEQUENCE = 512, C_FLAG = 640, C_LOG_START = 768, C_MAY_WAIT = 776,
    C_NAMES_FLUSHED = 896, C_EXCLUSIVE = 1024, C_FENCE = 1280, C_REPAIRS = 1664, C_POLLERS = 1792,
    C_CORRUPT = 1920, C_ROOM_SEQUENCE = 3072, C_ROOM_FLAG = 3200,
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
    int64_t bound;   /* positions below it may be loaded */
    int64_t limit;   /* up to here the bound may be raised without asking what is allocated */
    int64_t step;
};

struct record {
    int64_t offset;
    int64_t epoch;
    int64_t sequence;
    uint8_t boot[16];
    int is_there;
};

struct mfq_reader {
    char *path;
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
    int is_at_claim;
    /* A consumer only. */
    int is_consumer;
    int attached;
    int meta_lock;
    int name_lock;
    int cursor_fd;
    uint64_t *cursor;
    char cursor_name[NAME_MAX_LENGTH + 40];
};

/* ---- errors ---- */

__attribute__((format(printf, 4, 5)))
static mfq_status fail(mfq_error *error, mfq_status status, int64_t offset, const char *format, ...) {
    if (error != NULL) {
        int code = errno;
        va_list arguments;
        memset(error, 0, sizeof *error);
        error->status = status;
        error->error = status == MFQ_E_DISK ? code : 0;
        error->offset = offset;
        va_start(arguments, format);
        vsnprintf(error->text, sizeof error->text, format, arguments);
        va_end(arguments);
    }
    return status;
}

static mfq_status fail_disk(const mfq_reader *r, mfq_error *error, int64_t offset, const char *file) {
    int code = errno;
    mfq_status status = fail(error, MFQ_E_DISK, offset, "A system call failed: errno=%d, file=%s, path=%.120s.", code, file,
        r->path);
    errno = code;
    return status;
}

const char *mfq_status_name(mfq_status status) {
    switch (status) {
    case MFQ_OK: return "ok";
    case MFQ_EMPTY: return "empty";
    case MFQ_E_NOT_FOUND: return "not-found";
    case MFQ_E_FORMAT: return "format";
    case MFQ_E_CORRUPT: return "corrupt";
    case MFQ_E_OUT_OF_RANGE: return "removed";
    case MFQ_E_DISK: return "disk";
    case MFQ_E_IN_USE: return "in-use";
    case MFQ_E_RECOVERY: return "recovery";
    case MFQ_E_DELETED: return "deleted";
    case MFQ_E_ARGUMENT: return "argument";
    case MFQ_E_NO_MEMORY: return "no-memory";
    }
    return "unknown";
}

/* ---- CRC-32C ---- */

static uint32_t crc_table[8][256];
static int has_crc_instruction;

__attribute__((constructor)) static void prepare_crc(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++)
            value = (value & 1u) != 0 ? (value >> 1) ^ UINT32_C(0x82F63B78) : value >> 1;
        crc_table[0][i] = value;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++)
            crc_table[k][i] = (crc_table[k - 1][i] >> 8) ^ crc_table[0][crc_table[k - 1][i] & 0xFFu];
#if defined(__x86_64__)
    __builtin_cpu_init();
    has_crc_instruction = __builtin_cpu_supports("sse4.2") != 0;
#else
    has_crc_instruction = (getauxval(AT_HWCAP) & (1ul << 7)) != 0; /* HWCAP_CRC32 */
#endif
}

static uint64_t word_at(const void *bytes) {
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

static uint32_t crc_word_by_table(uint32_t crc, uint64_t word) {
    word ^= crc;
    return crc_table[7][word & 0xFFu] ^ crc_table[6][(word >> 8) & 0xFFu] ^ crc_table[5][(word >> 16) & 0xFFu]
        ^ crc_table[4][(word >> 24) & 0xFFu] ^ crc_table[3][(word >> 32) & 0xFFu] ^ crc_table[2][(word >> 40) & 0xFFu]
        ^ crc_table[1][(word >> 48) & 0xFFu] ^ crc_table[0][word >> 56];
}

uint32_t mfq_crc32c_by_table(uint32_t crc, const void *data, size_t length) {
    const uint8_t *bytes = (const uint8_t *)data;
    for (; length >= 8; length -= 8, bytes += 8)
        crc = crc_word_by_table(crc, word_at(bytes));
    for (; length > 0; length--, bytes++)
        crc = (crc >> 8) ^ crc_table[0][(crc ^ *bytes) & 0xFFu];
    return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc_by_instruction(uint32_t crc, const uint8_t *bytes, size_t length) {
    uint64_t value = crc;
    for (; length >= 8; length -= 8, bytes += 8)
        value = __builtin_ia32_crc32di(value, word_at(bytes));
    crc = (uint32_t)value;
    for (; length > 0; length--, bytes++)
        crc = __builtin_ia32_crc32qi(crc, *bytes);
    return crc;
}
#else
static uint32_t crc_by_instruction(uint32_t crc, const uint8_t *bytes, size_t length) {
    for (; length >= 8; length -= 8, bytes += 8)
        __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word_at(bytes)));
    for (; length > 0; length--, bytes++)
        __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"((uint32_t)*bytes));
    return crc;
}
#endif

uint32_t mfq_crc32c(uint32_t crc, const void *data, size_t length) {
    return has_crc_instruction ? crc_by_instruction(crc, (const uint8_t *)data, length) : mfq_crc32c_by_table(crc, data, length);
}

/* The usual CRC-32C, of pages and records. */
static uint32_t page_crc(const void *data, size_t length) { return ~mfq_crc32c(UINT32_MAX, data, length); }

/*
 * Word by word. The last word is loaded whole: it is in the frame, whose length is a multiple of 8. What is after the payload
 * does not count.
 */
#define MASK_OF_REST(length) ((UINT64_C(1) << ((length) % 8 * 8)) - 1)

#if defined(__x86_64__)
__attribute__((target("sse4.2")))
static uint32_t frame_crc_by_instruction(uint32_t seed, uint64_t first, const uint8_t *payload, size_t length) {
    uint64_t value = __builtin_ia32_crc32di(seed, first);
    const uint8_t *end = payload + (length & ~(size_t)7);
    for (; payload != end; payload += 8)
        value = __builtin_ia32_crc32di(value, word_at(payload));
    if (length % 8 != 0)
        value = __builtin_ia32_crc32di(value, word_at(payload) & MASK_OF_REST(length));
    return (uint32_t)value;
}
#else
static uint32_t frame_crc_by_instruction(uint32_t seed, uint64_t first, const uint8_t *payload, size_t length) {
    uint32_t crc = crc_by_instruction(seed, (const uint8_t *)&first, sizeof first);
    crc = crc_by_instruction(crc, payload, length & ~(size_t)7);
    uint64_t last = length % 8 == 0 ? 0 : word_at(payload + (length & ~(size_t)7)) & MASK_OF_REST(length);
    return length % 8 == 0 ? crc : crc_by_instruction(crc, (const uint8_t *)&last, sizeof last);
}
#endif

static const uint8_t no_payload[8] = {0};

static uint32_t frame_crc(const mfq_reader *r, int64_t offset, uint32_t low, const uint8_t *payload, size_t length) {
    uint64_t first = ((uint64_t)offset / 8) ^ ((uint64_t)low << 32);
    if (has_crc_instruction)
        return frame_crc_by_instruction(r->seed, first, payload, length);
    uint32_t crc = mfq_crc32c_by_table(crc_word_by_table(r->seed, first), payload, length & ~(size_t)7);
    return length % 8 == 0 ? crc : crc_word_by_table(crc, word_at(payload + (length & ~(size_t)7)) & MASK_OF_REST(length));
}

/* ---- files ---- */

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

static int is_same_file(const struct stat *a, const struct stat *b) { return a->st_dev == b->st_dev && a->st_ino == b->st_ino; }

/* Whether the name still means the open file. */
static int is_in_place(int directory, const char *name, int fd) {
    struct stat by_name, by_fd;
    return fstat(fd, &by_fd) == 0 && fstatat(directory, name, &by_name, 0) == 0 && is_same_file(&by_name, &by_fd);
}

/* -1 with errno. Never waits at a named pipe; what is no regular file is EINVAL. */
static int open_file(int directory, const char *name, int flags, struct stat *status) {
    int fd = openat(directory, name, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -1;
    if (fstat(fd, status) == 0) {
        if (S_ISREG(status->st_mode))
            return fd;
        errno = EINVAL;
    }
    int code = errno;
    close(fd);
    errno = code;
    return -1;
}

/* How many bytes there were up to a length; -1 with errno. */
static ssize_t read_at(int fd, void *buffer, size_t length, int64_t position) {
    size_t done = 0;
    while (done < length) {
        ssize_t n = pread(fd, (uint8_t *)buffer + done, length - done, (off_t)(position + (int64_t)done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

/* 1 taken, 0 another open holds it, -1 with errno. */
static int try_flock(int fd, int kind) {
    while (flock(fd, kind | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK)
            return 0;
        if (errno != EINTR)
            return -1;
    }
    return 1;
}

static void close_fd(int *fd) {
    if (*fd >= 0) {
        /* Explicitly: a child that is just being started holds a copy of the descriptor until its exec. */
        (void)flock(*fd, LOCK_UN);
        close(*fd);
    }
    *fd = -1;
}

static int64_t now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void sleep_ms(int64_t ms) {
    struct timespec time;
    time.tv_sec = (time_t)(ms / 1000);
    time.tv_nsec = (long)(ms % 1000) * 1000000;
    (void)nanosleep(&time, NULL);
}

/* ---- the meta page ---- */

static mfq_status read_meta(mfq_reader *r, mfq_error *error) {
    uint8_t page[PAGE + 1];
    r->meta_fd = open_file(r->directory, "queue.meta", O_RDONLY, &r->meta_stat);
    if (r->meta_fd < 0)
        return errno == ENOENT ? fail(error, MFQ_E_NOT_FOUND, -1, "There is no store: path=%.180s.", r->path)
            : fail_disk(r, error, -1, "queue.meta");
    ssize_t length = read_at(r->meta_fd, page, sizeof page, 0);
    if (length < 0)
        return fail_disk(r, error, -1, "queue.meta");
    if (length != PAGE || memcmp(page, "MFQSTORE", 8) != 0)
        return fail(error, MFQ_E_FORMAT, -1, "This is not the meta page of a store: path=%.160s.", r->path);
    uint32_t sum, version, kind;
    uint64_t features, segment_length;
    memcpy(&sum, page + 4092, 4);
    if (sum != page_crc(page, 4092))
        return fail(error, MFQ_E_FORMAT, -1, "The meta page is damaged: path=%.170s.", r->path);
    memcpy(&version, page + 8, 4);
    if (version != 2)
        return fail(error, MFQ_E_FORMAT, -1, "Unknown format version: version=%u, path=%.160s.", version, r->path);
    memcpy(&features, page + 24, 8);
    if ((features & ~UINT64_C(3)) != 0)
        return fail(error, MFQ_E_FORMAT, -1, "The store uses features that are not known: features=0x%llx, path=%.120s.",
            (unsigned long long)features, r->path);
    memcpy(&kind, page + 12, 4);
    memcpy(&segment_length, page + 32, 8);
    memcpy(&r->info.struct_size, page + 40, 4);
    memcpy(&r->info.fingerprint, page + 48, 8);
    memcpy(r->info.store_id, page + 56, 16);
    memcpy(r->log_id, (features & 1) != 0 ? page + 80 : page + 56, 16);
    if ((kind != 1 && kind != 2) || segment_length < PAGE || segment_length > (uint64_t)SEGMENT_MAX
        || segment_length % PAGE != 0 || r->info.struct_size < 0)
        return fail(error, MFQ_E_FORMAT, -1, "The meta page holds impossible values: path=%.160s.", r->path);
    r->info.is_struct = kind == 1;
    r->info.segment_length = (int64_t)segment_length;
    r->seed = mfq_crc32c(UINT32_MAX, r->log_id, 16);
    return MFQ_OK;
}

/* Whether the store under the handle is still the one that was opened. */
static mfq_status check_replaced(const mfq_reader *r, mfq_error *error) {
    struct stat meta, held, named;
    if (fstatat(r->directory, "queue.meta", &meta, 0) == 0 && is_same_file(&meta, &r->meta_stat)
        && fstat(r->directory, &held) == 0 && stat(r->path, &named) == 0 && is_same_file(&held, &named))
        return MFQ_OK;
    return fail(error, MFQ_E_DELETED, -1, "The store was deleted or replaced: path=%.160s.", r->path);
}

/* ---- the boot ---- */

static int hex_value(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

static void find_boot(mfq_reader *r) {
    static const uint8_t order[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    char text[64] = {0};
    uint8_t raw[16] = {0};
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t length = read_at(fd, text, 36, 0);
        close(fd);
        int digits = 0;
        for (int i = 0; i < (int)length && digits < 32; i++) {
            int value = hex_value(text[i]);
            if (value >= 0) {
                raw[digits / 2] = (uint8_t)(raw[digits / 2] << 4 | value);
                digits++;
            }
        }
        for (int i = 0; digits == 32 && i < 16; i++)
            r->boot_id[i] = raw[order[i]];
    }
    memcpy(r->boot, r->boot_id, 16);

    /* Memory without a name is in a tmpfs of the kernel's own, whose id is random and as old as the boot. */
    int memory = (int)syscall(SYS_memfd_create, "mfq", 1u | MFD_NOEXEC_SEAL);
    if (memory < 0)
        memory = (int)syscall(SYS_memfd_create, "mfq", 1u);
    if (memory >= 0) {
        struct statfs state;
        uint64_t id = 0;
        if (fstatfs(memory, &state) == 0 && (uint32_t)state.f_type == UINT32_C(0x01021994))
            memcpy(&id, &state.f_fsid, 8);
        if ((uint32_t)id != 0 && id >> 32 != 0)
            memcpy(r->boot, &id, 8);
        close(memory);
    }
}

static int is_this_boot(const mfq_reader *r, const uint8_t *stored) {
    static const uint8_t unknown[16] = {0};
    if (memcmp(stored, unknown, 16) == 0)
        return 0;
    if (memcmp(stored, r->boot, 16) == 0 || memcmp(stored, r->boot_id, 16) == 0)
        return 1;
    return memcmp(r->boot, r->boot_id, 8) != 0 ? memcmp(stored, r->boot, 8) == 0
        : memcmp(r->boot_id, unknown, 16) != 0 && memcmp(stored + 8, r->boot_id + 8, 8) == 0;
}

/* ---- the control page ---- */

static uint64_t *control_word(const mfq_reader *r, int at) { return (uint64_t *)(void *)(r->control + at); }

static uint64_t control(const mfq_reader *r, int at) { return __atomic_load_n(control_word(r, at), __ATOMIC_ACQUIRE); }

static mfq_status map_control(mfq_reader *r, int writable, mfq_error *error) {
    struct stat status;
    int fd = open_file(r->directory, "control", writable ? O_RDWR : O_RDONLY, &status);
    if (fd < 0)
        return errno == ENOENT || writable ? MFQ_OK : fail_disk(r, error, -1, "control");
    void *page = status.st_size < PAGE ? MAP_FAILED
        : mmap(NULL, PAGE, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    uint64_t probe;
    /* The read finds a bad sector, which a load would meet as a signal. */
    ssize_t there = page == MAP_FAILED ? 0 : read_at(fd, &probe, sizeof probe, 0);
    close(fd);
    if (page == MAP_FAILED || there != sizeof probe) {
        if (page != MAP_FAILED)
            munmap(page, PAGE);
        return there < 0 ? fail_disk(r, error, -1, "control") : MFQ_OK;
    }
    if (r->control != NULL)
        munmap(r->control, PAGE);
    r->control = (uint8_t *)page;
    r->is_writable = writable;
    return MFQ_OK;
}

/* The checksum of the cold block as it is, or as it will be when the word at a position holds another value. */
static uint32_t cold_sum(const mfq_reader *r, int changed, uint64_t value) {
    static const int words[] = {C_LOG_START, C_EXCLUSIVE, C_CORRUPT, C_FLUSHED};
    uint8_t covered[48 + 32];
    memcpy(covered, r->control, 48);
    for (size_t i = 0; i < 4; i++)
        memcpy(covered + 48 + i * 8, words[i] == changed ? (const uint8_t *)&value : r->control + words[i], 8);
    return page_crc(covered, sizeof covered);
}

static int is_cold_block_valid(const mfq_reader *r) {
    uint32_t sum, next;
    if (r->control == NULL)
        return 0;
    memcpy(&sum, r->control + C_SUM, 4);
    memcpy(&next, r->control + C_NEXT_SUM, 4);
    uint32_t actual = cold_sum(r, -1, 0);
    return memcmp(r->control, "MFQCTRL2", 8) == 0 && memcmp(r->control + C_STORE, r->info.store_id, 16) == 0
        && (sum == actual || (next != 0 && next == actual));
}

/* Memory is whole, and the words of the page speak of it. */
static int is_recovered(const mfq_reader *r) {
    return r->is_consumer || (is_cold_block_valid(r) && control(r, C_STAGE) == 1 && is_this_boot(r, r->control + C_BOOT));
}

/* A word that has no checksum: an offset above what has blocks is damage, and counts as 0. */
static int64_t plausible(const mfq_reader *r, int at) {
    uint64_t value = control(r, at), allocated = control(r, C_ALLOCATED);
    return value <= allocated && value <= (uint64_t)OFFSET_MAX && value % 8 == 0 ? (int64_t)value : 0;
}

static int64_t confirmed(const mfq_reader *r) { return is_recovered(r) ? plausible(r, C_CONFIRMED) : 0; }

static int64_t passed_to(const mfq_reader *r) {
    int64_t passed = max64(r->checkpoint, confirmed(r));
    return r->is_consumer ? max64(passed, plausible(r, C_TAIL)) : passed;
}

/* ---- records of two slots ---- */

static struct record read_record(const mfq_reader *r, const char *name) {
    struct record newest;
    struct stat status;
    memset(&newest, 0, sizeof newest);
    int fd = open_file(r->directory, name, O_RDONLY, &status);
    for (int slot = 0; fd >= 0 && slot < 2; slot++) {
        uint8_t bytes[64];
        struct record found;
        uint32_t sum;
        if (read_at(fd, bytes, sizeof bytes, slot * PAGE) != (ssize_t)sizeof bytes)
            continue;
        memset(&found, 0, sizeof found);
        memcpy(&sum, bytes + 60, 4);
        memcpy(&found.offset, bytes, 8);
        memcpy(&found.epoch, bytes + 8, 8);
        memcpy(&found.sequence, bytes + 16, 8);
        memcpy(found.boot, bytes + 24, 16);
        found.is_there = sum == page_crc(bytes, 60) && memcmp(bytes + 40, r->info.store_id, 16) == 0
            && found.offset >= 0 && found.offset % 8 == 0 && found.offset <= OFFSET_MAX;
        if (found.is_there && (!newest.is_there || found.sequence > newest.sequence))
            newest = found;
    }
    if (fd >= 0)
        close(fd);
    return newest;
}

/* ---- the log start ---- */

static void segment_name(char *name, size_t size, int64_t start) {
    snprintf(name, size, "commitlog/%020lld.log", (long long)start);
}

/* The start in a file's name; -1 for any other name. */
static int64_t parse_segment(const mfq_reader *r, const char *name) {
    int64_t start = 0;
    for (int i = 0; i < 20; i++) {
        if (name[i] < '0' || name[i] > '9' || start > (INT64_MAX - 9) / 10)
            return -1;
        start = start * 10 + (name[i] - '0');
    }
    return strcmp(name + 20, ".log") == 0 && start % r->info.segment_length == 0 && start <= OFFSET_MAX ? start : -1;
}

static DIR *open_folder(int directory, const char *name) {
    int fd = openat(directory, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (folder == NULL && fd >= 0)
        close(fd);
    return folder;
}

static int segment_exists(const mfq_reader *r, int64_t start) {
    char name[48];
    struct stat status;
    if (start < 0)
        return 0;
    segment_name(name, sizeof name, start);
    return fstatat(r->directory, name, &status, 0) == 0;
}

/* Whether anything but zeros is between two positions of a file. */
static int has_data(int fd, int64_t from, int64_t to) {
    uint8_t buffer[8192];
    while (from < to) {
        off_t data = lseek(fd, (off_t)from, SEEK_DATA);
        if (data < 0)
            return 0; /* ENXIO: nothing but a hole */
        from = max64(from, (int64_t)data);
        if (from >= to)
            return 0;
        ssize_t n = read_at(fd, buffer, (size_t)min64((int64_t)sizeof buffer, to - from), from);
        if (n <= 0)
            return n < 0;
        for (ssize_t i = 0; i < n; i++)
            if (buffer[i] != 0)
                return 1;
        from += n;
    }
    return 0;
}

/* A segment of zeros was prepared, or removed and brought back by a power loss: no part of the log before others. */
static int has_frame(const mfq_reader *r, int64_t start) {
    char name[48];
    struct stat status;
    segment_name(name, sizeof name, start);
    int fd = open_file(r->directory, name, O_RDONLY, &status);
    if (fd < 0)
        return errno != ENOENT;
    int found = status.st_size < HEADER || has_data(fd, 0, r->info.segment_length);
    close(fd);
    return found;
}

static int64_t find_log_start(const mfq_reader *r) {
    int64_t length = r->info.segment_length;
    if (r->is_consumer || is_cold_block_valid(r)) {
        uint64_t start = control(r, C_LOG_START);
        return start <= (uint64_t)OFFSET_MAX && start % 8 == 0 ? (int64_t)start : 0;
    }
    struct record removed = read_record(r, "offset/log-start");
    struct record checkpoint = read_record(r, "offset/producer.checkpoint");
    int64_t least = removed.is_there && removed.offset % length == 0 ? removed.offset : 0;
    int64_t at = checkpoint.offset;
    if (!checkpoint.is_there) {
        DIR *folder = open_folder(r->directory, "commitlog");
        int64_t lowest = INT64_MAX;
        for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
            int64_t start = parse_segment(r, entry->d_name);
            if (start >= 0)
                lowest = min64(lowest, start);
        }
        if (folder != NULL)
            closedir(folder);
        at = lowest == INT64_MAX ? 0 : lowest;
    }
    at = max64(at, least);
    int64_t start = at - at % length;
    if (!segment_exists(r, start) && segment_exists(r, start - length))
        start -= length;
    while (segment_exists(r, start - length) && has_frame(r, start - length))
        start -= length;
    return max64(start, least);
}

/* ---- places in the log ---- */

static void leave(struct place *p) {
    if (p->segment.base != NULL)
        munmap(p->segment.base, (size_t)p->segment.usable);
    p->segment.base = NULL;
    p->segment.start = p->segment.usable = 0;
    close_fd(&p->segment.fd);
    p->bound = p->limit = 0;
}

static void move_to(struct place *p, int64_t offset) {
    leave(p);
    p->offset = offset;
    p->step = FIRST_STEP;
}

static void begin_place(struct place *p, int64_t offset) {
    memset(p, 0, sizeof *p);
    p->segment.fd = -1;
    move_to(p, offset);
}

/*
 * Opens and maps the segment of the place's offset. MFQ_EMPTY: there is none yet. The shared flock keeps the file from being
 * recycled while it is mapped; after the lock, the name must still mean this file.
 */
static mfq_status enter(const mfq_reader *r, struct place *p, mfq_error *error) {
    char name[48];
    struct stat status;
    int64_t start = p->offset - p->offset % r->info.segment_length;
    int fd = -1;
    if (p->offset > OFFSET_MAX)
        return MFQ_EMPTY;
    segment_name(name, sizeof name, start);
    for (int tries = 0;; tries++) {
        fd = open_file(r->directory, name, O_RDONLY, &status);
        if (fd < 0 && errno == ENOENT)
            break;
        if (fd < 0)
            return fail_disk(r, error, p->offset, name);
        int taken = try_flock(fd, LOCK_SH);
        if (taken < 0) {
            fail_disk(r, error, p->offset, name);
            close(fd);
            return MFQ_E_DISK;
        }
        if (taken > 0 && is_in_place(r->directory, name, fd))
            break;
        close_fd(&fd);
        if (tries == 1000)
            return fail(error, MFQ_E_IN_USE, p->offset, "A segment is locked: file=%s, path=%.120s.", name, r->path);
        sleep_ms(1);
    }
    int64_t log_start = find_log_start(r);
    if (start < log_start) {
        close_fd(&fd);
        return fail(error, MFQ_E_OUT_OF_RANGE, p->offset, "The messages here were removed: offset=%lld, first=%lld, path=%.90s.",
            (long long)p->offset, (long long)log_start, r->path);
    }
    if (fd < 0)
        return MFQ_EMPTY;
    int64_t usable = min64((int64_t)status.st_size, r->info.segment_length) & ~INT64_C(7);
    void *base = usable == 0 ? NULL : mmap(NULL, (size_t)usable, PROT_READ, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        fail_disk(r, error, p->offset, name);
        close_fd(&fd);
        return MFQ_E_DISK;
    }
    leave(p);
    p->segment.base = (uint8_t *)base;
    p->segment.start = start;
    p->segment.usable = usable;
    p->segment.fd = fd;
    return MFQ_OK;
}

static mfq_status corrupt(const mfq_reader *r, const struct place *p, mfq_error *error, const char *what) {
    return fail(error, MFQ_E_CORRUPT, p->offset, "The log is damaged: %s, offset=%lld, segment=%020lld, path=%.100s.", what,
        (long long)p->offset, (long long)(p->offset - p->offset % r->info.segment_length), r->path);
}

/* 0, or why the pages cannot be had. */
static int populate(const struct place *p, int64_t from, int64_t to) {
    int64_t first = from & ~(int64_t)(PAGE - 1);
    for (int tries = 0; madvise(p->segment.base + first, (size_t)(to - first), MADV_POPULATE_READ) != 0; tries++)
        if ((errno != EINTR && errno != EAGAIN) || tries == 1000)
            return errno;
    return 0;
}

/* Asks the system for pages before anybody loads from them, and raises the bound: to `wanted` where that is easy. */
static mfq_status raise_bound(const mfq_reader *r, struct place *p, int64_t from, int64_t needed, int64_t wanted,
    mfq_error *error) {
    int64_t end = max64(needed, wanted);
    int code = populate(p, from, end);
    if (code != 0 && code != EINVAL && end > needed) {
        end = needed;
        code = populate(p, from, end);
    }
    if (code == EINVAL) {
        /* Before Linux 5.14: what was read is in memory. */
        uint8_t buffer[PAGE];
        end = needed;
        code = 0;
        for (int64_t at = from & ~(int64_t)(PAGE - 1); at < needed && code == 0; at += PAGE) {
            ssize_t n = read_at(p->segment.fd, buffer, sizeof buffer, at);
            code = n < 0 ? errno : at + n < min64(needed, at + PAGE) ? EFAULT : 0;
        }
    }
    if (code != 0) {
        struct stat status;
        if (fstat(p->segment.fd, &status) == 0 && status.st_size < needed)
            return corrupt(r, p, error, "the file became shorter");
        errno = code;
        return fail_disk(r, error, p->offset, "commitlog");
    }
    p->bound = end;
    return MFQ_OK;
}

/* MFQ_OK when the header at the place may be loaded; MFQ_EMPTY when there is none yet. `room` is what the segment has left. */
static mfq_status reach_header(const mfq_reader *r, struct place *p, int64_t *room, mfq_error *error) {
    int64_t length = r->info.segment_length;
    *room = 0;
    if (p->segment.fd < 0 || p->offset - p->segment.start == length) {
        mfq_status status = enter(r, p, error);
        if (status != MFQ_OK)
            return status;
    }
    int64_t at = p->offset - p->segment.start;
    *room = length - at;
    if (at + HEADER <= p->bound)
        return MFQ_OK;
    if (at + HEADER > p->segment.usable)
        return corrupt(r, p, error, "the file is too short");
    uint64_t allocated = r->control == NULL ? 0 : control(r, C_ALLOCATED);
    int64_t limit = allocated > (uint64_t)INT64_MAX ? 0 : min64((int64_t)allocated - p->segment.start, p->segment.usable);
    if (limit < at + HEADER) {
        /* The word may be old, or damaged: a read, which touches no mapping, decides. */
        uint64_t header = 0;
        ssize_t n = read_at(p->segment.fd, &header, sizeof header, at);
        if (n < 0)
            return fail_disk(r, error, p->offset, "commitlog");
        if (n < HEADER || header == 0)
            return MFQ_EMPTY;
        limit = p->segment.usable;
    }
    p->limit = limit;
    mfq_status status = raise_bound(r, p, at, at + HEADER, min64(limit, at + p->step), error);
    p->step = min64(p->step * 2, LAST_STEP);
    return status;
}

static int64_t frame_length(uint32_t length) { return ((int64_t)length + HEADER + 7) & ~INT64_C(7); }

static int is_plausible(uint64_t header, int64_t room) {
    /* A bit for each value of bit 31 and the state: every state but free, and the two of messages with a block. */
    const uint32_t possible = UINT32_C(0x141E);
    return ((possible >> ((uint32_t)header >> 28)) & 1u) != 0 && frame_length((uint32_t)header & LENGTH_MASK) <= room;
}

/* Whether a block's first word is possible in so many bytes; its length goes to `length`. */
static int parse_block(uint64_t first, size_t room, size_t *length) {
    uint32_t fields = (uint32_t)(first >> 16) & 0xFFFFu;
    size_t key = (size_t)(first >> 32) & 0xFFFFu, state = (size_t)(first >> 48), known = 8;
    *length = (size_t)(first & 0xFFu) * 8;
    known += (fields & MFQ_HAS_TIME) != 0 ? 8u : 0u;
    known += (fields & (MFQ_HAS_PRODUCER | MFQ_HAS_CARRIED_PRODUCER)) != 0 ? 16u : 0u;
    known += (fields & MFQ_HAS_TRACE) != 0 ? 32u : 0u;
    known += ((key + 7) & ~(size_t)7) + ((state + 7) & ~(size_t)7);
    return *length <= room && known <= *length && key <= 1024 && state <= 512
        && (key == 0 || (fields & MFQ_HAS_KEY) != 0) && (state == 0 || (fields & MFQ_HAS_TRACE) != 0)
        && (fields & (MFQ_HAS_PRODUCER | MFQ_HAS_CARRIED_PRODUCER)) != (MFQ_HAS_PRODUCER | MFQ_HAS_CARRIED_PRODUCER);
}

static uint64_t load_header(const struct place *p) {
    const uint8_t *at = p->segment.base + (p->offset - p->segment.start);
    return __atomic_load_n((const uint64_t *)(const void *)at, __ATOMIC_ACQUIRE);
}

/* ---- claims ---- */

/* The generation that a slot has now; the claim's own where there is no table, as in a copy of a store. */
static uint32_t generation_now(const mfq_reader *r, uint32_t owner) {
    struct stat status;
    uint32_t generation = owner & 0xFFFFFu;
    int fd = open_file(r->directory, "locks/slots", O_RDONLY, &status);
    if (fd < 0)
        return generation;
    if (read_at(fd, &generation, sizeof generation, (int64_t)(owner >> 20) * 16) != (ssize_t)sizeof generation)
        generation = owner & 0xFFFFFu;
    close(fd);
    return generation;
}

/* 1 when another open holds the file's lock, 0 when not or when the file is missing, -1 with errno. */
static int is_locked(const mfq_reader *r, const char *name, int kind, int *is_missing) {
    struct stat status;
    for (int tries = 0; tries < 1000; tries++) {
        int fd = open_file(r->directory, name, O_RDONLY, &status);
        *is_missing = fd < 0 && errno == ENOENT;
        if (fd < 0)
            return *is_missing ? 0 : -1;
        int taken = try_flock(fd, kind);
        int in_place = taken > 0 && is_in_place(r->directory, name, fd);
        close_fd(&fd);
        if (taken < 0)
            return -1;
        if (taken == 0 || in_place)
            return taken == 0;
    }
    errno = EAGAIN;
    return -1;
}

/*
 * A claim is in the way: MFQ_EMPTY while its owner may publish it, MFQ_OK when the place is to be looked at again, perhaps after
 * the claim. Its owner is dead when its slot's generation has moved on or its slot's lock is free. A dead owner publishes
 * nothing any more, so the claim is stepped over and left to those who repair.
 */
static mfq_status settle_claim(const mfq_reader *r, struct place *p, uint64_t claim, mfq_error *error) {
    uint32_t owner = (uint32_t)(claim >> 32), own = owner & 0xFFFFFu;
    struct record checkpoint;
    memset(&checkpoint, 0, sizeof checkpoint);
    if (!is_recovered(r)) {
        int is_valid = is_cold_block_valid(r);
        checkpoint = read_record(r, "offset/producer.checkpoint");
        if (is_valid || !checkpoint.is_there || !is_this_boot(r, checkpoint.boot))
            return p->offset < r->checkpoint ? corrupt(r, p, error, "a claim below the checkpoint") : MFQ_EMPTY;
    }
    uint32_t now = generation_now(r, owner);
    int64_t flushed = p->offset < find_log_start(r) ? 0 : max64(r->checkpoint, confirmed(r));
    if (own == 0 || own > now || (p->offset < flushed && load_header(p) == claim))
        return corrupt(r, p, error, "a claim that cannot be");
    if (own == now) {
        char name[32];
        int is_missing = 0;
        snprintf(name, sizeof name, "locks/slot-%04u", owner >> 20);
        int held = is_locked(r, name, LOCK_SH, &is_missing);
        if (held == 0 && is_missing) {
            if (faccessat(r->directory, "locks/slots", F_OK, 0) == 0)
                return fail(error, MFQ_E_DELETED, p->offset, "Lock files were removed: path=%.160s.", r->path);
            held = is_locked(r, "queue.meta", LOCK_EX, &is_missing);
        }
        if (held < 0)
            return fail_disk(r, error, p->offset, name);
        if (held > 0)
            return MFQ_EMPTY;
    }
    /* The owner may have published and gone between the look and the probe. */
    if (load_header(p) == claim)
        p->offset += frame_length((uint32_t)claim & LENGTH_MASK);
    return MFQ_OK;
}

/* ---- reading ---- */

/*
 * The frame of the next message from the place on, over padding and dead claims. MFQ_EMPTY at the end; CLAIM_MET at a living
 * claim. With `walks`, payloads are not verified and every claim is stepped over. The place stays before the message.
 */
static int find_message(const mfq_reader *r, struct place *p, int walks, mfq_message *message, int64_t *frame,
    mfq_error *error) {
    int64_t zero_at = -1;
    while (1) {
        int64_t room;
        mfq_status status = reach_header(r, p, &room, error);
        if (status < 0)
            return status;
        uint64_t header = status == MFQ_OK ? load_header(p) : 0;
        if (header == 0) {
            if (p->offset >= passed_to(r) || p->offset - p->offset % r->info.segment_length < find_log_start(r))
                return MFQ_EMPTY;
            /* It may have been published between the two looks; if the next one does not see it, it is lost. */
            if (zero_at == p->offset) {
                mfq_status replaced = check_replaced(r, error);
                return replaced != MFQ_OK ? replaced : corrupt(r, p, error, "messages are missing");
            }
            zero_at = p->offset;
            continue;
        }
        if (!is_plausible(header, room))
            return corrupt(r, p, error, "an impossible header");
        uint32_t low = (uint32_t)header, length = low & LENGTH_MASK, state = (low >> 28) & 7u;
        int64_t size = frame_length(length), at = p->offset - p->segment.start;
        if (state == CLAIMED && walks) {
            p->offset += size;
            continue;
        }
        if (state == CLAIMED) {
            status = settle_claim(r, p, header, error);
            if (status == MFQ_EMPTY)
                return CLAIM_MET;
            if (status != MFQ_OK)
                return status;
            continue;
        }
        if (at + size > p->segment.usable)
            return corrupt(r, p, error, "the file is too short");
        if (state == PADDING) {
            if (frame_crc(r, p->offset, low, no_payload, 0) != (uint32_t)(header >> 32))
                return corrupt(r, p, error, "a wrong checksum");
            p->offset += size;
            continue;
        }
        if (!walks || (low & EXTENDED) != 0) {
            if (at + size > p->bound) {
                status = raise_bound(r, p, p->bound, at + size, min64(p->limit, at + size + p->step), error);
                if (status != MFQ_OK)
                    return status;
            }
            const uint8_t *payload = p->segment.base + at + HEADER;
            size_t block = 0;
            if (!walks && frame_crc(r, p->offset, low, payload, length) != (uint32_t)(header >> 32))
                return corrupt(r, p, error, "a wrong checksum");
            if ((low & EXTENDED) != 0 && (length < 8 || !parse_block(word_at(payload), length, &block)))
                return corrupt(r, p, error, "an impossible header block");
            if (r->info.is_struct && length - block != (size_t)r->info.struct_size)
                return corrupt(r, p, error, "a message of another length");
            message->data = payload + block;
            message->length = length - block;
            message->block = block == 0 ? NULL : payload;
            message->block_length = block;
        }
        message->offset = p->offset;
        message->next = p->offset + size;
        *frame = size;
        return MFQ_OK;
    }
}

/* Whether a frame begins there, or the tail is there: the walk from the segment's first byte, or the one before, leads there. */
static int is_frame_start(const mfq_reader *r, int64_t offset) {
    int64_t length = r->info.segment_length, end, first = find_log_start(r);
    if (offset < first || offset % 8 != 0 || offset > OFFSET_MAX)
        return 0;
    if (offset == first)
        return 1;
    int64_t start = offset - offset % length;
    if (offset == start)
        start -= length;
    struct place p;
    begin_place(&p, start);
    while (p.offset < offset) {
        int64_t room;
        mfq_status status = reach_header(r, &p, &room, NULL);
        uint64_t header = status == MFQ_OK ? load_header(&p) : 0;
        if (header == 0 || !is_plausible(header, room))
            break;
        p.offset += frame_length((uint32_t)header & LENGTH_MASK);
    }
    end = p.offset;
    leave(&p);
    return end == offset;
}

/* The end of the published messages; at a claim, the claim's start. */
static mfq_status find_latest(const mfq_reader *r, int64_t *end, mfq_error *error) {
    struct place p;
    mfq_message message;
    int64_t frame;
    int status;
    begin_place(&p, max64(find_log_start(r), max64(r->checkpoint, confirmed(r))));
    while ((status = find_message(r, &p, 0, &message, &frame, error)) == MFQ_OK)
        p.offset += frame;
    *end = p.offset;
    leave(&p);
    return status < 0 ? (mfq_status)status : MFQ_OK;
}

static mfq_status find_start(const mfq_reader *r, int64_t start, int64_t *offset, mfq_error *error) {
    if (start == MFQ_LATEST)
        return find_latest(r, offset, error);
    *offset = start == MFQ_EARLIEST ? find_log_start(r) : start;
    if (start == MFQ_EARLIEST || is_frame_start(r, start))
        return MFQ_OK;
    return fail(error, MFQ_E_OUT_OF_RANGE, start, "The offset is neither a frame's start nor the tail: offset=%lld, path=%.110s.",
        (long long)start, r->path);
}

/* ---- cuts: a recovery may remove the end of the log under a reader that is not attached ---- */

static int64_t epoch_now(const mfq_reader *r) {
    int64_t epoch = r->control == NULL ? r->epoch : (int64_t)control(r, C_EPOCH);
    return epoch == r->epoch || is_cold_block_valid(r) ? epoch : r->epoch;
}

/* The lowest offset at which the log was cut since the epoch that the reader knows, as salvage/ tells it. */
static int64_t find_cut(const mfq_reader *r) {
    int64_t lowest = INT64_MAX;
    DIR *folder = open_folder(r->directory, "salvage");
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        long long start, tail, epoch;
        int length = 0;
        if (strlen(entry->d_name) < 100
            && sscanf(entry->d_name, "%20lld-from-%20lld-epoch-%18lld.cut%n", &start, &tail, &epoch, &length) == 3
            && length > 0 && entry->d_name[length] == '\0' && epoch > r->epoch)
            lowest = min64(lowest, (int64_t)tail);
    }
    if (folder != NULL)
        closedir(folder);
    return lowest;
}

static mfq_status go_on_after_cut(mfq_reader *r, mfq_error *error) {
    int64_t offset = r->place.offset, cut = find_cut(r);
    int64_t epoch = epoch_now(r);
    r->checkpoint = read_record(r, "offset/producer.checkpoint").offset;
    if (offset > cut || !is_frame_start(r, offset))
        return fail(error, MFQ_E_OUT_OF_RANGE, offset, "A recovery has cut the log below the reader: offset=%lld, path=%.110s.",
            (long long)offset, r->path);
    r->epoch = epoch;
    move_to(&r->place, offset);
    return MFQ_OK;
}

/* The usual case: a message without headers, in pages that were asked for. 0: look properly. */
static int read_next(mfq_reader *r, mfq_message *message) {
    struct place *p = &r->place;
    int64_t at = p->offset - p->segment.start;
    if (at + HEADER > p->bound)
        return 0;
    uint64_t header = load_header(p);
    uint32_t low = (uint32_t)header, length = low & LENGTH_MASK, kind = low ^ length;
    int64_t size = frame_length(length);
    const uint8_t *payload = p->segment.base + at + HEADER;
    if ((kind != (uint32_t)PUBLISHED << 28 && kind != (uint32_t)IN_BATCH << 28) || at + size > p->bound
        || (r->info.is_struct && length != (uint32_t)r->info.struct_size)
        || frame_crc(r, p->offset, low, payload, length) != (uint32_t)(header >> 32)
        /* After the look, as below. */
        || (r->control != NULL && (int64_t)control(r, C_EPOCH) != r->epoch))
        return 0;
    message->data = payload;
    message->length = length;
    message->offset = p->offset;
    message->next = p->offset + size;
    message->block = NULL;
    message->block_length = 0;
    r->in_hand = size;
    return 1;
}

mfq_status mfq_read(mfq_reader *r, mfq_message *message, mfq_error *error) {
    if (r == NULL || message == NULL)
        return fail(error, MFQ_E_ARGUMENT, -1, "A reader and a message are needed.");
    r->place.offset += r->in_hand;
    r->in_hand = 0;
    if (read_next(r, message))
        return MFQ_OK;
    memset(message, 0, sizeof *message);
    r->is_at_claim = 0;
    for (int cuts = 0;; cuts++) {
        int64_t frame = 0;
        int status = find_message(r, &r->place, 0, message, &frame, error);
        /* After the look: what is appended after a recovery becomes visible together with its epoch. */
        if (!r->is_consumer && cuts < 100 && epoch_now(r) != r->epoch) {
            mfq_status moved = go_on_after_cut(r, error);
            if (moved != MFQ_OK)
                return moved;
            continue;
        }
        r->is_at_claim = status == CLAIM_MET;
        if (status == MFQ_OK)
            r->in_hand = frame;
        return r->is_at_claim ? MFQ_EMPTY : (mfq_status)status;
    }
}

mfq_status mfq_seek(mfq_reader *r, int64_t start, mfq_error *error) {
    int64_t offset;
    if (r == NULL || (start < 0 && start != MFQ_EARLIEST && start != MFQ_LATEST))
        return fail(error, MFQ_E_ARGUMENT, start, "An offset is not negative.");
    r->epoch = epoch_now(r);
    mfq_status status = find_start(r, start, &offset, error);
    if (status != MFQ_OK)
        return status;
    r->in_hand = 0;
    move_to(&r->place, offset);
    return MFQ_OK;
}

int64_t mfq_offset(const mfq_reader *r) { return r->place.offset; }

void mfq_get_info(mfq_reader *r, mfq_info *info) {
    *info = r->info;
    info->first = find_log_start(r);
}

int mfq_get_headers(const mfq_message *message, mfq_headers *headers) {
    size_t length;
    memset(headers, 0, sizeof *headers);
    if (message->block == NULL || message->block_length < 8)
        return 0;
    const uint8_t *at = (const uint8_t *)message->block;
    uint64_t first = word_at(at);
    if (!parse_block(first, message->block_length, &length))
        return 0;
    uint32_t fields = (uint32_t)(first >> 16) & 0x1Fu;
    headers->fields = fields;
    at += 8;
    if ((fields & MFQ_HAS_TIME) != 0) {
        headers->time = (int64_t)word_at(at);
        at += 8;
    }
    if ((fields & (MFQ_HAS_PRODUCER | MFQ_HAS_CARRIED_PRODUCER)) != 0) {
        headers->producer = word_at(at);
        headers->sequence = word_at(at + 8);
        at += 16;
    }
    if ((fields & MFQ_HAS_TRACE) != 0) {
        headers->trace_id = at;
        headers->span_id = at + 16;
        headers->trace_flags = at[24];
        headers->trace_state = (const char *)at + 32;
        headers->trace_state_length = (size_t)(first >> 48);
        at += 32 + ((headers->trace_state_length + 7) & ~(size_t)7);
    }
    if ((fields & MFQ_HAS_KEY) != 0) {
        headers->key = at;
        headers->key_length = (size_t)(first >> 32) & 0xFFFFu;
    }
    return 1;
}

/* ---- waiting ---- */

/* Registration lasts for the life of the process; once is enough. */
static int is_registered(void) {
    static int registered;
    int known = __atomic_load_n(&registered, __ATOMIC_ACQUIRE);
    if (known == 0) {
        known = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0 ? 1 : -1;
        __atomic_store_n(&registered, known, __ATOMIC_RELEASE);
    }
    return known > 0;
}

/* Reaches the running threads of producers that publish without a barrier; 0 where that cannot be done. */
static int fence_producers(void) {
    return is_registered() && syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0;
}

/* The waiter's steps 1 to 3: the sequence, the flag above it, the fence. Gives how long one sleep may last. */
static int64_t prepare_sleep(const mfq_reader *r, uint64_t *sequence) {
    *sequence = control(r, C_SEQUENCE);
    uint64_t flag = control(r, C_FLAG);
    while ((flag & ~POISON) < *sequence + 1
        && !__atomic_compare_exchange_n(control_word(r, C_FLAG), &flag, (flag & POISON) | (*sequence + 1), 0, __ATOMIC_SEQ_CST,
            __ATOMIC_ACQUIRE)) {
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    /* Also when the flag was high enough: the waiter that raised it may not have reached its own fence yet. */
    if (control(r, C_FENCE) != 0 && !fence_producers())
        return 1;
    /* An opener that is alone may take away the flag of a reader that is not attached. */
    return !r->is_consumer || control(r, C_POLLERS) != 0 ? 100 : 1000;
}

mfq_status mfq_wait(mfq_reader *r, mfq_message *message, int timeout_ms, mfq_error *error) {
    mfq_status status = mfq_read(r, message, error);
    if (status != MFQ_EMPTY || timeout_ms == 0)
        return status;
    if (!r->is_writable && !r->is_wait_tried) {
        r->is_wait_tried = 1;
        status = map_control(r, 1, error);
        if (status != MFQ_OK)
            return status;
    }
    int64_t end = now_ms() + timeout_ms, pause = 1, checked = now_ms();
    while (1) {
        uint64_t sequence = 0;
        int64_t sleep = r->is_writable ? prepare_sleep(r, &sequence) : pause;
        status = mfq_read(r, message, error);
        if (status != MFQ_EMPTY)
            return status;
        int64_t now = now_ms();
        if (timeout_ms >= 0 && now >= end)
            return MFQ_EMPTY;
        if (now - checked >= 1000) {
            status = check_replaced(r, error);
            if (status != MFQ_OK)
                return status;
            checked = now;
        }
        /* A dead owner of a claim wakes nobody. */
        sleep = r->is_at_claim ? min64(sleep, 2) : sleep;
        sleep = timeout_ms >= 0 ? min64(sleep, end - now) : sleep;
        if (r->is_writable) {
            struct timespec limit;
            limit.tv_sec = (time_t)(sleep / 1000);
            limit.tv_nsec = (long)(sleep % 1000) * 1000000;
            /* Not the private kind: the word is known by file and position. */
            (void)syscall(SYS_futex, control_word(r, C_SEQUENCE), FUTEX_WAIT, (uint32_t)sequence, &limit, NULL, 0);
        } else {
            sleep_ms(sleep);
            pause = min64(pause * 2, 10);
        }
    }
}

/* ---- opening and closing ---- */

static mfq_status open_store(const char *path, mfq_reader **result, mfq_error *error) {
    if (path == NULL || path[0] == '\0')
        return fail(error, MFQ_E_ARGUMENT, -1, "A path is needed.");
    mfq_reader *r = (mfq_reader *)calloc(1, sizeof *r);
    if (r == NULL)
        return fail(error, MFQ_E_NO_MEMORY, -1, "There is no memory.");
    r->directory = r->meta_fd = r->attached = r->meta_lock = r->name_lock = r->cursor_fd = -1;
    begin_place(&r->place, 0);
    r->path = realpath(path, NULL);
    if (r->path != NULL)
        r->directory = open(r->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r->directory < 0) {
        mfq_status status = errno == ENOENT || errno == ENOTDIR
            ? fail(error, MFQ_E_NOT_FOUND, -1, "There is no store: path=%.180s.", path)
            : fail(error, MFQ_E_DISK, -1, "The folder cannot be opened: errno=%d, path=%.160s.", errno, path);
        mfq_close(r);
        return status;
    }
    mfq_status status = read_meta(r, error);
    if (status != MFQ_OK) {
        mfq_close(r);
        return status;
    }
    find_boot(r);
    *result = r;
    return MFQ_OK;
}

mfq_status mfq_reader_open(const char *path, int64_t start, mfq_reader **reader, mfq_error *error) {
    mfq_reader *r = NULL;
    if (reader == NULL)
        return fail(error, MFQ_E_ARGUMENT, -1, "A place for the reader is needed.");
    *reader = NULL;
    mfq_status status = open_store(path, &r, error);
    if (status != MFQ_OK)
        return status;
    status = map_control(r, 0, error);
    if (status == MFQ_OK) {
        struct record checkpoint = read_record(r, "offset/producer.checkpoint");
        r->checkpoint = checkpoint.offset;
        r->epoch = checkpoint.epoch;
        status = mfq_seek(r, start, error);
    }
    if (status != MFQ_OK) {
        mfq_close(r);
        return status;
    }
    *reader = r;
    return MFQ_OK;
}

void mfq_close(mfq_reader *r) {
    if (r == NULL)
        return;
    leave(&r->place);
    if (r->cursor != NULL)
        munmap(r->cursor, PAGE);
    if (r->control != NULL)
        munmap(r->control, PAGE);
    close_fd(&r->cursor_fd);
    close_fd(&r->name_lock);
    close_fd(&r->attached);
    close_fd(&r->meta_lock);
    close_fd(&r->meta_fd);
    close_fd(&r->directory);
    free(r->path);
    free(r);
}

/* ---- cursors ---- */

static uint64_t cursor_word(int64_t offset) {
    uint64_t word = (uint64_t)offset | 1;
    return word | ((word * CURSOR_FACTOR) & CURSOR_CHECK);
}

/* MFQ_EMPTY for a cursor that has no offset yet. */
static mfq_status parse_cursor(const mfq_reader *r, uint64_t word, const char *name, int64_t *offset, mfq_error *error) {
    if (word == CURSOR_NEW)
        return MFQ_EMPTY;
    *offset = (int64_t)(word & ~(CURSOR_CHECK | 1));
    if (*offset % 8 == 0 && word == cursor_word(*offset))
        return MFQ_OK;
    return fail(error, MFQ_E_CORRUPT, -1, "The stored offset is damaged: file=%s, path=%.80s.", name, r->path);
}

/* The lower-case name, with its folder and ending; 0 for a name that no consumer may have. */
static int name_consumer(const char *name, const char *before, const char *after, char *result, size_t size) {
    char lower[NAME_MAX_LENGTH + 1];
    size_t length = name == NULL ? SIZE_MAX : strlen(name);
    if (length > NAME_MAX_LENGTH)
        return 0;
    for (size_t i = 0; i <= length; i++) {
        char c = name[i];
        lower[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
        if (i < length && !(lower[i] >= 'a' && lower[i] <= 'z') && !(c >= '0' && c <= '9') && c != '.' && c != '_' && c != '-')
            return 0;
    }
    snprintf(result, size, "%s%s%s", before, lower, after);
    return 1;
}

static int name_cursor(const char *name, char *result, size_t size) {
    return name != NULL && name[0] == '\0' ? snprintf(result, size, "offset/consumer.cursor") > 0
        : name_consumer(name, "offset/consumers/", ".cursor", result, size);
}

mfq_status mfq_stored_offset(mfq_reader *r, const char *name, int64_t *offset, mfq_error *error) {
    char file[NAME_MAX_LENGTH + 40];
    struct stat status;
    uint64_t word = 0;
    *offset = -1;
    if (!name_cursor(name, file, sizeof file))
        return fail(error, MFQ_E_ARGUMENT, -1, "A consumer's name is up to 100 characters of A-Z a-z 0-9 . _ -");
    int fd = open_file(r->directory, file, O_RDONLY, &status);
    if (fd < 0)
        return errno == ENOENT ? MFQ_EMPTY : fail_disk(r, error, -1, file);
    ssize_t n = read_at(fd, &word, sizeof word, 0);
    if (n < 0)
        fail_disk(r, error, -1, file);
    close(fd);
    return n < 0 ? MFQ_E_DISK : parse_cursor(r, n < (ssize_t)sizeof word ? 0 : word, file, offset, error);
}

/* ---- locks ---- */

/* What this process makes has the mode of queue.meta, and its owner and group where the process may give them. */
static void adopt(const mfq_reader *r, int fd, mode_t mode) {
    if (fchown(fd, geteuid() == 0 ? r->meta_stat.st_uid : (uid_t)-1, r->meta_stat.st_gid) != 0) {
        /* Not allowed; the mode is what counts. */
    }
    (void)fchmod(fd, mode);
}

static int open_or_make(const mfq_reader *r, const char *name, struct stat *status) {
    for (int tries = 0; tries < 100; tries++) {
        int fd = open_file(r->directory, name, O_RDWR, status);
        if (fd >= 0 || errno != ENOENT)
            return fd;
        fd = openat(r->directory, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd >= 0) {
            adopt(r, fd, r->meta_stat.st_mode & 0666);
            (void)fstat(fd, status);
            return fd;
        }
        if (errno != EEXIST)
            return -1;
    }
    return -1;
}

/* A descriptor that holds the lock; -1 when another open holds it (errno 0) or on an error. */
static int try_lock(const mfq_reader *r, const char *name, int kind) {
    struct stat status;
    for (int tries = 0; tries < 1000; tries++) {
        int fd = open_or_make(r, name, &status);
        if (fd < 0)
            return -1;
        int taken = try_flock(fd, kind);
        /* Between open and flock the name may have come to mean another file. */
        if (taken > 0 && is_in_place(r->directory, name, fd))
            return fd;
        int code = errno;
        close_fd(&fd);
        if (taken <= 0) {
            errno = taken == 0 ? 0 : code;
            return -1;
        }
    }
    errno = EAGAIN;
    return -1;
}

static int lock(const mfq_reader *r, const char *name, int kind, int64_t patience_ms) {
    int64_t end = now_ms() + patience_ms;
    while (1) {
        int fd = try_lock(r, name, kind);
        if (fd >= 0 || errno != 0 || now_ms() >= end)
            return fd;
        sleep_ms(1);
    }
}

static mfq_status fail_lock(const mfq_reader *r, mfq_error *error, const char *name) {
    return errno != 0 ? fail_disk(r, error, -1, name)
        : fail(error, MFQ_E_IN_USE, -1, "Another process holds the lock: file=%s, path=%.80s.", name, r->path);
}

static mfq_status refuse_file_system(const mfq_reader *r, mfq_error *error) {
    static const uint32_t unsafe[] = {0x6969, 0x517B, 0xFF534D42, 0xFE534D42, 0x65735546, 0x01021997, 0x00C36400, 0x5346414F,
        0x6B414653, 0x73757245, 0x564C, 0x01161970, 0x7461636F, 0x0BD00BD0, 0x47504653, 0x19830326, 0x786F4256, 0xBACBACBC};
    struct statfs state;
    if (fstatfs(r->directory, &state) != 0)
        return fail_disk(r, error, -1, ".");
    for (size_t i = 0; i < sizeof unsafe / sizeof unsafe[0]; i++)
        if ((uint32_t)state.f_type == unsafe[i])
            return fail(error, MFQ_E_FORMAT, -1, "Locks and shared mappings are not dependable on this file system: path=%.120s.",
                r->path);
    return MFQ_OK;
}

/* ---- attaching ---- */

/* When queue.meta was made, as the control page has it: 100 ns since 0001-01-01 UTC; 0 where the system does not tell. */
static uint64_t meta_birth(const mfq_reader *r) {
    struct statx state;
    if (statx(r->meta_fd, "", AT_EMPTY_PATH, STATX_BTIME, &state) != 0 || (state.stx_mask & STATX_BTIME) == 0)
        return 0;
    return ((uint64_t)state.stx_btime.tv_sec + UINT64_C(62135596800)) * UINT64_C(10000000) + state.stx_btime.tv_nsec / 100;
}

static int is_other_file(const mfq_reader *r) {
    uint64_t inode = control(r, C_META_INODE), birth = control(r, C_META_BIRTH), own_birth = meta_birth(r);
    return (inode != 0 && inode != r->meta_stat.st_ino) || (birth != 0 && own_birth != 0 && birth != own_birth);
}

/* Whether every cursor is at or before the end, and none is damaged. */
static int are_cursors_within(mfq_reader *r, int64_t end) {
    int64_t offset;
    mfq_status status = mfq_stored_offset(r, "", &offset, NULL);
    int within = status >= 0 && offset <= end;
    DIR *folder = open_folder(r->directory, "offset/consumers");
    for (struct dirent *entry; within && folder != NULL && (entry = readdir(folder)) != NULL;) {
        char name[NAME_MAX_LENGTH + 1];
        size_t length = strlen(entry->d_name);
        if (length < 7 || length - 7 > NAME_MAX_LENGTH || strcmp(entry->d_name + length - 7, ".cursor") != 0)
            continue;
        memcpy(name, entry->d_name, length - 7);
        name[length - 7] = '\0';
        status = mfq_stored_offset(r, name, &offset, NULL);
        within = status >= 0 && offset <= end;
    }
    if (folder != NULL)
        closedir(folder);
    return within;
}

/* Whether the log ends at or after everything that was seen published, in whole batches, and nothing is after its end. */
static int is_log_clean(mfq_reader *r) {
    struct place p;
    mfq_message message;
    int64_t frame, length = r->info.segment_length;
    int status, is_open_batch = 0;
    begin_place(&p, max64(find_log_start(r), r->checkpoint));
    while ((status = find_message(r, &p, 0, &message, &frame, NULL)) == MFQ_OK) {
        is_open_batch = (((uint32_t)load_header(&p) >> 28) & 7u) == IN_BATCH;
        p.offset += frame;
    }
    int64_t end = p.offset;
    leave(&p);
    uint64_t allocated = control(r, C_ALLOCATED);
    if (status != MFQ_EMPTY || is_open_batch || allocated > (uint64_t)OFFSET_MAX || (uint64_t)end < control(r, C_TAIL)
        || (uint64_t)end < control(r, C_CONFIRMED) || (uint64_t)end < control(r, C_FLUSHED) || !are_cursors_within(r, end))
        return 0;
    for (int64_t at = end; at < (int64_t)allocated;) {
        char name[48];
        struct stat state;
        int64_t start = at - at % length;
        segment_name(name, sizeof name, start);
        int fd = open_file(r->directory, name, O_RDONLY, &state);
        if (fd < 0)
            return errno == ENOENT && at % length == 0;
        int found = has_data(fd, at - start, min64((int64_t)allocated - start, length));
        close(fd);
        if (found)
            return 0;
        at = start + length;
    }
    return 1;
}

/*
 * Nobody else is here. Recovery is left to C#: this process may join only where a recovery would change nothing. The boot is the
 * one in which the store was recovered last, no flush has failed, no claim is open, no Exclusive producer died at work, and
 * nothing says that memory was lost.
 */
static int needs_recovery(mfq_reader *r) {
    struct place p;
    if (!is_cold_block_valid(r) || control(r, C_STAGE) != 1 || !is_this_boot(r, r->control + C_BOOT)
        || control(r, C_EXCLUSIVE) != 0 || control(r, C_CORRUPT) != 0 || (control(r, C_FLAG) & POISON) != 0
        || faccessat(r->directory, "poison", F_OK, 0) == 0 || is_other_file(r)
        /* Made by an opener that is alone, before anybody takes them. */
        || faccessat(r->directory, "locks/slots", F_OK, 0) != 0 || faccessat(r->directory, "locks/producers", F_OK, 0) != 0)
        return 1;
    /* A claim is seen as such: a walk that steps over dead ones would hide it. */
    begin_place(&p, max64(find_log_start(r), r->checkpoint));
    int has_claim = 0;
    while (!has_claim) {
        int64_t room;
        uint64_t header = reach_header(r, &p, &room, NULL) == MFQ_OK ? load_header(&p) : 0;
        if (header == 0 || !is_plausible(header, room))
            break;
        has_claim = (((uint32_t)header >> 28) & 7u) == CLAIMED;
        p.offset += frame_length((uint32_t)header & LENGTH_MASK);
    }
    leave(&p);
    uint64_t tail = control(r, C_TAIL);
    return has_claim || tail > (uint64_t)OFFSET_MAX || !is_frame_start(r, (int64_t)tail) || !is_log_clean(r);
}

static mfq_status map_control_attached(mfq_reader *r, mfq_error *error) {
    mfq_status status = map_control(r, 1, error);
    if (status == MFQ_OK && (r->control == NULL || !r->is_writable))
        return fail(error, MFQ_E_RECOVERY, -1, "The control page is missing or cannot be written: path=%.140s.", r->path);
    return status;
}

/* By the rules of docs/DESIGN.md, section 3: under `open`, alone or beside processes that have recovered the store. */
static mfq_status attach_locked(mfq_reader *r, mfq_error *error) {
    int64_t end = now_ms() + 30000;
    int is_alone = 0;
    for (int was_shared = 0;;) {
        r->attached = try_lock(r, "locks/attached", LOCK_EX);
        is_alone = r->attached >= 0;
        if (is_alone)
            break;
        if (errno == 0)
            r->attached = lock(r, "locks/attached", LOCK_SH, max64(0, end - now_ms()));
        if (r->attached < 0)
            return fail_lock(r, error, "locks/attached");
        if (was_shared) {
            mfq_status status = map_control_attached(r, NULL);
            if (status == MFQ_OK && control(r, C_STAGE) == 1) {
                int is_missing;
                if (is_this_boot(r, r->control + C_BOOT) || is_locked(r, "queue.meta", LOCK_EX, &is_missing) == 1)
                    break;
            }
            if (now_ms() >= end)
                return fail(error, MFQ_E_IN_USE, -1, "The store is attached, but was not recovered: path=%.150s.", r->path);
        }
        close_fd(&r->attached);
        if (was_shared)
            sleep_ms(1);
        was_shared = 1;
    }
    /* A lock file may have been removed while it was held, so the meta page carries the same lock. */
    for (int64_t patience = now_ms() + 5000;;) {
        struct stat status;
        int fd = open_file(r->directory, "queue.meta", O_RDONLY, &status);
        int taken = fd < 0 ? -1 : try_flock(fd, is_alone ? LOCK_EX : LOCK_SH);
        if (taken > 0 && is_same_file(&status, &r->meta_stat)) {
            r->meta_lock = fd;
            break;
        }
        close_fd(&fd);
        if (taken != 0)
            return fail(error, MFQ_E_DELETED, -1, "The store was deleted while it was being opened: path=%.140s.", r->path);
        if (now_ms() >= patience)
            return fail(error, MFQ_E_IN_USE, -1, "Lock files were removed while others have the store open: path=%.120s.",
                r->path);
        sleep_ms(1);
    }
    mfq_status status = map_control_attached(r, error);
    if (status != MFQ_OK)
        return status;
    struct record checkpoint = read_record(r, "offset/producer.checkpoint");
    r->checkpoint = checkpoint.offset;
    if (is_alone && needs_recovery(r))
        return fail(error, MFQ_E_RECOVERY, -1, "The store needs a recovery: open it once from C#, path=%.140s.", r->path);
    r->epoch = (int64_t)control(r, C_EPOCH);
    r->is_consumer = 1;
    if (is_alone) {
        /* Never waits long: it is taken exclusively under `open` only, and a probe releases it at once. */
        while (flock(r->meta_lock, LOCK_SH) != 0 || flock(r->attached, LOCK_SH) != 0)
            if (errno != EINTR)
                return fail_disk(r, error, -1, "locks/attached");
    }
    /* A cleaner of temporary files leaves a locked folder alone. */
    (void)try_flock(r->directory, LOCK_SH);
    return MFQ_OK;
}

static mfq_status attach(mfq_reader *r, mfq_error *error) {
    struct stat former;
    mfq_status status = refuse_file_system(r, error);
    if (status != MFQ_OK)
        return status;
    /* A rename that does not replace leaves two names, where it is a link and an unlink. */
    if (r->meta_stat.st_nlink > 1
        && (fstatat(r->directory, "queue.meta.tmp", &former, 0) != 0 || !is_same_file(&former, &r->meta_stat))
        && (fstatat(r->directory, "queue.meta.snapshot", &former, 0) != 0 || !is_same_file(&former, &r->meta_stat)))
        return fail(error, MFQ_E_FORMAT, -1, "The store shares its files with another one, as `cp -al` makes them: path=%.120s.",
            r->path);
    if (mkdirat(r->directory, "locks", 0700) == 0) {
        mode_t mode = r->meta_stat.st_mode & 0666;
        int fd = openat(r->directory, "locks", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0) {
            adopt(r, fd, mode | ((mode | mode >> 1) & 0222) >> 1);
            close(fd);
        }
    }
    int opening = lock(r, "locks/open", LOCK_EX, 30000);
    if (opening < 0)
        return fail_lock(r, error, "locks/open");
    int second = try_lock(r, "locks/open", LOCK_EX);
    if (second >= 0) {
        status = fail(error, MFQ_E_FORMAT, -1, "File locks do not work here: path=%.160s.", r->path);
        close_fd(&second);
    } else {
        status = attach_locked(r, error);
    }
    close_fd(&opening);
    return status;
}

/* ---- consumers ---- */

/* The waker's steps after a change that is visible: the flag, the sequence, all sleepers, the flag as it was read. */
static void wake(const mfq_reader *r, int sequence_at, int flag_at) {
    uint64_t flag = control(r, flag_at);
    if ((flag & ~POISON) == 0)
        return;
    __atomic_add_fetch(control_word(r, sequence_at), 1, __ATOMIC_SEQ_CST);
    (void)syscall(SYS_futex, control_word(r, sequence_at), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    (void)__atomic_compare_exchange_n(control_word(r, flag_at), &flag, flag & POISON, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* Producers may wait until consumers are further. */
static void wake_producers(const mfq_reader *r) { wake(r, C_ROOM_SEQUENCE, C_ROOM_FLAG); }

/*
 * Stores an offset that may be below the one before. A removal of segments raises the log start, then reads the cursors again;
 * this stores the cursor, then reads the log start: one of the two sees the other. 0: what is there is removed, or may be.
 */
static int store_cursor(const mfq_reader *r, int64_t offset) {
    __atomic_store_n(r->cursor, cursor_word(offset), __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    wake_producers(r);
    return offset >= find_log_start(r);
}

static mfq_status removed(const mfq_reader *r, int64_t offset, mfq_error *error) {
    return fail(error, MFQ_E_OUT_OF_RANGE, offset, "The messages here were removed: offset=%lld, file=%s, path=%.50s.",
        (long long)offset, r->cursor_name, r->path);
}

/* Makes the cursor's file under another name, so that it is never seen half-made; the name's lock is held. */
static mfq_status make_cursor(const mfq_reader *r, mfq_error *error) {
    static const uint64_t word = CURSOR_NEW;
    uint8_t page[PAGE] = {0};
    char temporary[NAME_MAX_LENGTH + 48];
    memcpy(page, &word, sizeof word);
    snprintf(temporary, sizeof temporary, "%s.tmp", r->cursor_name);
    (void)unlinkat(r->directory, temporary, 0);
    int fd = openat(r->directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return fail_disk(r, error, -1, temporary);
    adopt(r, fd, r->meta_stat.st_mode & 0666);
    ssize_t n = pwrite(fd, page, sizeof page, 0);
    if (n >= 0 && n != (ssize_t)sizeof page)
        errno = ENOSPC;
    if (n != (ssize_t)sizeof page || fsync(fd) != 0 || renameat(r->directory, temporary, r->directory, r->cursor_name) != 0) {
        fail_disk(r, error, -1, temporary);
        close(fd);
        (void)unlinkat(r->directory, temporary, 0);
        return MFQ_E_DISK;
    }
    close(fd);
    return MFQ_OK;
}

static mfq_status open_cursor(mfq_reader *r, const char *name, mfq_error *error) {
    char lock_name[NAME_MAX_LENGTH + 40];
    struct stat state;
    struct flock range;
    if (!name_cursor(name, r->cursor_name, sizeof r->cursor_name)
        || !name_consumer(name, "locks/consumer-", "", lock_name, sizeof lock_name))
        return fail(error, MFQ_E_ARGUMENT, -1, "A consumer's name is up to 100 characters of A-Z a-z 0-9 . _ -");
    /* `info` probes it for a moment, and a killed process releases its locks one by one. */
    r->name_lock = lock(r, lock_name, LOCK_EX, 1000);
    if (r->name_lock < 0)
        return fail_lock(r, error, lock_name);
    /* With the name held: its lock may be a new file. */
    if (!is_in_place(r->directory, "locks/attached", r->attached))
        return fail(error, MFQ_E_DELETED, -1, "Lock files were removed while the store was open: path=%.140s.", r->path);
    r->cursor_fd = open_file(r->directory, r->cursor_name, O_RDWR, &state);
    if (r->cursor_fd < 0 && errno == ENOENT) {
        mfq_status status = make_cursor(r, error);
        if (status != MFQ_OK)
            return status;
        r->cursor_fd = open_file(r->directory, r->cursor_name, O_RDWR, &state);
    }
    if (r->cursor_fd < 0)
        return fail_disk(r, error, -1, r->cursor_name);
    if (state.st_size < PAGE) {
        uint8_t zeros[PAGE] = {0};
        size_t missing = (size_t)(PAGE - state.st_size);
        if (pwrite(r->cursor_fd, zeros, missing, state.st_size) != (ssize_t)missing)
            return fail_disk(r, error, -1, r->cursor_name);
    }
    /* The cursor itself, in case the file of its name's lock was removed under another holder. */
    memset(&range, 0, sizeof range);
    range.l_type = F_WRLCK;
    range.l_start = INT64_MAX - 1;
    range.l_len = 1;
    for (int64_t end = now_ms() + 5000; fcntl(r->cursor_fd, F_OFD_SETLK, &range) != 0;) {
        if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP || errno == ENOLCK)
            break;
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return fail_disk(r, error, -1, r->cursor_name);
        if (now_ms() >= end)
            return fail(error, MFQ_E_IN_USE, -1, "Another consumer holds the cursor: file=%s, path=%.60s.", r->cursor_name,
                r->path);
        sleep_ms(1);
    }
    /* Before an offset is stored: producers with a limit list the cursors again. */
    __atomic_add_fetch(control_word(r, C_CONSUMERS), 1, __ATOMIC_SEQ_CST);
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, r->cursor_fd, 0);
    if (page == MAP_FAILED)
        return fail_disk(r, error, -1, r->cursor_name);
    r->cursor = (uint64_t *)page;
    return MFQ_OK;
}

/* A stored offset is believed if it is the tail, or a whole frame is there, or a walk from its segment's first byte meets it. */
static mfq_status place_consumer(mfq_reader *r, int64_t start, mfq_error *error) {
    int64_t offset = 0;
    uint64_t word = __atomic_load_n(r->cursor, __ATOMIC_ACQUIRE);
    mfq_status stored = parse_cursor(r, word, r->cursor_name, &offset, error);
    if (stored < 0)
        return stored;
    for (int tries = 0; tries < 100; tries++) {
        if (stored == MFQ_EMPTY) {
            mfq_status status = find_start(r, start, &offset, error);
            if (status != MFQ_OK)
                return status;
        } else if (offset < find_log_start(r)) {
            return removed(r, offset, error);
        } else if ((uint64_t)offset != control(r, C_TAIL) && !is_frame_start(r, offset)) {
            return fail(error, MFQ_E_CORRUPT, offset,
                "The stored offset is not a frame's start: offset=%lld, file=%s, path=%.40s.", (long long)offset,
                r->cursor_name, r->path);
        }
        move_to(&r->place, offset);
        if (store_cursor(r, offset))
            return MFQ_OK;
        if (stored == MFQ_OK)
            return removed(r, offset, error);
        /* Segments were removed meanwhile: where a new consumer starts is another place now. */
    }
    return removed(r, offset, error);
}

mfq_status mfq_consumer_open(const char *path, const char *name, int64_t start, mfq_reader **consumer, mfq_error *error) {
    mfq_reader *r = NULL;
    if (consumer == NULL || (start < 0 && start != MFQ_EARLIEST && start != MFQ_LATEST))
        return fail(error, MFQ_E_ARGUMENT, -1, "A place for the consumer and a start are needed.");
    *consumer = NULL;
    mfq_status status = open_store(path, &r, error);
    if (status != MFQ_OK)
        return status;
    if ((status = attach(r, error)) == MFQ_OK && (status = open_cursor(r, name, error)) == MFQ_OK
        && (status = place_consumer(r, start, error)) == MFQ_OK)
        /* It holds retention back, after a power loss too. */
        status = mfq_flush(r, error);
    if (status != MFQ_OK) {
        mfq_close(r);
        return status;
    }
    *consumer = r;
    return MFQ_OK;
}

mfq_status mfq_commit(mfq_reader *r, mfq_error *error) {
    if (r == NULL || r->cursor == NULL)
        return fail(error, MFQ_E_ARGUMENT, -1, "Only a consumer commits.");
    int64_t offset = r->place.offset + r->in_hand;
    __atomic_store_n(r->cursor, cursor_word(offset), __ATOMIC_RELEASE);
    if (control(r, C_MAY_WAIT) != 0) {
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        wake_producers(r);
    }
    return (uint64_t)offset < control(r, C_LOG_START) ? removed(r, offset, error) : MFQ_OK;
}

mfq_status mfq_flush(mfq_reader *r, mfq_error *error) {
    if (r == NULL || r->cursor == NULL)
        return fail(error, MFQ_E_ARGUMENT, -1, "Only a consumer has something to flush.");
    if (fdatasync(r->cursor_fd) != 0) {
        /* The system takes the page for clean now; an exchange with what is there makes it dirty again. */
        uint64_t word = __atomic_load_n(r->cursor, __ATOMIC_ACQUIRE);
        int code = errno;
        (void)__atomic_compare_exchange_n(r->cursor, &word, word, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
        errno = code;
        return fail_disk(r, error, -1, r->cursor_name);
    }
    int folder = openat(r->directory, strchr(r->cursor_name + 7, '/') == NULL ? "offset" : "offset/consumers",
        O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int is_synced = folder >= 0 && fsync(folder) == 0;
    mfq_status status = is_synced ? MFQ_OK : fail_disk(r, error, -1, "offset");
    if (folder >= 0)
        close(folder);
    return status == MFQ_OK ? check_replaced(r, error) : status;
}

/* ---- the producer: Exclusive mode, at PageCache (docs/DESIGN.md, sections 1 and 2) ---- */

enum { FIRST_BLOCKS = 256 << 10, BLOCK_STEP = 1 << 20, PIECE = 2 << 20, SLOTS = 4096, GENERATION_MAX = 0xFFFFF };

struct mfq_producer {
    mfq_reader *store;
    int lock;              /* `producers`, exclusively */
    int slot_lock;
    int slot;
    uint32_t generation;
    uint8_t *slots;
    struct place lane;     /* mapped for writing; its bound covers the pages that were asked for */
    int has_started;
    int is_marked;         /* "exclusive at work" was set by this producer */
    int is_dirty;          /* bytes beyond the tail may be left */
    int fences;            /* waiters cannot reach this process's threads: each publish is an exchange */
    unsigned made;
    char id[33];           /* of its temporary files */
};

static void raise_to(const mfq_reader *r, int at, int64_t value) {
    uint64_t now = control(r, at);
    while (now < (uint64_t)value
        && !__atomic_compare_exchange_n(control_word(r, at), &now, (uint64_t)value, 0, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE)) {
    }
}

static mfq_status poisoned(const mfq_reader *r, mfq_error *error) {
    return fail(error, MFQ_E_RECOVERY, -1, "A flush of the store has failed: close it in every process, then open it from C#: "
        "path=%.110s.", r->path);
}

/* A sync failed: nothing is durable any more, in any process, until the store was recovered. */
static mfq_status poison(const mfq_reader *r, mfq_error *error) {
    mfq_status status = fail_disk(r, error, -1, "commitlog");
    __atomic_or_fetch(control_word(r, C_FLAG), POISON, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(control_word(r, C_SEQUENCE), 1, __ATOMIC_SEQ_CST);
    (void)syscall(SYS_futex, control_word(r, C_SEQUENCE), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    int fd = openat(r->directory, "poison", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) {
        adopt(r, fd, r->meta_stat.st_mode & 0666);
        close(fd);
    }
    return status;
}

/* One of the four words of the cold block, under `open`: the block is valid before and after, wherever the process dies. */
static void set_cold_word(const mfq_reader *r, int at, uint64_t value) {
    uint32_t stored, now = cold_sum(r, -1, 0), next = cold_sum(r, at, value);
    memcpy(&stored, r->control + C_NEXT_SUM, 4);
    if (stored != 0 && stored == now)
        memcpy(r->control + C_SUM, &now, 4);
    memcpy(r->control + C_NEXT_SUM, &next, 4);
    __atomic_store_n(control_word(r, at), value, __ATOMIC_RELEASE);
    now = cold_sum(r, -1, 0);
    memcpy(r->control + C_SUM, &now, 4);
    memset(r->control + C_NEXT_SUM, 0, 4);
}

/* ---- segments and their blocks ---- */

/* The names of segments that start below an offset are on disk before anything is appended there. */
static mfq_status flush_names(const mfq_reader *r, int64_t start, mfq_error *error) {
    if (control(r, C_NAMES_FLUSHED) > (uint64_t)start)
        return MFQ_OK;
    int folder = openat(r->directory, "commitlog", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return fail_disk(r, error, -1, "commitlog");
    int code = fsync(folder) == 0 ? 0 : errno;
    close(folder);
    if (code != 0) {
        errno = code;
        return poison(r, error);
    }
    raise_to(r, C_NAMES_FLUSHED, start + 1);
    return MFQ_OK;
}

static int allocate(int fd, int64_t position, int64_t length) {
    while (length > 0 && fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)position, (off_t)length) != 0)
        if (errno != EINTR)
            return -1;
    return 0;
}

/* Under a temporary name, synced, then its real one without replacing: another maker may be faster. */
static mfq_status make_file(mfq_producer *p, const char *name, int64_t blocks, mfq_error *error) {
    const mfq_reader *r = p->store;
    char temporary[128];
    snprintf(temporary, sizeof temporary, "%s.%04d-%u-%s-%u.tmp", name, p->slot, p->generation, p->id, ++p->made);
    int fd = openat(r->directory, temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return fail_disk(r, error, -1, temporary);
    adopt(r, fd, r->meta_stat.st_mode & 0666);
    mfq_status status = MFQ_OK;
    if (ftruncate(fd, (off_t)r->info.segment_length) != 0 || allocate(fd, 0, blocks) != 0 || fdatasync(fd) != 0)
        status = fail_disk(r, error, -1, temporary);
    close(fd);
    int prepare = status == MFQ_OK ? lock(r, "locks/prepare", LOCK_SH, 30000) : -1;
    if (status == MFQ_OK && prepare < 0)
        status = fail_lock(r, error, "locks/prepare");
    if (status == MFQ_OK && renameat2(r->directory, temporary, r->directory, name, RENAME_NOREPLACE) != 0) {
        /* Some file systems cannot; a link never replaces either. */
        if (errno != EINVAL || linkat(r->directory, temporary, r->directory, name, 0) != 0)
            status = errno == EEXIST ? MFQ_EMPTY : fail_disk(r, error, -1, name);
        (void)unlinkat(r->directory, temporary, 0);
    } else if (status != MFQ_OK) {
        (void)unlinkat(r->directory, temporary, 0);
    }
    close_fd(&prepare);
    return status;
}

/* Makes the segment that starts there unless it exists; `blocks` is up to where it certainly has blocks. */
static mfq_status make_segment(mfq_producer *p, int64_t start, int64_t wanted, int64_t *blocks, mfq_error *error) {
    const mfq_reader *r = p->store;
    char name[48];
    struct stat state;
    *blocks = min64(max64(wanted, FIRST_BLOCKS), r->info.segment_length);
    segment_name(name, sizeof name, start);
    for (int tries = 0; tries < 100; tries++) {
        int fd = open_file(r->directory, name, O_RDWR, &state);
        if (fd >= 0) {
            int code = allocate(fd, 0, *blocks) == 0 ? 0 : errno;
            close(fd);
            if (state.st_size < r->info.segment_length)
                return fail(error, MFQ_E_CORRUPT, start, "A segment is too short: file=%s, path=%.140s.", name, r->path);
            errno = code;
            return code == 0 ? flush_names(r, start, error) : fail_disk(r, error, start, name);
        }
        if (errno != ENOENT)
            return fail_disk(r, error, start, name);
        mfq_status status = make_file(p, name, *blocks, error);
        if (status < 0)
            return status;
    }
    return fail(error, MFQ_E_IN_USE, start, "A segment comes and goes: file=%s, path=%.140s.", name, r->path);
}

/*
 * Behind what is allocated a recycled segment has old bytes. It is zeroed before the bound rises, by one thread of all processes
 * at a time: a second one that has read the bound before would zero messages.
 */
static mfq_status zero_recycled(const mfq_reader *r, int fd, int64_t start, int64_t to, mfq_error *error) {
    static const uint8_t zeros[65536] = {0};
    struct flock range;
    memset(&range, 0, sizeof range);
    range.l_type = F_WRLCK;
    range.l_start = INT64_MAX - 1;
    range.l_len = 1;
    for (int64_t end = now_ms() + 50; fcntl(fd, F_OFD_SETLK, &range) != 0;) {
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return fail_disk(r, error, start, "commitlog");
        if (now_ms() >= end)
            return MFQ_EMPTY;
        sleep_ms(1);
    }
    mfq_status status = MFQ_OK;
    for (int64_t at = (int64_t)control(r, C_ALLOCATED) - start; at < to && status == MFQ_OK;) {
        ssize_t n = pwrite(fd, zeros, (size_t)min64((int64_t)sizeof zeros, to - at), (off_t)at);
        if (n > 0)
            at += n;
        else if (n == 0 || errno != EINTR)
            status = fail_disk(r, error, start, "commitlog");
    }
    if (status == MFQ_OK)
        raise_to(r, C_ALLOCATED, start + to);
    range.l_type = F_UNLCK;
    (void)fcntl(fd, F_OFD_SETLK, &range);
    return status;
}

/*
 * Blocks up to an offset: a store into a hole of a file on a full disk ends the process. They are given up to the end of a piece
 * of 2 MiB before the bound rises into it, because the kernel asks for the blocks of all of a piece. MFQ_EMPTY: this segment
 * cannot grow.
 */
static mfq_status ensure_allocated(mfq_producer *p, int64_t target, mfq_error *error) {
    const mfq_reader *r = p->store;
    int64_t length = r->info.segment_length;
    while (1) {
        uint64_t word = control(r, C_ALLOCATED);
        if (word >= (uint64_t)target)
            return word > (uint64_t)OFFSET_MAX ? poisoned(r, error) : MFQ_OK;
        int64_t allocated = (int64_t)word, start = allocated - allocated % length, position = allocated - start;
        int64_t step = min64(max64(target - allocated, FIRST_BLOCKS), BLOCK_STEP);
        int64_t next = min64(start + length, (allocated + step + 4095) & ~INT64_C(4095));
        int64_t piece = min64(length, (next - start + PIECE - 1) & -(int64_t)PIECE), blocks;
        if (position == 0) {
            mfq_status status = make_segment(p, start, piece, &blocks, error);
            if (status != MFQ_OK)
                return status;
            /* No further: the rest of a recycled segment is not zeroed yet. */
            next = min64(min64(next, start + blocks), start + min64(FIRST_BLOCKS, length));
        } else {
            char name[48];
            struct stat state;
            segment_name(name, sizeof name, start);
            int fd = open_file(r->directory, name, O_RDWR, &state);
            if (fd < 0 && errno == ENOENT)
                return fail(error, MFQ_E_CORRUPT, allocated, "A segment is missing: file=%s, path=%.140s.", name, r->path);
            if (fd < 0)
                return fail_disk(r, error, allocated, name);
            mfq_status status = MFQ_OK;
            if (allocate(fd, position, piece - position) != 0)
                status = errno == EOPNOTSUPP ? MFQ_EMPTY : fail_disk(r, error, allocated, name);
            else if (state.st_size > length)
                status = zero_recycled(r, fd, start, next - start, error);
            close(fd);
            if (status != MFQ_OK)
                return status;
        }
        raise_to(r, C_ALLOCATED, next);
    }
}

/* ---- the lane ---- */

static uint64_t *lane_header(const struct place *lane) {
    return (uint64_t *)(void *)(lane->segment.base + (lane->offset - lane->segment.start));
}

/* Moves to an offset, which is a frame's start, or past it when retention has overtaken it. */
static mfq_status enter_for_writing(mfq_producer *p, int64_t offset, mfq_error *error) {
    const mfq_reader *r = p->store;
    struct place *lane = &p->lane;
    int64_t length = r->info.segment_length;
    for (int tries = 0; tries < 1000; tries++) {
        char name[48];
        struct stat state;
        int64_t start = offset - offset % length, blocks;
        mfq_status status;
        if (offset > OFFSET_MAX)
            return poisoned(r, error);
        segment_name(name, sizeof name, start);
        int fd = open_file(r->directory, name, O_RDWR, &state);
        if (fd < 0 && errno != ENOENT)
            return fail_disk(r, error, offset, name);
        if (fd >= 0 && (try_flock(fd, LOCK_SH) <= 0 || !is_in_place(r->directory, name, fd))) {
            close_fd(&fd);
            sleep_ms(1);
            continue;
        }
        /* Read after the segment was opened: retention may have removed it while this producer was stopped. */
        if (start < (int64_t)control(r, C_LOG_START)) {
            close_fd(&fd);
            offset = (int64_t)control(r, C_TAIL);
            sleep_ms(1);
            continue;
        }
        if (fd < 0) {
            status = make_segment(p, start, FIRST_BLOCKS, &blocks, error);
            if (status != MFQ_OK)
                return status;
            continue;
        }
        void *base = state.st_size < length ? MAP_FAILED
            : mmap(NULL, (size_t)length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        status = state.st_size < length
            ? fail(error, MFQ_E_CORRUPT, offset, "A segment is too short: file=%s, path=%.140s.", name, r->path)
            : base == MAP_FAILED ? fail_disk(r, error, offset, name) : flush_names(r, start, error);
        if (status != MFQ_OK) {
            if (base != MAP_FAILED)
                munmap(base, (size_t)length);
            close_fd(&fd);
            return status;
        }
        raise_to(r, C_ALLOCATED, start);
        /* Retention by age goes by when a segment was completed; the next one's first producer says so, before the hint. */
        if (lane->segment.fd >= 0 && control(r, C_TAIL) < (uint64_t)start)
            (void)futimens(lane->segment.fd, NULL);
        leave(lane);
        lane->segment.base = (uint8_t *)base;
        lane->segment.start = start;
        lane->segment.usable = length;
        lane->segment.fd = fd;
        lane->offset = offset;
        raise_to(r, C_TAIL, offset);
        return MFQ_OK;
    }
    return fail(error, MFQ_E_IN_USE, offset, "Segments are removed at the tail: path=%.160s.", r->path);
}

static uint64_t padding_header(const mfq_reader *r, int64_t offset, int64_t length) {
    uint32_t low = (uint32_t)(length - HEADER) | (uint32_t)PADDING << 28;
    return low | (uint64_t)frame_crc(r, offset, low, no_payload, 0) << 32;
}

static mfq_status is_foreign(const mfq_producer *p, mfq_error *error) {
    return fail(error, MFQ_E_IN_USE, p->lane.offset, "Another process appends beside an Exclusive producer: path=%.130s.",
        p->store->path);
}

/*
 * A frame of somebody else. At the start there are many, and a claim is a dead owner's, because this producer holds the lock: it
 * becomes padding. The kernel closes a dying process's files one after the other, so it is tried for a while.
 */
static mfq_status step_over(mfq_producer *p, uint64_t header, int64_t room, mfq_error *error) {
    const mfq_reader *r = p->store;
    struct place *lane = &p->lane;
    if (!is_plausible(header, room))
        return corrupt(r, lane, error, "an impossible header");
    if (p->has_started)
        return is_foreign(p, error);
    int64_t length = frame_length((uint32_t)header & LENGTH_MASK), end = now_ms() + 5000;
    while ((((uint32_t)header >> 28) & 7u) == CLAIMED) {
        char name[32];
        int is_missing = 0, held = 0;
        uint32_t owner = (uint32_t)(header >> 32), generation;
        generation = __atomic_load_n((const uint32_t *)(const void *)(p->slots + (owner >> 20) * 16), __ATOMIC_ACQUIRE);
        if ((owner & 0xFFFFFu) == 0 || (owner & 0xFFFFFu) > generation)
            return corrupt(r, lane, error, "a claim that cannot be");
        snprintf(name, sizeof name, "locks/slot-%04u", owner >> 20);
        if ((owner & 0xFFFFFu) == generation)
            held = is_locked(r, name, LOCK_SH, &is_missing);
        if (held < 0)
            return fail_disk(r, error, lane->offset, name);
        if (is_missing)
            return fail(error, MFQ_E_DELETED, lane->offset, "Lock files were removed: path=%.160s.", r->path);
        uint64_t expected = header;
        if (held == 0
            && __atomic_compare_exchange_n(lane_header(lane), &expected, padding_header(r, lane->offset, length), 0,
                __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE)) {
            __atomic_add_fetch(control_word(r, C_REPAIRS), 1, __ATOMIC_SEQ_CST);
            wake(r, C_SEQUENCE, C_FLAG);
            wake_producers(r);
            break;
        }
        header = __atomic_load_n(lane_header(lane), __ATOMIC_ACQUIRE);
        if (held > 0 && now_ms() >= end)
            return fail(error, MFQ_E_IN_USE, lane->offset, "Another producer writes: path=%.160s.", r->path);
        if (held > 0)
            sleep_ms(1);
    }
    lane->offset += length;
    return MFQ_OK;
}

static mfq_status pad_rest(mfq_producer *p, int64_t room, mfq_error *error) {
    const mfq_reader *r = p->store;
    struct place *lane = &p->lane;
    int64_t end = lane->segment.start + r->info.segment_length, blocks;
    uint64_t expected = 0;
    if (room > (INT64_C(1) << 28)) {
        errno = EOPNOTSUPP;
        return fail_disk(r, error, lane->offset, "commitlog");
    }
    /* The next segment exists before the rest is padding. */
    if (control(r, C_ALLOCATED) <= (uint64_t)end) {
        mfq_status status = make_segment(p, end, FIRST_BLOCKS, &blocks, error);
        if (status != MFQ_OK)
            return status;
    }
    if (!__atomic_compare_exchange_n(lane_header(lane), &expected, padding_header(r, lane->offset, room), 0, __ATOMIC_SEQ_CST,
            __ATOMIC_ACQUIRE))
        return MFQ_OK;
    raise_to(r, C_ALLOCATED, end);
    wake(r, C_SEQUENCE, C_FLAG);
    lane->offset += room;
    return MFQ_OK;
}

/* Asks for pages to write to: a store into a page that the disk cannot give ends the process. */
static mfq_status make_writable(mfq_producer *p, int64_t from, int64_t to, mfq_error *error) {
    const int populate_write = 23;
    struct place *lane = &p->lane;
    int64_t first = from & ~(int64_t)(PAGE - 1);
    for (int tries = 0; madvise(lane->segment.base + first, (size_t)(to - first), populate_write) != 0; tries++) {
        if ((errno == EINTR || errno == EAGAIN) && tries < 1000)
            continue;
        if (errno == EINVAL)
            return raise_bound(p->store, lane, from, to, to, error);
        return fail_disk(p->store, error, lane->offset, "commitlog");
    }
    lane->bound = to;
    return MFQ_OK;
}

/* Brings the lane to a free place with room and blocks for a frame and the header after it. */
static mfq_status make_room(mfq_producer *p, int64_t length, mfq_error *error) {
    const mfq_reader *r = p->store;
    struct place *lane = &p->lane;
    int64_t segment_length = r->info.segment_length;
    mfq_status status = MFQ_OK;
    if (lane->segment.fd < 0)
        status = enter_for_writing(p, (int64_t)(control(r, C_TAIL) & ~UINT64_C(7)), error);
    while (status == MFQ_OK) {
        int64_t at = lane->offset - lane->segment.start, room = segment_length - at, end = at + length;
        if (room == 0) {
            status = check_replaced(r, error);
            if (status == MFQ_OK)
                status = enter_for_writing(p, lane->offset, error);
            continue;
        }
        mfq_status has_block = ensure_allocated(p, lane->offset + HEADER, error);
        if (has_block < 0)
            return has_block;
        if (at + HEADER > lane->bound) {
            int64_t wanted = min64(segment_length, at + LAST_STEP);
            status = raise_bound(r, lane, at, at + HEADER, p->has_started ? 0 : min64(wanted, segment_length), error);
            if (status != MFQ_OK)
                break;
        }
        uint64_t header = __atomic_load_n(lane_header(lane), __ATOMIC_ACQUIRE);
        if (header == 0 && lane->offset < max64(confirmed(r), plausible(r, C_TAIL))
            && lane->segment.start >= (int64_t)control(r, C_LOG_START)) {
            header = __atomic_load_n(lane_header(lane), __ATOMIC_ACQUIRE);
            if (header == 0)
                return corrupt(r, lane, error, "messages are missing");
        }
        if (header != 0) {
            status = step_over(p, header, room, error);
            continue;
        }
        if (has_block == MFQ_EMPTY) {
            errno = EOPNOTSUPP;
            return fail_disk(r, error, lane->offset, "commitlog");
        }
        mfq_status grown = end > segment_length ? MFQ_EMPTY
            : ensure_allocated(p, lane->segment.start + min64(end + HEADER, segment_length), error);
        if (grown < 0)
            return grown;
        int64_t needed = min64(grown == MFQ_OK ? end + HEADER : at + HEADER, segment_length);
        int64_t limit = min64((int64_t)control(r, C_ALLOCATED) - lane->segment.start, segment_length);
        status = make_writable(p, at, max64(needed, min64(limit, at + FIRST_BLOCKS)), error);
        if (status != MFQ_OK)
            break;
        if (grown == MFQ_EMPTY) {
            status = pad_rest(p, room, error);
            continue;
        }
        raise_to(r, C_TAIL, lane->offset);
        return MFQ_OK;
    }
    return status;
}

/*
 * What a dead Exclusive producer wrote and never published, from the tail to the allocated bound. The zeros are synced even where
 * only zeros were found: what the disk holds may be older.
 */
static mfq_status zero_beyond_tail(mfq_producer *p, mfq_error *error) {
    static const uint8_t zeros[65536] = {0};
    const mfq_reader *r = p->store;
    mfq_status status = make_room(p, HEADER, error);
    if (status != MFQ_OK)
        return status;
    const struct segment *segment = &p->lane.segment;
    int64_t end = min64((int64_t)control(r, C_ALLOCATED) - segment->start, segment->usable);
    for (int64_t at = p->lane.offset - segment->start; at < end;) {
        size_t length = (size_t)min64((int64_t)sizeof zeros, end - at);
        if (has_data(segment->fd, at, at + (int64_t)length) && pwrite(segment->fd, zeros, length, (off_t)at) != (ssize_t)length)
            return fail_disk(r, error, p->lane.offset, "commitlog");
        at += (int64_t)length;
    }
    return fdatasync(segment->fd) == 0 ? MFQ_OK : poison(r, error);
}

/* ---- admission ---- */

static uint64_t start_time(void) {
    char text[1024] = {0};
    unsigned long long time = 0;
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    (void)read_at(fd, text, sizeof text - 1, 0);
    close(fd);
    char *at = strrchr(text, ')');
    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at != NULL && sscanf(at, "%llu", &time) == 1 ? time : 0;
}

/* A slot of its own: its files under temporary names are known by it. The generation is raised under the slot's lock. */
static mfq_status take_slot(mfq_producer *p, mfq_error *error) {
    const mfq_reader *r = p->store;
    struct stat state;
    int fd = open_file(r->directory, "locks/slots", O_RDWR, &state);
    void *table = fd < 0 || state.st_size < SLOT_TABLE ? MAP_FAILED
        : mmap(NULL, SLOT_TABLE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (table == MAP_FAILED)
        return fail(error, MFQ_E_IN_USE, -1, "The table of slots is missing or short: path=%.160s.", r->path);
    p->slots = (uint8_t *)table;
    for (p->slot = 0; p->slot < SLOTS; p->slot++) {
        char name[32];
        uint8_t *entry = p->slots + p->slot * 16;
        uint32_t *word = (uint32_t *)(void *)entry, pid = (uint32_t)getpid();
        uint64_t started = start_time();
        snprintf(name, sizeof name, "locks/slot-%04d", p->slot);
        /* A missing file of a slot that was used was removed, perhaps while it was held. */
        if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != 0 && faccessat(r->directory, name, F_OK, 0) != 0)
            continue;
        p->slot_lock = try_lock(r, name, LOCK_EX);
        if (p->slot_lock < 0 && errno != 0 && errno != EACCES)
            return fail_disk(r, error, -1, name);
        if (p->slot_lock < 0)
            continue;
        uint32_t generation = __atomic_load_n(word, __ATOMIC_ACQUIRE);
        if (generation < GENERATION_MAX) {
            memcpy(entry + 4, &pid, 4);
            memcpy(entry + 8, &started, 8);
            p->generation = generation + 1;
            __atomic_store_n(word, p->generation, __ATOMIC_RELEASE);
            return MFQ_OK;
        }
        close_fd(&p->slot_lock);
    }
    return fail(error, MFQ_E_IN_USE, -1, "No free producer slot: path=%.160s.", r->path);
}

/* With `open` and the producers' lock held. */
static mfq_status prepare_producer(mfq_producer *p, mfq_error *error) {
    const mfq_reader *r = p->store;
    if (control(r, C_CORRUPT) != 0)
        return fail(error, MFQ_E_CORRUPT, (int64_t)control(r, C_CORRUPT) - 1,
            "Nothing can be appended to a damaged log: path=%.120s.", r->path);
    if ((control(r, C_FLAG) & POISON) != 0)
        return poisoned(r, error);
    mfq_status status = take_slot(p, error);
    if (status == MFQ_OK && control(r, C_EXCLUSIVE) != 0)
        status = zero_beyond_tail(p, error);
    if (status != MFQ_OK)
        return status;
    p->fences = !is_registered();
    if (!p->fences)
        __atomic_or_fetch(control_word(r, C_FENCE), 1, __ATOMIC_SEQ_CST);
    set_cold_word(r, C_EXCLUSIVE, 1);
    p->is_marked = 1;
    return MFQ_OK;
}

static mfq_status admit(mfq_producer *p, mfq_error *error) {
    const mfq_reader *r = p->store;
    /* A dying process may still hold it. It is never waited for under `open`. */
    for (int64_t end = now_ms() + 1000;;) {
        struct stat state;
        int opening = lock(r, "locks/open", LOCK_EX, 30000);
        if (opening < 0)
            return fail_lock(r, error, "locks/open");
        mfq_status status = MFQ_EMPTY;
        p->lock = open_file(r->directory, "locks/producers", O_RDWR, &state);
        if (p->lock < 0 || !is_in_place(r->directory, "locks/attached", r->attached))
            status = fail(error, MFQ_E_DELETED, -1, "Lock files were removed while the store was open: path=%.140s.", r->path);
        else if (try_flock(p->lock, LOCK_EX) > 0 && is_in_place(r->directory, "locks/producers", p->lock))
            status = prepare_producer(p, error);
        close_fd(&opening);
        if (status != MFQ_EMPTY)
            return status;
        close_fd(&p->lock);
        if (now_ms() >= end)
            return fail(error, MFQ_E_IN_USE, -1, "Another producer is attached: path=%.160s.", r->path);
        sleep_ms(5);
    }
}

mfq_status mfq_producer_open(const char *path, mfq_producer **producer, mfq_error *error) {
    uint8_t random[16];
    if (producer == NULL)
        return fail(error, MFQ_E_ARGUMENT, -1, "A place for the producer is needed.");
    *producer = NULL;
    mfq_producer *p = (mfq_producer *)calloc(1, sizeof *p);
    if (p == NULL)
        return fail(error, MFQ_E_NO_MEMORY, -1, "There is no memory.");
    p->lock = p->slot_lock = -1;
    begin_place(&p->lane, 0);
    if (syscall(SYS_getrandom, random, sizeof random, 0) != (long)sizeof random)
        memset(random, (int)getpid() & 0xFF, sizeof random);
    for (int i = 0; i < 16; i++)
        snprintf(p->id + i * 2, 3, "%02x", random[i]);
    mfq_status status = open_store(path, &p->store, error);
    if (status == MFQ_OK)
        status = attach(p->store, error);
    if (status == MFQ_OK)
        status = admit(p, error);
    if (status == MFQ_OK)
        status = make_room(p, HEADER, error);
    if (status != MFQ_OK) {
        mfq_producer_close(p);
        return status;
    }
    p->has_started = 1;
    *producer = p;
    return MFQ_OK;
}

void mfq_producer_close(mfq_producer *p) {
    if (p == NULL)
        return;
    if (p->is_marked && !p->is_dirty) {
        /* Where `open` cannot be had, the mark stays: the next producer looks for dirty bytes, and finds none. */
        int opening = lock(p->store, "locks/open", LOCK_EX, 1000);
        if (opening >= 0)
            set_cold_word(p->store, C_EXCLUSIVE, 0);
        close_fd(&opening);
    }
    leave(&p->lane);
    if (p->slots != NULL)
        munmap(p->slots, SLOT_TABLE);
    close_fd(&p->slot_lock);
    close_fd(&p->lock);
    mfq_close(p->store);
    free(p);
}

/* ---- appending ---- */

/* The header block of these headers; 0 when they cannot be. */
static size_t make_block(const mfq_headers *h, uint8_t *block) {
    uint64_t first = (uint64_t)h->fields << 16 | (uint64_t)h->key_length << 32 | (uint64_t)h->trace_state_length << 48;
    uint8_t *at = block + 8;
    size_t length;
    if ((h->fields & ~(MFQ_HAS_TIME | MFQ_HAS_TRACE | MFQ_HAS_KEY)) != 0 || h->key_length > 1024 || h->trace_state_length > 512
        || ((h->fields & MFQ_HAS_TRACE) != 0 && (h->trace_id == NULL || h->span_id == NULL))
        || (h->key_length > 0 && h->key == NULL) || (h->trace_state_length > 0 && h->trace_state == NULL))
        return 0;
    memset(block, 0, 2048);
    if ((h->fields & MFQ_HAS_TIME) != 0) {
        memcpy(at, &h->time, 8);
        at += 8;
    }
    if ((h->fields & MFQ_HAS_TRACE) != 0) {
        memcpy(at, h->trace_id, 16);
        memcpy(at + 16, h->span_id, 8);
        at[24] = h->trace_flags;
        at += 32;
    }
    if (h->trace_state_length > 0)
        memcpy(at, h->trace_state, h->trace_state_length);
    at += (h->trace_state_length + 7) & ~(size_t)7;
    if (h->key_length > 0)
        memcpy(at, h->key, h->key_length);
    at += (h->key_length + 7) & ~(size_t)7;
    first |= (uint64_t)(at - block) / 8;
    memcpy(block, &first, 8);
    return parse_block(first, (size_t)(at - block), &length) ? length : 0;
}

/*
 * 1 payload after the place of the header      a death leaves bytes beyond the tail that no reader enters
 * 2 zero the place of the next header          the same
 * 3 the header's place still holds 0           otherwise a process writes without the lock: fail
 * 4 store the header (release)                 a death leaves the whole message
 * 5 read the waiters' flag                     the barrier before it is the waiter's (membarrier)
 */
mfq_status mfq_produce(mfq_producer *p, const mfq_headers *headers, const void *data, size_t length, int64_t *offset,
    mfq_error *error) {
    uint8_t block[2048];
    if (p == NULL || (data == NULL && length > 0))
        return fail(error, MFQ_E_ARGUMENT, -1, "A producer and a message are needed.");
    const mfq_reader *r = p->store;
    struct place *lane = &p->lane;
    size_t block_length = headers == NULL ? 0 : make_block(headers, block);
    size_t limit = (size_t)min64(r->info.segment_length, INT64_C(1) << 28) - HEADER;
    if (headers != NULL && block_length == 0)
        return fail(error, MFQ_E_ARGUMENT, -1, "These headers cannot be.");
    if (length > limit || length + block_length > limit || (r->info.is_struct && length != (size_t)r->info.struct_size))
        return fail(error, MFQ_E_ARGUMENT, -1, "A message of %zu bytes does not fit this store: path=%.140s.", length, r->path);
    if ((control(r, C_FLAG) & POISON) != 0)
        return poisoned(r, error);
    uint32_t whole = (uint32_t)(length + block_length);
    int64_t size = frame_length(whole), at = lane->offset - lane->segment.start;
    if (lane->segment.fd < 0 || at + size + HEADER > lane->bound) {
        mfq_status status = make_room(p, size, error);
        if (status != MFQ_OK)
            return status;
        at = lane->offset - lane->segment.start;
    }
    uint64_t *header = lane_header(lane);
    uint8_t *payload = (uint8_t *)header + HEADER;
    uint32_t low = whole | (uint32_t)PUBLISHED << 28 | (block_length == 0 ? 0 : EXTENDED);
    p->is_dirty = 1;
    if (block_length > 0)
        memcpy(payload, block, block_length);
    if (length > 0)
        memcpy(payload + block_length, data, length);
    if (at + size < r->info.segment_length)
        memset((uint8_t *)header + size, 0, HEADER);
    uint64_t value = low | (uint64_t)frame_crc(r, lane->offset, low, payload, whole) << 32;
    if (__atomic_load_n(header, __ATOMIC_ACQUIRE) != 0)
        return is_foreign(p, error);
    if (p->fences)
        (void)__atomic_exchange_n(header, value, __ATOMIC_SEQ_CST);
    else
        __atomic_store_n(header, value, __ATOMIC_RELEASE);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    p->is_dirty = 0;
    if (offset != NULL)
        *offset = lane->offset;
    lane->offset += size;
    wake(r, C_SEQUENCE, C_FLAG);
    return (control(r, C_FLAG) & POISON) == 0 ? MFQ_OK
        : fail(error, MFQ_E_RECOVERY, lane->offset - size, "The message is appended, but a flush has failed: path=%.130s.",
            r->path);
}
