/*
 * Attaching to a store and consuming from it by name: the kernel locks, and the cursors, which processes in C# share
 * (docs/DESIGN.md, sections 3 and 7).
 */
#include "mfq_internal.h"

#define CURSOR_NEW UINT64_C(0x454E4F4E2D51464D) /* "MFQ-NONE" */
#define CURSOR_CHECK UINT64_C(0xFE00000000000000)
#define CURSOR_FACTOR UINT64_C(0xD5029C1D890D25FB)

/* ---- cursors ---- */

#define NAME_RULE "A consumer's name is up to 100 characters of A-Z a-z 0-9 . _ -, and no device of Windows such as nul"

static int64_t cursor_offset(uint64_t word) { return (int64_t)(word & ~(CURSOR_CHECK | 1)); }

static uint64_t cursor_word(int64_t offset) {
    uint64_t word = (uint64_t)offset | 1;
    return word | ((word * CURSOR_FACTOR) & CURSOR_CHECK);
}

/* MFQ_EMPTY for a cursor that has no offset yet. */
static mfq_status parse_cursor(const mfq_reader *r, uint64_t word, const char *name, int64_t *offset, mfq_error *error) {
    if (word == CURSOR_NEW)
        return MFQ_EMPTY;
    *offset = cursor_offset(word);
    if (*offset % 8 == 0 && word == cursor_word(*offset))
        return MFQ_OK;
    return mfqi_fail(error, MFQ_E_CORRUPT, -1, "The stored offset is damaged: file=%s, path=%.80s.", name, r->path);
}

/* Windows takes such a name for a device, whatever follows its first dot. */
static int is_device(const char *lower) {
    size_t length = strcspn(lower, ".");
    char first[5] = "";
    if (length != 3 && length != 4)
        return 0;
    memcpy(first, lower, length);
    return length == 3
        ? strstr("con prn aux nul", first) != NULL
        : (strncmp(first, "com", 3) == 0 || strncmp(first, "lpt", 3) == 0) && first[3] >= '0' && first[3] <= '9';
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
    if (is_device(lower))
        return 0;
    snprintf(result, size, "%s%s%s", before, lower, after);
    return 1;
}

static int name_cursor(const char *name, char *result, size_t size) {
    return name != NULL && name[0] == '\0' ? snprintf(result, size, "offset/consumer.cursor") > 0
        : name_consumer(name, "offset/consumers/", ".cursor", result, size);
}

static mfq_status read_cursor(const mfq_reader *r, const char *file, int64_t *offset, mfq_error *error) {
    struct stat status;
    uint64_t word = 0;
    *offset = -1;
    int fd = mfqi_open_file(r->directory, file, O_RDONLY, &status);
    if (fd < 0)
        return errno == ENOENT ? MFQ_EMPTY : mfqi_fail_disk(r, error, -1, file);
    ssize_t n = mfqi_read_at(fd, &word, sizeof word, 0);
    if (n < 0)
        mfqi_fail_disk(r, error, -1, file);
    close(fd);
    return n < 0 ? MFQ_E_DISK : parse_cursor(r, n < (ssize_t)sizeof word ? 0 : word, file, offset, error);
}

mfq_status mfq_stored_offset(mfq_reader *r, const char *name, int64_t *offset, mfq_error *error) {
    char file[NAME_MAX_LENGTH + 40];
    if (r == NULL || offset == NULL)
        return mfqi_fail(error, MFQ_E_ARGUMENT, -1, "A reader and a place for the offset are needed.");
    *offset = -1;
    if (!name_cursor(name, file, sizeof file))
        return mfqi_fail(error, MFQ_E_ARGUMENT, -1, NAME_RULE);
    return read_cursor(r, file, offset, error);
}

/* ---- locks ---- */

/*
 * What this process makes has the mode that queue.meta has now, and its owner and group where the process may give them. A folder
 * may be entered by those who may read or write.
 */
void mfqi_adopt(const mfq_reader *r, int fd) {
    struct stat meta = r->meta_stat, made;
    (void)fstat(r->meta_fd, &meta);
    mode_t mode = meta.st_mode & 0666, enter = ((mode | mode >> 1) & 0222) >> 1;
    if (fchown(fd, geteuid() == 0 ? meta.st_uid : (uid_t)-1, meta.st_gid) != 0) {
        /* Not allowed; the mode is what counts. */
    }
    (void)fchmod(fd, fstat(fd, &made) == 0 && S_ISDIR(made.st_mode) ? mode | enter : mode);
}

int mfqi_open_or_make(const mfq_reader *r, const char *name, struct stat *status) {
    for (int tries = 0; tries < 100; tries++) {
        int fd = mfqi_open_file(r->directory, name, O_RDWR, status);
        if (fd >= 0 || errno != ENOENT)
            return fd;
        fd = openat(r->directory, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd >= 0) {
            mfqi_adopt(r, fd);
            (void)fstat(fd, status);
            return fd;
        }
        if (errno != EEXIST)
            return -1;
    }
    return -1;
}

/*
 * A descriptor that holds the file's lock; -1 with errno, which is EWOULDBLOCK when another open holds it. First the lock, then
 * the look: between open and flock the name may have come to mean another file. O_CREAT makes a file that is missing.
 */
int mfqi_open_locked(const mfq_reader *r, const char *name, int flags, int kind, struct stat *status) {
    int code = EWOULDBLOCK;
    for (int tries = 0; tries < 1000; tries++) {
        int fd = (flags & O_CREAT) != 0 ? mfqi_open_or_make(r, name, status) : mfqi_open_file(r->directory, name, flags, status);
        if (fd < 0)
            return -1;
        int taken = mfqi_try_flock(fd, kind);
        if (taken > 0 && mfqi_is_in_place(r->directory, name, fd))
            return fd;
        code = taken < 0 ? errno : EWOULDBLOCK;
        mfqi_close_fd(r, &fd);
        if (taken <= 0)
            break;
    }
    errno = code;
    return -1;
}

/* The same for a lock file, which is made where it is missing. */
int mfqi_lock(const mfq_reader *r, const char *name, int kind, int64_t patience_ms) {
    struct stat status;
    int64_t end = mfqi_now_ms() + patience_ms;
    while (1) {
        int fd = mfqi_open_locked(r, name, O_RDWR | O_CREAT, kind, &status);
        if (fd >= 0 || errno != EWOULDBLOCK || mfqi_now_ms() >= end)
            return fd;
        mfqi_sleep_ms(1);
    }
}

/*
 * Locks the byte that no file has (F_WRLCK), by fcntl, or unlocks it (F_UNLCK): 1 when that is done, 0 when another open holds
 * it all the time, -1 with errno.
 */
int mfqi_lock_range(int fd, short type, int64_t patience_ms) {
    struct flock range;
    memset(&range, 0, sizeof range);
    range.l_type = type;
    range.l_start = INT64_MAX - 1;
    range.l_len = 1;
    for (int64_t end = mfqi_now_ms() + patience_ms; fcntl(fd, F_OFD_SETLK, &range) != 0; mfqi_sleep_ms(1)) {
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return -1;
        if (mfqi_now_ms() >= end)
            return 0;
    }
    return 1;
}

mfq_status mfqi_fail_lock(const mfq_reader *r, mfq_error *error, const char *name) {
    return errno != EWOULDBLOCK ? mfqi_fail_disk(r, error, -1, name)
        : mfqi_fail(error, MFQ_E_IN_USE, -1, "Another process holds the lock: file=%s, path=%.80s.", name, r->path);
}

static mfq_status refuse_file_system(const mfq_reader *r, mfq_error *error) {
    static const uint32_t unsafe[] = {0x6969, 0x517B, 0xFF534D42, 0xFE534D42, 0x65735546, 0x01021997, 0x00C36400, 0x5346414F,
        0x6B414653, 0x73757245, 0x564C, 0x01161970, 0x7461636F, 0x0BD00BD0, 0x47504653, 0x19830326, 0x786F4256, 0xBACBACBC};
    struct statfs state;
    if (fstatfs(r->directory, &state) != 0)
        return mfqi_fail_disk(r, error, -1, ".");
    for (size_t i = 0; i < sizeof unsafe / sizeof unsafe[0]; i++)
        if ((uint32_t)state.f_type == unsafe[i])
            return mfqi_fail(error, MFQ_E_FORMAT, -1,
                "Locks and shared mappings are not dependable on this file system: path=%.120s.", r->path);
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

/* The end of a group's last hand-out (docs/FORMAT.md, section 15). */
static mfq_status read_group(const mfq_reader *r, const char *file, int64_t *end, mfq_error *error) {
    uint8_t head[64] = {0};
    uint64_t next = 0;
    uint32_t sum, version, kind;
    struct stat status;
    *end = -1;
    int fd = mfqi_open_file(r->directory, file, O_RDONLY, &status);
    if (fd < 0)
        return errno == ENOENT ? MFQ_EMPTY : mfqi_fail_disk(r, error, -1, file);
    int is_whole = status.st_size >= PAGE + 16384 * 64 && mfqi_read_at(fd, head, sizeof head, 0) == (ssize_t)sizeof head
        && mfqi_read_at(fd, &next, sizeof next, 128) == (ssize_t)sizeof next
        && mfqi_read_at(fd, end, sizeof *end, PAGE + (int64_t)(next & 0xFFFFu) * 64 + 24) == (ssize_t)sizeof *end;
    close(fd);
    memcpy(&version, head + 8, 4);
    memcpy(&kind, head + 12, 4);
    memcpy(&sum, head + 60, 4);
    if (is_whole && memcmp(head, "MFQGROUP", 8) == 0 && sum == mfqi_page_crc(head, 60) && version == 1 && kind == 1
        && memcmp(head + 16, r->info.store_id, 16) == 0 && (next & 0xFFFFu) < 8192 && *end >= 0 && *end <= OFFSET_MAX
        && *end % 8 == 0)
        return MFQ_OK;
    return mfqi_fail(error, MFQ_E_CORRUPT, -1, "A group is damaged: file=%s, path=%.80s.", file, r->path);
}

typedef mfq_status read_place(const mfq_reader *r, const char *file, int64_t *offset, mfq_error *error);

/* Whether what each file of a folder has is at or before the end of the log, and none is damaged. By its file's own name. */
static int are_within(const mfq_reader *r, const char *folder_name, const char *suffix, read_place *read, int64_t end) {
    DIR *folder = mfqi_open_folder(r->directory, folder_name);
    int within = folder != NULL || errno == ENOENT;
    for (struct dirent *entry; within && (entry = mfqi_next_entry(folder)) != NULL;) {
        char file[NAME_MAX + 40];
        int64_t offset;
        size_t length = strlen(entry->d_name), ending = strlen(suffix);
        if (length < ending || strcmp(entry->d_name + length - ending, suffix) != 0)
            continue;
        snprintf(file, sizeof file, "%s/%s", folder_name, entry->d_name);
        within = read(r, file, &offset, NULL) >= 0 && offset <= end;
    }
    within = within && errno == 0;
    if (folder != NULL)
        closedir(folder);
    return within;
}

/* Whether no consumer and no group is beyond the end: messages that are appended there would count as read. */
static int are_readers_within(const mfq_reader *r, int64_t end) {
    int64_t offset;
    return read_cursor(r, "offset/consumer.cursor", &offset, NULL) >= 0 && offset <= end
        && are_within(r, "offset/consumers", ".cursor", read_cursor, end)
        && are_within(r, "offset/groups", ".group", read_group, end);
}

/* Whether the log has no claim, ends at or after all that was seen published, in whole batches, and nothing is after its end. */
static int is_log_clean(mfq_reader *r, int64_t deadline, mfq_error *error) {
    struct place p;
    mfq_message message;
    int64_t frame, length = r->info.segment_length;
    int status = MFQ_OK, is_open_batch = 0;
    mfqi_begin_place(&p, max64(mfqi_find_log_start(r), r->checkpoint));
    while (mfqi_now_ms() < deadline && (status = mfqi_find_message(r, &p, 1, &message, &frame, error)) == MFQ_OK) {
        MFQ_STEP("RecoveryWalked");
        is_open_batch = state_of(load_header(&p)) == IN_BATCH;
        p.offset += frame;
    }
    int64_t end = p.offset;
    mfqi_leave(r, &p);
    uint64_t allocated = control(r, C_ALLOCATED);
    if (status != MFQ_EMPTY || is_open_batch || allocated > (uint64_t)OFFSET_MAX || (uint64_t)end < control(r, C_TAIL)
        || (uint64_t)end < control(r, C_CONFIRMED) || (uint64_t)end < control(r, C_FLUSHED) || !are_readers_within(r, end))
        return 0;
    for (int64_t at = end; at < (int64_t)allocated;) {
        char name[48];
        struct stat state;
        int64_t start = at - at % length;
        mfqi_segment_name(name, sizeof name, start);
        int fd = mfqi_open_file(r->directory, name, O_RDONLY, &state);
        if (fd < 0)
            return errno == ENOENT && at % length == 0;
        int found = mfqi_has_data(fd, at - start, min64((int64_t)allocated - start, length));
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
 * nothing says that memory was lost. A walk of more than 10 s counts as a recovery: others wait for `open` meanwhile.
 */
static int needs_recovery(mfq_reader *r, mfq_error *error) {
    int64_t deadline = mfqi_now_ms() + 10000;
    if (!mfqi_is_cold_block_valid(r) || control(r, C_STAGE) != 1 || !mfqi_is_this_boot(r, r->control + C_BOOT)
        || control(r, C_EXCLUSIVE) != 0 || control(r, C_CORRUPT) != 0 || mfqi_is_poisoned(r)
        || faccessat(r->directory, "poison", F_OK, 0) == 0 || is_other_file(r)
        /* Made by an opener that is alone, before anybody takes them. */
        || faccessat(r->directory, "locks/slots", F_OK, 0) != 0 || faccessat(r->directory, "locks/producers", F_OK, 0) != 0)
        return 1;
    uint64_t tail = control(r, C_TAIL);
    return tail > (uint64_t)OFFSET_MAX || mfqi_is_frame_start(r, (int64_t)tail, error) != MFQ_OK
        || !is_log_clean(r, deadline, error);
}

static mfq_status map_control_attached(mfq_reader *r, mfq_error *error) {
    mfq_status status = mfqi_map_control(r, 1, error);
    if (status == MFQ_OK && (r->control == NULL || !r->is_writable))
        return mfqi_fail(error, MFQ_E_RECOVERY, -1, "The control page is missing or cannot be written: path=%.140s.", r->path);
    return status;
}

/* By the rules of docs/DESIGN.md, section 3: under `open`, alone or beside processes that have recovered the store. */
static mfq_status attach_locked(mfq_reader *r, mfq_error *error) {
    int64_t end = mfqi_now_ms() + 30000;
    int is_alone = 0;
    for (int was_shared = 0;;) {
        r->attached = mfqi_lock(r, "locks/attached", LOCK_EX, 0);
        is_alone = r->attached >= 0;
        if (is_alone)
            break;
        if (errno == EWOULDBLOCK)
            r->attached = mfqi_lock(r, "locks/attached", LOCK_SH, max64(0, end - mfqi_now_ms()));
        if (r->attached < 0)
            return mfqi_fail_lock(r, error, "locks/attached");
        if (was_shared) {
            mfq_status status = map_control_attached(r, error);
            if (status == MFQ_E_DISK)
                return status;
            if (status == MFQ_OK && control(r, C_STAGE) == 1) {
                int is_missing;
                if (mfqi_is_this_boot(r, r->control + C_BOOT) || mfqi_is_locked(r, "queue.meta", LOCK_EX, &is_missing) == 1)
                    break;
            }
            if (mfqi_now_ms() >= end)
                return mfqi_fail(error, MFQ_E_IN_USE, -1, "The store is attached, but was not recovered: path=%.150s.", r->path);
        }
        mfqi_close_fd(r, &r->attached);
        if (was_shared)
            mfqi_sleep_ms(1);
        was_shared = 1;
    }
    /* A lock file may have been removed while it was held, so the meta page carries the same lock. */
    for (int64_t patience = mfqi_now_ms() + 5000;;) {
        struct stat status;
        int fd = mfqi_open_file(r->directory, "queue.meta", O_RDONLY, &status);
        if (fd < 0)
            return mfqi_fail_disk(r, error, -1, "queue.meta");
        int taken = mfqi_try_flock(fd, is_alone ? LOCK_EX : LOCK_SH);
        if (taken > 0 && mfqi_is_same_file(&status, &r->meta_stat)) {
            r->meta_lock = fd;
            break;
        }
        mfq_status refused = taken < 0 ? mfqi_fail_disk(r, error, -1, "queue.meta") : MFQ_OK;
        mfqi_close_fd(r, &fd);
        if (refused != MFQ_OK)
            return refused;
        if (taken != 0)
            return mfqi_fail(error, MFQ_E_DELETED, -1, "The store was deleted while it was being opened: path=%.140s.", r->path);
        if (mfqi_now_ms() >= patience)
            return mfqi_fail(error, MFQ_E_IN_USE, -1, "Lock files were removed while others have the store open: path=%.120s.",
                r->path);
        mfqi_sleep_ms(1);
    }
    mfq_status status = map_control_attached(r, error);
    if (status != MFQ_OK)
        return status;
    struct record checkpoint;
    status = mfqi_read_checkpoint(r, &checkpoint, error);
    if (status != MFQ_OK)
        return status;
    r->checkpoint = checkpoint.offset;
    mfq_error found;
    memset(&found, 0, sizeof found);
    errno = 0;
    if (is_alone && needs_recovery(r, &found))
        return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? mfqi_fail_disk(r, error, -1, "commitlog")
            : found.status == MFQ_E_IN_USE ? mfqi_fail(error, MFQ_E_IN_USE, found.offset, "%s", found.text)
            : mfqi_fail(error, MFQ_E_RECOVERY, -1, "The store needs a recovery: open it once from C#, path=%.140s.", r->path);
    r->epoch = (int64_t)control(r, C_EPOCH);
    r->is_attached = 1;
    if (is_alone) {
        /* Never waits long: it is taken exclusively under `open` only, and a probe releases it at once. */
        while (flock(r->meta_lock, LOCK_SH) != 0 || flock(r->attached, LOCK_SH) != 0)
            if (errno != EINTR)
                return mfqi_fail_disk(r, error, -1, "locks/attached");
    }
    /* A cleaner of temporary files leaves a locked folder alone. */
    (void)mfqi_try_flock(r->directory, LOCK_SH);
    return MFQ_OK;
}

mfq_status mfqi_attach(mfq_reader *r, mfq_error *error) {
    struct stat former;
    mfq_status status = refuse_file_system(r, error);
    if (status != MFQ_OK)
        return status;
    /* A rename that does not replace leaves two names, where it is a link and an unlink. */
    if (r->meta_stat.st_nlink > 1
        && (fstatat(r->directory, "queue.meta.tmp", &former, 0) != 0 || !mfqi_is_same_file(&former, &r->meta_stat))
        && (fstatat(r->directory, "queue.meta.snapshot", &former, 0) != 0 || !mfqi_is_same_file(&former, &r->meta_stat)))
        return mfqi_fail(error, MFQ_E_FORMAT, -1,
            "The store shares its files with another one, as `cp -al` makes them: path=%.120s.", r->path);
    if (mkdirat(r->directory, "locks", 0700) == 0) {
        int fd = openat(r->directory, "locks", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0) {
            mfqi_adopt(r, fd);
            close(fd);
        }
    }
    int opening = mfqi_lock(r, "locks/open", LOCK_EX, 30000);
    if (opening < 0)
        return mfqi_fail_lock(r, error, "locks/open");
    int second = mfqi_lock(r, "locks/open", LOCK_EX, 0);
    if (second >= 0) {
        status = mfqi_fail(error, MFQ_E_FORMAT, -1, "File locks do not work here: path=%.160s.", r->path);
        mfqi_close_fd(r, &second);
    } else {
        status = attach_locked(r, error);
    }
    mfqi_close_fd(r, &opening);
    return status;
}

/* ---- consumers ---- */

void mfqi_wake_sleepers(const mfq_reader *r, int sequence_at, int flag_at, uint64_t flag) {
    __atomic_add_fetch(control_word(r, sequence_at), 1, __ATOMIC_SEQ_CST);
    MFQ_STEP("SequenceRaised");
    (void)syscall(SYS_futex, control_word(r, sequence_at), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    (void)__atomic_compare_exchange_n(control_word(r, flag_at), &flag, flag & POISON, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* Producers may wait until consumers are further. Not inlined: a commit, which rarely calls it, saves fewer registers. */
__attribute__((noinline)) static void wake_producers(const mfq_reader *r) { mfqi_wake(r, C_ROOM_SEQUENCE, C_ROOM_FLAG); }

/*
 * Stores an offset that may be below the one before. A removal of segments raises the log start, then reads the cursors again;
 * this stores the cursor, then reads the log start: one of the two sees the other. 0: what is there is removed, or may be.
 */
static int store_cursor(const mfq_reader *r, int64_t offset) {
    __atomic_store_n(r->cursor, cursor_word(offset), __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    wake_producers(r);
    return offset >= mfqi_find_log_start(r);
}

__attribute__((noinline)) static mfq_status removed(const mfq_reader *r, int64_t offset, mfq_error *error) {
    return mfqi_fail(error, MFQ_E_OUT_OF_RANGE, offset, "The messages here were removed: offset=%lld, file=%s, path=%.50s.",
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
        return mfqi_fail_disk(r, error, -1, temporary);
    mfqi_adopt(r, fd);
    mfq_status status = MFQ_OK;
    ssize_t n = pwrite(fd, page, sizeof page, 0);
    if (n >= 0 && n != (ssize_t)sizeof page)
        errno = ENOSPC;
    if (n != (ssize_t)sizeof page || fsync(fd) != 0 || renameat(r->directory, temporary, r->directory, r->cursor_name) != 0) {
        status = mfqi_fail_disk(r, error, -1, temporary);
        (void)unlinkat(r->directory, temporary, 0);
    }
    close(fd);
    return status;
}

static mfq_status open_cursor(mfq_reader *r, const char *name, mfq_error *error) {
    char lock_name[NAME_MAX_LENGTH + 40];
    struct stat state;
    if (!name_cursor(name, r->cursor_name, sizeof r->cursor_name)
        || !name_consumer(name, "locks/consumer-", "", lock_name, sizeof lock_name))
        return mfqi_fail(error, MFQ_E_ARGUMENT, -1, NAME_RULE);
    /* `info` probes it for a moment, and a killed process releases its locks one by one. */
    r->name_lock = mfqi_lock(r, lock_name, LOCK_EX, 1000);
    if (r->name_lock < 0)
        return mfqi_fail_lock(r, error, lock_name);
    /* With the name held: its lock may be a new file. */
    if (!mfqi_is_in_place(r->directory, "locks/attached", r->attached))
        return mfqi_fail(error, MFQ_E_DELETED, -1, "Lock files were removed while the store was open: path=%.140s.", r->path);
    r->cursor_fd = mfqi_open_file(r->directory, r->cursor_name, O_RDWR, &state);
    if (r->cursor_fd < 0 && errno == ENOENT) {
        mfq_status status = make_cursor(r, error);
        if (status != MFQ_OK)
            return status;
        r->cursor_fd = mfqi_open_file(r->directory, r->cursor_name, O_RDWR, &state);
    }
    if (r->cursor_fd < 0)
        return mfqi_fail_disk(r, error, -1, r->cursor_name);
    if (state.st_size < PAGE) {
        uint8_t zeros[PAGE] = {0};
        size_t missing = (size_t)(PAGE - state.st_size);
        if (pwrite(r->cursor_fd, zeros, missing, state.st_size) != (ssize_t)missing)
            return mfqi_fail_disk(r, error, -1, r->cursor_name);
    }
    /* The cursor itself, in case the file of its name's lock was removed under another holder. */
    int taken = mfqi_lock_range(r->cursor_fd, F_WRLCK, 5000);
    if (taken == 0)
        return mfqi_fail(error, MFQ_E_IN_USE, -1, "Another consumer holds the cursor: file=%s, path=%.60s.", r->cursor_name,
            r->path);
    if (taken < 0 && errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP && errno != ENOLCK)
        return mfqi_fail_disk(r, error, -1, r->cursor_name);
    /* Before an offset is stored: producers with a limit list the cursors again. */
    __atomic_add_fetch(control_word(r, C_CONSUMERS), 1, __ATOMIC_SEQ_CST);
    void *page = MFQ_MAP(r->cursor_fd, PAGE, PROT_READ | PROT_WRITE);
    if (page == MAP_FAILED)
        return mfqi_fail_disk(r, error, -1, r->cursor_name);
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
            mfq_status status = mfqi_find_start(r, start, &offset, error);
            if (status != MFQ_OK)
                return status;
        } else {
            mfq_status status = (uint64_t)offset == control(r, C_TAIL) ? MFQ_OK : mfqi_is_frame_start(r, offset, error);
            /* After the walk, under which the segment may have been removed. */
            if (offset < mfqi_find_log_start(r))
                return removed(r, offset, error);
            if (status == MFQ_EMPTY)
                return mfqi_fail(error, MFQ_E_CORRUPT, offset,
                    "The stored offset is not a frame's start: offset=%lld, file=%s, path=%.40s.", (long long)offset,
                    r->cursor_name, r->path);
            if (status != MFQ_OK)
                return status;
        }
        mfqi_move_to(r, &r->place, offset);
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
        return mfqi_fail(error, MFQ_E_ARGUMENT, -1, "A place for the consumer and a start are needed.");
    *consumer = NULL;
    mfq_status status = mfqi_open_store(path, &r, error);
    if (status != MFQ_OK)
        return status;
    if ((status = mfqi_attach(r, error)) == MFQ_OK && (status = open_cursor(r, name, error)) == MFQ_OK
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

/* What a commit seldom needs. Not inlined, as above. */
__attribute__((noinline)) static mfq_status commit_rarely(const mfq_reader *r, int64_t offset, mfq_error *error) {
    if (r == NULL || r->cursor == NULL)
        return mfqi_fail(error, MFQ_E_ARGUMENT, -1, "Only a consumer commits.");
    if (control(r, C_MAY_WAIT) != 0) {
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        wake_producers(r);
    }
    return (uint64_t)offset < control(r, C_LOG_START) ? removed(r, offset, error) : MFQ_OK;
}

/* After a seek back: a removal may not have seen the consumer there. What is refused leaves the offset before. */
__attribute__((noinline)) static mfq_status commit_back(const mfq_reader *r, int64_t offset, int64_t before, mfq_error *error) {
    if (store_cursor(r, offset))
        return MFQ_OK;
    (void)store_cursor(r, before);
    return removed(r, offset, error);
}

mfq_status mfq_commit(mfq_reader *r, mfq_error *error) {
    if (r == NULL || r->cursor == NULL)
        return commit_rarely(r, 0, error);
    int64_t offset = r->place.offset + r->in_hand, before = cursor_offset(__atomic_load_n(r->cursor, __ATOMIC_RELAXED));
    if (offset < before)
        return commit_back(r, offset, before, error);
    __atomic_store_n(r->cursor, cursor_word(offset), __ATOMIC_RELEASE);
    return control(r, C_MAY_WAIT) == 0 && (uint64_t)offset >= control(r, C_LOG_START) ? MFQ_OK
        : commit_rarely(r, offset, error);
}

mfq_status mfq_flush(mfq_reader *r, mfq_error *error) {
    if (r == NULL || r->cursor == NULL)
        return mfqi_fail(error, MFQ_E_ARGUMENT, -1, "Only a consumer has something to flush.");
    if (fdatasync(r->cursor_fd) != 0) {
        /* The system takes the page for clean now; an exchange with what is there makes it dirty again. */
        uint64_t word = __atomic_load_n(r->cursor, __ATOMIC_ACQUIRE);
        int code = errno;
        (void)__atomic_compare_exchange_n(r->cursor, &word, word, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
        errno = code;
        return mfqi_fail_disk(r, error, -1, r->cursor_name);
    }
    int folder = openat(r->directory, strchr(r->cursor_name + 7, '/') == NULL ? "offset" : "offset/consumers",
        O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int is_synced = folder >= 0 && mfqi_sync_folder(folder) == 0;
    mfq_status status = is_synced ? MFQ_OK : mfqi_fail_disk(r, error, -1, "offset");
    if (folder >= 0)
        close(folder);
    return status == MFQ_OK ? mfqi_check_replaced(r, error) : status;
}
