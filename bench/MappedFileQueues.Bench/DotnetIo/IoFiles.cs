using System.Text;
using MappedFileQueues.Bench.Files;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Bench.DotnetIo;

/// <summary>
/// The files that the ways read and write: one of full length, a small one, one of lines, and the name of one to be made. All are
/// known to the byte, so that what was read and what was written can be checked.
/// </summary>
internal sealed class IoFiles : IDisposable
{
    public const int SmallLength = 1024;

    /// <summary>With its newline.</summary>
    public const int LineLength = 100;

    /// <summary>
    /// What is written repeats itself so soon: every buffer of a power of two from here on is made of whole ones.
    /// </summary>
    private const int PatternLength = 512;

    private const int BlockLength = 1024 * 1024;

    private readonly string _directory;
    private readonly byte[] _sourceBlock = new byte[BlockLength];
    private readonly List<IDisposable> _opened = [];
    private long _textLength;
    private string _all = "";

    public IoFiles(string directory, long length)
    {
        _directory = directory;
        new Random(3).NextBytes(_sourceBlock);
        SetLength(length);
        File.WriteAllBytes(Small, _sourceBlock.AsSpan(0, SmallLength));
    }

    public string Source => PathOf("source");

    public string Small => PathOf("small");

    /// <summary>How long the source is, and the target becomes.</summary>
    public long Length { get; private set; }

    /// <summary>How many lines the file of lines has.</summary>
    public long LineCount => Length / LineLength;

    /// <summary>Lines of the same length; made when it is asked for.</summary>
    public string Text
    {
        get
        {
            string path = PathOf("text");
            if (_textLength != Length)
            {
                byte[] line = Encoding.ASCII.GetBytes(new string('x', LineLength - 1) + "\n");
                using FileStream file = new(path, FileMode.Create, FileAccess.Write, FileShare.None, BlockLength);
                for (long number = 0; number < LineCount; number++)
                    file.Write(line);
                _textLength = Length;
            }

            return path;
        }
    }

    private string Target => PathOf("target");

    /// <summary>A path of a way's own; the file goes with the others.</summary>
    public string PathOf(string name) => Path.Combine(_directory, name);

    /// <summary>
    /// The name of the file to be made, which is not there: ext4 writes a file out when it is closed after it was truncated, and
    /// that is another job.
    /// </summary>
    public string NewTarget()
    {
        File.Delete(Target);
        return Target;
    }

    /// <summary>What a way writes: letters, which are the same as bytes and as text.</summary>
    public static byte[] Pattern(int length)
    {
        byte[] bytes = new byte[length];
        for (int i = 0; i < length; i++)
            bytes[i] = (byte)('a' + (i % PatternLength * 7 + i % PatternLength / 26) % 26);
        return bytes;
    }

    /// <summary>All that belongs into the target, as text.</summary>
    public string WholePattern()
    {
        if (_all.Length != Length)
            _all = Encoding.ASCII.GetString(Pattern((int)Length));
        return _all;
    }

    /// <summary>Makes the source anew.</summary>
    public void SetLength(long length)
    {
        Length = length;
        using SafeFileHandle file = File.OpenHandle(Source, FileMode.Create, FileAccess.Write);
        for (long position = 0; position < length; position += BlockLength)
            RandomAccess.Write(file, _sourceBlock.AsSpan(0, (int)Math.Min(BlockLength, length - position)), position);
    }

    /// <summary>Whether a piece of the source or the small file is what is there, by its first and its last byte.</summary>
    public void CheckRead(ReadOnlySpan<byte> piece, long position)
    {
        if (piece[0] != _sourceBlock[position % BlockLength]
            || piece[^1] != _sourceBlock[(position + piece.Length - 1) % BlockLength])
            throw new ToolException($"Other bytes were read than stand there: position={position}, length={piece.Length}.");
    }

    /// <summary>Whether the target is whole, byte for byte: the pattern, or a copy of the source.</summary>
    public void CheckTarget(bool isCopy)
    {
        byte[] expected = isCopy ? _sourceBlock : Pattern(BlockLength);
        byte[] block = new byte[BlockLength];
        long position = 0;
        using (SafeFileHandle file = File.OpenHandle(Target))
        {
            for (int count; (count = RandomAccess.Read(file, block, position)) > 0; position += count)
            {
                if (!block.AsSpan(0, count).SequenceEqual(expected.AsSpan(0, count)))
                    throw new ToolException($"Other bytes were written than should be: position={position}, file={Target}.");
            }
        }

        IoLoops.Check(position, Length);
    }

    /// <summary>Keeps a file open until the end of the table.</summary>
    public T Keep<T>(T opened)
        where T : IDisposable
    {
        _opened.Add(opened);
        return opened;
    }

    public void Dispose()
    {
        foreach (IDisposable opened in _opened)
            opened.Dispose();
        foreach (string path in Directory.EnumerateFiles(_directory))
            BlockRun.Delete(path);
    }
}
