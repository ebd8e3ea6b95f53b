/*
 * One side of the litmus tests of memory order; the other side is in C#, in the tests. Both map one file.
 *
 *   litmus FILE TEST ROUNDS     TEST is write, read, add, sleep or sleep-unfenced
 *
 * A round has 256 bytes of the file after its first page: word A at 0, word B at 128, and what C has seen at 64. The first page
 * has a sum at 0 and where each side is: C at 128, C# at 256.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

enum { SUM = 0, AT_C = 128, AT_SHARP = 256, PAGE = 4096, ROUND = 256, WORD_B = 128, SEEN = 64, DELAYS = 64 };

static uint8_t *base;

static uint64_t *word(long round, int at) { return (uint64_t *)(void *)(base + PAGE + round * ROUND + at); }

static uint64_t *head(int at) { return (uint64_t *)(void *)(base + at); }

static uint64_t await(const uint64_t *place, uint64_t least) {
    uint64_t value;
    for (long spins = 0; (value = __atomic_load_n(place, __ATOMIC_ACQUIRE)) < least; spins++)
        if (spins > 2000)
            (void)sched_yield();
    return value;
}

/*
 * Both begin a round together. Who comes last goes on first, because the other one has yet to see it. So each waits a little, for
 * every pair of two short times.
 */
static void meet(long round) {
    __atomic_store_n(head(AT_C), (uint64_t)round + 1, __ATOMIC_SEQ_CST);
    (void)await(head(AT_SHARP), (uint64_t)round + 1);
    for (volatile long wait = round % DELAYS; wait > 0; wait--) {
    }
}

int main(int count, char **arguments) {
    if (count != 4)
        return 64;
    long rounds = atol(arguments[3]), wrong = 0;
    const char *test = arguments[2];
    int fd = open(arguments[1], O_RDWR);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    base = (uint8_t *)mmap(NULL, (size_t)(PAGE + rounds * ROUND), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || base == MAP_FAILED)
        return 1;
    meet(0);
    for (long i = 0; i < rounds; i++) {
        if (strcmp(test, "write") == 0) {
            /* P1, P3: the payload, then the header. */
            *word(i, 0) = (uint64_t)i + 1;
            __atomic_store_n(word(i, WORD_B), (uint64_t)i + 1, __ATOMIC_RELEASE);
        } else if (strcmp(test, "read") == 0) {
            (void)await(word(i, WORD_B), (uint64_t)i + 1);
            wrong += *word(i, 0) != (uint64_t)i + 1;
        } else if (strcmp(test, "add") == 0) {
            /* P2: one of several gets a place; and a sum by compare-and-swap. */
            uint64_t none = 0, sum = __atomic_load_n(head(SUM), __ATOMIC_ACQUIRE);
            meet(i + 1);
            if (__atomic_compare_exchange_n(word(i, 0), &none, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE))
                *word(i, SEEN) = 1;
            while (!__atomic_compare_exchange_n(head(SUM), &sum, sum + 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE)) {
            }
        } else {
            /* P9: a change, then the other's word; one of the two sees the other. */
            meet(i + 1);
            __atomic_store_n(word(i, 0), 1, __ATOMIC_RELEASE);
            if (strcmp(test, "sleep") == 0)
                __atomic_thread_fence(__ATOMIC_SEQ_CST);
            else
                __atomic_signal_fence(__ATOMIC_SEQ_CST);
            *word(i, SEEN) = __atomic_load_n(word(i, WORD_B), __ATOMIC_ACQUIRE) + 1;
        }
    }
    __atomic_store_n(head(AT_C), (uint64_t)rounds + 2, __ATOMIC_SEQ_CST);
    printf("%ld\n", wrong);
    return 0;
}
