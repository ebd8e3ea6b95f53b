using System.Runtime.InteropServices;
using System.Text.Json;

namespace MappedFileQueues.Tests.Tool;

/// <summary>`mfq tail`, and the fields of structs that it and `mfq consume` show.</summary>
[Trait("Category", "Slow")]
public sealed class TailTests : IDisposable
{
    private const string Fields = "id:i32,price:f64,side:char,isOpen:bool,name:utf8[6],code:hex[2]";

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void Tail_LastMessages_ThenThoseThatCome()
    {
        ToolRun.Of("produce", _temp.StorePath, "--messages", "30", "--size", "20").Expect(0);
        string[] before = StoreSnapshot.Of(_temp.StorePath);
        Assert.Equal(Numbers(20, 30), ToolRun.Of("tail", _temp.StorePath, "--no-follow").Expect(0).Lines);
        Assert.Equal(before, StoreSnapshot.Of(_temp.StorePath));

        using ChildProcess tail = ChildProcess.StartTool("tail", _temp.StorePath, "--last", "2", "--count", "4");
        tail.WaitForLine(Numbers(29, 30)[0]);
        ToolRun.WithInput([.. "one\ntwo\nthree\n"u8], "produce", _temp.StorePath).Expect(0);

        tail.ExpectExit();
        Assert.Equal([.. Numbers(28, 30), "one", "two"], tail.Lines);
    }

    [Fact]
    public void Tail_DamageOnTheWay_IsSteppedOverAndTold()
    {
        ToolRun.Of("produce", _temp.StorePath, "--messages", "9", "--size", "24").Expect(0);
        using (FileStream file = File.OpenWrite(Directory.GetFiles(_temp.PathOf("commitlog")).Order().First()))
        {
            file.Position = 4 * 32 + 30;
            file.WriteByte(0);
        }

        ToolRun run = ToolRun.Of("tail", _temp.StorePath, "--no-follow").Expect(0);

        Assert.Equal(8, run.Lines.Length);
        Assert.Contains("Damage was skipped: offset=128", run.Error, StringComparison.Ordinal);
    }

    [Fact]
    public void TailAndConsume_Fields_AreLaidOutAsCSharpDoes()
    {
        using (MappedFileQueue<Quote> queue = new(new MappedFileQueueOptions { StorePath = _temp.StorePath }))
        {
            Quote quote = new() { Id = -7, Price = 1.25, Side = 'é', IsOpen = true };
            "ab\"c"u8.CopyTo(quote.Name);
            quote.Code[0] = 0xAB;
            queue.Producer.Produce(quote);
        }

        string line = Assert.Single(ToolRun.Of("tail", _temp.StorePath, "--no-follow", "--struct", Fields).Expect(0).Lines);
        Assert.Equal("id=-7 price=1.25 side=\"\\u00E9\" isOpen=true name=\"ab\\u0022c\" code=ab00", line);
        Assert.Equal(
            "p=1.25",
            Assert.Single(ToolRun.Of("consume", _temp.StorePath, "--struct", "_:i32,p:f64@8").Expect(0).Lines));

        JsonElement json = JsonDocument.Parse(
            ToolRun.Of("consume", _temp.StorePath, "--struct", Fields, "--output", "json").Expect(0).Output).RootElement;
        Assert.Equal(0, json.GetProperty("offset").GetInt64());
        JsonElement fields = json.GetProperty("fields");
        Assert.Equal(-7, fields.GetProperty("id").GetInt32());
        Assert.Equal(1.25, fields.GetProperty("price").GetDouble());
        Assert.Equal("é", fields.GetProperty("side").GetString());
        Assert.True(fields.GetProperty("isOpen").GetBoolean());
        Assert.Equal("ab\"c", fields.GetProperty("name").GetString());

        ToolRun.Of("tail", _temp.StorePath, "--struct", $"{Fields},more:i64").ExpectError("40", "32");
    }

    [Fact]
    public void Tail_MessageShorterThanTheFields_IsShownAsDigits()
    {
        ToolRun.WithInput([.. "12345678\nabc\n"u8], "produce", _temp.StorePath).Expect(0);

        string[] lines = ToolRun.Of("tail", _temp.StorePath, "--no-follow", "--struct", "a:i64").Expect(0).Lines;

        Assert.Equal([$"a={BitConverter.ToInt64("12345678"u8)}", "616263"], lines);
    }

    [Theory]
    [InlineData("--struct", "--struct", "id")]
    [InlineData("i33", "--struct", "id:i33")]
    [InlineData("--struct", "--struct", "id:i32@x")]
    [InlineData("--struct", "--struct", "name:utf8[0]")]
    [InlineData("--struct", "--format", "struct")]
    [InlineData("--struct", "--format", "hex", "--struct", "id:i32")]
    public void Tail_WrongFields_AreWrongUsage(string named, params string[] options) =>
        Assert.Contains(named, ToolRun.Of(["tail", "s", .. options]).Expect(2).Error, StringComparison.Ordinal);

    private static string[] Numbers(int from, int to) => [.. Enumerable.Range(from, to - from).Select(number => $"{number:D20}")];

    [StructLayout(LayoutKind.Sequential)]
    private unsafe struct Quote
    {
        public int Id;
        public double Price;
        public char Side;
        public bool IsOpen;
        private fixed byte _name[6];
        private fixed byte _code[2];

        public Span<byte> Name => MemoryMarshal.CreateSpan(ref _name[0], 6);

        public Span<byte> Code => MemoryMarshal.CreateSpan(ref _code[0], 2);
    }
}
