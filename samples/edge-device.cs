// A buffer on a device with flash memory: it keeps what was measured while the network is away, takes no more room than it may,
// and writes each block once.
// Run it with: dotnet run samples/edge-device.cs
#:project ../src/MappedFileQueues/MappedFileQueues.csproj
using MappedFileQueues;

string folder = Directory.CreateTempSubdirectory("mfq-sample-").FullName;
try
{
    string path = Path.Combine(folder, "measured");
    using var queue = new MappedFileQueue<Sample>(new MappedFileQueueOptions
    {
        StorePath = path,
        SegmentSize = 256 << 10,                      // what is removed at a time; up to 32 are prepared for a fast producer
        PrepareAhead = 256 << 10,
        PreallocateByWriting = false,                 // counts at Group only: each block is written once
        FlushInterval = TimeSpan.FromSeconds(10),     // what a power loss may take, and how often the flash is written
        Retention = new RetentionOptions
        {
            MaxBytes = 4 << 20,                       // segments that are prepared or wait to be used again come on top
            MinFreeBytes = 16 << 20,
            UnconsumedBytesMax = 3 << 20,             // weeks without a network: the oldest samples go
        },
    });
    queue.OpenConsumer("upload").Dispose();           // from here on the store keeps what it has not committed

    for (int i = 0; i < 500_000; i++)                 // the network is away
        queue.Producer.Produce(new Sample(i, 20.5f));

    var late = new ConsumerOptions { OnOutOfRange = OutOfRangePolicy.Earliest };
    using MappedFileConsumer<Sample> upload = queue.OpenConsumer("upload", late);
    int sent = 0, last = -1;
    while (upload.TryConsume(out Sample sample))      // the network is back
    {
        last = sample.Number;
        sent++;
        upload.Commit();
    }

    // A thread of the queue removes what is too old, at each segment's end and once a second.
    long bytes = queue.GetInfo().BytesOnDisk;
    for (int look = 0; look < 300 && bytes >= 16 << 20; look++)
    {
        Thread.Sleep(100);
        bytes = queue.GetInfo().BytesOnDisk;
    }

    Console.WriteLine($"{sent} samples sent, the store takes {bytes} bytes");
    return last == 499_999 && sent > 100_000 && bytes < 16 << 20 ? 0 : 1;
}
finally
{
    Directory.Delete(folder, recursive: true);
}

internal readonly record struct Sample(int Number, float Value);
