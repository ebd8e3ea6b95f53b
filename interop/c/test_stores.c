#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "test_stores.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void *allocate(size_t size) {
    void *memory = malloc(size == 0 ? 1 : size);
    if (memory == NULL)
        abort();
    return memory;
}

int64_t segment_start(const char *name) {
    long long start;
    int length = 0;
    return sscanf(name, "commitlog/%20lld.log%n", &start, &length) == 1 && name[length] == '\0' && length > 0 ? start : -1;
}

/* In the order of their names, so that a seed or an input means the same each time. */
static void load_folder(struct vector *vector, const char *folder) {
    char path[1024];
    struct dirent **names = NULL;
    snprintf(path, sizeof path, "%s/%s", vector->path, folder);
    int count = scandir(path, &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        struct stat status;
        snprintf(path, sizeof path, "%s/%s%s", vector->path, folder, names[i]->d_name);
        if (vector->file_count < FILES_MAX && stat(path, &status) == 0 && S_ISREG(status.st_mode)) {
            struct file *file = &vector->files[vector->file_count++];
            snprintf(file->name, sizeof file->name, "%s%.75s", folder, names[i]->d_name);
            file->length = (size_t)status.st_size;
            file->data = (uint8_t *)allocate(file->length);
            FILE *stream = fopen(path, "rb");
            if (stream == NULL || fread(file->data, 1, file->length, stream) != file->length)
                abort();
            fclose(stream);
        }
        free(names[i]);
    }
    free(names);
}

int is_message(const uint8_t *id, const uint8_t *data, size_t length, int64_t start, size_t at, uint32_t *low) {
    uint32_t sum;
    uint8_t padded[8] = {0};
    if (at + 8 > length)
        return 0;
    memcpy(low, data + at, 4);
    memcpy(&sum, data + at + 4, 4);
    uint32_t state = *low >> 28 & 7u;
    size_t payload = *low & 0x0FFFFFFFu, whole = payload & ~(size_t)7;
    if ((state != 2 && state != 4) || payload > length - at - 8)
        return 0;
    uint64_t first = (uint64_t)(start + (int64_t)at) / 8 ^ (uint64_t)*low << 32;
    uint32_t crc = mfq_crc32c_by_table(UINT32_MAX, id, 16);
    crc = mfq_crc32c_by_table(crc, &first, 8);
    crc = mfq_crc32c_by_table(crc, data + at + 8, whole);
    memcpy(padded, data + at + 8 + whole, payload - whole);
    return (payload == whole ? crc : mfq_crc32c_by_table(crc, padded, 8)) == sum;
}

/* Everything that may be read, whatever the other files say: the whole messages at their places, in order. */
static void learn(struct vector *vector) {
    static const char *const folders[] = {"", "commitlog/", "locks/", "offset/", "offset/consumers/", "offset/groups/",
        "offset/producers/", "salvage/"};
    const uint8_t *meta = NULL;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        load_folder(vector, folders[i]);
    vector->messages = (struct known *)allocate(MESSAGES_MAX * sizeof *vector->messages);
    for (int i = 0; i < vector->file_count; i++)
        if (strcmp(vector->files[i].name, "queue.meta") == 0 && vector->files[i].length >= 96)
            meta = vector->files[i].data;
    for (int i = 0; i < vector->file_count && meta != NULL; i++) {
        const struct file *file = &vector->files[i];
        int64_t start = segment_start(file->name);
        for (size_t at = 0; start >= 0 && at + 8 <= file->length && vector->message_count < MESSAGES_MAX; at += 8) {
            uint32_t low;
            if (!is_message(meta + 56, file->data, file->length, start, at, &low)
                && !is_message(meta + 80, file->data, file->length, start, at, &low))
                continue;
            struct known *known = &vector->messages[vector->message_count++];
            size_t length = low & 0x0FFFFFFFu, block = low >> 31 != 0 && length > 0 ? (size_t)file->data[at + 8] * 8 : 0;
            block = block <= length ? block : 0;
            known->offset = start + (int64_t)at;
            known->length = length - block;
            known->data = (uint8_t *)allocate(known->length);
            memcpy(known->data, file->data + at + 8 + block, known->length);
        }
    }
}

int load_vectors(const char *folder, struct vector *all) {
    int total = 0;
    struct dirent **names = NULL;
    int count = scandir(folder, &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        struct stat status;
        struct vector *vector = &all[total];
        if (total < VECTORS_MAX && names[i]->d_name[0] != '.') {
            snprintf(vector->path, sizeof vector->path, "%.250s/%.200s", folder, names[i]->d_name);
            if (stat(vector->path, &status) == 0 && S_ISDIR(status.st_mode)) {
                learn(vector);
                total++;
            }
        }
        free(names[i]);
    }
    free(names);
    return total;
}

void free_vectors(struct vector *all, int count) {
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < all[i].file_count; k++)
            free(all[i].files[k].data);
        for (int k = 0; k < all[i].message_count; k++)
            free(all[i].messages[k].data);
        free(all[i].messages);
    }
}

int is_known(const struct vector *vector, const mfq_message *message) {
    int low = 0, high = vector->message_count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (vector->messages[middle].offset < message->offset)
            low = middle + 1;
        else
            high = middle;
    }
    const struct known *known = &vector->messages[low];
    return low < vector->message_count && known->offset == message->offset && known->length == message->length
        && memcmp(known->data, message->data, message->length) == 0;
}

void seal(uint8_t *page) {
    uint32_t sum = ~mfq_crc32c(UINT32_MAX, page, 4092);
    memcpy(page + 4092, &sum, 4);
}

void seal_control(uint8_t *page) {
    static const struct { size_t at, length; } covered[] = {{0, 48}, {768, 8}, {1024, 8}, {1920, 8}, {64, 8}};
    uint32_t sum = UINT32_MAX;
    for (size_t i = 0; i < sizeof covered / sizeof covered[0]; i++)
        sum = mfq_crc32c(sum, page + covered[i].at, covered[i].length);
    sum = ~sum;
    memcpy(page + 48, &sum, 4);
}
