/*
 * Making messages durable, and what is in the way of it (docs/DESIGN.md, section 4). Any process may lead a flush, one at a
 * time: the leader holds the kernel lock on `locks/flush`, which its death releases.
 *
 * leader                                                killed, or power lost, after it
 * 1 walk from confirmed to the end of what is           nothing has changed
 *   published; dead claims become padding
 * 2 mark: the target of this flush                      the mark without a holder of the lock says that its leader died
 * 3 sync each segment up to the target, its name first  the next leader syncs the range again
 * 4 once a second: write a checkpoint at the target     recovery's walk begins there, or at the one before
 * 5 look for poison, raise confirmed                    the range is confirmed, for every process
 * 6 clear the mark, release the lock, wake              sleepers look by themselves within 100 ms
 */
#include "mfq_internal.h"

/* ---- poison ---- */

mfq_status mfqi_poisoned(const mfq_reader *r, mfq_error *error) {
    return mfqi_fail(error, MFQ_E_RECOVERY, -1,
        "A flush of the store has failed: close it in every process, then open it from C#: path=%.110s.", r->path);
}

/*
 * A sync failed: nothing is durable any more, in any process, until the store was recovered. The bit comes first: the system
 * reports the error once, and the next sync of the same file would succeed.
 */
mfq_status mfqi_poison(const mfq_reader *r, mfq_error *error) {
    int code = errno;
    __atomic_or_fetch(control_word(r, C_FLAG), POISON, __ATOMIC_SEQ_CST);
    mfqi_wake_sleepers(r, C_SEQUENCE, C_FLAG, control(r, C_FLAG));
    mfqi_wake_sleepers(r, C_FLUSH_SEQUENCE, C_FLUSH_FLAG, control(r, C_FLUSH_FLAG));
    mfqi_wake_sleepers(r, C_ROOM_SEQUENCE, C_ROOM_FLAG, control(r, C_ROOM_FLAG));
    /* Not in another store that is in the folder by now. */
    if (mfqi_check_replaced(r, error) == MFQ_E_DELETED)
        return MFQ_E_DELETED;
    int fd = openat(r->directory, "poison", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) {
        mfqi_adopt(r, fd);
        close(fd);
    }
    errno = code;
    return mfqi_fail_disk(r, error, -1, "commitlog");
}

/* ---- claims ---- */

/*
 * Turns a dead owner's claim into padding, which wakes sleepers as a publish does. MFQ_EMPTY: its owner lives. MFQ_OK: look at
 * the header again.
 */
mfq_status mfqi_repair_claim(const mfq_reader *r, const struct place *p, uint64_t claim, mfq_error *error) {
    mfq_status status = mfqi_look_at_claim(r, p, claim, error);
    if (status != MFQ_OK)
        return status;
    uint64_t padding = mfqi_padding_header(r, p->offset, frame_length((uint32_t)claim & LENGTH_MASK));
    if (!__atomic_compare_exchange_n(header_at(p), &claim, padding, 0, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE))
        return MFQ_OK;
    MFQ_STEP("RepairDone");
    __atomic_add_fetch(control_word(r, C_REPAIRS), 1, __ATOMIC_SEQ_CST);
    mfqi_wake(r, C_SEQUENCE, C_FLAG);
    mfqi_wake(r, C_ROOM_SEQUENCE, C_ROOM_FLAG);
    return MFQ_OK;
}

/* ---- descriptors of segments that were left ---- */

static void forget_unflushed(mfq_producer *p, int64_t confirmed) {
    int kept = 0;
    for (int i = 0; i < p->unflushed_count; i++) {
        if (p->unflushed[i].start + p->store->info.segment_length <= confirmed)
            mfqi_close_fd(p->store, &p->unflushed[i].fd);
        else
            p->unflushed[kept++] = p->unflushed[i];
    }
    p->unflushed_count = kept;
}

/* The lane leaves its segment. From here on the file may be recycled. */
void mfqi_keep_unflushed(mfq_producer *p) {
    struct segment *left = &p->lane.segment;
    int64_t confirmed = (int64_t)control(p->store, C_CONFIRMED);
    forget_unflushed(p, confirmed);
    if (left->fd < 0 || left->start + p->store->info.segment_length <= confirmed)
        return;
    if (p->unflushed_count == UNFLUSHED_MAX) {
        mfqi_close_fd(p->store, &p->unflushed[0].fd);
        memmove(p->unflushed, p->unflushed + 1, (UNFLUSHED_MAX - 1) * sizeof p->unflushed[0]);
        p->unflushed_count--;
    }
    (void)flock(left->fd, LOCK_UN);
    p->unflushed[p->unflushed_count].start = left->start;
    p->unflushed[p->unflushed_count++].fd = left->fd;
    left->fd = -1;
}

/* ---- the checkpoint ---- */

enum { MARKS_AT = 128, MARKS_MAX = 240 };

struct mark {
    int64_t offset;
    int64_t ms;
};

/*
 * Takes over the marks of time of the page before, and adds one: of later offsets and times none is kept. When they are too many,
 * the one goes whose neighbours are closest together for their age.
 */
static void write_marks(uint8_t *page, const uint8_t *former, int64_t former_offset, int64_t offset) {
    struct mark marks[MARKS_MAX + 1], now;
    struct timespec time;
    uint32_t sum, count, kept = 0;
    memcpy(&sum, former + MARKS_AT, 4);
    memcpy(&count, former + MARKS_AT + 4, 4);
    if (count > MARKS_MAX || sum != mfqi_page_crc(former + MARKS_AT + 4, 4 + count * sizeof now))
        count = 0;
    clock_gettime(CLOCK_REALTIME, &time);
    now.offset = offset;
    now.ms = (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(&marks[kept], former + MARKS_AT + 8 + i * sizeof now, sizeof now);
        kept += marks[kept].offset <= former_offset && marks[kept].offset < offset && marks[kept].ms <= now.ms;
    }
    marks[kept++] = now;
    if (kept > MARKS_MAX) {
        uint32_t closest = 1;
        double least = 1e300;
        for (uint32_t i = 1; i < kept - 1; i++) {
            double gap = (double)(marks[i + 1].ms - marks[i - 1].ms) / (double)(now.ms - marks[i + 1].ms + 60000);
            closest = gap < least ? i : closest;
            least = gap < least ? gap : least;
        }
        kept--;
        memmove(marks + closest, marks + closest + 1, (kept - closest) * sizeof now);
    }
    memcpy(page + MARKS_AT + 4, &kept, 4);
    memcpy(page + MARKS_AT + 8, marks, kept * sizeof now);
    sum = mfqi_page_crc(page + MARKS_AT + 4, 4 + kept * sizeof now);
    memcpy(page + MARKS_AT, &sum, 4);
}

/* With the flush lock held; everything before the offset is on disk. */
static mfq_status write_checkpoint(mfq_producer *p, int64_t offset, mfq_error *error) {
    static const char name[] = "offset/producer.checkpoint";
    const mfq_reader *r = p->store;
    uint8_t pages[2 * PAGE] = {0}, former[PAGE] = {0}, *page = pages;
    struct stat state;
    uint64_t epoch = control(r, C_EPOCH);
    if (mfqi_is_poisoned(r))
        return mfqi_poisoned(r, error);
    struct record newest;
    mfq_status status = mfqi_read_checkpoint(r, &newest, error);
    if (status != MFQ_OK)
        return status;
    int fd = mfqi_open_or_make(r, name, &state), is_written = 1;
    if (fd < 0)
        return mfqi_fail_disk(r, error, -1, name);
    errno = ENOSPC; /* a short write sets none */
    if (state.st_size < (off_t)sizeof pages)
        is_written = pwrite(fd, pages, sizeof pages, 0) == (ssize_t)sizeof pages;
    if (!newest.is_there || newest.offset < offset || (uint64_t)newest.epoch != epoch
        || memcmp(newest.boot, r->control + C_BOOT, 16) != 0) {
        int64_t sequence = newest.sequence + 1;
        if (newest.is_there)
            (void)mfqi_read_at(fd, former, sizeof former, (newest.sequence & 1) * PAGE);
        write_marks(page, former, newest.offset, offset);
        memcpy(page, &offset, 8);
        memcpy(page + 8, &epoch, 8);
        memcpy(page + 16, &sequence, 8);
        memcpy(page + 24, r->control + C_BOOT, 16);
        memcpy(page + 40, r->info.store_id, 16);
        uint32_t sum = mfqi_page_crc(page, 60);
        memcpy(page + 60, &sum, 4);
        is_written = is_written && pwrite(fd, page, PAGE, (sequence & 1) * PAGE) == PAGE;
    }
    /* Also when a record covers it already: its writer may have died before the sync. */
    status = !is_written ? mfqi_fail_disk(r, error, -1, name) : fdatasync(fd) == 0 ? MFQ_OK : mfqi_poison(r, error);
    close(fd);
    p->checkpoint_ms = status == MFQ_OK ? mfqi_now_ms() : p->checkpoint_ms;
    MFQ_STEP("CheckpointSlotWritten");
    return status;
}

/* ---- leading ---- */

/* 1 leads, 0 somebody else does, -1 with errno. */
static int try_lead(mfq_producer *p) {
    const mfq_reader *r = p->store;
    struct stat state;
    while (1) {
        if (p->flush_lock < 0)
            p->flush_lock = mfqi_open_or_make(r, "locks/flush", &state);
        int taken = p->flush_lock < 0 ? -1 : mfqi_try_flock(p->flush_lock, LOCK_EX);
        if (taken <= 0 || mfqi_is_in_place(r->directory, "locks/flush", p->flush_lock))
            return taken;
        mfqi_close_fd(r, &p->flush_lock);
    }
}

static void end_lead(mfq_producer *p) {
    (void)flock(p->flush_lock, LOCK_UN);
    mfqi_wake(p->store, C_FLUSH_SEQUENCE, C_FLUSH_FLAG);
}

/*
 * Step 1. Ends at a living producer's claim, and at the end of the segment that the tail is in. What is before the goal has been
 * published, so a free header there is damage, as it is before the tail hint.
 */
static mfq_status walk_published(mfq_producer *p, int64_t from, int64_t goal, mfq_error *error) {
    const mfq_reader *r = p->store;
    struct place *walk = &p->walk;
    int64_t length = r->info.segment_length, tail = (int64_t)control(r, C_TAIL), limit = tail - tail % length + length, room;
    if (walk->segment.fd < 0 || from < walk->segment.start || from > walk->segment.start + length)
        mfqi_move_to(r, walk, from);
    walk->offset = from;
    while (walk->offset < limit) {
        uint64_t header = 0;
        mfq_status status = mfqi_next_header(r, walk, &header, &room, error);
        int is_missing = status == MFQ_OK && header == 0 && walk->offset < max64(goal, (int64_t)control(r, C_TAIL));
        if (is_missing)
            status = mfqi_next_header(r, walk, &header, &room, error);
        if (status != MFQ_OK)
            return status;
        if (header == 0 && is_missing)
            return mfqi_corrupt(r, walk, error, "messages are missing");
        if (header == 0)
            break;
        if (!is_plausible(header, room))
            return mfqi_corrupt(r, walk, error, "an impossible header");
        if (state_of(header) == CLAIMED) {
            status = mfqi_repair_claim(r, walk, header, error);
            if (status == MFQ_EMPTY)
                break;
            if (status < 0)
                return status;
            continue;
        }
        walk->offset += frame_length((uint32_t)header & LENGTH_MASK);
    }
    return MFQ_OK;
}

/* Step 3, one segment, through the oldest descriptor that this producer has of it. */
static mfq_status sync_segment(mfq_producer *p, int64_t start, mfq_error *error) {
    const mfq_reader *r = p->store;
    char name[48];
    struct stat state;
    int fd = -1, own = -1;
    mfq_status status = mfqi_flush_names(r, start, error);
    if (status != MFQ_OK)
        return status;
    for (int i = 0; i < p->unflushed_count && fd < 0; i++)
        fd = p->unflushed[i].start == start ? p->unflushed[i].fd : -1;
    if (fd < 0 && p->lane.segment.fd >= 0 && p->lane.segment.start == start)
        fd = p->lane.segment.fd;
    if (fd < 0 && p->walk.segment.fd >= 0 && p->walk.segment.start == start)
        fd = p->walk.segment.fd;
    if (fd < 0) {
        mfqi_segment_name(name, sizeof name, start);
        fd = own = mfqi_open_file(r->directory, name, O_RDWR, &state);
        /* Removed meanwhile, which raises confirmed over it. */
        if (fd < 0 && errno == ENOENT && start < (int64_t)control(r, C_LOG_START))
            return MFQ_OK;
        if (fd < 0)
            return mfqi_fail_disk(r, error, start, name);
    }
    if (fdatasync(fd) != 0)
        status = mfqi_poison(r, error);
    if (own >= 0)
        close(own);
    return status;
}

/* Steps 1 to 6 but for the lock. */
static mfq_status flush_once(mfq_producer *p, int64_t goal, mfq_error *error) {
    const mfq_reader *r = p->store;
    int64_t length = r->info.segment_length, from = (int64_t)control(r, C_CONFIRMED);
    /* The last leader may have failed: only that process heard of the error. */
    if (mfqi_is_poisoned(r))
        return mfqi_poisoned(r, error);
    if (control(r, C_CORRUPT) != 0 || from < 0 || from % 8 != 0 || from > OFFSET_MAX)
        return mfqi_fail(error, MFQ_E_CORRUPT, from, "Nothing is confirmed in a damaged log: path=%.140s.", r->path);
    /* A mark without a leader: it died, and its range is above confirmed, so it is synced again. */
    __atomic_store_n(control_word(r, C_FLUSH_TARGET), 0, __ATOMIC_RELEASE);
    mfq_status status = walk_published(p, from, goal, error);
    if (status == MFQ_E_OUT_OF_RANGE)
        return MFQ_OK; /* a removal has overtaken the walk, and raises confirmed */
    int64_t to = p->walk.offset;
    if (status != MFQ_OK || to <= from)
        return status;
    __atomic_store_n(control_word(r, C_FLUSH_TARGET), (uint64_t)to, __ATOMIC_RELEASE);
    MFQ_STEP("FlushMarked");
    for (int64_t start = from - from % length; start < to && status == MFQ_OK; start += length)
        if ((int64_t)control(r, C_CONFIRMED) < start + length)
            status = sync_segment(p, start, error);
    MFQ_STEP("FlushSynced");
    if (status == MFQ_OK && mfqi_now_ms() - p->checkpoint_ms >= 1000
        && (status = mfqi_check_replaced(r, error)) == MFQ_OK)
        status = write_checkpoint(p, to, error);
    if (status == MFQ_OK && mfqi_is_poisoned(r))
        status = mfqi_poisoned(r, error);
    if (status != MFQ_OK) {
        /* Alive. After a failed sync the mark stays, as the poison does. */
        if (!mfqi_is_poisoned(r))
            __atomic_store_n(control_word(r, C_FLUSH_TARGET), 0, __ATOMIC_RELEASE);
        return status;
    }
    /* The producer that padded the end of a segment may have died before it said that the rest needs no blocks. */
    mfqi_raise_to(r, C_ALLOCATED, to - to % length);
    mfqi_raise_to(r, C_CONFIRMED, to);
    MFQ_STEP("DurableRaised");
    __atomic_store_n(control_word(r, C_FLUSH_TARGET), 0, __ATOMIC_RELEASE);
    p->flushed_to = to;
    forget_unflushed(p, to);
    return MFQ_OK;
}

/* Nothing could be flushed: a living producer's claim is in the way, at which this sleeps as a reader does, or a removal. */
static void wait_at_claim(mfq_producer *p, int64_t limit) {
    uint64_t sequence;
    const struct place *walk = &p->walk;
    if (walk->segment.fd < 0 || walk->offset - walk->segment.start + HEADER > walk->bound) {
        mfqi_sleep_ms(min64(1, limit));
        return;
    }
    int64_t sleep = mfqi_prepare_sleep(p->store, C_SEQUENCE, C_FLAG, &sequence);
    if (state_of(load_header(walk)) == CLAIMED)
        mfqi_sleep_on(p->store, C_SEQUENCE, sequence, min64(min64(sleep, 2), limit));
}

/* Returns once everything before the goal, which is published, is on disk, by this thread's flush or another's. */
mfq_status mfqi_wait_durable(mfq_producer *p, int64_t goal, mfq_error *error) {
    const mfq_reader *r = p->store;
    int timeout = p->options.flush_timeout_ms;
    int64_t end = timeout > 0 ? mfqi_now_ms() + timeout : INT64_MAX, pause = 2, checked = mfqi_now_ms();
    for (int64_t confirmed; (confirmed = (int64_t)control(r, C_CONFIRMED)) < goal;) {
        if (mfqi_is_poisoned(r))
            return mfqi_poisoned(r, error);
        int leads = try_lead(p);
        if (leads == 0) {
            /* A leader that dies wakes nobody: each sleep ends by itself. */
            uint64_t sequence;
            int64_t sleep = mfqi_prepare_sleep(r, C_FLUSH_SEQUENCE, C_FLUSH_FLAG, &sequence);
            leads = try_lead(p);
            MFQ_STEP("LeaderMet");
            if (leads == 0 && (int64_t)control(r, C_CONFIRMED) == confirmed)
                mfqi_sleep_on(r, C_FLUSH_SEQUENCE, sequence, min64(min64(pause, sleep), max64(end - mfqi_now_ms(), 0)));
            pause = min64(pause * 2, 100);
        }
        if (leads < 0)
            return mfqi_fail_disk(r, error, -1, "locks/flush");
        if (leads > 0) {
            mfq_status status = flush_once(p, goal, error);
            end_lead(p);
            if (status != MFQ_OK)
                return status;
            if ((int64_t)control(r, C_CONFIRMED) >= goal)
                return MFQ_OK;
            pause = 2;
            if ((int64_t)control(r, C_CONFIRMED) == confirmed)
                wait_at_claim(p, max64(end - mfqi_now_ms(), 0));
        }
        int64_t now = mfqi_now_ms();
        /* Another leader may have come to the goal while this thread did not run. */
        if (now >= end && (int64_t)control(r, C_CONFIRMED) < goal)
            return mfqi_fail(error, MFQ_E_TIMEOUT, goal, "The flush did not end in time: path=%.120s.", r->path);
        if (now - checked >= 1000) {
            mfq_status status = mfqi_check_replaced(r, error);
            if (status != MFQ_OK)
                return status;
            checked = now;
        }
    }
    return MFQ_OK;
}

/* What was flushed is known to the next opener, unless somebody leads now, who says it himself. */
void mfqi_end_flushing(mfq_producer *p) {
    if (p->flushed_to > 0 && p->store->owner == getpid() && mfqi_check_replaced(p->store, NULL) == MFQ_OK && try_lead(p) > 0) {
        (void)write_checkpoint(p, p->flushed_to, NULL);
        end_lead(p);
    }
    forget_unflushed(p, INT64_MAX);
    mfqi_leave(p->store, &p->walk);
    mfqi_close_fd(p->store, &p->flush_lock);
}
