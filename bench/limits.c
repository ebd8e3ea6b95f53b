/*
 * The limits of this machine: bare loops over memory-mapped files, without any queue around them. MappedFileQueues.Bench runs
 * the same loops in C# beside the queue's own; its option `--limits` compiles this file and shows that the two agree, so
 * that the raw column is not a slow loop that flatters the queue.
 *
 * Build:  cc -std=gnu11 -O3 -march=native -Wall -Wextra -pthread -o limits bench/limits.c
 * Run:    ./limits [--messages N] [--repetitions R] [--dir DIR] [--only NAME,NAME...]
 *
 * A frame is what a message is in a segment: an 8-byte header (length and state, stored last, with release) and 64 bytes
 * of payload. Files are mapped shared; "prefaulted" means that blocks are allocated (fallocate) and pages are present and
 * writable (MADV_POPULATE_WRITE) before the clock starts. Every repetition works on a file of its own, and everything
 * that is read is checked by a sum; a wrong sum ends the program with exit code 1. The median is printed, as JSON lines.
 *
 *   copy                 ns      number the message, copy its 64 bytes, store the header with release; prefaulted
 *   copy_still           ns      the same with a message that nobody has just written: the copy meets no store that is
 *                                still on its way. A program that fills a message in before it sends it pays for `copy`
 *   copy_words           ns      as `copy`, but word by word instead of memcpy, whose wide loads have to wait for the narrow
 *                                store of the number: the least that a numbered message can cost
 *   read                 ns      load the header with acquire, add up the 64 bytes; prefaulted
 *   fetch_add_1          msg/s   one process takes each place by fetch-add on a shared tail, then copies as above
 *   fetch_add_2          msg/s   two processes together
 *   pipe                 msg/s   one process copies, another reads behind it in batches of 64, spinning; prefaulted in both
 *   pipe_cold            msg/s   the same on a new, sparse file that nobody touched
 *   roundtrip_p50 ...    us      ping over one mapped log, pong over another, both sides spinning
 *   wake_back_p50        us      futex wake there and back between two sleeping processes
 *   fdatasync_p50        us      4 KiB written to new blocks, then fdatasync
 *   append_sustained     ns      copy into a row of new files of 64 MiB, which a helper thread makes, allocates and populates
 *                                ahead of the writer
 *   append_recycled      ns      copy into four files of 64 MiB again and again; a helper zeroes them in windows ahead of the
 *                                writer
 */
#define _GNU_SOURCE
#include "limits.h"

typedef void role(shared_page *page, int index);

static void run_pair(role *body, shared_page *page)
{
    pid_t child[2];
    memset(page, 0, sizeof *page);
    for (int index = 0; index < 2; index++) {
        child[index] = fork();
        if (child[index] < 0) die("cannot fork");
        if (child[index] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            pin(index);
            body(page, index);
            _exit(0);
        }
    }
    for (int left = 2; left > 0; left--) {
        int status;
        pid_t ended = wait(&status);
        if (ended >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
        for (int index = 0; index < 2; index++) if (child[index] != ended) kill(child[index], SIGKILL);
        die("a child failed");
    }
}

static double rate_of(shared_page *page, long count)
{
    int64_t start = page->started[0] < page->started[1] ? page->started[0] : page->started[1];
    int64_t end = page->ended[0] > page->ended[1] ? page->ended[0] : page->ended[1];
    return (double)count * 1e9 / (double)(end - start);
}

static void fetch_add_pair(shared_page *page, int index)
{
    uint32_t phase = 0;
    mapping m = map_file(path_of("log"), (size_t)messages * FRAME, 0);
    prefault(&m, MADV_POPULATE_WRITE);
    meet(page, &phase);
    page->started[index] = now();
    fetch_add_loop(m.base, &page->tail, &current, messages / 2);
    page->ended[index] = now();
    unmap(&m, 0);
}

static void pipe_pair(shared_page *page, int index, int warm)
{
    uint32_t phase = 0;
    mapping m = map_file(path_of("log"), (size_t)messages * FRAME, 0);
    if (warm && index == 0) prefault(&m, MADV_POPULATE_WRITE);
    meet(page, &phase);
    if (warm && index == 1) prefault(&m, MADV_POPULATE_READ);
    meet(page, &phase);
    page->started[index] = now();
    if (index == 0) copy_loop(m.base, &current, 0, messages);
    else check_sum("pipe", follow_batches_loop(m.base, messages), expected_sum(messages));
    page->ended[index] = now();
    unmap(&m, 0);
}

static void pipe_warm_pair(shared_page *page, int index) { pipe_pair(page, index, 1); }
static void pipe_cold_pair(shared_page *page, int index) { pipe_pair(page, index, 0); }

static long round_trips(void)
{
    return messages / 100 < 10 ? 10 : messages / 100;
}

static void roundtrip_pair(shared_page *page, int index)
{
    uint32_t phase = 0;
    long count = round_trips(), warm = count / 4;
    mapping ping = map_file(path_of("ping"), (size_t)(count + warm) * FRAME, 0);
    mapping pong = map_file(path_of("pong"), (size_t)(count + warm) * FRAME, 0);
    double *took = malloc((size_t)count * sizeof *took);
    prefault(&ping, MADV_POPULATE_WRITE);
    prefault(&pong, MADV_POPULATE_WRITE);
    uint8_t *out = index == 0 ? ping.base : pong.base, *in = index == 0 ? pong.base : ping.base;
    uint64_t sum = 0;
    meet(page, &phase);
    for (long i = -warm; i < count; i++, out += FRAME, in += FRAME) {
        int64_t start = index == 0 ? now() : 0;
        if (index == 0) copy_loop(out, &current, i + warm, 1);
        sum += follow_loop(in, 1);
        if (index == 1) copy_loop(out, &current, i + warm, 1);
        if (index == 0 && i >= 0) took[i] = (double)(now() - start) / 1000;
    }
    check_sum("roundtrip", sum, expected_sum(count + warm));
    if (index == 0) {
        page->result[0] = quantile(took, count, 0.5);
        page->result[1] = quantile(took, count, 0.99);
        page->result[2] = quantile(took, count, 0.999);
    }
    free(took);
    unmap(&ping, 0);
    unmap(&pong, 0);
}

static void futex_wait(_Atomic uint32_t *word, uint32_t expected)
{
    while (atomic_load(word) == expected) syscall(SYS_futex, word, FUTEX_WAIT, expected, NULL, NULL, 0);
}

static void futex_bump(_Atomic uint32_t *word)
{
    atomic_fetch_add(word, 1);
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void wake_pair(shared_page *page, int index)
{
    uint32_t phase = 0;
    long count = messages / 1000 < 10 ? 10 : messages / 1000;
    double *took = malloc((size_t)count * sizeof *took);
    _Atomic uint32_t *ping = &page->word[0], *pong = &page->word[32];
    meet(page, &phase);
    for (long i = 0; i < count; i++) {
        if (index == 0) {
            int64_t start = now();
            futex_bump(ping);
            futex_wait(pong, (uint32_t)i);
            took[i] = (double)(now() - start) / 1000;
        } else {
            futex_wait(ping, (uint32_t)i);
            futex_bump(pong);
        }
    }
    if (index == 0) page->result[0] = quantile(took, count, 0.5);
    free(took);
}

/* ---- the figures ---- */

static mapping prefaulted_log(void)
{
    mapping m = map_file(path_of("log"), (size_t)messages * FRAME, 1);
    prefault(&m, MADV_POPULATE_WRITE);
    return m;
}

static void measure_copy_and_read(void)
{
    double copied[REPETITIONS_MAX], still[REPETITIONS_MAX], by_words[REPETITIONS_MAX], summed[REPETITIONS_MAX];
    for (int r = 0; r < repetitions; r++) {
        mapping m = prefaulted_log();
        int64_t start = now();
        copy_still_loop(m.base, &current, messages);
        still[r] = (double)(now() - start) / (double)messages;
        unmap(&m, 1);
        m = prefaulted_log();
        start = now();
        copy_words_loop(m.base, &current, messages);
        by_words[r] = (double)(now() - start) / (double)messages;
        unmap(&m, 1);
        m = prefaulted_log();
        start = now();
        copy_loop(m.base, &current, 0, messages);
        copied[r] = (double)(now() - start) / (double)messages;
        read_loop(m.base, messages);
        start = now();
        uint64_t sum = read_loop(m.base, messages);
        summed[r] = (double)(now() - start) / (double)messages;
        check_sum("read", sum, expected_sum(messages));
        unmap(&m, 1);
    }
    if (wanted("copy")) print("copy", copied, "ns");
    if (wanted("copy_still")) print("copy_still", still, "ns");
    if (wanted("copy_words")) print("copy_words", by_words, "ns");
    if (wanted("read")) print("read", summed, "ns");
}

static void measure_fetch_add_1(void)
{
    double rates[REPETITIONS_MAX];
    static shared_page page;
    for (int r = 0; r < repetitions; r++) {
        mapping m = map_file(path_of("log"), (size_t)messages * FRAME, 1);
        prefault(&m, MADV_POPULATE_WRITE);
        atomic_store(&page.tail, 0);
        int64_t start = now();
        fetch_add_loop(m.base, &page.tail, &current, messages);
        rates[r] = (double)messages * 1e9 / (double)(now() - start);
        check_sum("fetch_add_1", read_loop(m.base, messages), expected_sum(messages));
        unmap(&m, 1);
    }
    print("fetch_add_1", rates, "msg/s");
}

static void measure_rate_pair(const char *name, role *body, shared_page *page, int cold)
{
    double rates[REPETITIONS_MAX];
    for (int r = 0; r < repetitions; r++) {
        if (cold) take_memory((size_t)messages * FRAME * 5 / 4);
        mapping m = map_file(path_of("log"), (size_t)messages * FRAME, 1);
        run_pair(body, page);
        rates[r] = rate_of(page, messages);
        if (body == fetch_add_pair)
            check_sum(name, read_loop(m.base, messages / 2 * 2), 2 * expected_sum(messages / 2));
        unmap(&m, 1);
    }
    print(name, rates, "msg/s");
}

static void measure_roundtrip(shared_page *page)
{
    static const char *names[] = { "roundtrip_p50", "roundtrip_p99", "roundtrip_p999" };
    double took[3][REPETITIONS_MAX];
    for (int r = 0; r < repetitions; r++) {
        size_t length = (size_t)(round_trips() * 5 / 4 + 1) * FRAME;
        mapping ping = map_file(path_of("ping"), length, 1), pong = map_file(path_of("pong"), length, 1);
        run_pair(roundtrip_pair, page);
        for (int k = 0; k < 3; k++) took[k][r] = page->result[k];
        unmap(&ping, 1);
        unmap(&pong, 1);
    }
    for (int k = 0; k < 3; k++) if (wanted(names[k])) print(names[k], took[k], "us");
}

static void measure_wake(shared_page *page)
{
    double took[REPETITIONS_MAX];
    for (int r = 0; r < repetitions; r++) {
        run_pair(wake_pair, page);
        took[r] = page->result[0];
    }
    print("wake_back_p50", took, "us");
}

static void measure_fdatasync(void)
{
    double medians[REPETITIONS_MAX];
    static uint8_t block[PAGE] = { 1 };
    long count = messages / 20000 < 5 ? 5 : messages / 20000;
    double *took = malloc((size_t)count * sizeof *took);
    for (int r = 0; r < repetitions; r++) {
        const char *path = path_of("sync");
        int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (fd < 0) die("cannot open %s", path);
        if (fallocate(fd, 0, 0, count * PAGE) != 0 && ftruncate(fd, count * PAGE) != 0) die("cannot extend %s", path);
        if (fdatasync(fd) != 0) die("cannot flush %s", path);
        for (long i = 0; i < count; i++) {
            int64_t start = now();
            if (pwrite(fd, block, PAGE, i * PAGE) != PAGE || fdatasync(fd) != 0) die("cannot flush %s", path);
            took[i] = (double)(now() - start) / 1000;
        }
        medians[r] = quantile(took, count, 0.5);
        close(fd);
        unlink(path);
    }
    free(took);
    print("fdatasync_p50", medians, "us");
}

/* What is still there is checked: everything, or what stands in the recycled files. */
static uint64_t sum_of_log(rolling_log *log, long *kept)
{
    uint64_t sum = 0;
    *kept = 0;
    for (long index = log->file_count - 1; index >= 0 && (!log->recycles || index > log->file_count - RECYCLED); index--) {
        long frames = log->count - index * FILE_FRAMES < FILE_FRAMES ? log->count - index * FILE_FRAMES : FILE_FRAMES;
        sum += read_loop(file_of(log, index)->base, frames);
        *kept += frames;
    }
    return sum;
}

static void measure_rolling(const char *name, int recycles)
{
    double took[REPETITIONS_MAX];
    for (int r = 0; r < repetitions; r++) {
        rolling_log log = { .count = messages, .recycles = recycles };
        char file_name[32];
        pthread_t helper;
        long kept;
        log.file_count = (messages + FILE_FRAMES - 1) / FILE_FRAMES;
        log.files = calloc((size_t)(recycles ? RECYCLED : log.file_count), sizeof *log.files);
        for (long index = 0; recycles && index < RECYCLED; index++) {
            snprintf(file_name, sizeof file_name, "log-%ld", index);
            log.files[index] = map_file(path_of(file_name), FILE_LENGTH, 1);
            prefault(&log.files[index], MADV_POPULATE_WRITE);
        }
        if (!recycles) take_memory((size_t)messages * FRAME * 5 / 4);
        int64_t start = now();
        if (pthread_create(&helper, NULL, prepare_ahead, &log) != 0) die("cannot start a thread");
        roll_loop(&log, &current);
        took[r] = (double)(now() - start) / (double)messages;
        /* The helper waits for nobody behind the last file. */
        atomic_store(&log.written, log.file_count * FILE_LENGTH);
        pthread_join(helper, NULL);
        uint64_t sum = sum_of_log(&log, &kept);
        check_sum(name, sum, expected_sum(messages) - expected_sum(messages - kept));
        for (long index = 0; index < (recycles ? RECYCLED : log.file_count); index++) unmap(&log.files[index], 1);
        free(log.files);
    }
    print(name, took, "ns");
}

static void read_arguments(int count, char **arguments)
{
    for (int i = 1; i < count; i++) {
        if (i + 1 == count) { errno = EINVAL; die("%s wants a value", arguments[i]); }
        char *value = arguments[i + 1];
        if (!strcmp(arguments[i], "--messages")) messages = atol(value);
        else if (!strcmp(arguments[i], "--repetitions")) repetitions = atoi(value);
        else if (!strcmp(arguments[i], "--dir")) directory = value;
        else if (!strcmp(arguments[i], "--only")) only = value;
        else { errno = EINVAL; die("unknown argument %s", arguments[i]); }
        i++;
    }
    if (messages < 100 || repetitions < 1 || repetitions > REPETITIONS_MAX) { errno = EINVAL; die("out of range"); }
}

int main(int count, char **arguments)
{
    read_arguments(count, arguments);
    find_cpus();
    setpgid(0, 0);
    for (int w = 1; w < 8; w++) constant_sum += current.word[w] = (uint64_t)w * 0x9E3779B97F4A7C15u;
    shared_page *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) die("cannot map");
    if (wanted("copy") || wanted("copy_still") || wanted("copy_words") || wanted("read")) measure_copy_and_read();
    if (wanted("fetch_add_1")) measure_fetch_add_1();
    if (wanted("fetch_add_2")) measure_rate_pair("fetch_add_2", fetch_add_pair, page, 0);
    if (wanted("pipe")) measure_rate_pair("pipe", pipe_warm_pair, page, 0);
    if (wanted("pipe_cold")) measure_rate_pair("pipe_cold", pipe_cold_pair, page, 1);
    if (wanted("roundtrip_p50") || wanted("roundtrip_p99") || wanted("roundtrip_p999")) measure_roundtrip(page);
    if (wanted("wake_back_p50")) measure_wake(page);
    if (wanted("fdatasync_p50")) measure_fdatasync();
    if (wanted("append_sustained")) measure_rolling("append_sustained", 0);
    if (wanted("append_recycled")) measure_rolling("append_recycled", 1);
    return 0;
}
