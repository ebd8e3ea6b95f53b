/*
 * What the figures of limits.c stand on: files, clock, the bare loops, statistics, and two processes that meet. It is included
 * by that file alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

enum { PAYLOAD = 64, FRAME = 72, PAGE = 4096, FOLLOW_BATCH = 64, REPETITIONS_MAX = 100 };

/* Of logs over a row of files: how many are used again, what a helper prepares at once, how far it is ahead. */
enum { FILE_LENGTH = 64 << 20, RECYCLED = 4, WINDOW = 1 << 20, LEAD = 8 << 20, STEP = 256 << 10 };

/* Published, 64 bytes long; the bare loops make no checksum. */
static const uint64_t HEADER = (uint64_t)2 << 28 | PAYLOAD;

typedef struct { uint64_t word[8]; } message;
typedef struct { uint8_t *base; size_t length; char path[512]; } mapping;

/* Between the two processes of a figure; each hot word on its own pair of cache lines. */
typedef struct {
    _Alignas(128) _Atomic uint64_t tail;
    _Alignas(128) _Atomic uint32_t arrived;
    _Alignas(128) _Atomic uint32_t word[64];
    _Alignas(128) int64_t started[2], ended[2];
    double result[3];
} shared_page;

/* What is sent: word 0 is the message's number, the others stay. */
static message current;
static uint64_t constant_sum;
static const char *directory = "/tmp";
static const char *only = NULL;
static long messages = 10000000;
static int repetitions = 5;
static int cpu_of[2];

static _Noreturn void die(const char *format, ...)
{
    va_list arguments;
    int error = errno;
    va_start(arguments, format);
    fputs("limits: ", stderr);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, ": errno=%d (%s)\n", error, strerror(error));
    exit(1);
}

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* ---- files ---- */

static mapping map_file(const char *path, size_t length, int create)
{
    mapping m = { NULL, (length + PAGE - 1) / PAGE * PAGE, "" };
    snprintf(m.path, sizeof m.path, "%s", path);
    int fd = open(path, create ? O_RDWR | O_CREAT | O_TRUNC : O_RDWR, 0600);
    if (fd < 0) die("cannot open %s", path);
    if (create && ftruncate(fd, (off_t)m.length) != 0) die("cannot extend %s", path);
    m.base = mmap(NULL, m.length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (m.base == MAP_FAILED) die("cannot map %s", path);
    close(fd);
    return m;
}

static void prefault_at(mapping *m, off_t position, int advice)
{
    int fd = open(m->path, O_RDWR);
    /* Where the file system has no fallocate, touching the pages allocates the blocks. */
    if (fd >= 0) { (void)!fallocate(fd, 0, position, (off_t)m->length); close(fd); }
    if (madvise(m->base, m->length, advice) == 0) return;
    for (size_t i = 0; i < m->length; i += PAGE) {
        volatile uint8_t *byte = m->base + i;
        uint8_t value = *byte;
        if (advice == MADV_POPULATE_WRITE) *byte = value;
    }
}

static void prefault(mapping *m, int advice) { prefault_at(m, 0, advice); }

static void unmap(mapping *m, int delete)
{
    munmap(m->base, m->length);
    if (delete) unlink(m->path);
}

static const char *path_of(const char *name)
{
    static char path[4][512];
    static int next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof path[0], "%s/limits-%d-%s", directory, (int)getpgrp(), name);
    return p;
}

/* Memory that the host took back is slow on first touch, once: takes it before a cold run, so that no run pays for it. */
static void take_memory(size_t length)
{
    static uint8_t block[1 << 20];
    const char *path = path_of("ballast");
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0) die("cannot open %s", path);
    for (size_t done = 0; done < length; done += sizeof block)
        if (write(fd, block, sizeof block) != (ssize_t)sizeof block) die("cannot write %s", path);
    close(fd);
    unlink(path);
}

/* ---- the loops ---- */

static __attribute__((noinline)) void copy_loop(uint8_t *p, message *m, long from, long count)
{
    for (long i = from; i < from + count; i++, p += FRAME) {
        m->word[0] = (uint64_t)i;
        memcpy(p + 8, m, PAYLOAD);
        atomic_store_explicit((_Atomic uint64_t *)p, HEADER, memory_order_release);
    }
}

/* Word by word: the compiler must not join the stores into wide ones, which is what volatile is for. */
static __attribute__((noinline)) void copy_words_loop(uint8_t *p, message *m, long count)
{
    for (long i = 0; i < count; i++, p += FRAME) {
        volatile uint64_t *to = (volatile uint64_t *)(p + 8);
        m->word[0] = (uint64_t)i;
        for (int w = 0; w < 8; w++) to[w] = m->word[w];
        atomic_store_explicit((_Atomic uint64_t *)p, HEADER, memory_order_release);
    }
}

static __attribute__((noinline)) void copy_still_loop(uint8_t *p, const message *m, long count)
{
    for (long i = 0; i < count; i++, p += FRAME) {
        memcpy(p + 8, m, PAYLOAD);
        atomic_store_explicit((_Atomic uint64_t *)p, HEADER, memory_order_release);
    }
}

static __attribute__((noinline)) uint64_t read_loop(const uint8_t *p, long count)
{
    uint64_t sum = 0;
    for (long i = 0; i < count; i++, p += FRAME) {
        if (atomic_load_explicit((_Atomic uint64_t *)p, memory_order_acquire) != HEADER) return 0;
        const uint64_t *w = (const uint64_t *)(p + 8);
        sum += w[0] + w[1] + w[2] + w[3] + w[4] + w[5] + w[6] + w[7];
    }
    return sum;
}

static __attribute__((noinline)) uint64_t follow_loop(const uint8_t *p, long count)
{
    uint64_t sum = 0;
    for (long i = 0; i < count; i++, p += FRAME) {
        while (atomic_load_explicit((_Atomic uint64_t *)p, memory_order_acquire) != HEADER) relax();
        const uint64_t *w = (const uint64_t *)(p + 8);
        sum += w[0] + w[1] + w[2] + w[3] + w[4] + w[5] + w[6] + w[7];
    }
    return sum;
}

/* Reads behind a writer in batches: it leaves the writer's lines alone until a batch is whole. */
static __attribute__((noinline)) uint64_t follow_batches_loop(const uint8_t *p, long count)
{
    uint64_t sum = 0;
    for (long done = 0; done < count; done += FOLLOW_BATCH) {
        long batch = count - done < FOLLOW_BATCH ? count - done : FOLLOW_BATCH;
        follow_loop(p + (batch - 1) * FRAME, 1);
        sum += follow_loop(p, batch);
        p += batch * FRAME;
    }
    return sum;
}

static __attribute__((noinline)) void fetch_add_loop(uint8_t *base, _Atomic uint64_t *tail, message *m, long count)
{
    for (long i = 0; i < count; i++) {
        uint8_t *p = base + atomic_fetch_add(tail, FRAME);
        m->word[0] = (uint64_t)i;
        memcpy(p + 8, m, PAYLOAD);
        atomic_store_explicit((_Atomic uint64_t *)p, HEADER, memory_order_release);
    }
}

static uint64_t expected_sum(long count)
{
    return (uint64_t)count * constant_sum + (uint64_t)count * (uint64_t)(count - 1) / 2;
}

static void check_sum(const char *name, uint64_t sum, uint64_t expected)
{
    if (sum == expected) return;
    fprintf(stderr, "limits: %s read something else than what was written: sum=%llu, expected=%llu\n", name,
            (unsigned long long)sum, (unsigned long long)expected);
    exit(1);
}

/* ---- logs over a row of files, with a helper thread ---- */

/*
 * A log over files of segment length. The helper keeps `ready` ahead of `written`: it makes files, allocates their blocks and
 * populates their pages, or, of files that are used again and again, zeroes the next window. It gives up a core for that, as
 * a queue does.
 */
typedef struct {
    mapping *files;
    long count, file_count;
    int recycles;
    _Alignas(128) _Atomic long ready;
    _Alignas(128) _Atomic long written;
} rolling_log;

/* As many frames as fit; the rest of a file stays empty. */
static const long FILE_FRAMES = FILE_LENGTH / FRAME;

static mapping *file_of(rolling_log *log, long index)
{
    return &log->files[log->recycles ? index % RECYCLED : index];
}

static void *prepare_ahead(void *argument)
{
    rolling_log *log = argument;
    char name[32];
    for (long index = 0; index < log->file_count; index++) {
        if (!log->recycles) {
            snprintf(name, sizeof name, "log-%ld", index);
            log->files[index] = map_file(path_of(name), FILE_LENGTH, 1);
        }
        for (long at = 0; at < FILE_LENGTH; at += WINDOW) {
            mapping window = *file_of(log, index);
            long begin = index * FILE_LENGTH + at;
            while (begin + WINDOW - atomic_load_explicit(&log->written, memory_order_acquire) > LEAD) sched_yield();
            window.base += at;
            window.length = WINDOW;
            if (log->recycles) memset(window.base, 0, WINDOW);
            else prefault_at(&window, at, MADV_POPULATE_WRITE);
            atomic_store_explicit(&log->ready, begin + WINDOW, memory_order_release);
        }
    }
    return NULL;
}

static void roll_loop(rolling_log *log, message *m)
{
    const long step = STEP / FRAME;
    for (long index = 0, from = 0; from < log->count; index++) {
        long last = from + FILE_FRAMES < log->count ? from + FILE_FRAMES : log->count;
        for (long at = 0; from < last; from += step, at += step * FRAME) {
            long number = last - from < step ? last - from : step;
            long end = index * FILE_LENGTH + at + number * FRAME;
            while (atomic_load_explicit(&log->ready, memory_order_acquire) < end) relax();
            copy_loop(file_of(log, index)->base + at, m, from, number);
            atomic_store_explicit(&log->written, end, memory_order_release);
        }
        from = last;
    }
}

/* ---- statistics and output ---- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(double *values, long count, double q)
{
    qsort(values, (size_t)count, sizeof *values, compare_doubles);
    long index = (long)(q * (double)count);
    return values[index < count ? index : count - 1];
}

static void print(const char *name, double *values, const char *unit)
{
    qsort(values, (size_t)repetitions, sizeof *values, compare_doubles);
    double median = repetitions % 2 ? values[repetitions / 2]
                                    : (values[repetitions / 2 - 1] + values[repetitions / 2]) / 2;
    printf("{\"name\":\"%s\",\"value\":%.6g,\"unit\":\"%s\"}\n", name, median, unit);
    fflush(stdout);
}

static int wanted(const char *name)
{
    if (!only) return 1;
    size_t length = strlen(name);
    for (const char *p = only; (p = strstr(p, name)); p += length)
        if ((p == only || p[-1] == ',') && (p[length] == 0 || p[length] == ',')) return 1;
    return 0;
}

/* ---- two processes ---- */

static void pin(int index)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu_of[index], &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void find_cpus(void)
{
    cpu_set_t set;
    int found = 0;
    sched_getaffinity(0, sizeof set, &set);
    for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
        if (CPU_ISSET(cpu, &set)) cpu_of[found++] = cpu;
    if (found < 2) cpu_of[1] = cpu_of[0];
}

static void meet(shared_page *page, uint32_t *phase)
{
    atomic_fetch_add(&page->arrived, 1);
    uint32_t target = 2 * ++*phase;
    while ((int32_t)(atomic_load(&page->arrived) - target) < 0) {
        relax();
        if (cpu_of[0] == cpu_of[1]) sched_yield();
    }
}
