using System.Security.Cryptography;

namespace MappedFileQueues.Demo;

/// <summary>
/// The SHA-256 of lines with one \n each. Lines are collected, because a call into the hash costs more than a short line.
/// </summary>
internal sealed class LineDigest : IDisposable
{
    private readonly IncrementalHash _hash = IncrementalHash.CreateHash(HashAlgorithmName.SHA256);
    private readonly byte[] _buffer = new byte[64 * 1024];
    private int _length;

    /// <summary>Adds the line and its \n.</summary>
    public void Add(ReadOnlySpan<byte> line)
    {
        if (line.Length >= _buffer.Length - _length)
            Drain();
        if (line.Length < _buffer.Length)
        {
            line.CopyTo(_buffer.AsSpan(_length));
            _length += line.Length;
        }
        else
        {
            _hash.AppendData(line);
        }

        _buffer[_length++] = (byte)'\n';
    }

    /// <summary>The digest in lower-case hexadecimal digits, as `sha256sum` prints it.</summary>
    public string Finish()
    {
        Drain();
        return Convert.ToHexStringLower(_hash.GetHashAndReset());
    }

    /// <summary>Frees the hash.</summary>
    public void Dispose() => _hash.Dispose();

    private void Drain()
    {
        _hash.AppendData(_buffer.AsSpan(0, _length));
        _length = 0;
    }
}
