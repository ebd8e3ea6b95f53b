/*
 * Reading stores of MappedFileQueues. Everything here follows docs/FORMAT.md and docs/DESIGN.md.
 *
 * What a file holds is hostile: each number is loaded once, checked against the room that is left, and only then leads to a
 * place. No load is made from a page that the system was not asked for, so a bad sector or a truncated file is an error and not
 * a signal; a page that was there and is lost later still is one.
 */
#include "mfq_internal.h"

#include <stdarg.h>

#include <linux/membarrier.h>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

/* ---- errors ---- */

mfq_status mfqi_fail(mfq_error *error, mfq_status status, int64_t offset, const char *format, ...) {
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

/* A file that is missing may be so because the store is. */
mfq_status mfqi_fail_disk(const mfq_reader *r, mfq_error *error, int64_t offset, const char *file) {
    int code = errno;
    mfq_status status = code == ENOENT ? mfqi_check_replaced(r, error) : MFQ_OK;
    if (status == MFQ_OK)
        status = mfqi_fail(error, MFQ_E_DISK, offset, "A system call failed: errno=%d, file=%s, path=%.120s.", code, file,
            r->path);
    errno = code;
    return status;
}

const char *mfq_status_name(mfq_status status) {
    /* From MFQ_EMPTY down to MFQ_E_TIMEOUT. */
    static const char *const names[] = {"empty", "ok", "not-found", "format", "corrupt", "removed", "disk", "in-use", "recovery",
        "deleted", "argument", "no-memory", "fenced", "timeout"};
    size_t index = (size_t)(MFQ_EMPTY - (int)status);
    return index < sizeof names / sizeof names[0] ? names[index] : "unknown";
}

/* ---- CRC-32C ---- */

static uint32_t crc_table[8][256];
int mfqi_has_crc_instruction;

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
    mfqi_has_crc_instruction = __builtin_cpu_supports("sse4.2") != 0;
#else
    mfqi_has_crc_instruction = (getauxval(AT_HWCAP) & (1ul << 7)) != 0; /* HWCAP_CRC32 */
#endif
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

uint32_t mfq_crc32c(uint32_t crc, const void *data, size_t length) {
    const uint8_t *bytes = (const uint8_t *)data;
    uint64_t value = crc;
    if (mfqi_has_crc_instruction)
        for (; length >= 8; length -= 8, bytes += 8)
            value = mfqi_crc_word(value, word_at(bytes));
    return mfq_crc32c_by_table((uint32_t)value, bytes, length);
}

/* The usual CRC-32C, of pages and records. */
uint32_t mfqi_page_crc(const void *data, size_t length) { return ~mfq_crc32c(UINT32_MAX, data, length); }

uint32_t mfqi_frame_crc_by_table(uint32_t seed, uint64_t first, const uint8_t *payload, size_t length) {
    uint32_t crc = mfq_crc32c_by_table(crc_word_by_table(seed, first), payload, length & ~(size_t)7);
    return length % 8 == 0 ? crc : crc_word_by_table(crc, word_at(payload + (length & ~(size_t)7)) & MASK_OF_REST(length));
}

size_t mfq_count_whole(uint32_t seed, int64_t offset, const void *frames, size_t length, size_t count) {
    const uint8_t *frame = (const uint8_t *)frames;
    size_t size = (size_t)frame_length((uint32_t)length);
    for (size_t i = 0; i < count; i++, frame += size, offset += (int64_t)size) {
        uint64_t header = __atomic_load_n((const uint64_t *)(const void *)frame, __ATOMIC_ACQUIRE);
        uint32_t low = (uint32_t)header;
        if (!is_plain_message(low) || (low & LENGTH_MASK) != length
            || mfqi_frame_crc(seed, offset, low, frame + HEADER, length) != (uint32_t)(header >> 32))
            return i;
    }
    return count;
}

/* ---- files ---- */

int mfqi_is_same_file(const struct stat *a, const struct stat *b) { return a->st_dev == b->st_dev && a->st_ino == b->st_ino; }

/* Whether the name still means the open file. */
int mfqi_is_in_place(int directory, const char *name, int fd) {
    struct stat by_name, by_fd;
    return fstat(fd, &by_fd) == 0 && fstatat(directory, name, &by_name, 0) == 0 && mfqi_is_same_file(&by_name, &by_fd);
}

/* -1 with errno. Never waits at a named pipe; what is no regular file is EINVAL. */
int mfqi_open_file(int directory, const char *name, int flags, struct stat *status) {
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

/* 0, or -1 with errno. Where a file system has no sync of folders (EINVAL), there is nothing better to do. */
int mfqi_sync_folder(int fd) {
    while (fsync(fd) != 0)
        if (errno != EINTR)
            return errno == EINVAL ? 0 : -1;
    return 0;
}

/* How many bytes there were up to a length; -1 with errno. */
ssize_t mfqi_read_at(int fd, void *buffer, size_t length, int64_t position) {
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
int mfqi_try_flock(int fd, int kind) {
    while (flock(fd, kind | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK)
            return 0;
        if (errno != EINTR)
            return -1;
    }
    return 1;
}

/*
 * Unlocks explicitly: a child that is just being started holds a copy of the descriptor until its exec. Not in a child that has
 * inherited the handle: the lock is that of both copies, and the parent still needs it.
 */
void mfqi_close_fd(const mfq_reader *r, int *fd) {
    if (*fd >= 0) {
        if (r->owner == getpid())
            (void)flock(*fd, LOCK_UN);
        close(*fd);
    }
    *fd = -1;
}

int64_t mfqi_now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

void mfqi_sleep_ms(int64_t ms) {
    struct timespec time;
    time.tv_sec = (time_t)(ms / 1000);
    time.tv_nsec = (long)(ms % 1000) * 1000000;
    (void)nanosleep(&time, NULL);
}

/* ---- the meta page ---- */

static mfq_status read_meta(mfq_reader *r, mfq_error *error) {
    uint8_t page[PAGE + 1];
    r->meta_fd = mfqi_open_file(r->directory, "queue.meta", O_RDONLY, &r->meta_stat);
    if (r->meta_fd < 0)
        return errno == ENOENT ? mfqi_fail(error, MFQ_E_NOT_FOUND, -1, "There is no store: path=%.180s.", r->path)
            : mfqi_fail_disk(r, error, -1, "queue.meta");
    ssize_t length = mfqi_read_at(r->meta_fd, page, sizeof page, 0);
    if (length < 0)
        return mfqi_fail_disk(r, error, -1, "queue.meta");
    if (length != PAGE || memcmp(page, "MFQSTORE", 8) != 0)
        return mfqi_fail(error, MFQ_E_FORMAT, -1, "This is not the meta page of a store: path=%.160s.", r->path);
    uint32_t sum, version, kind;
    uint64_t features, segment_length;
    memcpy(&sum, page + 4092, 4);
    if (sum != mfqi_page_crc(page, 4092))
        return mfqi_fail(error, MFQ_E_FORMAT, -1, "The meta page is damaged: path=%.170s.", r->path);
    memcpy(&version, page + 8, 4);
    if (version != 2)
        return mfqi_fail(error, MFQ_E_FORMAT, -1, "Unknown format version: version=%u, path=%.160s.", version, r->path);
    memcpy(&features, page + 24, 8);
    if ((features & ~UINT64_C(3)) != 0)
        return mfqi_fail(error, MFQ_E_FORMAT, -1, "The store uses features that are not known: features=0x%llx, path=%.120s.",
            (unsigned long long)features, r->path);
    memcpy(&kind, page + 12, 4);
    memcpy(&segment_length, page + 32, 8);
    memcpy(&r->info.struct_size, page + 40, 4);
    memcpy(&r->info.fingerprint, page + 48, 8);
    memcpy(r->info.store_id, page + 56, 16);
    memcpy(r->log_id, (features & 1) != 0 ? page + 80 : page + 56, 16);
    if ((kind != 1 && kind != 2) || segment_length < PAGE || segment_length > (uint64_t)SEGMENT_MAX
        || segment_length % PAGE != 0 || r->info.struct_size < 0)
        return mfqi_fail(error, MFQ_E_FORMAT, -1, "The meta page holds impossible values: path=%.160s.", r->path);
    r->info.is_struct = kind == 1;
    r->info.segment_length = (int64_t)segment_length;
    r->seed = mfq_crc32c(UINT32_MAX, r->log_id, 16);
    return MFQ_OK;
}

/* Whether the store under the handle is still the one that was opened. */
mfq_status mfqi_check_replaced(const mfq_reader *r, mfq_error *error) {
    struct stat meta, held, named;
    int is_known = fstatat(r->directory, "queue.meta", &meta, 0) == 0 && fstat(r->directory, &held) == 0
        && stat(r->path, &named) == 0;
    if (is_known && mfqi_is_same_file(&meta, &r->meta_stat) && mfqi_is_same_file(&held, &named))
        return MFQ_OK;
    /* A folder above that may not be entered says nothing about the store. */
    if (!is_known && errno != ENOENT && errno != ENOTDIR)
        return mfqi_fail_disk(r, error, -1, "queue.meta");
    return mfqi_fail(error, MFQ_E_DELETED, -1, "The store was deleted or replaced: path=%.160s.", r->path);
}

/* ---- the boot ---- */

static void find_boot(mfq_reader *r) {
    static const uint8_t order[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    char text[64] = {0};
    uint8_t raw[16];
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC), count = 0;
    if (fd >= 0) {
        (void)mfqi_read_at(fd, text, 36, 0);
        close(fd);
    }
    for (const char *at = text; count < 16 && sscanf(at, "%2hhx", &raw[count]) == 1; count++)
        at += at[2] == '-' ? 3 : 2;
    for (int i = 0; count == 16 && i < 16; i++)
        r->boot_id[i] = raw[order[i]];
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

int mfqi_is_this_boot(const mfq_reader *r, const uint8_t *stored) {
    static const uint8_t unknown[16] = {0};
    if (memcmp(stored, unknown, 16) == 0)
        return 0;
    if (memcmp(stored, r->boot, 16) == 0 || memcmp(stored, r->boot_id, 16) == 0)
        return 1;
    return memcmp(r->boot, r->boot_id, 8) != 0 ? memcmp(stored, r->boot, 8) == 0
        : memcmp(r->boot_id, unknown, 16) != 0 && memcmp(stored + 8, r->boot_id + 8, 8) == 0;
}

/* ---- the control page ---- */

mfq_status mfqi_map_control(mfq_reader *r, int writable, mfq_error *error) {
    struct stat status;
    int fd = mfqi_open_file(r->directory, "control", writable ? O_RDWR : O_RDONLY, &status);
    if (fd < 0)
        return errno == ENOENT || (writable && (errno == EACCES || errno == EROFS || errno == EPERM)) ? MFQ_OK
            : mfqi_fail_disk(r, error, -1, "control");
    uint64_t probe;
    /* The read finds a bad sector, which a load would meet as a signal. */
    ssize_t there = status.st_size < PAGE ? 0 : mfqi_read_at(fd, &probe, sizeof probe, 0);
    void *page = there == sizeof probe ? MFQ_MAP(fd, PAGE, writable ? PROT_READ | PROT_WRITE : PROT_READ) : MAP_FAILED;
    mfq_status failed = there < 0 || (there == sizeof probe && page == MAP_FAILED) ? mfqi_fail_disk(r, error, -1, "control")
        : MFQ_OK;
    close(fd);
    if (page == MAP_FAILED)
        return failed;
    if (r->control != NULL)
        MFQ_UNMAP(r->control, PAGE);
    r->control = (uint8_t *)page;
    r->is_writable = writable;
    return MFQ_OK;
}

/* The checksum of the cold block as it is, or as it will be when the word at a position holds another value. */
uint32_t mfqi_cold_sum(const mfq_reader *r, int changed, uint64_t value) {
    static const int words[] = {0, 8, 16, 24, 32, 40, C_LOG_START, C_EXCLUSIVE, C_CORRUPT, C_FLUSHED};
    uint64_t covered[10];
    for (size_t i = 0; i < 10; i++)
        covered[i] = words[i] == changed ? value : control(r, words[i]);
    return mfqi_page_crc(covered, sizeof covered);
}

int mfqi_is_cold_block_valid(const mfq_reader *r) {
    if (r->control == NULL)
        return 0;
    /* Both checksums are one aligned word. */
    uint64_t sums = control(r, C_SUM);
    uint32_t sum = (uint32_t)sums, next = (uint32_t)(sums >> 32), actual = mfqi_cold_sum(r, -1, 0);
    return memcmp(r->control, "MFQCTRL2", 8) == 0 && memcmp(r->control + C_STORE, r->info.store_id, 16) == 0
        && (sum == actual || (next != 0 && next == actual));
}

/* Memory is whole, and the words of the page speak of it. */
static int is_recovered(const mfq_reader *r) {
    return r->is_attached
        || (mfqi_is_cold_block_valid(r) && control(r, C_STAGE) == 1 && mfqi_is_this_boot(r, r->control + C_BOOT));
}

/* A word that has no checksum: an offset above what has blocks is damage, and counts as 0. */
static int64_t plausible_offset(const mfq_reader *r, int at) {
    uint64_t value = control(r, at), allocated = control(r, C_ALLOCATED);
    return value <= allocated && value <= (uint64_t)OFFSET_MAX && value % 8 == 0 ? (int64_t)value : 0;
}

static int64_t confirmed_to(const mfq_reader *r) { return is_recovered(r) ? plausible_offset(r, C_CONFIRMED) : 0; }

/* Walkers or a flush have come so far: a frame's start. */
int64_t mfqi_passed_to(const mfq_reader *r) {
    int64_t passed = max64(r->checkpoint, confirmed_to(r));
    return r->is_attached ? max64(passed, plausible_offset(r, C_TAIL)) : passed;
}

/* ---- records of two slots ---- */

static struct record read_record(const mfq_reader *r, const char *name) {
    struct record newest;
    struct stat status;
    memset(&newest, 0, sizeof newest);
    int fd = mfqi_open_file(r->directory, name, O_RDONLY, &status), code = fd < 0 && errno != ENOENT ? errno : 0;
    for (int slot = 0; fd >= 0 && slot < 2; slot++) {
        uint8_t bytes[64];
        struct record found;
        uint32_t sum;
        ssize_t n = mfqi_read_at(fd, bytes, sizeof bytes, slot * PAGE);
        code = n < 0 ? errno : code;
        if (n != (ssize_t)sizeof bytes)
            continue;
        memset(&found, 0, sizeof found);
        memcpy(&sum, bytes + 60, 4);
        memcpy(&found.offset, bytes, 8);
        memcpy(&found.epoch, bytes + 8, 8);
        memcpy(&found.sequence, bytes + 16, 8);
        memcpy(found.boot, bytes + 24, 16);
        found.is_there = sum == mfqi_page_crc(bytes, 60) && memcmp(bytes + 40, r->info.store_id, 16) == 0
            && found.offset >= 0 && found.offset % 8 == 0 && found.offset <= OFFSET_MAX;
        if (found.is_there && (!newest.is_there || found.sequence > newest.sequence))
            newest = found;
    }
    if (fd >= 0)
        close(fd);
    newest.error = newest.is_there ? 0 : code;
    return newest;
}

mfq_status mfqi_read_checkpoint(const mfq_reader *r, struct record *checkpoint, mfq_error *error) {
    static const char name[] = "offset/producer.checkpoint";
    *checkpoint = read_record(r, name);
    errno = checkpoint->error;
    return errno == 0 ? MFQ_OK : mfqi_fail_disk(r, error, -1, name);
}

/* ---- the log start ---- */

void mfqi_segment_name(char *name, size_t size, int64_t start) {
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

DIR *mfqi_open_folder(int directory, const char *name) {
    int fd = openat(directory, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (folder == NULL && fd >= 0)
        close(fd);
    return folder;
}

/* NULL at the end, with errno 0, and on an error. */
struct dirent *mfqi_next_entry(DIR *folder) {
    errno = 0;
    return folder == NULL ? NULL : readdir(folder);
}

static int segment_exists(const mfq_reader *r, int64_t start) {
    char name[48];
    struct stat status;
    if (start < 0)
        return 0;
    mfqi_segment_name(name, sizeof name, start);
    return fstatat(r->directory, name, &status, 0) == 0;
}

/* Whether anything but zeros is between two positions of a file. */
int mfqi_has_data(int fd, int64_t from, int64_t to) {
    uint8_t buffer[8192];
    while (from < to) {
        off_t data = lseek(fd, (off_t)from, SEEK_DATA);
        if (data < 0)
            return errno != ENXIO; /* nothing but a hole */
        from = max64(from, (int64_t)data);
        if (from >= to)
            return 0;
        ssize_t n = mfqi_read_at(fd, buffer, (size_t)min64((int64_t)sizeof buffer, to - from), from);
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
    mfqi_segment_name(name, sizeof name, start);
    int fd = mfqi_open_file(r->directory, name, O_RDONLY, &status);
    if (fd < 0)
        return errno != ENOENT;
    int found = status.st_size < HEADER || mfqi_has_data(fd, 0, r->info.segment_length);
    close(fd);
    return found;
}

/* -1 with errno where the records that tell it cannot be read; never where the store is attached. */
int64_t mfqi_find_log_start(const mfq_reader *r) {
    int64_t length = r->info.segment_length;
    if (r->is_attached || mfqi_is_cold_block_valid(r)) {
        uint64_t start = control(r, C_LOG_START);
        return start <= (uint64_t)OFFSET_MAX && start % 8 == 0 ? (int64_t)start : 0;
    }
    struct record removed = read_record(r, "offset/log-start");
    struct record checkpoint = read_record(r, "offset/producer.checkpoint");
    errno = removed.error != 0 ? removed.error : checkpoint.error;
    if (errno != 0)
        return -1;
    int64_t least = removed.is_there && removed.offset % length == 0 ? removed.offset : 0;
    int64_t at = checkpoint.offset;
    if (!checkpoint.is_there) {
        DIR *folder = mfqi_open_folder(r->directory, "commitlog");
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

void mfqi_leave(const mfq_reader *r, struct place *p) {
    if (p->segment.base != NULL)
        MFQ_UNMAP(p->segment.base, (size_t)p->segment.usable);
    p->segment.base = NULL;
    p->segment.start = p->segment.usable = 0;
    mfqi_close_fd(r, &p->segment.fd);
    p->bound = p->limit = p->asked_from = 0;
}

void mfqi_move_to(const mfq_reader *r, struct place *p, int64_t offset) {
    mfqi_leave(r, p);
    p->offset = offset;
    p->step = FIRST_STEP;
}

void mfqi_begin_place(struct place *p, int64_t offset) {
    memset(p, 0, sizeof *p);
    p->segment.fd = -1;
    p->offset = offset;
    p->step = FIRST_STEP;
}

/*
 * Opens and maps the segment of the place's offset. MFQ_EMPTY: there is none yet. The shared flock keeps the file from being
 * recycled while it is mapped.
 */
static mfq_status enter(const mfq_reader *r, struct place *p, mfq_error *error) {
    char name[48];
    struct stat status;
    int64_t start = p->offset - p->offset % r->info.segment_length;
    int fd = -1, protection = p->repairs ? PROT_READ | PROT_WRITE : PROT_READ;
    if (p->offset > OFFSET_MAX)
        return MFQ_EMPTY;
    mfqi_segment_name(name, sizeof name, start);
    for (int tries = 0;; tries++) {
        fd = mfqi_open_locked(r, name, p->repairs ? O_RDWR : O_RDONLY, LOCK_SH, &status);
        if (fd >= 0 || errno == ENOENT)
            break;
        if (errno != EWOULDBLOCK)
            return mfqi_fail_disk(r, error, p->offset, name);
        if (tries == 1000)
            return mfqi_fail(error, MFQ_E_IN_USE, p->offset, "A segment is locked: file=%s, path=%.120s.", name, r->path);
        mfqi_sleep_ms(1);
    }
    int64_t log_start = mfqi_find_log_start(r);
    if (start < log_start || log_start < 0) {
        mfq_status refused = log_start < 0 ? mfqi_fail_disk(r, error, p->offset, "offset") : mfqi_fail(error, MFQ_E_OUT_OF_RANGE,
            p->offset, "The messages here were removed: offset=%lld, logStart=%lld, path=%.90s.", (long long)p->offset,
            (long long)log_start, r->path);
        mfqi_close_fd(r, &fd);
        return refused;
    }
    if (fd < 0)
        return MFQ_EMPTY;
    /* The next segment may be one of another store in the same folder. */
    mfq_status replaced = p->segment.fd >= 0 ? mfqi_check_replaced(r, error) : MFQ_OK;
    if (replaced != MFQ_OK) {
        mfqi_close_fd(r, &fd);
        return replaced;
    }
    int64_t usable = min64((int64_t)status.st_size, r->info.segment_length) & ~INT64_C(7);
    void *base = usable == 0 ? NULL : MFQ_MAP(fd, (size_t)usable, protection);
    if (base == MAP_FAILED) {
        mfqi_fail_disk(r, error, p->offset, name);
        mfqi_close_fd(r, &fd);
        return MFQ_E_DISK;
    }
    mfqi_leave(r, p);
    p->segment.base = (uint8_t *)base;
    p->segment.start = start;
    p->segment.usable = usable;
    p->segment.fd = fd;
    return MFQ_OK;
}

mfq_status mfqi_corrupt(const mfq_reader *r, const struct place *p, mfq_error *error, const char *what) {
    return mfqi_fail(error, MFQ_E_CORRUPT, p->offset, "The log is damaged: %s, offset=%lld, segment=%020lld, path=%.100s.", what,
        (long long)p->offset, (long long)(p->offset - p->offset % r->info.segment_length), r->path);
}

/* 0, or why the pages cannot be had. */
int mfqi_populate(const struct place *p, int64_t from, int64_t to, int advice) {
    int64_t first = from & ~(int64_t)(PAGE - 1);
    for (int tries = 0; madvise(p->segment.base + first, (size_t)(to - first), advice) != 0; tries++)
        if ((errno != EINTR && errno != EAGAIN) || tries == 1000)
            return errno;
    return 0;
}

/* Asks the system for pages before anybody loads from them, and raises the bound: to `wanted` where that is easy. */
mfq_status mfqi_raise_bound(const mfq_reader *r, struct place *p, int64_t from, int64_t needed, int64_t wanted,
    mfq_error *error) {
    const int populate_read = 22;
    int64_t end = max64(needed, wanted);
    int code = mfqi_populate(p, from, end, populate_read);
    if (code != 0 && code != EINVAL && end > needed) {
        end = needed;
        code = mfqi_populate(p, from, end, populate_read);
    }
    if (code == EINVAL) {
        /* Before Linux 5.14: what was read is in memory. */
        uint8_t buffer[PAGE];
        end = needed;
        code = 0;
        for (int64_t at = from & ~(int64_t)(PAGE - 1); at < needed && code == 0; at += PAGE) {
            ssize_t n = mfqi_read_at(p->segment.fd, buffer, sizeof buffer, at);
            code = n < 0 ? errno : at + n < min64(needed, at + PAGE) ? EFAULT : 0;
        }
    }
    if (code != 0) {
        struct stat status;
        if (fstat(p->segment.fd, &status) == 0 && status.st_size < needed)
            return mfqi_corrupt(r, p, error, "the file became shorter");
        errno = code;
        return mfqi_fail_disk(r, error, p->offset, "commitlog");
    }
    p->bound = end;
    return MFQ_OK;
}

/* A consumer is told that a sync has failed, though not before every message: the pages that it has asked for come first. */
static int is_told_of_poison(const mfq_reader *r, const struct place *p) {
    return p == &r->place && r->is_attached && mfqi_is_poisoned(r);
}

/* How many bytes are asked for at once: more, the longer the segment is read. */
static int64_t next_step(struct place *p) {
    int64_t step = p->step;
    p->step = min64(step * 2, LAST_STEP);
    return step;
}

/* MFQ_OK when the header at the place may be loaded; MFQ_EMPTY when there is none yet. `room` is what the segment has left. */
static mfq_status reach_header(const mfq_reader *r, struct place *p, int64_t *room, mfq_error *error) {
    int64_t length = r->info.segment_length;
    *room = 0;
    if (p->segment.fd < 0 || p->offset - p->segment.start == length) {
        mfq_status status = is_told_of_poison(r, p) ? mfqi_poisoned(r, error) : enter(r, p, error);
        if (status != MFQ_OK)
            return status;
    }
    int64_t at = p->offset - p->segment.start;
    *room = length - at;
    if (at + HEADER <= p->bound)
        return MFQ_OK;
    if (is_told_of_poison(r, p))
        return mfqi_poisoned(r, error);
    if (at + HEADER > p->segment.usable)
        return mfqi_corrupt(r, p, error, "the file is too short");
    uint64_t allocated = r->control == NULL ? 0 : control(r, C_ALLOCATED);
    int64_t limit = allocated > (uint64_t)INT64_MAX ? 0 : min64((int64_t)allocated - p->segment.start, p->segment.usable);
    if (limit < at + HEADER) {
        /* The word may be old, or damaged: a read, which touches no mapping, decides. */
        uint64_t header = 0;
        ssize_t n = mfqi_read_at(p->segment.fd, &header, sizeof header, at);
        if (n < 0)
            return mfqi_fail_disk(r, error, p->offset, "commitlog");
        if (n < HEADER || header == 0)
            return MFQ_EMPTY;
        limit = p->segment.usable;
    }
    p->limit = limit;
    if (at > p->bound)
        p->asked_from = at;
    return mfqi_raise_bound(r, p, at, at + HEADER, min64(limit, at + next_step(p)), error);
}

/* Whether a block's first word is possible in so many bytes; its length goes to `length`. */
int mfqi_parse_block(uint64_t first, size_t room, size_t *length) {
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

/* ---- claims ---- */

/* The generation that a slot has now; the claim's own where there is no table, as in a copy of a store. */
static uint32_t generation_now(const mfq_reader *r, uint32_t owner) {
    struct stat status;
    uint32_t generation = owner & 0xFFFFFu;
    int fd = mfqi_open_file(r->directory, "locks/slots", O_RDONLY, &status);
    if (fd < 0)
        return generation;
    if (mfqi_read_at(fd, &generation, sizeof generation, (int64_t)(owner >> 20) * 16) != (ssize_t)sizeof generation)
        generation = owner & 0xFFFFFu;
    close(fd);
    return generation;
}

/* 1 when another open holds the file's lock, 0 when not or when the file is missing, -1 with errno. */
int mfqi_is_locked(const mfq_reader *r, const char *name, int kind, int *is_missing) {
    struct stat status;
    int fd = mfqi_open_locked(r, name, O_RDONLY, kind, &status), is_free = fd >= 0;
    *is_missing = !is_free && errno == ENOENT;
    mfqi_close_fd(r, &fd);
    return is_free || *is_missing ? 0 : errno == EWOULDBLOCK ? 1 : -1;
}

/*
 * A claim is in the way: MFQ_EMPTY while its owner may publish it. MFQ_OK when its owner is dead: its slot's generation has moved
 * on, or its slot's lock is free. The header was read before the probe; a dead owner has published by then or publishes nothing
 * any more, and a slot's next holder has another generation.
 */
mfq_status mfqi_look_at_claim(const mfq_reader *r, const struct place *p, uint64_t claim, mfq_error *error) {
    uint32_t owner = (uint32_t)(claim >> 32), own = owner & 0xFFFFFu;
    struct record checkpoint;
    memset(&checkpoint, 0, sizeof checkpoint);
    if (!is_recovered(r)) {
        int is_valid = mfqi_is_cold_block_valid(r);
        mfq_status status = mfqi_read_checkpoint(r, &checkpoint, error);
        if (status != MFQ_OK)
            return status;
        if (is_valid || !checkpoint.is_there || !mfqi_is_this_boot(r, checkpoint.boot))
            return p->offset < r->checkpoint ? mfqi_corrupt(r, p, error, "a claim below the checkpoint") : MFQ_EMPTY;
    }
    uint32_t now = generation_now(r, owner);
    int64_t flushed = p->offset < mfqi_find_log_start(r) ? 0 : max64(r->checkpoint, confirmed_to(r));
    if (own == 0 || own > now || (p->offset < flushed && load_header(p) == claim))
        return mfqi_corrupt(r, p, error, "a claim that cannot be");
    if (own == now) {
        char name[32];
        int is_missing = 0;
        snprintf(name, sizeof name, "locks/slot-%04u", owner >> 20);
        int held = mfqi_is_locked(r, name, LOCK_SH, &is_missing);
        if (held == 0 && is_missing) {
            if (faccessat(r->directory, "locks/slots", F_OK, 0) == 0)
                return mfqi_fail(error, MFQ_E_DELETED, p->offset, "Lock files were removed: path=%.160s.", r->path);
            held = mfqi_is_locked(r, "queue.meta", LOCK_EX, &is_missing);
        }
        if (held < 0)
            return mfqi_fail_disk(r, error, p->offset, name);
        if (held > 0)
            return MFQ_EMPTY;
    }
    MFQ_STEP("RepairProbed");
    return MFQ_OK;
}

/* ---- reading ---- */

/* Reaches the header at the place and loads it; 0 when there is none yet. */
mfq_status mfqi_next_header(const mfq_reader *r, struct place *p, uint64_t *header, int64_t *room, mfq_error *error) {
    mfq_status status = reach_header(r, p, room, error);
    *header = status == MFQ_OK ? load_header(p) : 0;
    return status < 0 ? status : MFQ_OK;
}

/* Whether the frame at the place, whose header is plausible and no claim, is whole. */
static mfq_status check_frame(const mfq_reader *r, struct place *p, uint64_t header, mfq_error *error) {
    uint32_t low = (uint32_t)header;
    size_t length = state_of(header) == PADDING ? 0 : low & LENGTH_MASK;
    int64_t size = frame_length(low & LENGTH_MASK), at = p->offset - p->segment.start, end = at + frame_length((uint32_t)length);
    if (at + size > p->segment.usable)
        return mfqi_corrupt(r, p, error, "the file is too short");
    if (end > p->bound) {
        mfq_status status = mfqi_raise_bound(r, p, p->bound, end, min64(p->limit, end + next_step(p)), error);
        if (status != MFQ_OK)
            return status;
    }
    return mfqi_frame_crc(r->seed, p->offset, low, p->segment.base + at + HEADER, length) == (uint32_t)(header >> 32) ? MFQ_OK
        : mfqi_corrupt(r, p, error, "a wrong checksum");
}

/*
 * The frame of the next message from the place on, over padding and dead claims. MFQ_EMPTY at the end; CLAIM_MET at a living
 * claim, and with `stops_at_claims` at a dead one too. The place stays before the message.
 */
int mfqi_find_message(const mfq_reader *r, struct place *p, int stops_at_claims, mfq_message *message, int64_t *frame,
    mfq_error *error) {
    int64_t zero_at = -1;
    while (1) {
        int64_t room;
        uint64_t header;
        mfq_status status = mfqi_next_header(r, p, &header, &room, error);
        if (status != MFQ_OK)
            return status;
        if (header == 0) {
            if (p->offset >= mfqi_passed_to(r) || p->offset - p->offset % r->info.segment_length < mfqi_find_log_start(r))
                return MFQ_EMPTY;
            /* It may have been published between the two looks; if the next one does not see it, it is lost. */
            if (zero_at == p->offset) {
                mfq_status replaced = mfqi_check_replaced(r, error);
                return replaced != MFQ_OK ? replaced : mfqi_corrupt(r, p, error, "messages are missing");
            }
            zero_at = p->offset;
            continue;
        }
        if (!is_plausible(header, room))
            return mfqi_corrupt(r, p, error, "an impossible header");
        uint32_t low = (uint32_t)header, length = low & LENGTH_MASK, state = state_of(header);
        int64_t size = frame_length(length);
        if (state == CLAIMED && stops_at_claims)
            return CLAIM_MET;
        if (state == CLAIMED) {
            status = mfqi_look_at_claim(r, p, header, error);
            if (status == MFQ_EMPTY)
                return CLAIM_MET;
            if (status != MFQ_OK)
                return status;
            /* A dead one is left to those who repair. Its owner may have published and gone before the probe. */
            if (load_header(p) == header)
                p->offset += size;
            continue;
        }
        status = check_frame(r, p, header, error);
        if (status != MFQ_OK)
            return status;
        if (state == PADDING) {
            p->offset += size;
            continue;
        }
        const uint8_t *payload = (const uint8_t *)header_at(p) + HEADER;
        size_t block = 0;
        if ((low & EXTENDED) != 0 && (length < 8 || !mfqi_parse_block(word_at(payload), length, &block)))
            return mfqi_corrupt(r, p, error, "an impossible header block");
        if (r->info.is_struct && length - block != (size_t)r->info.struct_size)
            return mfqi_corrupt(r, p, error, "a message of another length");
        message->data = payload + block;
        message->length = length - block;
        message->block = block == 0 ? NULL : payload;
        message->block_length = block;
        message->offset = p->offset;
        message->next = p->offset + size;
        *frame = size;
        return MFQ_OK;
    }
}

/* What does not say that an offset is wrong, but that the system does not let it be known. */
static int is_unknown(mfq_status status) { return status == MFQ_E_DISK || status == MFQ_E_DELETED || status == MFQ_E_IN_USE; }

/* Walks to an offset, which it passes or meets; MFQ_EMPTY when it does not come so far. */
static mfq_status walk_to(const mfq_reader *r, struct place *p, int64_t offset, mfq_error *error) {
    mfq_status status = MFQ_OK;
    while (p->offset < offset && status == MFQ_OK) {
        int64_t room;
        uint64_t header;
        status = mfqi_next_header(r, p, &header, &room, error);
        if (status == MFQ_OK && !is_plausible(header, room))
            status = MFQ_EMPTY;
        if (status == MFQ_OK)
            p->offset += frame_length((uint32_t)header & LENGTH_MASK);
    }
    return is_unknown(status) ? status : p->offset == offset ? MFQ_OK : MFQ_EMPTY;
}

/*
 * Whether a frame begins there, or the tail is there (docs/FORMAT.md, section 11): a whole frame is there, or the walk from the
 * checkpoint meets it, or the walk from the segment's first byte, or the one before. The last one ends at damage below the
 * checkpoint. MFQ_EMPTY: none; an error where the system does not let it be known.
 */
mfq_status mfqi_is_frame_start(const mfq_reader *r, int64_t offset, mfq_error *error) {
    int64_t length = r->info.segment_length, first = mfqi_find_log_start(r), room;
    if (offset < first || offset % 8 != 0 || offset > OFFSET_MAX)
        return MFQ_EMPTY;
    if (offset == first)
        return MFQ_OK;
    int64_t start = offset - offset % length;
    if (offset == start)
        start -= length;
    struct place p;
    uint64_t header;
    mfqi_begin_place(&p, offset);
    mfq_status status = mfqi_next_header(r, &p, &header, &room, error);
    if (status == MFQ_OK)
        status = is_plausible(header, room) && state_of(header) != CLAIMED ? check_frame(r, &p, header, error) : MFQ_EMPTY;
    if (status != MFQ_OK && !is_unknown(status) && r->checkpoint > start && r->checkpoint <= offset) {
        mfqi_move_to(r, &p, r->checkpoint);
        status = walk_to(r, &p, offset, error);
    }
    if (status != MFQ_OK && !is_unknown(status)) {
        mfqi_move_to(r, &p, start);
        status = walk_to(r, &p, offset, error);
    }
    mfqi_leave(r, &p);
    return status;
}

/* The end of the published messages; at a claim, the claim's start. */
static mfq_status find_latest(const mfq_reader *r, int64_t *end, mfq_error *error) {
    struct place p;
    mfq_message message;
    int64_t frame;
    int status;
    mfqi_begin_place(&p, max64(mfqi_find_log_start(r), max64(r->checkpoint, confirmed_to(r))));
    while ((status = mfqi_find_message(r, &p, 0, &message, &frame, error)) == MFQ_OK)
        p.offset += frame;
    *end = p.offset;
    mfqi_leave(r, &p);
    return status < 0 ? (mfq_status)status : MFQ_OK;
}

mfq_status mfqi_find_start(const mfq_reader *r, int64_t start, int64_t *offset, mfq_error *error) {
    if (start == MFQ_LATEST)
        return find_latest(r, offset, error);
    *offset = start == MFQ_EARLIEST ? mfqi_find_log_start(r) : start;
    if (*offset < 0)
        return mfqi_fail_disk(r, error, -1, "offset");
    mfq_status status = start == MFQ_EARLIEST ? MFQ_OK : mfqi_is_frame_start(r, start, error);
    return status != MFQ_EMPTY ? status : mfqi_fail(error, MFQ_E_OUT_OF_RANGE, start,
        "The offset is neither a frame's start nor the tail: offset=%lld, path=%.110s.", (long long)start, r->path);
}

/* ---- cuts: a recovery may remove the end of the log under a reader that is not attached ---- */

static int64_t epoch_now(const mfq_reader *r) {
    int64_t epoch = r->control == NULL ? r->epoch : (int64_t)control(r, C_EPOCH);
    return epoch == r->epoch || mfqi_is_cold_block_valid(r) ? epoch : r->epoch;
}

/* The lowest offset at which the log was cut since the epoch that the reader knows, as salvage/ tells it; -1 with errno. */
static int64_t find_cut(const mfq_reader *r) {
    DIR *folder = mfqi_open_folder(r->directory, "salvage");
    int64_t lowest = folder == NULL && errno != ENOENT ? -1 : INT64_MAX;
    for (struct dirent *entry; (entry = mfqi_next_entry(folder)) != NULL;) {
        char tail[21], epoch[19];
        int end = 0;
        if (sscanf(entry->d_name, "%*[0-9]-from-%20[0-9]-epoch-%18[0-9].cut%n", tail, epoch, &end) == 2 && end > 0
            && entry->d_name[end] == '\0' && strtoll(epoch, NULL, 10) > r->epoch)
            lowest = min64(lowest, strtoll(tail, NULL, 10));
    }
    lowest = folder != NULL && errno != 0 ? -1 : lowest;
    if (folder != NULL)
        closedir(folder);
    return lowest;
}

static mfq_status go_on_after_cut(mfq_reader *r, mfq_error *error) {
    int64_t offset = r->place.offset, cut = find_cut(r), epoch = epoch_now(r);
    if (cut < 0)
        return mfqi_fail_disk(r, error, offset, "salvage");
    struct record checkpoint;
    mfq_status status = mfqi_read_checkpoint(r, &checkpoint, error);
    if (status != MFQ_OK)
        return status;
    r->checkpoint = checkpoint.offset;
    status = mfqi_is_frame_start(r, offset, error);
    if (status < 0)
        return status;
    if (offset > cut || status == MFQ_EMPTY)
        return mfqi_fail(error, MFQ_E_OUT_OF_RANGE, offset,
            "A recovery has cut the log below the reader: offset=%lld, path=%.110s.", (long long)offset, r->path);
    r->epoch = epoch;
    mfqi_move_to(r, &r->place, offset);
    return MFQ_OK;
}

/* A plain message's kind and length are those of the next ones, as far as anybody knows. 0: it is none. */
static inline int expect_alike(mfq_reader *r, uint32_t low) {
    uint32_t length = low & LENGTH_MASK;
    if (!is_plain_message(low) || !mfqi_has_crc_instruction
        || (r->info.is_struct && length != (uint32_t)r->info.struct_size))
        return 0;
    r->likely = low;
    r->likely_size = frame_length(length);
    return 1;
}

/*
 * The usual case: a message without headers, in pages that were asked for, of a processor with the instruction. It calls nothing,
 * so that it saves few registers. Where the next message is comes from what the one before was like, not from this header: the
 * processor goes on to it while this one is on its way from memory. 0: look properly.
 */
static inline int read_next(mfq_reader *r, mfq_message *message) {
    const struct place *p = &r->place;
    int64_t offset = p->offset + r->in_hand, at = offset - p->segment.start;
    if (at + HEADER > p->bound)
        return 0;
    const uint8_t *frame = p->segment.base + at;
    uint64_t header = __atomic_load_n((const uint64_t *)(const void *)frame, __ATOMIC_ACQUIRE);
    uint32_t low = (uint32_t)header;
    if (low != r->likely && !expect_alike(r, low))
        return 0;
    size_t length = low & LENGTH_MASK;
    int64_t size = r->likely_size;
    if (at + size > p->bound
        || mfqi_frame_crc_by_instruction(r->seed, mfqi_crc_first(offset, low), frame + HEADER, length) != (uint32_t)(header >> 32)
        /* After the look, as below. */
        || (r->control != NULL && (int64_t)control(r, C_EPOCH) != r->epoch))
        return 0;
    message->data = frame + HEADER;
    message->length = length;
    message->offset = offset;
    message->next = offset + size;
    message->block = NULL;
    message->block_length = 0;
    r->place.offset = offset;
    r->in_hand = size;
    return 1;
}

__attribute__((noinline)) static mfq_status read_any(mfq_reader *r, mfq_message *message, mfq_error *error) {
    memset(message, 0, sizeof *message);
    r->place.offset += r->in_hand;
    r->in_hand = 0;
    r->is_at_claim = 0;
    for (int cuts = 0;; cuts++) {
        int64_t frame = 0;
        int status = mfqi_find_message(r, &r->place, 0, message, &frame, error);
        /* After the look: what is appended after a recovery becomes visible together with its epoch. */
        if (!r->is_attached && cuts < 100 && epoch_now(r) != r->epoch) {
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

__attribute__((noinline)) static mfq_status no_reader(mfq_error *error) {
    return mfqi_fail(error, MFQ_E_ARGUMENT, -1, "A reader and a message are needed.");
}

mfq_status mfq_read(mfq_reader *r, mfq_message *message, mfq_error *error) {
    if (r == NULL || message == NULL)
        return no_reader(error);
    return read_next(r, message) ? MFQ_OK : read_any(r, message, error);
}

mfq_status mfq_seek(mfq_reader *r, int64_t start, mfq_error *error) {
    int64_t offset;
    if (r == NULL || (start < 0 && start != MFQ_EARLIEST && start != MFQ_LATEST))
        return mfqi_fail(error, MFQ_E_ARGUMENT, start, "An offset is not negative.");
    int64_t epoch = epoch_now(r);
    int is_same = epoch == r->epoch; /* a recovery may have put other files in the segments' places */
    mfq_status status = mfqi_find_start(r, start, &offset, error);
    if (status != MFQ_OK)
        return status;
    r->epoch = epoch;
    r->in_hand = 0;
    /* Not to pages before those that were asked for. */
    const struct segment *mapped = &r->place.segment;
    if (is_same && mapped->fd >= 0 && offset >= mapped->start + r->place.asked_from && offset < mapped->start + mapped->usable)
        r->place.offset = offset;
    else
        mfqi_move_to(r, &r->place, offset);
    return MFQ_OK;
}

int64_t mfq_offset(const mfq_reader *r) { return r == NULL ? -1 : r->place.offset; }

void mfq_get_info(mfq_reader *r, mfq_info *info) {
    if (info == NULL)
        return;
    if (r == NULL) {
        memset(info, 0, sizeof *info);
        return;
    }
    *info = r->info;
    info->first = mfqi_find_log_start(r);
}

int mfq_get_headers(const mfq_message *message, mfq_headers *headers) {
    size_t length;
    if (headers == NULL)
        return 0;
    memset(headers, 0, sizeof *headers);
    if (message == NULL || message->block == NULL || message->block_length < 8)
        return 0;
    const uint8_t *at = (const uint8_t *)message->block;
    uint64_t first = word_at(at);
    if (!mfqi_parse_block(first, message->block_length, &length))
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
int mfqi_is_registered(void) {
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
    return mfqi_is_registered() && syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0;
}

/* The waiter's steps 1 to 3: the sequence, the flag above it, the fence. Gives how long one sleep may last. */
int64_t mfqi_prepare_sleep(const mfq_reader *r, int sequence_at, int flag_at, uint64_t *sequence) {
    *sequence = control(r, sequence_at);
    uint64_t flag = control(r, flag_at);
    while ((flag & ~POISON) < *sequence + 1
        && !__atomic_compare_exchange_n(control_word(r, flag_at), &flag, (flag & POISON) | (*sequence + 1), 0, __ATOMIC_SEQ_CST,
            __ATOMIC_ACQUIRE)) {
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    /* Also when the flag was high enough: the waiter that raised it may not have reached its own fence yet. */
    if (flag_at == C_FLAG && control(r, C_FENCE) != 0 && !fence_producers())
        return 1;
    /* An opener that is alone may take away the flag of a reader that is not attached. */
    return !r->is_attached || control(r, C_POLLERS) != 0 ? 100 : 1000;
}

/* Step 5; may return early. */
void mfqi_sleep_on(const mfq_reader *r, int sequence_at, uint64_t sequence, int64_t ms) {
    struct timespec limit;
    limit.tv_sec = (time_t)(ms / 1000);
    limit.tv_nsec = (long)(ms % 1000) * 1000000;
    /* Not the private kind: the word is known by file and position. */
    (void)syscall(SYS_futex, control_word(r, sequence_at), FUTEX_WAIT, (uint32_t)sequence, &limit, NULL, 0);
}

mfq_status mfq_wait(mfq_reader *r, mfq_message *message, int timeout_ms, mfq_error *error) {
    mfq_status status = mfq_read(r, message, error);
    if (status != MFQ_EMPTY || timeout_ms == 0)
        return status;
    if (!r->is_writable && !r->is_wait_tried) {
        r->is_wait_tried = 1;
        status = mfqi_map_control(r, 1, error);
        if (status != MFQ_OK)
            return status;
    }
    int64_t end = mfqi_now_ms() + timeout_ms, pause = 1, checked = mfqi_now_ms();
    while (1) {
        uint64_t sequence = 0;
        int64_t sleep = r->is_writable ? mfqi_prepare_sleep(r, C_SEQUENCE, C_FLAG, &sequence) : pause;
        status = mfq_read(r, message, error);
        if (status != MFQ_EMPTY)
            return status;
        if (is_told_of_poison(r, &r->place))
            return mfqi_poisoned(r, error);
        int64_t now = mfqi_now_ms();
        if (timeout_ms >= 0 && now >= end)
            return MFQ_EMPTY;
        if (now - checked >= 1000) {
            status = mfqi_check_replaced(r, error);
            if (status != MFQ_OK)
                return status;
            checked = now;
        }
        /* A dead owner of a claim wakes nobody. */
        sleep = r->is_at_claim ? min64(sleep, 2) : sleep;
        sleep = timeout_ms >= 0 ? min64(sleep, end - now) : sleep;
        if (r->is_writable) {
            mfqi_sleep_on(r, C_SEQUENCE, sequence, sleep);
        } else {
            mfqi_sleep_ms(sleep);
            pause = min64(pause * 2, 10);
        }
    }
}

/* ---- opening and closing ---- */

mfq_status mfqi_open_store(const char *path, mfq_reader **result, mfq_error *error) {
    if (path == NULL || path[0] == '\0')
        return mfqi_fail(error, MFQ_E_ARGUMENT, -1, "A path is needed.");
    mfq_reader *r = (mfq_reader *)calloc(1, sizeof *r);
    if (r == NULL)
        return mfqi_fail(error, MFQ_E_NO_MEMORY, -1, "There is no memory.");
    r->owner = getpid();
    r->directory = r->meta_fd = r->attached = r->meta_lock = r->name_lock = r->cursor_fd = -1;
    r->likely = NOTHING_LIKELY;
    r->likely_size = OFFSET_MAX;
    mfqi_begin_place(&r->place, 0);
    r->path = realpath(path, NULL);
    if (r->path != NULL)
        r->directory = open(r->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r->directory < 0) {
        mfq_status status = errno == ENOENT || errno == ENOTDIR
            ? mfqi_fail(error, MFQ_E_NOT_FOUND, -1, "There is no store: path=%.180s.", path)
            : mfqi_fail(error, MFQ_E_DISK, -1, "The folder cannot be opened: errno=%d, path=%.160s.", errno, path);
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
        return mfqi_fail(error, MFQ_E_ARGUMENT, -1, "A place for the reader is needed.");
    *reader = NULL;
    mfq_status status = mfqi_open_store(path, &r, error);
    if (status != MFQ_OK)
        return status;
    struct record checkpoint;
    status = mfqi_map_control(r, 0, error);
    if (status == MFQ_OK)
        status = mfqi_read_checkpoint(r, &checkpoint, error);
    if (status == MFQ_OK) {
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
    mfqi_leave(r, &r->place);
    if (r->cursor != NULL)
        MFQ_UNMAP(r->cursor, PAGE);
    if (r->control != NULL)
        MFQ_UNMAP(r->control, PAGE);
    if (r->cursor_fd >= 0 && r->owner == getpid())
        (void)mfqi_lock_range(r->cursor_fd, F_UNLCK, 0);
    mfqi_close_fd(r, &r->cursor_fd);
    mfqi_close_fd(r, &r->name_lock);
    mfqi_close_fd(r, &r->attached);
    mfqi_close_fd(r, &r->meta_lock);
    mfqi_close_fd(r, &r->meta_fd);
    mfqi_close_fd(r, &r->directory);
    free(r->path);
    free(r);
}
