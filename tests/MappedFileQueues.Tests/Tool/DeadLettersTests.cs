using System.Text;
using System.Text.Json;
using MappedFileQueues.Hosting;

namespace MappedFileQueues.Tests.Tool;

/// <summary>
/// `mfq deadletters`: operators had no command for letters, and `mfq replay LETTERS ORDERS` put their envelopes into the live
/// queue.
/// </summary>
public sealed class DeadLettersTests : IDisposable
{
    private readonly TempStore _temp = new();

    private string Letters => Path.Combine(_temp.Root, "store-dead-letters");

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void ListAndShow_Letters_AreReadableAndNotTouched()
    {
        long[] offsets = Fill();
        string[] before = StoreSnapshot.Of(Letters);

        string list = ToolRun.Of("deadletters", "list", Letters, "--error", "timeout").Expect(0).Text;
        string show = ToolRun.Of("deadletters", "show", Letters, $"{offsets[1]}").Expect(0).Text;
        JsonElement json = JsonDocument.Parse(
            ToolRun.Of("deadletters", "list", Letters, "--output", "json").Expect(0).Output).RootElement;

        Assert.Contains("System.TimeoutException: the database is away", list, StringComparison.Ordinal);
        Assert.EndsWith("2 letters.\n", list, StringComparison.Ordinal);
        Assert.Contains("System.FormatException", show, StringComparison.Ordinal);
        Assert.EndsWith("message 1\n", show, StringComparison.Ordinal);
        Assert.Equal(
            offsets, json.GetProperty("letters").EnumerateArray().Select(letter => letter.GetProperty("offset").GetInt64()));
        Assert.Equal(before, StoreSnapshot.Of(Letters));
        ToolRun.Of("deadletters", "show", Letters, "5").ExpectError("No letter");
        ToolRun.Of("deadletters", "list", _temp.StorePath).ExpectError("no dead letter");
    }

    /// <summary>The two paths were exchanged, and the queue kept a consumer for whom retention waits for ever.</summary>
    [Fact]
    public void RetryAndDelete_StoreOfSomethingElse_GetsNoConsumer()
    {
        Fill();

        ToolRun.Of("deadletters", "retry", _temp.StorePath, Letters, "--all").ExpectError("no dead letter");
        ToolRun.Of("deadletters", "delete", _temp.StorePath, "--all").ExpectError("no dead letter");

        Assert.Empty(StoreInspector.Inspect(_temp.StorePath).Consumers);
    }

    [Fact]
    public void RetryAndDelete_ChosenLetters_GoAndTheOthersStay()
    {
        long[] offsets = Fill();
        ToolRun.Of("check", Letters, "--max-letters", "3").Expect(2);
        ToolRun.Of("deadletters", "delete", Letters).Expect(2);

        string retried = ToolRun.Of("deadletters", "retry", Letters, _temp.StorePath, "--error", "timeout").Expect(0).Text;

        Assert.Equal("Retried 2 letters; 2 left.\n", retried);
        Assert.Equal(["first", "message 0", "message 2"], Messages(_temp.StorePath));
        JsonElement[] left = Left();
        Assert.Equal(["Foreign", "System.FormatException"], left.Select(letter => letter.GetProperty("errorType").GetString()));
        Assert.DoesNotContain(offsets[0], left.Select(letter => letter.GetProperty("offset").GetInt64()));

        // The letter of another store stays where it is, unless it is asked for.
        Assert.Equal("Retried 1 letter; 1 left.\n",
            ToolRun.Of("deadletters", "retry", Letters, _temp.StorePath, "--all").Expect(0).Text);
        string foreign = $"{Assert.Single(Left()).GetProperty("offset").GetInt64()}";
        Assert.Equal("Deleted 1 letter; 0 left.\n",
            ToolRun.Of("deadletters", "delete", Letters, "--offset", foreign).Expect(0).Text);
        Assert.Equal(["first", "message 0", "message 2", "message 1"], Messages(_temp.StorePath));
        string well = ToolRun.Of("check", Letters, "--max-letters", "0").Expect(0).Text;
        Assert.EndsWith("letters=0\n", well, StringComparison.Ordinal);
    }

    /// <summary>
    /// A consumer that is killed after its letter sends it again. `list` showed one letter, and `check` and `delete` counted two.
    /// </summary>
    [Fact]
    public void Check_LettersAreThereTwice_CountOnce()
    {
        Guid store = Guid.NewGuid();
        using (MappedFileQueue letters = new(new MappedFileQueueOptions { StorePath = Letters }))
        {
            foreach (int number in new[] { 0, 1, 1, 2, 2 })
                letters.Producer.Produce(new DeadLetter { StoreId = store, Offset = number * 8, Queue = "orders" }.ToBytes());
        }

        string checkedLetters = ToolRun.Of("check", Letters, "--max-letters", "3").Expect(0).Text;

        Assert.EndsWith("letters=3\n", checkedLetters, StringComparison.Ordinal);
        Assert.Equal(
            "Deleted 1 letter; 2 left.\n", ToolRun.Of("deadletters", "delete", Letters, "--offset", "0").Expect(0).Text);
    }

    /// <summary>What is no letter makes the others unreadable. It is told of as before.</summary>
    [Fact]
    public void Check_OneIsNoLetter_CountsThemAll()
    {
        Fill();
        using (MappedFileQueue letters = new(new MappedFileQueueOptions { StorePath = Letters }))
            letters.Producer.Produce("no letter"u8);

        string text = ToolRun.Of("check", Letters, "--max-letters", "9").Expect(0).Text;
        Assert.EndsWith("letters=5\n", text, StringComparison.Ordinal);
    }

    /// <summary>A letter that had no room for its message holds the beginning, which no consumer could read.</summary>
    [Fact]
    public void Retry_LetterHasOnlyTheBeginningOfItsMessage_StaysWhereItIs()
    {
        using (MappedFileQueue letters = new(new MappedFileQueueOptions { StorePath = Letters }))
            letters.Producer.Produce(new DeadLetter { Queue = "orders", MessageLength = 9, Message = new byte[4] }.ToBytes());
        ToolRun.Of("produce", _temp.StorePath, "--messages", "1").Expect(0);

        Assert.Contains("4 of 9", ToolRun.Of("deadletters", "list", Letters).Expect(0).Text, StringComparison.Ordinal);
        Assert.Equal("Retried 0 letters; 1 left.\n",
            ToolRun.Of("deadletters", "retry", Letters, _temp.StorePath, "--all", "--from-any-store").Expect(0).Text);
    }

    [Fact]
    public void Replay_LettersIntoAQueue_IsRefused()
    {
        Fill();

        ToolRun.Of("replay", Letters, _temp.StorePath).ExpectError("mfq deadletters retry");

        Assert.Equal(["first"], Messages(_temp.StorePath));
        ToolRun.Of("replay", Letters, Path.Combine(_temp.Root, "copy")).Expect(0);
    }

    /// <summary>Four letters: two of a time-out, one of another error, one of another store.</summary>
    private long[] Fill()
    {
        Guid storeId;
        using (MappedFileQueue orders = new(new MappedFileQueueOptions { StorePath = _temp.StorePath }))
        {
            orders.Producer.Produce("first"u8);
            storeId = orders.GetInfo().StoreId;
        }

        (string Type, string Text, Guid Store)[] errors =
        [
            ("System.TimeoutException", "the database is away", storeId), ("System.FormatException", "no number", storeId),
            ("System.TimeoutException", "the database is away", storeId), ("Foreign", "", Guid.NewGuid()),
        ];
        using MappedFileQueue letters = new(new MappedFileQueueOptions { StorePath = Letters });
        return
        [
            .. errors.Select((error, index) => letters.Producer.Produce(new DeadLetter
            {
                StoreId = error.Store,
                Offset = index,
                Queue = "orders",
                Time = DateTimeOffset.UtcNow,
                Attempts = 5,
                ErrorType = error.Type,
                Error = error.Text,
                Message = Encoding.UTF8.GetBytes($"message {index}"),
            }.ToBytes())),
        ];
    }

    private JsonElement[] Left() =>
    [
        .. JsonDocument.Parse(ToolRun.Of("deadletters", "list", Letters, "--output", "json").Expect(0).Output)
            .RootElement.GetProperty("letters").EnumerateArray(),
    ];

    private static List<string> Messages(string path)
    {
        using MappedFileReader reader = MappedFileReader.Open(path);
        List<string> messages = [];
        while (reader.TryRead(out ReadOnlySpan<byte> message))
            messages.Add(Encoding.UTF8.GetString(message));
        return messages;
    }
}
