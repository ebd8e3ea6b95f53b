using System.Buffers.Binary;
using System.Diagnostics;
using MappedFileQueues.Tests.Format;

namespace MappedFileQueues.Tests.Interop;

/// <summary>
/// A recovery that cuts the log under a reader which is not attached: it continues where its place is below the cut, and is told
/// where it is not. The cut is made by hand: the epoch rises, and salvage/ names where it began.
/// </summary>
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class CutTests
{
    [Fact]
    public void Read_LogWasCut_EachLanguageContinuesBelowTheCutOnly()
    {
        string path = Copy(out TempStore store);
        using (store)
        {
            ChildProcess[] readers = [Start([CLibrary.Checked], path), Start(PythonPackage.Program, path)];
            using MappedFileReader inSharp = MappedFileReader.Open(path);
            Expect(readers, "ok 0");
            Assert.True(inSharp.TryRead(out _));
            // No names of cuts: the last one's numbers have signs.
            Directory.CreateDirectory(Path.Combine(path, "salvage"));
            foreach (string name in (string[])["a-b-0-c-9.cut", "0-from-0-epoch-9.cut.tmp", "0-from-+0-epoch-9.cut"])
                File.WriteAllBytes(Path.Combine(path, "salvage", name), []);

            Cut(path, epoch: 1, at: 64);
            Expect(readers, "ok 32");
            Assert.True(inSharp.TryRead(out _));
            Assert.Equal(32, inSharp.Offset);

            Cut(path, epoch: 2, at: 16);
            Expect(readers, "removed 48");
            Assert.Throws<OffsetOutOfRangeException>(() => inSharp.TryRead(out _));
            End(readers);
        }
    }

    /// <summary>
    /// A recovery after a failed sync writes the segments into new files. A reader that moved within its segment before it had
    /// noticed kept the old file: it read what was cut off, and would never have seen what came afterwards.
    /// </summary>
    [Fact]
    public void Seek_SegmentWasReplaced_EachLanguageReadsTheNewFile()
    {
        string path = Copy(out TempStore store);
        using (store)
        {
            ChildProcess[] readers = [Start([CLibrary.Checked], path), Start(PythonPackage.Program, path)];
            using MappedFileReader inSharp = MappedFileReader.Open(path);
            Expect(readers, "ok 0");
            Assert.True(inSharp.TryRead(out _));
            string segment = Path.Combine(path, "commitlog", $"{0:D20}.log");
            byte[] bytes = File.ReadAllBytes(segment);
            bytes.AsSpan(48).Clear();
            File.WriteAllBytes($"{segment}.tmp", bytes);
            File.Move($"{segment}.tmp", segment, overwrite: true);
            Directory.CreateDirectory(Path.Combine(path, "salvage"));
            Cut(path, epoch: 1, at: 48);

            Expect(readers, "ok 32", "32");
            Expect(readers, "empty 48");
            inSharp.Seek(QueueStart.FromOffset(32));
            Assert.True(inSharp.TryRead(out _));
            Assert.False(inSharp.TryRead(out _));
            End(readers);
        }
    }

    /// <summary>
    /// A seek that was refused took the cut for noticed: the reader stayed at its place, which was cut off, and gave what came to
    /// be there later, or waited for ever.
    /// </summary>
    [Fact]
    public void Seek_RefusedAfterACut_EachLanguageIsStillToldOfTheCut()
    {
        string path = Copy(out TempStore store);
        using (store)
        {
            ChildProcess[] readers = [Start([CLibrary.Checked], path), Start(PythonPackage.Program, path)];
            using MappedFileReader inSharp = MappedFileReader.Open(path);
            Expect(readers, "ok 0");
            Assert.True(inSharp.TryRead(out _));
            Directory.CreateDirectory(Path.Combine(path, "salvage"));
            Cut(path, epoch: 1, at: 16);

            Expect(readers, "removed 0", "8");
            Expect(readers, "removed 32");
            Assert.Throws<OffsetOutOfRangeException>(() => inSharp.Seek(QueueStart.FromOffset(8)));
            Assert.Throws<OffsetOutOfRangeException>(() => inSharp.TryRead(out _));
            End(readers);
        }
    }

    private static string Copy(out TempStore store)
    {
        string source = Path.Combine(Vectors.Folder, "dead-claim-in-control");
        store = new TempStore(createStoreFolder: true);
        Vectors.CopyTo(source, store.StorePath);
        return store.StorePath;
    }

    private static void End(ChildProcess[] readers)
    {
        foreach (ChildProcess reader in readers)
        {
            reader.Input.Close();
            reader.ExpectExit();
            reader.Dispose();
        }
    }

    private static ChildProcess Start(string[] program, string path) => ChildProcess.Start(
        new ProcessStartInfo(program[0], [.. program[1..], "read-on", path]),
        PythonPackage.Variables);

    private static void Expect(ChildProcess[] readers, string line, string input = "")
    {
        foreach (ChildProcess reader in readers)
        {
            int before = reader.Lines.Count;
            reader.Input.WriteLine(input);
            reader.Input.Flush();
            Assert.Equal(line, reader.WaitForLine(_ => true, fromIndex: before));
        }
    }

    /// <summary>Changes the page in place, as it is mapped.</summary>
    private static void Cut(string path, long epoch, long at)
    {
        File.WriteAllBytes(Path.Combine(path, "salvage", $"{0:D20}-from-{at:D20}-epoch-{epoch}.cut"), []);
        using FileStream control = File.Open(Path.Combine(path, "control"), FileMode.Open, FileAccess.ReadWrite);
        byte[] page = new byte[4096];
        control.ReadExactly(page);
        BinaryPrimitives.WriteInt64LittleEndian(page.AsSpan(40), epoch);
        BinaryPrimitives.WriteUInt32LittleEndian(page.AsSpan(48), FormatTwo.PageCrc([
            .. page[..48], .. page[768..776], .. page[1024..1032], .. page[1920..1928], .. page[64..72],
        ]));
        control.Position = 0;
        control.Write(page);
    }
}
