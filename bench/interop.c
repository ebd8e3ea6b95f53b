/*
 * The loops of the suite `interop` of MappedFileQueues.Bench: the bare ones of limits.c with the checksum that a frame has, and
 * the same through the C library. The bench compiles this with the library's sources into a shared library, and calls it.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <nmmintrin.h>
#define CRC(crc, word) _mm_crc32_u64(crc, word)
#define RELAX() _mm_pause()
#else
#include <arm_acle.h>
#define CRC(crc, word) __crc32cd((uint32_t)(crc), word)
#define RELAX() __asm__ volatile("yield")
#endif
#include "../interop/c/mfq.h"

enum { PAYLOAD = 64, FRAME = 72 };

/* Published, 64 bytes long; the checksum is above it. */
static const uint64_t LOW = (uint64_t)2 << 28 | PAYLOAD;

typedef struct { uint64_t word[8]; } message;

/* Of the place, the low half of the header, and the payload, one step after the other, as in docs/FORMAT.md. */
static inline uint64_t crc_of(int64_t offset, const uint64_t *word)
{
    uint64_t crc = CRC(UINT32_MAX, (uint64_t)offset / 8 ^ LOW << 32);
    for (int i = 0; i < 8; i++) crc = CRC(crc, word[i]);
    return crc;
}

static inline uint64_t sum_of(const uint64_t *w)
{
    return w[0] + w[1] + w[2] + w[3] + w[4] + w[5] + w[6] + w[7];
}

void raw_append(uint8_t *place, message *m, int64_t count)
{
    uint8_t *p = place;
    for (int64_t i = 0; i < count; i++, p += FRAME) {
        m->word[0] = (uint64_t)i;
        memcpy(p + 8, m, PAYLOAD);
        atomic_store_explicit((_Atomic uint64_t *)p, LOW | crc_of(p - place, m->word) << 32, memory_order_release);
    }
}

/* The sum of all words; 0 at the first frame that is not whole. */
uint64_t raw_read(const uint8_t *place, int64_t count)
{
    uint64_t sum = 0;
    const uint8_t *p = place;
    for (int64_t i = 0; i < count; i++, p += FRAME) {
        const uint64_t *word = (const uint64_t *)(p + 8);
        uint64_t header = atomic_load_explicit((_Atomic uint64_t *)p, memory_order_acquire);
        if (header != (LOW | crc_of(p - place, word) << 32)) return 0;
        sum += sum_of(word);
    }
    return sum;
}

mfq_status c_append(mfq_producer *producer, message *m, int64_t from, int64_t count)
{
    mfq_status status = MFQ_OK;
    for (int64_t i = from; i < from + count && status == MFQ_OK; i++) {
        m->word[0] = (uint64_t)i;
        status = mfq_produce(producer, NULL, m, PAYLOAD, NULL, NULL);
    }
    return status;
}

/* Stops at anything but a message of 64 bytes. */
uint64_t c_read(mfq_reader *consumer, int64_t count)
{
    uint64_t sum = 0;
    mfq_message read;
    for (int64_t i = 0; i < count; i++) {
        if (mfq_read(consumer, &read, NULL) != MFQ_OK || read.length != PAYLOAD) return 0;
        sum += sum_of((const uint64_t *)read.data);
        if (mfq_commit(consumer, NULL) != MFQ_OK) return 0;
    }
    return sum;
}

/* Answers each message with one, spinning between them. */
uint64_t c_answer(mfq_reader *consumer, mfq_producer *producer, message *m, int64_t count)
{
    uint64_t sum = 0;
    mfq_message read;
    mfq_status status;
    for (int64_t i = 0; i < count; i++) {
        while ((status = mfq_read(consumer, &read, NULL)) == MFQ_EMPTY) RELAX();
        if (status != MFQ_OK || read.length != PAYLOAD) return 0;
        m->word[0] = (uint64_t)i;
        if (mfq_produce(producer, NULL, m, PAYLOAD, NULL, NULL) != MFQ_OK) return 0;
        sum += sum_of((const uint64_t *)read.data);
        if (mfq_commit(consumer, NULL) != MFQ_OK) return 0;
    }
    return sum;
}
