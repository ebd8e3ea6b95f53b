using System.Buffers;
using System.Globalization;
using System.Text;

namespace MappedFileQueues.Packs.Format;

/// <summary>The UTF-8 bytes of a string key, in the caller's buffer or in a pooled one.</summary>
internal ref struct PackKey : IDisposable
{
    public const int StackLength = 512;

    private static readonly UTF8Encoding s_strict = new(encoderShouldEmitUTF8Identifier: false, throwOnInvalidBytes: true);

    private byte[]? _rented;

    public PackKey(string key, Span<byte> buffer)
    {
        ArgumentNullException.ThrowIfNull(key);
        int length;
        try
        {
            length = s_strict.GetByteCount(key);
        }
        catch (EncoderFallbackException error)
        {
            throw new ArgumentException("The key contains half of a surrogate pair. Pass it as bytes.", nameof(key), error);
        }

        if (length > NeedleLayout.KeyLengthMax)
        {
            throw new ArgumentException(string.Create(CultureInfo.InvariantCulture,
                $"The key is too long: length={length} bytes of UTF-8, limit={NeedleLayout.KeyLengthMax}."), nameof(key));
        }

        if (length > buffer.Length)
            buffer = _rented = ArrayPool<byte>.Shared.Rent(length);
        Bytes = buffer[..s_strict.GetBytes(key, buffer)];
    }

    public ReadOnlySpan<byte> Bytes { get; }

    /// <summary>A copy of the bytes, for calls that outlive their caller's stack.</summary>
    public static byte[] ToBytes(string key)
    {
        using var bytes = new PackKey(key, stackalloc byte[StackLength]);
        return bytes.Bytes.ToArray();
    }

    public void Dispose()
    {
        if (_rented is not null)
            ArrayPool<byte>.Shared.Return(_rented);
        _rented = null;
    }
}
