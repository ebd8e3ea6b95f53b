/*
 * Appends the lines of standard input to a store of messages: example_produce STORE [group]. Any number of producers may run at
 * once, in C and in C#. With `group`, each line is on disk before the next one is read.
 */
#include "mfq.h"

#include <stdio.h>
#include <string.h>

int main(int count, char **arguments) {
    mfq_producer_options options = {MFQ_SHARED, MFQ_PAGE_CACHE, 0};
    mfq_producer *producer;
    mfq_error error;
    mfq_status status = MFQ_OK;
    char line[4096];
    if (count < 2 || count > 3)
        return 64;
    if (count == 3 && strcmp(arguments[2], "group") == 0)
        options.durability = MFQ_GROUP;
    if (mfq_producer_open(arguments[1], &options, &producer, &error) != MFQ_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    while (status == MFQ_OK && fgets(line, sizeof line, stdin) != NULL)
        status = mfq_produce(producer, NULL, line, strcspn(line, "\n"), NULL, &error);
    /* At PageCache: all of it at once. */
    if (status == MFQ_OK)
        status = mfq_producer_flush(producer, &error);
    if (status != MFQ_OK)
        fprintf(stderr, "%s\n", error.text);
    mfq_producer_close(producer);
    return status != MFQ_OK;
}
