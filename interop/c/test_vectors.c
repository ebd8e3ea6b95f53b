/*
 * The test program of the C library; the tests in C# drive it.
 *
 *   dump STORE…                 what a reader answers, in lines, for each store
 *   attach STORE…               what a consumer and then a producer answer that come alone, in lines; they write to the stores
 *   follow STORE COUNT MS       waits for so many messages and prints them as text, a line each
 *   consume STORE NAME COUNT MS the same as a named consumer that commits each; then prints the stored offset
 *   hold STORE NAME             opens a consumer, prints "held", and keeps it until standard input ends
 *   produce STORE MODE WORD FIRST COUNT
 *                               appends "WORD FIRST" and so on, every tenth with a key, and prints each number afterwards; MODE
 *                               is exclusive or shared, then -group for that durability, -flush for a flush each 100 messages,
 *                               -bursts for pauses, -impatient for 200 ms a flush
 *   append STORE MODE           for each line of standard input, which is COUNT LENGTH, "prepare" LENGTH or "flush", appends
 *                               so many messages of zeros, or does that, and prints the answer; MODE is exclusive or shared, then
 *                               -group
 *   threads STORE COUNT MESSAGES
 *                               so many producers and two readers in threads of this process; each message once and in order
 *   fork STORE                  what children of fork do with handles, and that each process's own handles release their locks
 *   limits STORE                opens everything with too few descriptors: the answers, and that none is left open
 *   outlive STORE               what handles answer when the store is gone, which is when standard input ends
 *   read-on STORE [NAME]        reads one message for each line of standard input, after a move to the offset in it: the
 *                               message's offset, or why there is none; a consumer commits at a line "commit"
 *
 * Compiled with MFQ_TEST, MFQ_TRAP=STEP:N kills the process when a thread comes to a step of the library for the N-th time;
 * STEP:N:stop stops it there.
 *
 *   crc                         compares the two implementations of the checksum
 *   nothing                     calls without a handle: each is refused
 *   mutate VECTORS SCRATCH COUNT SECONDS SEED
 *                               damages the vectors' stores at random, reads them, and lets a consumer and a producer join them:
 *                               no crash, no endless loop, no message but those that are whole in the files
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "mfq.h"
#include "test_stores.h"
#ifdef MFQ_TEST
#include "mfq_internal.h" /* declares the steps */
#endif

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void print_hex(const void *data, size_t length) {
    const uint8_t *bytes = (const uint8_t *)data;
    for (size_t i = 0; i < length; i++)
        printf("%02x", bytes[i]);
    if (length == 0)
        printf("-");
}

static int report(const char *what, mfq_status status, const mfq_error *error) {
    fprintf(stderr, "%s: %s: %s\n", what, mfq_status_name(status), error->text);
    return 1;
}

/* ---- dump ---- */

static void dump_headers(const mfq_message *message) {
    mfq_headers h;
    if (!mfq_get_headers(message, &h))
        return;
    printf(" headers");
    if ((h.fields & MFQ_HAS_TIME) != 0)
        printf(" time=%" PRId64, h.time);
    if ((h.fields & (MFQ_HAS_PRODUCER | MFQ_HAS_CARRIED_PRODUCER)) != 0)
        printf(" producer=%" PRIu64 ",%" PRIu64 ",%d", h.producer, h.sequence, (h.fields & MFQ_HAS_CARRIED_PRODUCER) != 0);
    if ((h.fields & MFQ_HAS_TRACE) != 0) {
        printf(" trace=");
        print_hex(h.trace_id, 16);
        printf(",");
        print_hex(h.span_id, 8);
        printf(",%u,%.*s", h.trace_flags, (int)h.trace_state_length, h.trace_state);
    }
    if ((h.fields & MFQ_HAS_KEY) != 0) {
        printf(" key=");
        print_hex(h.key, h.key_length);
    }
}

/* Of a consumer that somebody may open: no capitals, no device of Windows. */
static int is_cursor(const char *name) {
    size_t length = strlen(name);
    return strpbrk(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == NULL && strncmp(name, "nul.", 4) != 0 && length > 7
        && strcmp(name + length - 7, ".cursor") == 0;
}

static void dump_cursor(mfq_reader *reader, const char *name) {
    int64_t offset = 0;
    mfq_status status = mfq_stored_offset(reader, name, &offset, NULL);
    printf("cursor \"%s\" ", name);
    if (status == MFQ_OK)
        printf("%" PRId64 "\n", offset);
    else
        printf("%s\n", mfq_status_name(status));
}

static void dump(const char *path) {
    mfq_reader *reader;
    mfq_message message;
    mfq_info info;
    printf("store %s\n", path);
    mfq_status status = mfq_reader_open(path, MFQ_EARLIEST, &reader, NULL);
    printf("open %s\n", mfq_status_name(status));
    if (status != MFQ_OK)
        return;
    mfq_get_info(reader, &info);
    printf("kind %d %d %" PRId64 "\n", info.is_struct ? 1 : 2, info.struct_size, info.segment_length);
    printf("first %" PRId64 "\n", mfq_offset(reader));
    while ((status = mfq_read(reader, &message, NULL)) == MFQ_OK) {
        printf("message %" PRId64 " %" PRId64 " ", message.offset, message.next);
        print_hex(message.data, message.length);
        dump_headers(&message);
        printf("\n");
    }
    printf("end %s %" PRId64 "\n", mfq_status_name(status), mfq_offset(reader));
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/offset/consumers", path);
    dump_cursor(reader, "");
    struct dirent **names = NULL;
    int count = scandir(folder, &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        if (is_cursor(names[i]->d_name)) {
            names[i]->d_name[strlen(names[i]->d_name) - 7] = '\0';
            dump_cursor(reader, names[i]->d_name);
        }
        free(names[i]);
    }
    free(names);
    mfq_close(reader);
}

/* ---- attach ---- */

static void attach(const char *path) {
    mfq_reader *consumer;
    mfq_producer *producer;
    mfq_message message;
    long count = 0;
    printf("store %s\n", path);
    mfq_status status = mfq_consumer_open(path, "attach", MFQ_EARLIEST, &consumer, NULL);
    while (status == MFQ_OK && mfq_read(consumer, &message, NULL) == MFQ_OK)
        count++;
    printf("consume %s %ld\n", mfq_status_name(status), count);
    mfq_close(status == MFQ_OK ? consumer : NULL);
    status = mfq_producer_open(path, NULL, &producer, NULL);
    printf("produce %s\n", mfq_status_name(status));
    mfq_producer_close(status == MFQ_OK ? producer : NULL);
}

/* ---- follow and consume ---- */

/* Without a name, no consumer. */
static mfq_status open_reader(const char *path, const char *name, mfq_reader **reader, mfq_error *error) {
    return name == NULL ? mfq_reader_open(path, MFQ_EARLIEST, reader, error)
        : mfq_consumer_open(path, name, MFQ_EARLIEST, reader, error);
}

static int follow(const char *path, const char *name, long count, int timeout_ms) {
    mfq_reader *reader;
    mfq_message message;
    mfq_error error;
    mfq_status status = open_reader(path, name, &reader, &error);
    if (status != MFQ_OK)
        return report("open", status, &error);
    printf("opened %" PRId64 "\n", mfq_offset(reader));
    fflush(stdout);
    for (long i = 0; i < count; i++) {
        memset(&error, 0, sizeof error);
        status = mfq_wait(reader, &message, timeout_ms, &error);
        if (status != MFQ_OK) {
            mfq_close(reader);
            return report("wait", status, &error);
        }
        printf("%.*s\n", (int)message.length, (const char *)message.data);
        fflush(stdout);
        if (name != NULL && (status = mfq_commit(reader, &error)) != MFQ_OK)
            return report("commit", status, &error);
    }
    int64_t offset = -1;
    if (name != NULL && (status = mfq_stored_offset(reader, name, &offset, &error)) != MFQ_OK)
        return report("stored offset", status, &error);
    if (name != NULL)
        printf("stored %" PRId64 "\n", offset);
    mfq_close(reader);
    return 0;
}

static int hold(const char *path, const char *name) {
    mfq_reader *consumer;
    mfq_error error;
    mfq_status status = mfq_consumer_open(path, name, MFQ_EARLIEST, &consumer, &error);
    if (status != MFQ_OK)
        return report("open", status, &error);
    printf("held\n");
    fflush(stdout);
    while (getchar() != EOF) {
    }
    mfq_close(consumer);
    return 0;
}

static mfq_producer_options options_of(const char *mode) {
    mfq_producer_options options;
    memset(&options, 0, sizeof options);
    options.mode = strncmp(mode, "exclusive", 9) == 0 ? MFQ_EXCLUSIVE : MFQ_SHARED;
    options.durability = strstr(mode, "-group") != NULL ? MFQ_GROUP : MFQ_PAGE_CACHE;
    options.flush_timeout_ms = strstr(mode, "-impatient") != NULL ? 200 : 0;
    return options;
}

static int produce(const char *path, const char *mode, const char *word, long first, long count) {
    mfq_producer *producer;
    mfq_producer_options options = options_of(mode);
    mfq_error error;
    memset(&error, 0, sizeof error);
    mfq_status status = mfq_producer_open(path, &options, &producer, &error);
    if (status != MFQ_OK)
        return report("open", status, &error);
    printf("opened\n");
    fflush(stdout);
    for (long i = first; i < first + count; i++) {
        char text[160];
        mfq_headers headers;
        memset(&headers, 0, sizeof headers);
        headers.fields = MFQ_HAS_KEY;
        headers.key = (const uint8_t *)"message";
        headers.key_length = 7;
        int length = snprintf(text, sizeof text, "%.60s %ld %.*s!", word, i, (int)(i % 50),
            "..................................................");
        status = mfq_produce(producer, i % 10 == 0 ? &headers : NULL, text, (size_t)length, NULL, &error);
        if (status == MFQ_OK && strstr(mode, "-flush") != NULL && i % 100 == 99)
            status = mfq_producer_flush(producer, &error);
        if (status != MFQ_OK)
            report("produce", status, &error);
        if (status == MFQ_E_FENCED)
            continue;
        if (status != MFQ_OK)
            break;
        printf("%ld\n", i);
        fflush(stdout);
        if (strstr(mode, "-bursts") != NULL && i % 16 == 15)
            usleep(2000);
    }
    mfq_producer_close(producer);
    return status != MFQ_OK;
}

static int append(const char *path, const char *mode) {
    static uint8_t zeros[65536];
    mfq_producer *producer;
    mfq_producer_options options = options_of(mode);
    mfq_error error;
    mfq_status status = mfq_producer_open(path, &options, &producer, &error);
    if (status != MFQ_OK)
        return report("open", status, &error);
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) {
        long count = 0;
        size_t length = 0;
        status = MFQ_OK;
        if (strcmp(line, "flush\n") == 0)
            status = mfq_producer_flush(producer, &error);
        else if (sscanf(line, "prepare %ld", &count) == 1)
            status = mfq_producer_prepare(producer, count, &error);
        else if (sscanf(line, "%ld %zu", &count, &length) == 2 && length <= sizeof zeros)
            for (long i = 0; i < count && status == MFQ_OK; i++)
                status = mfq_produce(producer, NULL, zeros, length, NULL, &error);
        printf("%s\n", mfq_status_name(status));
        fflush(stdout);
        if (status != MFQ_OK)
            report("append", status, &error);
    }
    mfq_producer_close(producer);
    return 0;
}

/* ---- steps, and one address for each mapped file ---- */

#ifdef MFQ_TEST
void mfq_test_step(const char *name) {
    static int hits;
    const char *trap = getenv("MFQ_TRAP"), *number = trap == NULL ? NULL : strchr(trap, ':');
    if (number == NULL || strlen(name) != (size_t)(number - trap) || strncmp(trap, name, strlen(name)) != 0)
        return;
    if (__atomic_add_fetch(&hits, 1, __ATOMIC_SEQ_CST) == atoi(number + 1))
        raise(strstr(number, ":stop") != NULL ? SIGSTOP : SIGKILL);
}

#ifdef __SANITIZE_THREAD__
/* A race detector knows memory by its address, and every handle of the library maps the files for itself. */
enum { MAPS_MAX = 256 };
static pthread_mutex_t maps_lock = PTHREAD_MUTEX_INITIALIZER;
static struct map {
    uint64_t inode;
    size_t length;
    int users;
    void *address;
} maps[MAPS_MAX];

void *mfq_test_map(int fd, size_t length, int protection) {
    char name[40];
    struct stat state;
    struct map *free_one = NULL, *found = NULL;
    (void)protection;
    if (fstat(fd, &state) != 0)
        return MAP_FAILED;
    pthread_mutex_lock(&maps_lock);
    for (int i = 0; i < MAPS_MAX && found == NULL; i++) {
        if (maps[i].users > 0 && maps[i].inode == state.st_ino && maps[i].length == length)
            found = &maps[i];
        else if (maps[i].users == 0)
            free_one = &maps[i];
    }
    if (found == NULL && free_one != NULL) {
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        int both = open(name, O_RDWR | O_CLOEXEC);
        found = free_one;
        found->address = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, both, 0);
        found->inode = state.st_ino;
        found->length = length;
        close(both);
    }
    void *address = found == NULL ? MAP_FAILED : found->address;
    if (address != MAP_FAILED)
        found->users++;
    pthread_mutex_unlock(&maps_lock);
    return address;
}

void mfq_test_unmap(void *address, size_t length) {
    pthread_mutex_lock(&maps_lock);
    for (int i = 0; i < MAPS_MAX; i++)
        if (maps[i].users > 0 && maps[i].address == address && --maps[i].users == 0)
            (void)munmap(address, length);
    pthread_mutex_unlock(&maps_lock);
}
#else
void *mfq_test_map(int fd, size_t length, int protection) { return mmap(NULL, length, protection, MAP_SHARED, fd, 0); }

void mfq_test_unmap(void *address, size_t length) { (void)munmap(address, length); }
#endif
#endif

/* ---- threads ---- */

enum { THREADS_MAX = 8 };

struct worker {
    pthread_t thread;
    const char *path;
    int number;
    int producers;
    long messages;
    long wrong;
    mfq_error error;
};

static void *produce_in_thread(void *argument) {
    struct worker *worker = (struct worker *)argument;
    mfq_producer *producer;
    mfq_producer_options options;
    memset(&options, 0, sizeof options);
    /* Every second one flushes each message; the others now and then. */
    options.durability = worker->number % 2 == 0 ? MFQ_GROUP : MFQ_PAGE_CACHE;
    worker->wrong = 1;
    if (mfq_producer_open(worker->path, &options, &producer, &worker->error) != MFQ_OK)
        return NULL;
    worker->wrong = 0;
    for (long i = 0; i < worker->messages && worker->wrong == 0; i++) {
        long message[8] = {worker->number, i, i, i, i, i, i, i};
        size_t length = sizeof message - (size_t)(i % 6) * sizeof message[0];
        worker->wrong += mfq_produce(producer, NULL, message, length, NULL, &worker->error) != MFQ_OK
            || (i % 100 == 99 && mfq_producer_flush(producer, &worker->error) != MFQ_OK);
        /* Opened again now and then, as another owner. */
        if (i % 1000 == 999) {
            mfq_producer_close(producer);
            producer = NULL;
            worker->wrong += mfq_producer_open(worker->path, &options, &producer, &worker->error) != MFQ_OK;
        }
    }
    mfq_producer_close(producer);
    return NULL;
}

static void *read_in_thread(void *argument) {
    struct worker *worker = (struct worker *)argument;
    mfq_reader *reader;
    mfq_message message;
    long next[THREADS_MAX] = {0}, total = worker->messages * worker->producers;
    mfq_status status = worker->number == 0 ? mfq_consumer_open(worker->path, "threads", MFQ_EARLIEST, &reader, &worker->error)
        : mfq_reader_open(worker->path, MFQ_EARLIEST, &reader, &worker->error);
    worker->wrong = status != MFQ_OK;
    for (long i = 0; i < total && worker->wrong == 0; i++) {
        long words[8] = {0};
        status = mfq_wait(reader, &message, 60000, &worker->error);
        if (status != MFQ_OK || message.length < 16 || message.length > sizeof words) {
            worker->wrong++;
            break;
        }
        memcpy(words, message.data, message.length);
        worker->wrong += words[0] < 0 || words[0] >= worker->producers || words[1] != next[words[0] % THREADS_MAX]++;
        for (size_t k = 2; k < message.length / sizeof words[0]; k++)
            worker->wrong += words[k] != words[1];
        if (worker->number == 0)
            worker->wrong += mfq_commit(reader, &worker->error) != MFQ_OK;
    }
    mfq_close(reader);
    return NULL;
}

static int run_threads(const char *path, int producers, long messages) {
    static struct worker workers[THREADS_MAX];
    long wrong = 0;
    if (producers < 1 || producers > THREADS_MAX - 2)
        return 64;
    for (int i = 0; i < producers + 2; i++) {
        workers[i].path = path;
        workers[i].producers = producers;
        workers[i].messages = messages;
        workers[i].number = i < producers ? i : i - producers;
        if (pthread_create(&workers[i].thread, NULL, i < producers ? produce_in_thread : read_in_thread, &workers[i]) != 0)
            return 2;
    }
    for (int i = 0; i < producers + 2; i++) {
        pthread_join(workers[i].thread, NULL);
        if (workers[i].wrong != 0)
            fprintf(stderr, "worker %d: %ld wrong: %s\n", i, workers[i].wrong, workers[i].error.text);
        wrong += workers[i].wrong;
    }
    printf("%ld messages, %ld wrong\n", producers * messages, wrong);
    return wrong != 0;
}

/* ---- fork ---- */

static mfq_producer *of_parent;
static mfq_reader *of_parent_too;

static void close_at_exit(void) {
    mfq_producer_close(of_parent);
    mfq_close(of_parent_too);
}

static mfq_status take_name(const char *path, const char *name) {
    mfq_reader *consumer = NULL;
    mfq_status status = mfq_consumer_open(path, name, MFQ_EARLIEST, &consumer, NULL);
    mfq_close(consumer);
    return status;
}

static mfq_status take_alone(const char *path) {
    mfq_producer_options options;
    mfq_producer *producer = NULL;
    memset(&options, 0, sizeof options);
    options.mode = MFQ_EXCLUSIVE;
    mfq_status status = mfq_producer_open(path, &options, &producer, NULL);
    mfq_producer_close(producer);
    return status;
}

/* Its own handle's locks end with the handle, though a child of its own holds copies. Gives the answer by its exit code. */
static void open_in_child(const char *path, const int *pipes) {
    mfq_reader *own;
    char byte;
    if (mfq_consumer_open(path, "child", MFQ_EARLIEST, &own, NULL) != MFQ_OK)
        _exit(2);
    if (fork() == 0) {
        close(pipes[1]);
        /* Until the parent of all has ended. */
        _exit(read(pipes[0], &byte, 1) < 0);
    }
    mfq_close(own);
    _exit(take_name(path, "child") != MFQ_OK);
}

static int run_forks(const char *path) {
    int pipes[2], status = 0;
    mfq_error error;
    if (pipe(pipes) != 0)
        return 2;
    mfq_status opened = mfq_producer_open(path, NULL, &of_parent, &error);
    if (opened == MFQ_OK)
        opened = mfq_consumer_open(path, "parent", MFQ_EARLIEST, &of_parent_too, &error);
    if (opened != MFQ_OK)
        return report("open", opened, &error);
    atexit(close_at_exit);
    for (int i = 0; i < 3; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0 && i == 0)
            exit(0);
        if (child == 0 && i == 1)
            execl("/bin/true", "true", (char *)NULL);
        if (child == 0)
            open_in_child(path, pipes);
        if (waitpid(child, &status, 0) != child)
            return 2;
        printf("%d: child %d, name %s, store %s\n", i, WIFEXITED(status) ? WEXITSTATUS(status) : -1,
            mfq_status_name(take_name(path, "parent")), mfq_status_name(take_alone(path)));
    }
    close_at_exit();
    of_parent = NULL;
    of_parent_too = NULL;
    printf("closed: name %s, store %s\n", mfq_status_name(take_name(path, "parent")), mfq_status_name(take_alone(path)));
    return 0;
}

/* ---- limits, and a store that is gone ---- */

static mfq_status open_and_close(const char *path, int kind) {
    mfq_reader *reader = NULL;
    mfq_producer *producer = NULL;
    mfq_status status = kind == 0 ? mfq_reader_open(path, MFQ_EARLIEST, &reader, NULL)
        : kind == 1 ? mfq_consumer_open(path, "limits", MFQ_EARLIEST, &reader, NULL)
        : mfq_producer_open(path, NULL, &producer, NULL);
    mfq_close(reader);
    mfq_producer_close(producer);
    return status;
}

static int run_limits(const char *path) {
    static const char *const kinds[] = {"reader", "consumer", "producer"};
    mfq_reader *consumer;
    mfq_message message;
    mfq_error error;
    /* In the middle of the log, so that a walk is needed to believe it. */
    mfq_status status = mfq_consumer_open(path, "limits", MFQ_EARLIEST, &consumer, &error);
    if (status != MFQ_OK || mfq_read(consumer, &message, &error) != MFQ_OK || mfq_commit(consumer, &error) != MFQ_OK)
        return report("open", status, &error);
    mfq_close(consumer);
    int first = dup(0);
    close(first);
    for (int kind = 0; kind < 3; kind++) {
        mfq_status last = MFQ_EMPTY;
        printf("%s", kinds[kind]);
        for (int more = 0; more < 20; more++) {
            struct rlimit whole, few;
            getrlimit(RLIMIT_NOFILE, &whole);
            few = whole;
            few.rlim_cur = (rlim_t)(first + more);
            setrlimit(RLIMIT_NOFILE, &few);
            status = open_and_close(path, kind);
            setrlimit(RLIMIT_NOFILE, &whole);
            int next = dup(0);
            close(next);
            if (status != last || next != first)
                printf(" %s%s", mfq_status_name(status), next != first ? " and a descriptor is left" : "");
            last = status;
        }
        printf("\n");
    }
    return 0;
}

static int outlive(const char *path) {
    static uint8_t bytes[60000];
    mfq_reader *consumer;
    mfq_producer *producer;
    mfq_producer_options options;
    mfq_message message;
    mfq_error error;
    memset(&options, 0, sizeof options);
    options.durability = MFQ_GROUP;
    mfq_status status = mfq_producer_open(path, &options, &producer, &error);
    if (status == MFQ_OK)
        status = mfq_produce(producer, NULL, "one", 3, NULL, &error);
    if (status == MFQ_OK)
        status = mfq_consumer_open(path, "c", MFQ_EARLIEST, &consumer, &error);
    if (status == MFQ_OK)
        status = mfq_read(consumer, &message, &error);
    if (status != MFQ_OK)
        return report("open", status, &error);
    printf("opened\n");
    fflush(stdout);
    while (getchar() != EOF) {
    }
    printf("flush %s\n", mfq_status_name(mfq_flush(consumer, &error)));
    printf("wait %s\n", mfq_status_name(mfq_wait(consumer, &message, 3000, &error)));
    printf("produce %s\n", mfq_status_name(mfq_produce(producer, NULL, "two", 3, NULL, &error)));
    printf("flush %s\n", mfq_status_name(mfq_producer_flush(producer, &error)));
    printf("roll %s\n", mfq_status_name(mfq_produce(producer, NULL, bytes, sizeof bytes, NULL, &error)));
    printf("roll %s\n", mfq_status_name(mfq_produce(producer, NULL, bytes, sizeof bytes, NULL, &error)));
    mfq_close(consumer);
    mfq_producer_close(producer);
    return 0;
}

static int read_on(const char *path, const char *name) {
    mfq_reader *reader;
    mfq_message message;
    mfq_error error;
    mfq_status status = open_reader(path, name, &reader, &error);
    if (status != MFQ_OK)
        return report("open", status, &error);
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) {
        int commits = strcmp(line, "commit\n") == 0;
        status = commits ? mfq_commit(reader, &error) : line[0] == '\n' ? MFQ_OK
            : mfq_seek(reader, strtoll(line, NULL, 10), &error);
        if (status == MFQ_OK && !commits)
            status = mfq_read(reader, &message, &error);
        printf("%s %" PRId64 "\n", mfq_status_name(status), mfq_offset(reader));
        fflush(stdout);
    }
    mfq_close(reader);
    return 0;
}

/* A caller without a handle is told so. */
static int ask_nothing(void) {
    int64_t offset = 0;
    mfq_info info;
    mfq_get_info(NULL, NULL);
    mfq_get_info(NULL, &info);
    int is_told = mfq_offset(NULL) == -1 && info.segment_length == 0
        && mfq_stored_offset(NULL, "a", &offset, NULL) == MFQ_E_ARGUMENT
        && mfq_stored_offset(NULL, "a", NULL, NULL) == MFQ_E_ARGUMENT && mfq_get_headers(NULL, NULL) == 0
        && mfq_read(NULL, NULL, NULL) == MFQ_E_ARGUMENT
        && mfq_commit(NULL, NULL) == MFQ_E_ARGUMENT && mfq_flush(NULL, NULL) == MFQ_E_ARGUMENT
        && mfq_produce(NULL, NULL, NULL, 0, NULL, NULL) == MFQ_E_ARGUMENT
        && mfq_producer_flush(NULL, NULL) == MFQ_E_ARGUMENT && mfq_producer_prepare(NULL, 1, NULL) == MFQ_E_ARGUMENT
        && mfq_seek(NULL, 0, NULL) == MFQ_E_ARGUMENT;
    mfq_close(NULL);
    mfq_producer_close(NULL);
    return is_told ? 0 : 1;
}

static int compare_crc(void) {
    uint8_t bytes[300];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 131 + 7);
    for (size_t from = 0; from < 9; from++)
        for (size_t length = 0; from + length <= sizeof bytes; length++)
            if (mfq_crc32c(UINT32_MAX, bytes + from, length) != mfq_crc32c_by_table(UINT32_MAX, bytes + from, length)) {
                printf("different: from=%zu, length=%zu\n", from, length);
                return 1;
            }
    printf("same, check=%08x\n", ~mfq_crc32c(UINT32_MAX, "123456789", 9));
    return 0;
}

/* ---- mutate ---- */

static uint64_t random_state;
static long joined;

static uint64_t next_random(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static size_t pick(size_t count) { return count == 0 ? 0 : (size_t)(next_random() % count); }

static void write_file(const char *scratch, const char *name, const uint8_t *data, size_t length) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, length) != (ssize_t)length)
        abort();
    close(fd);
}

/* Changes a copy of a file; gives its new length. */
static size_t change(const struct file *file, uint8_t *copy) {
    size_t length = file->length;
    memcpy(copy, file->data, length);
    if (length == 0)
        return 0;
    for (size_t times = 1 + pick(4); times > 0; times--) {
        /* Most structure is at the beginning of things, and on multiples of 8. */
        size_t at = pick(2) == 0 ? pick(length) : pick(length < 1024 ? length : 1024) & ~(size_t)7;
        static const uint64_t words[] = {0, 1, 7, 8, 0x10000008u, 0x2FFFFFFFu, 0x7FFFFFFFFFFFFFFFu, 0x8000000000000000u,
            0xFFFFFFFFFFFFFFFFu, 0x00000000FFFFFFFFu, 0x90000001u, 0xA0000010u, 4096, 4097, 0x0010000010000000u};
        switch (pick(6)) {
        case 0: copy[at] ^= (uint8_t)(1u << pick(8)); break;
        case 1: copy[at] = (uint8_t)next_random(); break;
        case 2:
            if (at + 8 <= length)
                memcpy(copy + at, &words[pick(sizeof words / sizeof words[0])], 8);
            break;
        case 3: {
            size_t count = pick(64);
            memset(copy + at, 0, count < length - at ? count : length - at);
            break;
        }
        case 4: {
            size_t from = pick(length) & ~(size_t)7, count = pick(256);
            if (from + count <= length && at + count <= length)
                memmove(copy + at, copy + from, count);
            break;
        }
        default:
            if (pick(4) == 0)
                length = pick(length + 1);
            if (length == 0)
                return 0;
        }
    }
    return length;
}

/* Gives a message another content under a right checksum, as somebody may who wants to break the reader. */
static void forge(const struct vector *vector, const struct file *file, const uint8_t *id, uint8_t *copy) {
    int64_t start = segment_start(file->name);
    if (vector->message_count == 0 || start < 0)
        return;
    int64_t at = vector->messages[pick((size_t)vector->message_count)].offset - start;
    if (at < 0 || (size_t)at + 16 > file->length)
        return;
    uint32_t low, length;
    memcpy(&low, copy + at, 4);
    length = low & 0x0FFFFFFFu;
    if (length < 8 || length > file->length - (size_t)at - 8)
        return;
    uint64_t block = next_random() & (pick(2) == 0 ? 0x00FF00FF001F001Fu : 0xFFFFFFFFFFFFFFFFu);
    low |= 0x80000000u;
    memcpy(copy + at, &low, 4);
    memcpy(copy + at + 8, &block, 8);
    uint64_t first = (uint64_t)(start + at) / 8 ^ (uint64_t)low << 32;
    uint32_t crc = mfq_crc32c(mfq_crc32c(UINT32_MAX, id, 16), &first, 8);
    uint8_t zeros[8] = {0};
    crc = mfq_crc32c(mfq_crc32c(crc, copy + at + 8, length), zeros, (8 - length % 8) % 8);
    memcpy(copy + at + 4, &crc, 4);
}

/* Reads a damaged store from its beginning and from a random place; gives the number of wrong messages. */
static int check(const struct vector *vector, const char *scratch, int is_forged) {
    mfq_reader *reader;
    mfq_message message;
    mfq_headers headers;
    int64_t offset, last = -1;
    int wrong = 0;
    int64_t start = pick(4) == 0 ? MFQ_LATEST : pick(4) == 0 ? (int64_t)(pick(40) * 512) : MFQ_EARLIEST;
    if (mfq_reader_open(scratch, start, &reader, NULL) != MFQ_OK)
        return 0;
    while (mfq_read(reader, &message, NULL) == MFQ_OK) {
        volatile uint8_t sum = 0;
        for (size_t i = 0; i < message.length; i++)
            sum = (uint8_t)(sum + ((const uint8_t *)message.data)[i]);
        mfq_get_headers(&message, &headers);
        for (size_t i = 0; i < headers.key_length; i++)
            sum = (uint8_t)(sum + headers.key[i]);
        wrong += (!is_forged && !is_known(vector, &message)) || message.offset <= last;
        last = message.offset;
    }
    (void)mfq_stored_offset(reader, "", &offset, NULL);
    mfq_close(reader);
    return wrong;
}

/* A consumer and a producer that are alone: they refuse the store, or work in it. */
static void work(const char *scratch) {
    mfq_reader *consumer;
    mfq_producer *producer;
    mfq_message message;
    uint8_t bytes[600] = {0};
    if (mfq_consumer_open(scratch, pick(2) == 0 ? "" : "c", MFQ_EARLIEST, &consumer, NULL) == MFQ_OK) {
        for (int i = 0; i < 100 && mfq_read(consumer, &message, NULL) == MFQ_OK; i++)
            (void)mfq_commit(consumer, NULL);
        joined++;
        mfq_close(consumer);
    }
    mfq_producer_options options;
    memset(&options, 0, sizeof options);
    options.mode = pick(2) == 0 ? MFQ_SHARED : MFQ_EXCLUSIVE;
    options.durability = pick(2) == 0 ? MFQ_PAGE_CACHE : MFQ_GROUP;
    options.flush_timeout_ms = 1000;
    if (mfq_producer_open(scratch, &options, &producer, NULL) == MFQ_OK) {
        for (int i = 0; i < 20; i++)
            (void)mfq_produce(producer, NULL, bytes, pick(sizeof bytes), NULL, NULL);
        joined++;
        mfq_producer_close(producer);
    }
}

/* Removes the files of a folder, those of a consumer and a producer too. */
static void empty_folder(const char *path) {
    DIR *entries = opendir(path);
    for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;)
        if (entry->d_name[0] != '.')
            (void)unlinkat(dirfd(entries), entry->d_name, 0);
    if (entries != NULL)
        closedir(entries);
}

static int mutate(const char *vectors, const char *scratch, long count, double seconds, uint64_t seed) {
    static struct vector all[VECTORS_MAX];
    int total = load_vectors(vectors, all), wrong = 0, in_order = -1;
    static const char *const folders[] = {"", "/commitlog", "/offset", "/offset/consumers", "/offset/groups",
        "/offset/producers", "/locks", "/salvage"};
    char path[1024];
    long done = 0;
    random_state = seed * 2654435761u + 1;
    for (int i = 0; i < total; i++)
        if (strstr(all[i].path, "/in-order") != NULL)
            in_order = i;
    if (total == 0)
        return 2;
    struct timespec began, now;
    clock_gettime(CLOCK_MONOTONIC, &began);
    now = began;
    for (; done < count && (double)(now.tv_sec - began.tv_sec) < seconds; done++) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        /* Every fourth is one that a consumer and a producer can join. */
        struct vector *vector = &all[done % 4 == 0 && in_order >= 0 ? (size_t)in_order : pick((size_t)total)];
        uint8_t *copy;
        if (vector->file_count == 0)
            continue;
        int victim = (int)pick((size_t)vector->file_count), is_forged = pick(4) == 0;
        const uint8_t *id = NULL;
        for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
            snprintf(path, sizeof path, "%s%s", scratch, folders[i]);
            (void)mkdir(path, 0700);
        }
        for (int i = 0; i < vector->file_count; i++) {
            struct file *file = &vector->files[i];
            if (strcmp(file->name, "queue.meta") == 0 && file->length == 4096)
                id = file->data + 56;
            if (i != victim) {
                write_file(scratch, file->name, file->data, file->length);
                continue;
            }
            if (pick(50) == 0)
                continue;
            copy = (uint8_t *)allocate(file->length);
            size_t length = change(file, copy);
            if (is_forged && id != NULL && length == file->length)
                forge(vector, file, id, copy);
            /* A meta page that somebody forged has a right checksum, and any geometry. */
            if (strcmp(file->name, "queue.meta") == 0 && length == 4096 && pick(4) != 0)
                seal(copy);
            if (strcmp(file->name, "control") == 0 && length == 4096 && pick(2) != 0) {
                /* The words that count, more often than chance would. */
                static const size_t words[] = {64, 128, 256, 384, 768, 776, 1024, 1920};
                uint64_t value = pick(2) == 0 ? (uint64_t)pick(4096) * 8 : next_random();
                memcpy(copy + words[pick(8)], &value, 8);
                seal_control(copy);
            }
            write_file(scratch, file->name, copy, length);
            free(copy);
        }
        int found = check(vector, scratch, is_forged);
        if (found != 0)
            printf("wrong messages: vector=%s, file=%s, round=%ld\n", vector->path, vector->files[victim].name, done);
        wrong += found;
        work(scratch);
        for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
            snprintf(path, sizeof path, "%s%s", scratch, folders[i]);
            empty_folder(path);
        }
    }
    printf("%ld stores, joined %ld times, %d wrong messages\n", done, joined, wrong);
    free_vectors(all, total);
    return wrong != 0;
}

int main(int count, char **arguments) {
    if (count >= 3 && strcmp(arguments[1], "dump") == 0) {
        for (int i = 2; i < count; i++)
            dump(arguments[i]);
        return 0;
    }
    if (count >= 3 && strcmp(arguments[1], "attach") == 0) {
        for (int i = 2; i < count; i++)
            attach(arguments[i]);
        return 0;
    }
    if (count == 5 && strcmp(arguments[1], "follow") == 0)
        return follow(arguments[2], NULL, atol(arguments[3]), atoi(arguments[4]));
    if (count == 6 && strcmp(arguments[1], "consume") == 0)
        return follow(arguments[2], arguments[3], atol(arguments[4]), atoi(arguments[5]));
    if (count == 4 && strcmp(arguments[1], "hold") == 0)
        return hold(arguments[2], arguments[3]);
    if (count == 7 && strcmp(arguments[1], "produce") == 0)
        return produce(arguments[2], arguments[3], arguments[4], atol(arguments[5]), atol(arguments[6]));
    if (count == 4 && strcmp(arguments[1], "append") == 0)
        return append(arguments[2], arguments[3]);
    if (count == 5 && strcmp(arguments[1], "threads") == 0)
        return run_threads(arguments[2], atoi(arguments[3]), atol(arguments[4]));
    if (count == 3 && strcmp(arguments[1], "fork") == 0)
        return run_forks(arguments[2]);
    if (count == 3 && strcmp(arguments[1], "limits") == 0)
        return run_limits(arguments[2]);
    if (count == 3 && strcmp(arguments[1], "outlive") == 0)
        return outlive(arguments[2]);
    if ((count == 3 || count == 4) && strcmp(arguments[1], "read-on") == 0)
        return read_on(arguments[2], count == 4 ? arguments[3] : NULL);
    if (count == 2 && strcmp(arguments[1], "crc") == 0)
        return compare_crc();
    if (count == 2 && strcmp(arguments[1], "nothing") == 0)
        return ask_nothing();
    if (count == 7 && strcmp(arguments[1], "mutate") == 0)
        return mutate(arguments[2], arguments[3], atol(arguments[4]), atof(arguments[5]), (uint64_t)atoll(arguments[6]));
    fprintf(stderr, "The head of test_vectors.c says what to give.\n");
    return 64;
}
