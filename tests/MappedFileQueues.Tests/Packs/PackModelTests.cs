using System.Collections.Immutable;
using FsCheck;
using FsCheck.Fluent;
using MappedFileQueues.Packs;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Packs;

/// <summary>
/// Random steps on tiny volumes against a dictionary. A failure shows the shrunk steps and its seed; with the environment
/// variable MFQ_REPLAY set to that seed ("(1,2)" or "(1,2,3)") the same steps are taken again.
/// </summary>
[Trait("Category", "Slow")]
public sealed class PackModelTests
{
    private const int RunsMax = 30;
    private const int KeyCount = 26;

    internal enum Operation
    {
        Put,
        Delete,
        Get,
        Reopen,
        Rebuild,
        Compact,
        CheckAll,

        /// <summary>One bit of a volume is flipped, and the index is made from the volumes; once in a run.</summary>
        Flip,
    }

    [Theory]
    [InlineData(false, false)]
    [InlineData(false, true)]
    [InlineData(true, false)]
    [InlineData(true, true)]
    public void AnySteps_OnTinyVolumes_AsADictionary(bool portable, bool mapsVolumes)
    {
        Property property = Prop.ForAll(Steps(), taken =>
        {
            PlatformScope.Use(portable);
            using var run = new Run(mapsVolumes);
            foreach (Step step in taken)
                run.Take(step);
            run.Take(new Step(Operation.CheckAll, 0, 0));
            return true;
        });
        Config config = Config.QuickThrowOnFailure.WithMaxTest(RunsMax).WithEndSize(150);
        if (Environment.GetEnvironmentVariable("MFQ_REPLAY") is { Length: > 0 } seed)
        {
            ulong[] parts = [.. seed.Trim('(', ')').Split(',').Select(ulong.Parse)];
            config = config.WithReplay(new Replay(new Rnd(parts[0], parts[1]), parts.Length > 2 ? (int)parts[2] : null));
        }

        Check.One(config, property);
    }

    private static Arbitrary<Step[]> Steps()
    {
        Gen<Operation> operation = Gen.Frequency(
            (20, Gen.Constant(Operation.Put)), (8, Gen.Constant(Operation.Delete)), (6, Gen.Constant(Operation.Get)),
            (2, Gen.Constant(Operation.Reopen)), (1, Gen.Constant(Operation.Rebuild)), (2, Gen.Constant(Operation.Compact)),
            (1, Gen.Constant(Operation.CheckAll)), (1, Gen.Constant(Operation.Flip)));
        Gen<int> length = Gen.Frequency((8, Gen.Choose(0, 300)), (2, Gen.Choose(0, 6000)), (1, Gen.Constant(0)));
        Gen<Step> step = from taken in operation
                         from key in Gen.Choose(0, KeyCount - 1)
                         from size in length
                         select new Step(taken, key, size);
        return Arb.From(step.ArrayOf(), Shrink);
    }

    /// <summary>Halves first, then every list with one step less.</summary>
    private static IEnumerable<Step[]> Shrink(Step[] steps)
    {
        if (steps.Length > 3)
        {
            yield return steps[..(steps.Length / 2)];
            yield return steps[(steps.Length / 2)..];
        }

        for (int i = 0; i < steps.Length; i++)
            yield return [.. steps[..i], .. steps[(i + 1)..]];
    }

    internal sealed record Step(Operation Operation, int Key, int Length)
    {
        public override string ToString() => $"{Operation} {Key} {Length}";
    }

    private sealed class Run : IDisposable
    {
        private readonly TempStore _temp = TempStore.InMemory();
        private readonly PackOptions _options;
        private readonly PackReader _reader;
        private ImmutableDictionary<string, byte[]> _model = ImmutableDictionary<string, byte[]>.Empty;
        private PackStore _pack;
        private int _seed;
        private bool _isFlipped;

        public Run(bool mapsVolumes)
        {
            _options = new PackOptions { VolumeSize = 4096, CheckpointInterval = 20_000, MapVolumes = mapsVolumes };
            _pack = PackStore.Open(_temp.StorePath, _options);
            _reader = PackStore.OpenReader(_temp.StorePath, new PackReaderOptions { MapVolumes = mapsVolumes });
        }

        public void Take(Step step)
        {
            string key = $"key {step.Key}";
            switch (step.Operation)
            {
                case Operation.Put:
                    byte[] data = PackBytes.Make(step.Length, ++_seed);
                    _pack.Put(key, data);
                    _model = _model.SetItem(key, data);
                    break;
                case Operation.Delete:
                    bool isDeleted = _pack.Delete(key);

                    // A key that damage may hide is deleted for safety.
                    Assert.True(isDeleted == _model.ContainsKey(key) || (_isFlipped && isDeleted));
                    _model = _model.Remove(key);
                    break;
                case Operation.Get:
                    CheckKey(key);
                    break;
                case Operation.Reopen or Operation.Rebuild:
                    _pack.Dispose();
                    if (step.Operation == Operation.Rebuild && File.Exists(_temp.PathOf("index.checkpoint")))
                        File.WriteAllText(_temp.PathOf("index.checkpoint"), "damaged");
                    _pack = PackStore.Open(_temp.StorePath, _options);
                    break;
                case Operation.Compact:
                    _pack.Compact(step.Length % 100 / 100.0);
                    break;
                case Operation.Flip:
                    if (!_isFlipped)
                        Flip(step.Length);
                    break;
                case Operation.CheckAll:
                    CheckAll();
                    break;
            }
        }

        public void Dispose()
        {
            _reader.Dispose();
            _pack.Dispose();
            _temp.Dispose();
        }

        /// <summary>The same place for the same steps.</summary>
        private void Flip(int place)
        {
            _pack.Dispose();
            File.Delete(_temp.PathOf("index.checkpoint"));
            string[] volumes = Directory.GetFiles(_temp.PathOf("volumes"));
            Array.Sort(volumes, StringComparer.Ordinal);
            if (volumes.Length > 0)
            {
                var random = new Random(place + (1000 * _seed));
                using FileStream file = new(
                    volumes[random.Next(volumes.Length)], FileMode.Open, FileAccess.ReadWrite, FileShare.ReadWrite);
                long position = random.NextInt64(VolumeHeader.Length, Math.Max(VolumeHeader.Length + 1, file.Length));
                if (position < file.Length)
                {
                    file.Position = position;
                    int old = file.ReadByte();
                    file.Position = position;
                    file.WriteByte((byte)(old ^ (1 << random.Next(8))));
                    _isFlipped = true;
                }
            }

            _pack = PackStore.Open(_temp.StorePath, _options);
        }

        private void CheckKey(string key)
        {
            byte[]? expected = _model.GetValueOrDefault(key);
            Check(expected, () => _pack.Get(key));
            Check(expected, () => _pack.GetOwned(key));
            Check(expected, () => _reader.Get(key));
            Check(expected is not null, () => _pack.Contains(key));
        }

        /// <summary>Never an older value: after a flip the right one, or the word that there is damage.</summary>
        private void Check<T>(T expected, Func<T> get)
        {
            try
            {
                Assert.Equal(expected, get());
            }
            catch (PackCorruptException) when (_isFlipped)
            {
                // One object, or those that a needle hides of which too little is left.
            }
        }

        private void CheckAll()
        {
            foreach (string key in _isFlipped ? Enumerable.Range(0, KeyCount).Select(number => $"key {number}") : _model.Keys)
                CheckKey(key);
            if (_isFlipped)
                return;
            Assert.Equal(_model.Count, _pack.Count);
            Assert.Equal(_model.Keys.Order(), _pack.Enumerate().Select(entry => entry.Key).Order());
            Assert.Equal(_model.Keys.Order(), _reader.Enumerate().Select(entry => entry.Key).Order());
            Assert.Empty(_pack.Verify().Damages);
            Assert.Empty(_reader.Damages);
            Assert.Equal(_model.Count, _pack.GetInfo().Count);
        }
    }
}
