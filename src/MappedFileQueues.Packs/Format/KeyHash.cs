using System.Buffers.Binary;
using System.Numerics;

namespace MappedFileQueues.Packs.Format;

/// <summary>
/// SipHash-1-3 (Aumasson and Bernstein; one round per word, three at the end), keyed with the pack id. Keys come from outside:
/// without the pack id no one can choose keys that collide in the index.
/// </summary>
internal readonly struct KeyHash
{
    private readonly ulong _k0;
    private readonly ulong _k1;

    public KeyHash(Guid packId)
    {
        Span<byte> id = stackalloc byte[16];
        packId.TryWriteBytes(id);
        _k0 = BinaryPrimitives.ReadUInt64LittleEndian(id);
        _k1 = BinaryPrimitives.ReadUInt64LittleEndian(id[8..]);
    }

    public ulong Of(ReadOnlySpan<byte> key)
    {
        var state = new State(_k0, _k1);
        ulong last = (ulong)key.Length << 56;
        while (key.Length >= 8)
        {
            state.Add(BinaryPrimitives.ReadUInt64LittleEndian(key));
            key = key[8..];
        }

        for (int i = 0; i < key.Length; i++)
            last |= (ulong)key[i] << (8 * i);
        state.Add(last);
        return state.Finish();
    }

    private struct State(ulong k0, ulong k1)
    {
        private ulong _v0 = k0 ^ 0x736f6d6570736575;
        private ulong _v1 = k1 ^ 0x646f72616e646f6d;
        private ulong _v2 = k0 ^ 0x6c7967656e657261;
        private ulong _v3 = k1 ^ 0x7465646279746573;

        public void Add(ulong word)
        {
            _v3 ^= word;
            Round();
            _v0 ^= word;
        }

        public ulong Finish()
        {
            _v2 ^= 0xff;
            Round();
            Round();
            Round();
            return _v0 ^ _v1 ^ _v2 ^ _v3;
        }

        private void Round()
        {
            _v0 += _v1;
            _v2 += _v3;
            _v1 = BitOperations.RotateLeft(_v1, 13) ^ _v0;
            _v3 = BitOperations.RotateLeft(_v3, 16) ^ _v2;
            _v0 = BitOperations.RotateLeft(_v0, 32);
            _v2 += _v1;
            _v0 += _v3;
            _v1 = BitOperations.RotateLeft(_v1, 17) ^ _v2;
            _v3 = BitOperations.RotateLeft(_v3, 21) ^ _v0;
            _v2 = BitOperations.RotateLeft(_v2, 32);
        }
    }
}
