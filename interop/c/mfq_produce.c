/*
 * Producing (docs/DESIGN.md, sections 1 and 2): admission, room in segments and blocks, rolling, and the two ways to append.
 *
 * Shared                                              a death after it leaves
 * 1 claim: compare-and-swap the header from 0 to      a dead claim, which becomes padding when a flush, a consumer in C#
 *   length, "claimed", slot and generation            or an Exclusive producer meets it; all others step over it
 * 2 payload                                           the same
 * 3 publish: compare-and-swap from exactly the claim  the message
 * 4 read the waiters' flag                            the flag stays up for the next publisher
 *
 * Exclusive
 * 1 payload after the place of the header             bytes beyond the tail that no reader enters
 * 2 zero the place of the next header                 the same
 * 3 the header's place still holds 0                  otherwise a process writes without the lock: fail
 * 4 store the header (release)                        the message
 * 5 read the waiters' flag                            the barrier before it is the waiter's (membarrier)
 */
#include "mfq_internal.h"

enum { FIRST_BLOCKS = 256 << 10, BLOCK_STEP = 1 << 20, PIECE = 2 << 20, SLOTS = 4096, GENERATION_MAX = 0xFFFFF,
    LONG_PAYLOAD = 64 << 10 };

static int is_exclusive(const mfq_producer *p) { return p->options.mode == MFQ_EXCLUSIVE; }

void mfqi_raise_to(const mfq_reader *r, int at, int64_t value) {
    uint64_t now = control(r, at);
    while (now < (uint64_t)value
        && !__atomic_compare_exchange_n(control_word(r, at), &now, (uint64_t)value, 0, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE)) {
    }
}

/* One of the four words of the cold block, under `open`: the block is valid before and after, wherever the process dies. */
static void set_cold_word(const mfq_reader *r, int at, uint64_t value) {
    uint32_t *sum = (uint32_t *)(void *)(r->control + C_SUM), *next = (uint32_t *)(void *)(r->control + C_NEXT_SUM);
    uint32_t announced = __atomic_load_n(next, __ATOMIC_ACQUIRE), now = mfqi_cold_sum(r, -1, 0);
    if (announced != 0 && announced == now)
        __atomic_store_n(sum, now, __ATOMIC_RELEASE);
    __atomic_store_n(next, mfqi_cold_sum(r, at, value), __ATOMIC_RELEASE);
    __atomic_store_n(control_word(r, at), value, __ATOMIC_RELEASE);
    __atomic_store_n(sum, mfqi_cold_sum(r, -1, 0), __ATOMIC_RELEASE);
    __atomic_store_n(next, 0, __ATOMIC_RELEASE);
}

/* ---- segments and their blocks ---- */

/* The names of segments that start below an offset are on disk before anything is appended there. */
mfq_status mfqi_flush_names(const mfq_reader *r, int64_t start, mfq_error *error) {
    if (control(r, C_NAMES_FLUSHED) > (uint64_t)start)
        return MFQ_OK;
    int folder = openat(r->directory, "commitlog", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return mfqi_fail_disk(r, error, -1, "commitlog");
    int code = mfqi_sync_folder(folder) == 0 ? 0 : errno;
    close(folder);
    if (code != 0) {
        errno = code;
        return mfqi_poison(r, error);
    }
    mfqi_raise_to(r, C_NAMES_FLUSHED, start + 1);
    return MFQ_OK;
}

/* A file that becomes longer than `ulimit -f` allows would end the process by SIGXFSZ, whose handling is the program's. */
static int set_length(int fd, int64_t length) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < (rlim_t)length) {
        errno = EFBIG;
        return -1;
    }
    return ftruncate(fd, (off_t)length);
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
        return mfqi_fail_disk(r, error, -1, temporary);
    mfqi_adopt(r, fd);
    mfq_status status = MFQ_OK;
    if (set_length(fd, r->info.segment_length) != 0 || allocate(fd, 0, blocks) != 0 || fdatasync(fd) != 0)
        status = mfqi_fail_disk(r, error, -1, temporary);
    close(fd);
    MFQ_STEP("TemporaryMade");
    int prepare = status == MFQ_OK ? mfqi_lock(r, "locks/prepare", LOCK_SH, 30000) : -1;
    if (status == MFQ_OK && prepare < 0)
        status = mfqi_fail_lock(r, error, "locks/prepare");
    /* A segment of zeros may end a store that is in this folder by now. */
    if (status == MFQ_OK)
        status = mfqi_check_replaced(r, error);
    if (status == MFQ_OK && renameat2(r->directory, temporary, r->directory, name, RENAME_NOREPLACE) != 0) {
        /* Some file systems, kernels and sandboxes cannot; a link never replaces either. */
        if ((errno != EINVAL && errno != ENOSYS && errno != EPERM) || linkat(r->directory, temporary, r->directory, name, 0) != 0)
            status = errno == EEXIST ? MFQ_EMPTY : mfqi_fail_disk(r, error, -1, name);
        (void)unlinkat(r->directory, temporary, 0);
    } else if (status != MFQ_OK) {
        (void)unlinkat(r->directory, temporary, 0);
    }
    mfqi_close_fd(r, &prepare);
    MFQ_STEP("SegmentRenamed");
    return status;
}

/* Makes the segment that starts there with its first blocks, unless it exists or was removed. */
static mfq_status make_segment(mfq_producer *p, int64_t start, mfq_error *error) {
    const mfq_reader *r = p->store;
    char name[48];
    struct stat state;
    int64_t blocks = min64(FIRST_BLOCKS, r->info.segment_length);
    mfqi_segment_name(name, sizeof name, start);
    for (int tries = 0; tries < 100; tries++) {
        int fd = mfqi_open_file(r->directory, name, O_RDWR, &state);
        if (fd >= 0) {
            int code = allocate(fd, 0, blocks) == 0 ? 0 : errno;
            close(fd);
            if (state.st_size < r->info.segment_length)
                return mfqi_fail(error, MFQ_E_CORRUPT, start, "A segment is too short: file=%s, path=%.140s.", name, r->path);
            errno = code;
            return code == 0 ? mfqi_flush_names(r, start, error) : mfqi_fail_disk(r, error, start, name);
        }
        if (errno != ENOENT)
            return mfqi_fail_disk(r, error, start, name);
        /* It was removed while this producer was stopped. */
        if (start < (int64_t)control(r, C_LOG_START))
            return MFQ_OK;
        mfq_status status = make_file(p, name, blocks, error);
        if (status < 0)
            return status;
    }
    return mfqi_fail(error, MFQ_E_IN_USE, start, "A segment comes and goes: file=%s, path=%.140s.", name, r->path);
}

static int write_zeros(int fd, int64_t at, int64_t to) {
    static const uint8_t zeros[65536] = {0};
    while (at < to) {
        ssize_t n = pwrite(fd, zeros, (size_t)min64((int64_t)sizeof zeros, to - at), (off_t)at);
        if (n > 0)
            at += n;
        else if (n == 0 || errno != EINTR)
            return 0;
    }
    return 1;
}

/*
 * After what is allocated, a recycled segment has old bytes. They are zeroed before the bound rises, by one thread of all
 * processes at a time: a second one that has read the bound before would zero messages.
 */
static mfq_status zero_recycled(const mfq_reader *r, int fd, int64_t start, int64_t to, mfq_error *error) {
    int taken = mfqi_lock_range(fd, F_WRLCK, 50);
    if (taken <= 0)
        return taken == 0 ? MFQ_EMPTY : mfqi_fail_disk(r, error, start, "commitlog");
    mfq_status status = MFQ_OK;
    if (write_zeros(fd, (int64_t)control(r, C_ALLOCATED) - start, to))
        mfqi_raise_to(r, C_ALLOCATED, start + to);
    else
        status = mfqi_fail_disk(r, error, start, "commitlog");
    (void)mfqi_lock_range(fd, F_UNLCK, 0);
    return status;
}

/*
 * Blocks up to an offset of the lane's segment: a store into a hole of a file on a full disk ends the process. They are given up
 * to the end of a piece of 2 MiB before the bound rises into it, because the kernel asks for the blocks of all of a piece. By the
 * open file: its name may mean one of another store by now. MFQ_EMPTY: this segment cannot grow.
 */
static mfq_status ensure_allocated(mfq_producer *p, int64_t target, mfq_error *error) {
    const mfq_reader *r = p->store;
    const struct segment *segment = &p->lane.segment;
    int64_t length = r->info.segment_length;
    while (1) {
        uint64_t word = control(r, C_ALLOCATED);
        if (word >= (uint64_t)target)
            return word > (uint64_t)OFFSET_MAX ? mfqi_poisoned(r, error) : MFQ_OK;
        MFQ_STEP("AllocatedRead");
        int64_t allocated = (int64_t)word, start = allocated - allocated % length, position = allocated - start;
        int64_t step = min64(max64(target - allocated, FIRST_BLOCKS), BLOCK_STEP);
        int64_t next = min64(start + length, (allocated + step + 4095) & ~INT64_C(4095));
        int64_t piece = min64(length, (next - start + PIECE - 1) & -(int64_t)PIECE);
        struct stat state;
        if (start != segment->start)
            return mfqi_corrupt(r, &p->lane, error, "a damaged bound of blocks");
        if (allocate(segment->fd, position, piece - position) != 0)
            return errno == EOPNOTSUPP ? MFQ_EMPTY : mfqi_fail_disk(r, error, allocated, "commitlog");
        if (fstat(segment->fd, &state) != 0)
            return mfqi_fail_disk(r, error, allocated, "commitlog");
        if (position == 0) {
            /* No further: the rest of a recycled segment is not zeroed yet. */
            next = min64(next, start + FIRST_BLOCKS);
        } else if (state.st_size > length) {
            mfq_status status = zero_recycled(r, segment->fd, start, next - start, error);
            if (status != MFQ_OK)
                return status;
        }
        mfqi_raise_to(r, C_ALLOCATED, next);
    }
}

/* ---- the lane ---- */

/* Moves to an offset, which is a frame's start, or past it when retention has overtaken it. */
static mfq_status enter_for_writing(mfq_producer *p, int64_t offset, mfq_error *error) {
    const mfq_reader *r = p->store;
    struct place *lane = &p->lane;
    int64_t length = r->info.segment_length;
    for (int tries = 0; tries < 1000; tries++) {
        char name[48];
        struct stat state;
        int64_t start = offset - offset % length;
        mfq_status status;
        if (offset > OFFSET_MAX)
            return mfqi_poisoned(r, error);
        mfqi_segment_name(name, sizeof name, start);
        int fd = mfqi_open_locked(r, name, O_RDWR, LOCK_SH, &state);
        if (fd < 0 && errno == EWOULDBLOCK) {
            mfqi_sleep_ms(1);
            continue;
        }
        if (fd < 0 && errno != ENOENT)
            return mfqi_fail_disk(r, error, offset, name);
        /* Read after the segment was opened: retention may have removed it while this producer was stopped. */
        if (start < (int64_t)control(r, C_LOG_START)) {
            mfqi_close_fd(r, &fd);
            offset = (int64_t)control(r, C_TAIL);
            mfqi_sleep_ms(1);
            continue;
        }
        if (fd < 0) {
            status = make_segment(p, start, error);
            if (status != MFQ_OK)
                return status;
            continue;
        }
        void *base = state.st_size < length ? MAP_FAILED
            : MFQ_MAP(fd, (size_t)length, PROT_READ | PROT_WRITE);
        status = state.st_size < length
            ? mfqi_fail(error, MFQ_E_CORRUPT, offset, "A segment is too short: file=%s, path=%.140s.", name, r->path)
            : base == MAP_FAILED ? mfqi_fail_disk(r, error, offset, name) : mfqi_flush_names(r, start, error);
        if (status != MFQ_OK) {
            if (base != MAP_FAILED)
                MFQ_UNMAP(base, (size_t)length);
            mfqi_close_fd(r, &fd);
            return status;
        }
        mfqi_raise_to(r, C_ALLOCATED, start);
        /* Retention by age goes by when a segment was completed; the next one's first producer says so, before the hint. */
        if (lane->segment.fd >= 0 && control(r, C_TAIL) < (uint64_t)start)
            (void)futimens(lane->segment.fd, NULL);
        mfqi_keep_unflushed(p);
        mfqi_leave(r, lane);
        lane->segment.base = (uint8_t *)base;
        lane->segment.start = start;
        lane->segment.usable = length;
        lane->segment.fd = fd;
        lane->offset = offset;
        MFQ_STEP("SegmentEntered");
        mfqi_raise_to(r, C_TAIL, offset);
        return MFQ_OK;
    }
    return mfqi_fail(error, MFQ_E_IN_USE, offset, "Segments are removed at the tail: path=%.160s.", r->path);
}

uint64_t mfqi_padding_header(const mfq_reader *r, int64_t offset, int64_t length) {
    static const uint8_t none[8] = {0};
    uint32_t low = (uint32_t)(length - HEADER) | (uint32_t)PADDING << 28;
    return low | (uint64_t)mfqi_frame_crc(r->seed, offset, low, none, 0) << 32;
}

static mfq_status is_foreign(const mfq_producer *p, mfq_error *error) {
    return mfqi_fail(error, MFQ_E_IN_USE, p->lane.offset, "Another process appends beside an Exclusive producer: path=%.130s.",
        p->store->path);
}

/*
 * A frame of somebody else. An Exclusive producer meets them only at its start. A claim is a dead owner's then, because this
 * producer holds the lock: it becomes padding. The kernel closes a dying process's files one after the other, so it is tried for
 * a while. A Shared producer leaves claims to those who have to get past them.
 */
static mfq_status step_over(mfq_producer *p, uint64_t header, int64_t room, mfq_error *error) {
    const mfq_reader *r = p->store;
    struct place *lane = &p->lane;
    if (!is_plausible(header, room))
        return mfqi_corrupt(r, lane, error, "an impossible header");
    if (is_exclusive(p) && p->has_started)
        return is_foreign(p, error);
    for (int64_t end = mfqi_now_ms() + 5000; is_exclusive(p) && state_of(header) == CLAIMED; header = load_header(lane)) {
        mfq_status status = mfqi_repair_claim(r, lane, header, error);
        if (status < 0)
            return status;
        if (status == MFQ_EMPTY && mfqi_now_ms() >= end)
            return mfqi_fail(error, MFQ_E_IN_USE, lane->offset, "Another producer writes: path=%.160s.", r->path);
        if (status == MFQ_EMPTY)
            mfqi_sleep_ms(1);
    }
    lane->offset += frame_length((uint32_t)header & LENGTH_MASK);
    return MFQ_OK;
}

static mfq_status pad_rest(mfq_producer *p, int64_t room, mfq_error *error) {
    const mfq_reader *r = p->store;
    struct place *lane = &p->lane;
    int64_t end = lane->segment.start + r->info.segment_length;
    uint64_t expected = 0;
    if (room > (INT64_C(1) << 28)) {
        errno = EOPNOTSUPP;
        return mfqi_fail_disk(r, error, lane->offset, "commitlog");
    }
    /* The next segment exists before the rest is padding. */
    if (control(r, C_ALLOCATED) <= (uint64_t)end) {
        mfq_status status = make_segment(p, end, error);
        if (status != MFQ_OK)
            return status;
    }
    if (!__atomic_compare_exchange_n(header_at(lane), &expected, mfqi_padding_header(r, lane->offset, room), 0, __ATOMIC_SEQ_CST,
            __ATOMIC_ACQUIRE))
        return MFQ_OK;
    MFQ_STEP("RestPadded");
    mfqi_raise_to(r, C_ALLOCATED, end);
    mfqi_wake(r, C_SEQUENCE, C_FLAG);
    lane->offset += room;
    return MFQ_OK;
}

/*
 * A hypervisor that shadows page tables (PVM) fills its own at the first access alone, which takes 4 us a page. What others write
 * there meanwhile does not matter: a race detector need not look.
 */
__attribute__((noinline, no_sanitize_thread)) static void read_pages(const volatile uint8_t *base, int64_t from, int64_t to) {
    for (int64_t at = from; at < to; at += PAGE)
        (void)base[at];
}

/* Asks for pages to write to: a store into a page that the disk cannot give ends the process. */
static mfq_status make_writable(mfq_producer *p, int64_t from, int64_t to, mfq_error *error) {
    const int populate_write = 23;
    struct place *lane = &p->lane;
    int code = mfqi_populate(lane, from, to, populate_write);
    if (code == EINVAL)
        return mfqi_raise_bound(p->store, lane, from, to, to, error);
    errno = code;
    if (code != 0)
        return mfqi_fail_disk(p->store, error, lane->offset, "commitlog");
    read_pages(lane->segment.base, from & ~(int64_t)(PAGE - 1), to);
    lane->bound = to;
    return MFQ_OK;
}

/*
 * Whether walkers or a flush have passed the lane's place, so that no header there is free. One that looks free then has been
 * lost, and a claim would overwrite what was published after it.
 */
static int is_passed(const mfq_producer *p) {
    const mfq_reader *r = p->store;
    return p->lane.offset < mfqi_passed_to(r) && p->lane.segment.start >= (int64_t)control(r, C_LOG_START);
}

/* As is_passed, but calls nothing and believes the words: where they are damaged it may say yes. */
static inline int may_be_passed(const mfq_producer *p) {
    uint64_t offset = (uint64_t)p->lane.offset;
    return offset < control(p->store, C_CONFIRMED) || offset < control(p->store, C_TAIL);
}

static mfq_status find_room(mfq_producer *p, int64_t length, mfq_error *error) {
    const mfq_reader *r = p->store;
    struct place *lane = &p->lane;
    int64_t segment_length = r->info.segment_length;
    mfq_status status = MFQ_OK;
    if (lane->segment.fd < 0)
        status = enter_for_writing(p, mfqi_passed_to(r), error);
    while (status == MFQ_OK) {
        int64_t at = lane->offset - lane->segment.start, room = segment_length - at, end = at + length;
        if (room == 0) {
            status = mfqi_check_replaced(r, error);
            if (status == MFQ_OK)
                status = enter_for_writing(p, lane->offset, error);
            continue;
        }
        mfq_status has_block = ensure_allocated(p, lane->offset + HEADER, error);
        if (has_block < 0)
            return has_block;
        int64_t limit = min64((int64_t)control(r, C_ALLOCATED) - lane->segment.start, segment_length);
        if (at + HEADER > lane->bound) {
            int64_t wanted = is_exclusive(p) && p->has_started ? 0 : min64(limit, at + LAST_STEP);
            status = mfqi_raise_bound(r, lane, at, at + HEADER, wanted, error);
            if (status != MFQ_OK)
                break;
        }
        uint64_t header = load_header(lane);
        if (header == 0 && is_passed(p)) {
            header = load_header(lane);
            if (header == 0)
                return mfqi_corrupt(r, lane, error, "messages are missing");
        }
        if (header != 0) {
            status = step_over(p, header, room, error);
            continue;
        }
        if (has_block == MFQ_EMPTY) {
            errno = EOPNOTSUPP;
            return mfqi_fail_disk(r, error, lane->offset, "commitlog");
        }
        mfq_status grown = end > segment_length ? MFQ_EMPTY
            : ensure_allocated(p, lane->segment.start + min64(end + HEADER, segment_length), error);
        if (grown < 0)
            return grown;
        int64_t needed = min64(grown == MFQ_OK ? end + HEADER : at + HEADER, segment_length);
        limit = min64((int64_t)control(r, C_ALLOCATED) - lane->segment.start, segment_length);
        status = make_writable(p, at, max64(needed, min64(limit, at + FIRST_BLOCKS)), error);
        if (status != MFQ_OK)
            break;
        if (grown == MFQ_EMPTY) {
            status = pad_rest(p, room, error);
            continue;
        }
        mfqi_raise_to(r, C_TAIL, lane->offset);
        return MFQ_OK;
    }
    return status;
}

/* Brings the lane to a free place with room and blocks for a frame and the header after it. */
static mfq_status make_room(mfq_producer *p, int64_t length, mfq_error *error) {
    mfq_status status = find_room(p, length, error);
    /* The pages below the bound may be there for reading alone. */
    if (status != MFQ_OK)
        p->lane.bound = 0;
    return status;
}

/*
 * What a dead Exclusive producer wrote and never published, from the tail to the allocated bound. The zeros are synced even where
 * only zeros were found: what the disk holds may be older.
 */
static mfq_status zero_beyond_tail(mfq_producer *p, mfq_error *error) {
    const int64_t piece = 64 << 10;
    const mfq_reader *r = p->store;
    mfq_status status = make_room(p, HEADER, error);
    if (status != MFQ_OK)
        return status;
    const struct segment *segment = &p->lane.segment;
    int64_t end = min64((int64_t)control(r, C_ALLOCATED) - segment->start, segment->usable);
    for (int64_t at = p->lane.offset - segment->start; at < end; at += piece) {
        int64_t to = min64(at + piece, end);
        if (mfqi_has_data(segment->fd, at, to) && !write_zeros(segment->fd, at, to))
            return mfqi_fail_disk(r, error, p->lane.offset, "commitlog");
    }
    return fdatasync(segment->fd) == 0 ? MFQ_OK : mfqi_poison(r, error);
}

/* ---- admission ---- */

static uint64_t start_time(void) {
    char text[1024] = {0};
    unsigned long long time = 0;
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    (void)mfqi_read_at(fd, text, sizeof text - 1, 0);
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
    int fd = mfqi_open_file(r->directory, "locks/slots", O_RDWR, &state);
    if (fd < 0 && errno != ENOENT)
        return mfqi_fail_disk(r, error, -1, "locks/slots");
    void *table = fd < 0 || state.st_size < SLOT_TABLE ? NULL : MFQ_MAP(fd, SLOT_TABLE, PROT_READ | PROT_WRITE);
    mfq_status mapped = table == NULL
        ? mfqi_fail(error, MFQ_E_IN_USE, -1, "The table of slots is missing or short: path=%.160s.", r->path)
        : table == MAP_FAILED ? mfqi_fail_disk(r, error, -1, "locks/slots") : MFQ_OK;
    if (fd >= 0)
        close(fd);
    if (mapped != MFQ_OK)
        return mapped;
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
        p->slot_lock = mfqi_lock(r, name, LOCK_EX, 0);
        if (p->slot_lock < 0 && errno != EWOULDBLOCK && errno != EACCES)
            return mfqi_fail_disk(r, error, -1, name);
        if (p->slot_lock < 0)
            continue;
        uint32_t generation = __atomic_load_n(word, __ATOMIC_ACQUIRE);
        if (generation < GENERATION_MAX) {
            memcpy(entry + 4, &pid, 4);
            memcpy(entry + 8, &started, 8);
            p->generation = generation + 1;
            __atomic_store_n(word, p->generation, __ATOMIC_RELEASE);
            MFQ_STEP("SlotTaken");
            return MFQ_OK;
        }
        mfqi_close_fd(r, &p->slot_lock);
    }
    return mfqi_fail(error, MFQ_E_IN_USE, -1, "No free producer slot: path=%.160s.", r->path);
}

/* With `open` and the producers' lock held. */
static mfq_status prepare_producer(mfq_producer *p, mfq_error *error) {
    const mfq_reader *r = p->store;
    if (control(r, C_CORRUPT) != 0)
        return mfqi_fail(error, MFQ_E_CORRUPT, (int64_t)control(r, C_CORRUPT) - 1,
            "Nothing can be appended to a damaged log: path=%.120s.", r->path);
    if (mfqi_is_poisoned(r))
        return mfqi_poisoned(r, error);
    mfq_status status = take_slot(p, error);
    if (status == MFQ_OK && control(r, C_EXCLUSIVE) != 0)
        status = zero_beyond_tail(p, error);
    if (status != MFQ_OK)
        return status;
    if (is_exclusive(p)) {
        p->fences = !mfqi_is_registered();
        if (!p->fences)
            __atomic_or_fetch(control_word(r, C_FENCE), 1, __ATOMIC_SEQ_CST);
    }
    set_cold_word(r, C_EXCLUSIVE, is_exclusive(p) ? 1 : 0);
    p->is_marked = is_exclusive(p);
    return MFQ_OK;
}

static mfq_status admit(mfq_producer *p, mfq_error *error) {
    const mfq_reader *r = p->store;
    /* A dying process may still hold it. It is never waited for under `open`. */
    for (int64_t end = mfqi_now_ms() + 1000;;) {
        struct stat state;
        int opening = mfqi_lock(r, "locks/open", LOCK_EX, 30000);
        if (opening < 0)
            return mfqi_fail_lock(r, error, "locks/open");
        mfq_status status = MFQ_EMPTY;
        p->lock = mfqi_open_file(r->directory, "locks/producers", O_RDWR, &state);
        if (p->lock < 0 && errno != ENOENT)
            status = mfqi_fail_disk(r, error, -1, "locks/producers");
        else if (p->lock < 0 || !mfqi_is_in_place(r->directory, "locks/attached", r->attached))
            status = mfqi_fail(error, MFQ_E_DELETED, -1,
                "Lock files were removed while the store was open: path=%.140s.", r->path);
        else if (mfqi_try_flock(p->lock, is_exclusive(p) ? LOCK_EX : LOCK_SH) > 0
            && mfqi_is_in_place(r->directory, "locks/producers", p->lock))
            status = prepare_producer(p, error);
        mfqi_close_fd(r, &opening);
        if (status != MFQ_EMPTY)
            return status;
        mfqi_close_fd(r, &p->lock);
        if (mfqi_now_ms() >= end)
            return mfqi_fail(error, MFQ_E_IN_USE, -1, is_exclusive(p) ? "Another producer is attached: path=%.160s."
                : "An Exclusive producer is attached: path=%.160s.", r->path);
        mfqi_sleep_ms(5);
    }
}

mfq_status mfq_producer_open(const char *path, const mfq_producer_options *options, mfq_producer **producer, mfq_error *error) {
    uint8_t random[16];
    if (producer == NULL || (options != NULL && (options->mode > MFQ_EXCLUSIVE || options->durability > MFQ_GROUP)))
        return mfqi_fail(error, MFQ_E_ARGUMENT, -1, "A place for the producer and a known mode and durability are needed.");
    *producer = NULL;
    mfq_producer *p = (mfq_producer *)calloc(1, sizeof *p);
    if (p == NULL)
        return mfqi_fail(error, MFQ_E_NO_MEMORY, -1, "There is no memory.");
    if (options != NULL)
        p->options = *options;
    p->lock = p->slot_lock = p->flush_lock = -1;
    mfqi_begin_place(&p->lane, 0);
    mfqi_begin_place(&p->walk, 0);
    p->walk.repairs = 1;
    if (syscall(SYS_getrandom, random, sizeof random, 0) != (long)sizeof random)
        memset(random, (int)getpid() & 0xFF, sizeof random);
    for (int i = 0; i < 16; i++)
        snprintf(p->id + i * 2, 3, "%02x", random[i]);
    mfq_status status = mfqi_open_store(path, &p->store, error);
    if (status == MFQ_OK)
        status = mfqi_attach(p->store, error);
    if (status == MFQ_OK)
        status = admit(p, error);
    if (status == MFQ_OK)
        status = make_room(p, HEADER, error);
    if (status != MFQ_OK) {
        mfq_producer_close(p);
        return status;
    }
    p->has_started = 1;
    const mfq_info *info = &p->store->info;
    int is_plain = p->options.durability == MFQ_PAGE_CACHE && !p->fences && mfqi_has_crc_instruction;
    p->plain_least = !is_plain ? SIZE_MAX : info->is_struct ? (size_t)info->struct_size : 1;
    p->plain_span = info->is_struct || !is_plain ? 0 : (size_t)LONG_PAYLOAD - 1;
    *producer = p;
    return MFQ_OK;
}

void mfq_producer_close(mfq_producer *p) {
    if (p == NULL)
        return;
    if (p->is_marked && !p->is_dirty && p->store->owner == getpid()) {
        /* Where `open` cannot be had, the mark stays: the next producer looks for dirty bytes, and finds none. */
        int opening = mfqi_lock(p->store, "locks/open", LOCK_EX, 1000);
        if (opening >= 0)
            set_cold_word(p->store, C_EXCLUSIVE, 0);
        mfqi_close_fd(p->store, &opening);
    }
    mfqi_end_flushing(p);
    mfqi_leave(p->store, &p->lane);
    if (p->slots != NULL)
        MFQ_UNMAP(p->slots, SLOT_TABLE);
    mfqi_close_fd(p->store, &p->slot_lock);
    mfqi_close_fd(p->store, &p->lock);
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
    return mfqi_parse_block(first, (size_t)(at - block), &length) ? length : 0;
}

/*
 * Whether the word after a free header is zero, as everything beyond the tail is while Shared producers are at work. What another
 * producer writes there meanwhile comes after its claim, for which the caller looks again: a race on purpose.
 */
__attribute__((no_sanitize("thread")))
static int is_blank(const struct place *lane, int64_t segment_length) {
    return lane->offset - lane->segment.start + 2 * HEADER > segment_length
        || __atomic_load_n(header_at(lane) + 1, __ATOMIC_ACQUIRE) == 0;
}

static uint64_t claim_of(const mfq_producer *p, uint32_t length) {
    return (uint64_t)((uint32_t)p->slot << 20 | p->generation) << 32 | (uint64_t)CLAIMED << 28 | length;
}

/*
 * Shared, step 1: walks over the frames of others until a claim of the first free place succeeds. Exclusive, before step 1: the
 * place is free, or a process writes without the lock.
 */
static mfq_status claim_frame(mfq_producer *p, uint32_t length, uint64_t *claim, mfq_error *error) {
    const mfq_reader *r = p->store;
    struct place *lane = &p->lane;
    int64_t size = frame_length(length);
    *claim = claim_of(p, length);
    while (1) {
        if (lane->segment.fd < 0 || lane->offset - lane->segment.start + size + HEADER > lane->bound) {
            mfq_status status = make_room(p, size, error);
            if (status != MFQ_OK)
                return status;
        }
        uint64_t header = load_header(lane);
        if (is_exclusive(p)) {
            p->is_dirty |= header == 0;
            return header == 0 ? MFQ_OK : is_foreign(p, error);
        }
        if (header == 0 && (is_passed(p) || !is_blank(lane, r->info.segment_length))) {
            header = load_header(lane);
            if (header == 0) {
                /* A processor of arm64 without LSE may show a payload before its claim. */
                MFQ_STEP("PayloadMet");
                mfqi_sleep_ms(1);
                header = load_header(lane);
            }
            if (header == 0)
                return mfqi_corrupt(r, lane, error, "messages are missing");
        }
        MFQ_STEP("CallChecked");
        if (header == 0
            && __atomic_compare_exchange_n(header_at(lane), &header, *claim, 0, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE)) {
            MFQ_STEP("Claimed");
            return MFQ_OK;
        }
        if (!is_plausible(header, r->info.segment_length - (lane->offset - lane->segment.start)))
            return mfqi_corrupt(r, lane, error, "an impossible header");
        lane->offset += frame_length((uint32_t)header & LENGTH_MASK);
    }
}

static inline uint64_t copy_word(uint8_t *to, const uint8_t *from, uint64_t crc) {
    uint64_t word = word_at(from);
    memcpy(to, &word, sizeof word);
    return mfqi_crc_word(crc, word);
}

/*
 * Copies a payload word by word, and gives its checksum. Wide loads would wait for the narrow stores of a caller that has just
 * filled the message in. The last word is stored whole: it is in the frame.
 */
static inline uint64_t copy_payload(uint8_t *to, const uint8_t *from, size_t length, uint64_t crc) {
    for (; length >= 32; length -= 32, from += 32, to += 32) {
        crc = copy_word(to, from, crc);
        crc = copy_word(to + 8, from + 8, crc);
        crc = copy_word(to + 16, from + 16, crc);
        crc = copy_word(to + 24, from + 24, crc);
    }
    for (; length >= 8; length -= 8, from += 8, to += 8)
        crc = copy_word(to, from, crc);
    if (length > 0) {
        uint64_t word = 0;
        memcpy(&word, from, length);
        crc = mfqi_crc_word(crc, word);
        memcpy(to, &word, 8);
    }
    return (uint32_t)crc;
}

/* The payload with its checksum; gives the header that publishes it. */
static uint64_t write_payload(const mfq_producer *p, const uint8_t *block, size_t block_length, const void *data, size_t length) {
    uint8_t *payload = (uint8_t *)header_at(&p->lane) + HEADER;
    uint32_t low = (uint32_t)(block_length + length) | (uint32_t)PUBLISHED << 28 | (block_length == 0 ? 0 : EXTENDED);
    if (block_length == 0 && mfqi_has_crc_instruction)
        return low | (uint64_t)copy_payload(payload, (const uint8_t *)data, length,
            mfqi_crc_word(p->store->seed, mfqi_crc_first(p->lane.offset, low))) << 32;
    if (block_length > 0)
        memcpy(payload, block, block_length);
    if (length > 0)
        memcpy(payload + block_length, data, length);
    return low | (uint64_t)mfqi_frame_crc(p->store->seed, p->lane.offset, low, payload, block_length + length) << 32;
}

static mfq_status fenced(const mfq_producer *p, mfq_error *error) {
    return mfqi_fail(error, MFQ_E_FENCED, p->lane.offset,
        "The claim was taken away; the message was not appended: offset=%lld, path=%.110s.", (long long)p->lane.offset,
        p->store->path);
}

static mfq_status publish_exclusively(mfq_producer *p, uint64_t header, mfq_error *error) {
    struct place *lane = &p->lane;
    int64_t next = lane->offset - lane->segment.start + frame_length((uint32_t)header & LENGTH_MASK);
    if (next < p->store->info.segment_length)
        __atomic_store_n((uint64_t *)(void *)(lane->segment.base + next), 0, __ATOMIC_RELAXED);
    MFQ_STEP("NextHeaderZeroed");
    if (load_header(lane) != 0)
        return is_foreign(p, error);
    if (p->fences)
        (void)__atomic_exchange_n(header_at(lane), header, __ATOMIC_SEQ_CST);
    else
        __atomic_store_n(header_at(lane), header, __ATOMIC_RELEASE);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    p->is_dirty = 0;
    return MFQ_OK;
}

/* After the message is published: wakes, and waits for the disk where that was asked for. */
static mfq_status finish(mfq_producer *p, mfq_error *error) {
    const mfq_reader *r = p->store;
    mfq_status status = MFQ_OK;
    mfqi_wake(r, C_SEQUENCE, C_FLAG);
    if (p->options.durability == MFQ_GROUP)
        status = mfqi_wait_durable(p, p->end, error);
    else if (mfqi_is_poisoned(r))
        status = mfqi_poisoned(r, error);
    if (status != MFQ_OK && error != NULL) {
        char text[sizeof error->text];
        snprintf(text, sizeof text, "The message is appended, but perhaps not on disk. %.180s", error->text);
        memcpy(error->text, text, sizeof text);
    }
    return status;
}

/* Every message that produce_plainly leaves to it. */
__attribute__((noinline))
static mfq_status produce_any(mfq_producer *p, const mfq_headers *headers, const void *data, size_t length, int64_t *offset,
    mfq_error *error) {
    uint8_t block[2048];
    uint64_t claim = 0;
    const mfq_reader *r = p->store;
    size_t block_length = headers == NULL ? 0 : make_block(headers, block);
    size_t limit = (size_t)min64(r->info.segment_length, INT64_C(1) << 28) - HEADER;
    if (headers != NULL && block_length == 0)
        return mfqi_fail(error, MFQ_E_ARGUMENT, -1, "These headers cannot be.");
    if (length > limit || length + block_length > limit || (r->info.is_struct && length != (size_t)r->info.struct_size))
        return mfqi_fail(error, MFQ_E_ARGUMENT, -1, "A message of %zu bytes does not fit this store: path=%.140s.", length,
            r->path);
    if (mfqi_is_poisoned(r))
        return mfqi_poisoned(r, error);
    uint32_t whole = (uint32_t)(length + block_length);
    mfq_status status = claim_frame(p, whole, &claim, error);
    if (status != MFQ_OK)
        return status;
    uint64_t header = write_payload(p, block, block_length, data, length);
    MFQ_STEP("PayloadWritten");
    status = is_exclusive(p) ? publish_exclusively(p, header, error)
        : __atomic_compare_exchange_n(header_at(&p->lane), &claim, header, 0, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE) ? MFQ_OK
        : fenced(p, error);
    if (status != MFQ_OK)
        return status;
    MFQ_STEP("Published");
    if (offset != NULL)
        *offset = p->lane.offset;
    p->lane.offset += frame_length(whole);
    p->end = p->lane.offset;
    return finish(p, error);
}

/*
 * The usual case: a message without headers, at PageCache, in pages that were asked for, of a processor with the instruction.
 * 0: nothing was done.
 */
static inline int produce_plainly(mfq_producer *p, const void *data, size_t length, int64_t *offset) {
    const mfq_reader *r = p->store;
    struct place *lane = &p->lane;
    int64_t at = lane->offset - lane->segment.start, size = frame_length((uint32_t)length);
    uint64_t *header = (uint64_t *)(void *)(lane->segment.base + at);
    uint32_t low = (uint32_t)length | (uint32_t)PUBLISHED << 28;
    if (length - p->plain_least > p->plain_span || at + size + HEADER > lane->bound || mfqi_is_poisoned(r))
        return 0;
    uint64_t first = mfqi_crc_word(r->seed, mfqi_crc_first(lane->offset, low));
    if (is_exclusive(p)) {
        if (__atomic_load_n(header, __ATOMIC_ACQUIRE) != 0)
            return 0;
        __atomic_store_n((uint64_t *)(void *)((uint8_t *)header + size), 0, __ATOMIC_RELAXED);
        MFQ_STEP("NextHeaderZeroed");
        uint64_t whole = low | copy_payload((uint8_t *)header + HEADER, (const uint8_t *)data, length, first) << 32;
        MFQ_STEP("PayloadWritten");
        __atomic_store_n(header, whole, __ATOMIC_RELEASE);
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
    } else {
        uint64_t free_header = 0, claim = claim_of(p, (uint32_t)length);
        if (may_be_passed(p) || __atomic_load_n(header, __ATOMIC_ACQUIRE) != 0 || !is_blank(lane, r->info.segment_length))
            return 0;
        MFQ_STEP("CallChecked");
        if (!__atomic_compare_exchange_n(header, &free_header, claim, 0, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE))
            return 0;
        MFQ_STEP("Claimed");
        uint64_t whole = low | copy_payload((uint8_t *)header + HEADER, (const uint8_t *)data, length, first) << 32;
        MFQ_STEP("PayloadWritten");
        if (!__atomic_compare_exchange_n(header, &claim, whole, 0, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE))
            return -1;
    }
    MFQ_STEP("Published");
    if (offset != NULL)
        *offset = lane->offset;
    lane->offset += size;
    p->end = lane->offset;
    return 1;
}

mfq_status mfq_produce(mfq_producer *p, const mfq_headers *headers, const void *data, size_t length, int64_t *offset,
    mfq_error *error) {
    if (p == NULL || (data == NULL && length > 0))
        return mfqi_fail(error, MFQ_E_ARGUMENT, -1, "A producer and a message are needed.");
    int done = headers == NULL ? produce_plainly(p, data, length, offset) : 0;
    if (done == 0)
        return produce_any(p, headers, data, length, offset, error);
    if (done < 0)
        return fenced(p, error);
    uint64_t flag = __atomic_load_n(control_word(p->store, C_FLAG), __ATOMIC_SEQ_CST);
    return flag == 0 ? MFQ_OK : finish(p, error);
}

mfq_status mfq_producer_prepare(mfq_producer *p, int64_t length, mfq_error *error) {
    if (p == NULL || length < 0)
        return mfqi_fail(error, MFQ_E_ARGUMENT, -1, "A producer is needed, and a length that is not negative.");
    struct place *lane = &p->lane;
    int64_t at = lane->offset - lane->segment.start, end = min64(length, p->store->info.segment_length - at) + at;
    mfq_status status = ensure_allocated(p, lane->segment.start + end, error);
    end = min64(end, (int64_t)control(p->store, C_ALLOCATED) - lane->segment.start);
    return status < 0 ? status : end <= max64(at, lane->bound) ? MFQ_OK : make_writable(p, at, end, error);
}

mfq_status mfq_producer_flush(mfq_producer *p, mfq_error *error) {
    return p == NULL ? mfqi_fail(error, MFQ_E_ARGUMENT, -1, "A producer is needed.") : mfqi_wait_durable(p, p->end, error);
}
