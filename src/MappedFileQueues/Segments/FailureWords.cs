using System.Runtime.InteropServices;
using System.Text;
using MappedFileQueues.Format;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Segments;

/// <summary>
/// Where the control page says why work in the background fails, for callers that ask for information in any process: since
/// when (0 while it succeeds), which process says so, and its error in UTF-8. When two threads report at once, or one reads
/// meanwhile, texts may mix: only a text depends on it.
/// </summary>
internal readonly unsafe struct FailureWords(MappedRegion page, int position, int textMax)
{
    /// <summary>A later time is garbage, and no failure.</summary>
    private const ulong MillisecondsMax = 253_402_300_799_999;

    /// <summary>True while the page says that the work fails.</summary>
    // P34 acquire: pairs with P34 release in Write.
    public bool IsSet => SharedWord.ReadAcquire(page.Word(position)) != 0;

    /// <summary>Reports a failure. One that was reported before is never taken back meanwhile: who watches would see a success.
    /// </summary>
    public void Write(DateTimeOffset since, string text)
    {
        Span<byte> destination = Bytes(ControlLayout.FailureTextIn, textMax);
        Encoding.UTF8.GetEncoder().Convert(text, destination, flush: true, out _, out int length, out _);
        MemoryMarshal.Write(Bytes(ControlLayout.FailureProcessIn, 4), Environment.ProcessId);
        MemoryMarshal.Write(Bytes(ControlLayout.FailureLengthIn, 4), length);
        // P34 release: after the text; pairs with P34 acquire in Read.
        SharedWord.WriteRelease(page.Word(position), (ulong)Math.Max(1, since.ToUnixTimeMilliseconds()));
    }

    /// <summary>The work has succeeded.</summary>
    // P34 release: pairs with P34 acquire in IsSet.
    public void Clear() => SharedWord.WriteRelease(page.Word(position), 0);

    /// <summary>The report of <see cref="Write"/>; null while the work succeeds.</summary>
    public FailureText? Read()
    {
        // P34 acquire: before the text; pairs with P34 release in Write.
        ulong since = SharedWord.ReadAcquire(page.Word(position));
        if (since is 0 or > MillisecondsMax)
            return null;
        int length = MemoryMarshal.Read<int>(Bytes(ControlLayout.FailureLengthIn, 4));
        int processId = MemoryMarshal.Read<int>(Bytes(ControlLayout.FailureProcessIn, 4));
        Span<byte> text = Bytes(ControlLayout.FailureTextIn, Math.Clamp(length, 0, textMax));
        // The bytes come from a file: control characters could move a terminal's cursor or end a line.
        char[] characters = Encoding.UTF8.GetString(text).ToCharArray();
        for (int i = 0; i < characters.Length; i++)
            characters[i] = char.IsControl(characters[i]) ? ' ' : characters[i];
        return new FailureText(DateTimeOffset.FromUnixTimeMilliseconds((long)since), processId, new string(characters));
    }

    private Span<byte> Bytes(int at, int length) => new(page.Pointer + position + at, length);
}

/// <summary>Why work in the background fails, as the control page reports it.</summary>
/// <param name="Since">Since when it has not succeeded in the process that reports it.</param>
/// <param name="ProcessId">The process that reports it.</param>
/// <param name="Text">Its error.</param>
internal sealed record FailureText(DateTimeOffset Since, int ProcessId, string Text);
