/* Prints every message of a store as it comes: example_follow STORE. Takes no name and leaves no trace. */
#include "mfq.h"

#include <inttypes.h>
#include <stdio.h>

int main(int count, char **arguments) {
    mfq_reader *reader;
    mfq_message message;
    mfq_error error;
    if (count != 2)
        return 64;
    if (mfq_reader_open(arguments[1], MFQ_EARLIEST, &reader, &error) != MFQ_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    while (mfq_wait(reader, &message, -1, &error) == MFQ_OK) {
        printf("%" PRId64 ": ", message.offset);
        fwrite(message.data, 1, message.length, stdout);
        putchar('\n');
        fflush(stdout);
    }
    fprintf(stderr, "%s\n", error.text);
    mfq_close(reader);
    return 1;
}
