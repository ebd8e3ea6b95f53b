// Many small objects in few files: put, get, delete, compact.
// Run it with: dotnet run samples/pack.cs
#:project ../src/MappedFileQueues.Packs/MappedFileQueues.Packs.csproj
using System.Buffers;
using MappedFileQueues.Packs;

string folder = Directory.CreateTempSubdirectory("mfq-sample-").FullName;
try
{
    string path = Path.Combine(folder, "assets");
    byte[] data = [.. "<svg/>"u8];
    using (PackStore pack = PackStore.Open(path))
    {
        pack.Put("images/logo.svg", data, PackDurability.Group);   // returns when it is on disk; concurrent puts share one sync
        var found = new ArrayBufferWriter<byte>();
        if (pack.TryGet("images/logo.svg", found))                 // checked against its checksum
            Console.WriteLine($"{found.WrittenCount} bytes");
        pack.Delete("images/logo.svg");
        pack.Compact();                                            // frees what overwritten and deleted objects take
    }

    using PackReader reader = PackStore.OpenReader(path);
    return reader.Count == 0 ? 0 : 1;
}
finally
{
    Directory.Delete(folder, recursive: true);
}
