using System.Diagnostics;
using MappedFileQueues.Format.Headers;

namespace MappedFileQueues.Tests.Format.Headers;

/// <summary>The bytes of a header block, and what is none.</summary>
public sealed class HeaderBlockTests
{
    private static readonly DateTimeOffset s_time = new(2026, 1, 2, 3, 4, 5, 678, TimeSpan.FromHours(1));

    private static readonly ActivityContext s_trace = new(
        ActivityTraceId.CreateFromString("0123456789abcdef0123456789abcdef"),
        ActivitySpanId.CreateFromString("fedcba9876543210"),
        ActivityTraceFlags.Recorded,
        "vendor=1");

    /// <summary>Whoever makes this test fail has changed the format.</summary>
    [Fact]
    public void Write_AllFields_GivesTheCheckedInBytes()
    {
        var headers = new MessageHeaders
        {
            Time = s_time,
            Key = "customer 17"u8.ToArray(),
            TraceContext = s_trace,
            ProducerId = 0x1122334455667788,
            Sequence = 99,
        };

        Assert.Equal(
            "0b001d000b000800" + Convert.ToHexStringLower(BitConverter.GetBytes(
                s_time.UtcTicks - DateTimeOffset.UnixEpoch.Ticks))
            + "88776655443322116300000000000000"
            + "0123456789abcdef0123456789abcdef" + "fedcba9876543210" + "0100000000000000"
            + "76656e646f723d31"
            + "637573746f6d657220313700" + "00000000",
            Convert.ToHexStringLower(Write(headers)));
        FormatTwo.Block other = FormatTwo.ReadBlock(Write(headers))!;
        Assert.Equal((headers.ProducerId, headers.Sequence, true), (other.ProducerId, other.Sequence, other.IsCarried));
        Assert.Equal("customer 17"u8, other.Key);
        Assert.Equal("vendor=1", other.TraceState);
        AssertReadsBack(headers);
    }

    [Fact]
    public void Write_EachCombinationOfFields_ReadsBack()
    {
        for (int fields = 0; fields < 16; fields++)
        {
            for (int keyLength = 1; keyLength <= 17; keyLength++)
            {
                var headers = new MessageHeaders
                {
                    Time = (fields & 1) != 0 ? s_time : null,
                    Key = (fields & 2) != 0 ? new byte[keyLength] : default,
                    TraceContext = (fields & 4) != 0 ? s_trace : default,
                    ProducerId = (fields & 8) != 0 ? ulong.MaxValue : 0,
                    Sequence = (fields & 8) != 0 ? 7ul : 0,
                };
                byte[] block = Write(headers);
                Assert.Equal(0, block.Length % 8);
                Assert.Equal(fields == 0, block.Length == 0);
                AssertReadsBack(headers);
            }
        }
    }

    /// <summary>The short way writes the bytes of the long one, or leaves the block to it.</summary>
    [Fact]
    public void TryWrite_EachCombinationOfFields_GivesTheSameBytesOrNone()
    {
        var scratch = new byte[HeaderBlock.LengthMax];
        foreach (bool stampsTime in new[] { false, true })
        {
            var stamps = new HeaderStamps(stampsTime, traceContext: false, new StandingClock());
            for (int fields = 0; fields < 32; fields++)
            {
                for (int keyLength = 1; keyLength <= SmallHeaderBlock.KeyLengthMax + 1; keyLength++)
                {
                    var number = new MessageNumber((fields & 16) != 0 ? 5ul : 0, 8);
                    byte[] key = [.. Enumerable.Range(1, keyLength + 2).Select(i => (byte)i)];
                    MessageHeaders? headers = fields % 16 == 0 ? null : new MessageHeaders
                    {
                        Time = (fields & 1) != 0 ? s_time.AddYears(-100 * (keyLength % 2)) : null,
                        Key = (fields & 2) != 0 ? key.AsMemory(2) : default,
                        TraceContext = (fields & 4) != 0 ? s_trace : default,
                        ProducerId = (fields & 8) != 0 ? 9ul : 0,
                    };
                    bool isSmall = (fields & (4 | 8)) == 0
                        && ((fields & 2) == 0 || keyLength <= SmallHeaderBlock.KeyLengthMax);
                    SmallHeaderBlock block = default;
                    int length = stamps.TryWrite(headers, number, ref block);
                    Assert.Equal(isSmall, length >= 0);
                    if (isSmall)
                        Assert.Equal(stamps.Write(headers, number, scratch), block.Bytes(length));
                }
            }
        }
    }

    [Fact]
    public void Write_LongestFields_FitTheLongestBlock()
    {
        byte[] block = Write(new MessageHeaders
        {
            Time = DateTimeOffset.MinValue,
            Key = new byte[MessageHeaders.KeyLengthMax],
            TraceContext = WithState(new string('x', HeaderBlock.TraceStateLengthMax)),
            ProducerId = 1,
        });

        Assert.InRange(block.Length, 1, HeaderBlock.LengthMax);
        Assert.Equal(DateTimeOffset.MinValue, new MessageHeadersView(block).Time);
        Assert.Equal(MessageHeaders.KeyLengthMax, new MessageHeadersView(block).Key.Length);
    }

    [Fact]
    public void Write_TraceStateThatCannotBeKept_IsLeftOutAndTheTraceStays()
    {
        foreach (string state in new[] { new string('x', 513), "vendor=ä" })
        {
            byte[] block = Write(new MessageHeaders { TraceContext = WithState(state) });
            Assert.True(new MessageHeadersView(block).TryGetTraceContext(out ActivityContext read));
            Assert.Equal(s_trace.TraceId, read.TraceId);
            Assert.Null(read.TraceState);
        }
    }

    [Fact]
    public void Key_TooLong_IsRefusedByName()
    {
        ArgumentException error = Assert.Throws<ArgumentException>(() => new MessageHeaders { Key = new byte[1025] });
        Assert.Equal("Key", error.ParamName);
    }

    /// <summary>A later version adds fields: known ones are read, the message begins where the block says.</summary>
    [Fact]
    public void View_UnknownField_IsIgnored()
    {
        byte[] known = Write(new MessageHeaders { Time = s_time });
        byte[] later = [.. known, .. new byte[] { 1, 2, 3, 4, 5, 6, 7, 8 }];
        later[0]++;
        later[3] |= 0x80;

        Assert.True(HeaderBlock.TryGetLength(ref later[0], later.Length, out int length));
        Assert.Equal(24, length);
        Assert.Equal(s_time, new MessageHeadersView(later).Time);
    }

    /// <summary>Random first words: either a block whose fields are all within it, or none. Nothing throws.</summary>
    [Fact]
    public void View_HostileBytes_AreABlockOrNone()
    {
        int seed = Environment.TickCount;
        var random = new Random(seed);
        int blocks = 0;
        for (int round = 0; round < 50_000; round++)
        {
            byte[] bytes = new byte[random.Next(0, 256)];
            random.NextBytes(bytes);
            if (bytes.Length >= 8 && round % 2 == 0)
            {
                bytes[0] = (byte)random.Next(0, (bytes.Length / 8) + 2);
                (bytes[4], bytes[5]) = ((byte)(bytes[4] % 40), 0);
                (bytes[6], bytes[7]) = ((byte)(bytes[6] % 40), 0);
            }

            var view = new MessageHeadersView(bytes);
            Assert.Equal(view.IsEmpty, bytes.Length == 0 || !HeaderBlock.TryGetLength(ref bytes[0], bytes.Length, out _));
            if (view.IsEmpty)
                continue;
            blocks++;
            _ = view.ToHeaders();
        }

        Assert.True(blocks > 1000, $"seed={seed}, blocks={blocks}");
    }

    private static ActivityContext WithState(string state) =>
        new(s_trace.TraceId, s_trace.SpanId, s_trace.TraceFlags, state);

    private static byte[] Write(MessageHeaders headers) =>
        new HeaderFields(headers).Write(new byte[HeaderBlock.LengthMax]).ToArray();

    private static void AssertReadsBack(MessageHeaders headers)
    {
        MessageHeaders read = new MessageHeadersView(Write(headers)).ToHeaders();
        ActivityContext trace = headers.TraceContext;
        if (trace != default)
            trace = new ActivityContext(trace.TraceId, trace.SpanId, trace.TraceFlags, trace.TraceState, isRemote: true);
        Assert.Equal(headers with { TraceContext = trace }, read);
    }

    private sealed class StandingClock : TimeProvider
    {
        public override DateTimeOffset GetUtcNow() => s_time;
    }
}
