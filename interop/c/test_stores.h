/* The stores of the vectors in memory, for the programs that damage them: test_vectors.c and fuzz_reader.c. */
#ifndef TEST_STORES_H
#define TEST_STORES_H

#include "mfq.h"

#include <stddef.h>
#include <stdint.h>

enum { FILES_MAX = 24, VECTORS_MAX = 256, MESSAGES_MAX = 1024 };

struct file {
    char name[96];
    uint8_t *data;
    size_t length;
};

struct known {
    int64_t offset;
    uint8_t *data;
    size_t length;
};

struct vector {
    char path[512];
    struct file files[FILES_MAX];
    int file_count;
    struct known *messages;
    int message_count;
};

void *allocate(size_t size);

/* Every store of a folder, with its files and its messages, in the order of their names; gives the number of stores. */
int load_vectors(const char *folder, struct vector *all);
void free_vectors(struct vector *all, int count);

/* Whether a whole message is at a position of a segment of those bytes, by a checksum of our own over the log id. */
int is_message(const uint8_t *id, const uint8_t *data, size_t length, int64_t start, size_t at, uint32_t *low);

/* Whether the store has this message at its offset, whatever its other files say. */
int is_known(const struct vector *vector, const mfq_message *message);

/* The start of a segment; -1 for other files. */
int64_t segment_start(const char *name);

/* Right checksums over what a page has by now. */
void seal(uint8_t *page);
void seal_control(uint8_t *page);

#endif
