namespace MappedFileQueues.Tests.Log.Opening;

/// <summary>Folders that are no store, or not the store that the caller takes them for: refused, with nothing written.</summary>
public sealed class WrongPlaceTests : IDisposable
{
    private const int Enotdir = 20;

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void Open_MissingAndNotToBeMade_IsRefused()
    {
        QueueNotFoundException error = Refusal.Of<QueueNotFoundException>(
            _temp, _temp.StorePath, () => Refusal.Attach(_temp.StorePath, createIfMissing: false), "CreateIfMissing");
        Assert.Equal(_temp.StorePath, error.Path);
    }

    [Fact]
    public void Open_EmptyFolderAndNotToBeMade_IsRefused()
    {
        Directory.CreateDirectory(_temp.StorePath);
        Refusal.Of<QueueNotFoundException>(
            _temp, _temp.StorePath, () => Refusal.Attach(_temp.StorePath, createIfMissing: false), "CreateIfMissing");
    }

    [Fact]
    public void Read_MissingStore_IsRefusedAndMakesNothing()
    {
        Refusal.Of<QueueNotFoundException>(_temp, _temp.StorePath, () => Refusal.Read(_temp.StorePath));
        Directory.CreateDirectory(_temp.StorePath);
        Refusal.Of<QueueNotFoundException>(_temp, _temp.StorePath, () => Refusal.Read(_temp.StorePath));
        Refusal.Of<QueueNotFoundException>(_temp, _temp.StorePath, () => StoreInspector.Inspect(_temp.StorePath));
    }

    [Theory]
    [InlineData("")]
    [InlineData("below")]
    public void Open_FileInItsPlace_IsRefused(string below)
    {
        File.WriteAllText(_temp.StorePath, "a file");
        string path = Path.Combine(_temp.StorePath, below);
        Refusal.Of<QueueDiskException>(_temp, _temp.StorePath, () => Refusal.Attach(path), $"errno={Enotdir}");
        Refusal.Of<QueueDiskException>(_temp, _temp.StorePath, () => Refusal.Read(path));
    }

    [Fact]
    public void Open_ForeignFiles_IsRefusedAndNamesOne()
    {
        Directory.CreateDirectory(_temp.StorePath);
        File.WriteAllText(_temp.PathOf("letters.txt"), "not ours");
        Refusal.Of<QueueFormatException>(_temp, _temp.StorePath, () => Refusal.Attach(_temp.StorePath), "letters.txt");
    }

    [Fact]
    public void Open_MetaPageLost_IsRefusedAndNamesIt()
    {
        Refusal.MakeStore(_temp.StorePath);
        File.Delete(_temp.PathOf("queue.meta"));
        Refusal.Of<QueueFormatException>(_temp, _temp.StorePath, () => Refusal.Attach(_temp.StorePath), "queue.meta");
    }

    [Fact]
    public void Open_SegmentsWithoutMetaPage_IsRefused()
    {
        Directory.CreateDirectory(_temp.PathOf("commitlog"));
        File.WriteAllBytes(_temp.PathOf("commitlog", "00000000000000000000.log"), new byte[4096]);
        Refusal.Of<QueueFormatException>(_temp, _temp.StorePath, () => Refusal.Attach(_temp.StorePath), "commitlog/");
    }

    /// <summary>The structs' library wrote three offset files and lock files, the messages' library two.</summary>
    [Theory]
    [InlineData("producer.offset", "producer.confirmed.offset", "consumer.offset", "consumer_lock.lock")]
    [InlineData("producer.offset", "consumer.offset")]
    public void Open_StoreOfVersion1_IsRefusedAndNamesTheImport(params string[] files)
    {
        Directory.CreateDirectory(_temp.PathOf("commitlog"));
        Directory.CreateDirectory(_temp.PathOf("offset"));
        File.WriteAllBytes(_temp.PathOf("commitlog", "00000000000000000000"), [1, 0, 0, 0, 0xFF]);
        foreach (string file in files)
        {
            string path = file.EndsWith(".lock", StringComparison.Ordinal) ? _temp.PathOf(file) : _temp.PathOf("offset", file);
            File.WriteAllBytes(path, new byte[8]);
        }

        Refusal.Of<QueueFormatException>(_temp, _temp.StorePath, () => Refusal.Attach(_temp.StorePath), "mfq import-v1");
        Refusal.Of<QueueFormatException>(
            _temp, _temp.StorePath, () => new MappedFileQueue<long>(Refusal.Options(_temp.StorePath)).Dispose(), "mfq import-v1");
    }

    [Fact]
    public void Open_VersionOneFolderThatWasOnlyJustBegun_IsRefused()
    {
        Directory.CreateDirectory(_temp.PathOf("offset"));
        File.WriteAllBytes(_temp.PathOf("offset", "consumer.offset"), new byte[8]);
        Refusal.Of<QueueFormatException>(_temp, _temp.StorePath, () => Refusal.Attach(_temp.StorePath), "mfq import-v1");
    }

    [Fact]
    public void Open_MessagesAsStructs_IsRefused()
    {
        Refusal.MakeStore(_temp.StorePath);
        Refusal.Of<QueueFormatException>(
            _temp, _temp.StorePath, () => new MappedFileQueue<long>(Refusal.Options(_temp.StorePath)).Dispose(), "messages");
        Refusal.Of<QueueFormatException>(_temp, _temp.StorePath, () => MappedFileReader<long>.Open(_temp.StorePath).Dispose());
        Assert.Equal(3, Refusal.CountMessages(_temp.StorePath));
    }

    [Fact]
    public void Open_StructsAsMessages_IsRefused()
    {
        new MappedFileQueue<long>(Refusal.Options(_temp.StorePath)).Dispose();
        Refusal.Of<QueueFormatException>(_temp, _temp.StorePath, () => Refusal.Attach(_temp.StorePath), "MappedFileQueue<T>");
    }

    /// <summary>
    /// Equal in size, and another struct all the same: reading one as the other would give nonsense in silence.
    /// </summary>
    [Fact]
    public void Open_AnotherStruct_IsRefusedAlsoWhenOfEqualSize()
    {
        new MappedFileQueue<Pair>(Refusal.Options(_temp.StorePath)).Dispose();
        Refuse<long>();
        Refuse<ReorderedPair>();
        Refuse<UnsignedPair>();
        Refuse<Half>();
        Refuse<Wide>();
        new MappedFileQueue<PairByAnotherName>(Refusal.Options(_temp.StorePath)).Dispose();
    }

    private void Refuse<T>()
        where T : unmanaged
    {
        Refusal.Of<QueueFormatException>(
            _temp, _temp.StorePath, () => new MappedFileQueue<T>(Refusal.Options(_temp.StorePath)).Dispose(), "structSize=8");
        Refusal.Of<QueueFormatException>(_temp, _temp.StorePath, () => MappedFileReader<T>.Open(_temp.StorePath).Dispose());
    }

    private record struct Pair(int First, float Second);

    private record struct PairByAnotherName(int Left, float Right);

    private record struct ReorderedPair(float First, int Second);

    private record struct UnsignedPair(uint First, float Second);

    private record struct Wide(int First, float Second, long Third);
}
