/*
 * Adds up the trades of a store of structs, as a named consumer: example_consume STORE NAME. Started again, it continues after
 * the last trade that it committed, and so does a consumer of that name in C#.
 */
#include "mfq.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The C# side: [StructLayout(LayoutKind.Sequential)] struct Trade { long Id; double Price; int Quantity; int Flags; } */
struct trade {
    int64_t id;
    double price;
    int32_t quantity;
    int32_t flags;
};

int main(int count, char **arguments) {
    mfq_reader *consumer;
    mfq_message message;
    mfq_error error;
    mfq_status status;
    double sum = 0;
    if (count != 3)
        return 64;
    if (mfq_consumer_open(arguments[1], arguments[2], MFQ_EARLIEST, &consumer, &error) != MFQ_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    while ((status = mfq_wait(consumer, &message, 1000, &error)) == MFQ_OK) {
        struct trade trade;
        if (message.length != sizeof trade) {
            fprintf(stderr, "The store holds another struct: length=%zu.\n", message.length);
            break;
        }
        memcpy(&trade, message.data, sizeof trade);
        sum += trade.price * trade.quantity;
        if ((status = mfq_commit(consumer, &error)) != MFQ_OK)
            break;
    }
    printf("up to %" PRId64 ": %.2f\n", mfq_offset(consumer), sum);
    if (status < 0)
        fprintf(stderr, "%s\n", error.text);
    mfq_close(consumer);
    return status < 0;
}
