using System.Globalization;
using MappedFileQueues.Engine;

namespace MappedFileQueues.Tool.Consumers;

/// <summary>`mfq consumers members` and `mfq consumers fence`: the groups of competing consumers.</summary>
internal static class GroupCommands
{
    private static readonly TimeSpan s_afterDefault = TimeSpan.FromSeconds(1);

    /// <summary>The groups as a report; `mfq info` shows the same.</summary>
    public static Report Table(IReadOnlyList<MappedFileGroupInfo> groups)
    {
        Report report = new("Groups", "name", "offset", "lag in bytes", "in messages", "in hand", "returned", "members");
        foreach (MappedFileGroupInfo group in groups)
        {
            report.Add(
                group.Name, Report.Number(group.FloorOffset), Report.Number(group.Lag), Report.Number(group.LagMessages, "-"),
                Report.Number(group.OutCount), Report.Number(group.ReturnedCount), Report.Number(group.Members.Count));
        }

        return report;
    }

    /// <summary>Shows the members of a group without leaving a trace in the store.</summary>
    public static Command CreateMembers()
    {
        Argument<string> store = ToolOptions.Store();
        Argument<string> group = GroupArgument();
        return new Command(
            "members",
            "Show the members of a group that have messages in hand: `mfq consumers members orders workers`.") { store, group }
            .Does(parsed =>
            {
                MappedFileQueueInfo info = StoreInspector.Inspect(parsed.GetRequiredValue(store));
                return Result.Write(
                    parsed, new MemberList(Find(info, parsed.GetRequiredValue(group)).Members), ToolJson.Default.MemberList,
                    list => Table(list.Members).Write());
            });
    }

    /// <summary>
    /// Takes the messages of a member that stands still. The library never does that by itself, because nothing tells a process
    /// that stands still from one that is about to acknowledge.
    /// </summary>
    public static Command CreateFence()
    {
        Argument<string> store = ToolOptions.Store();
        Argument<string> group = GroupArgument();
        Argument<int> slot = new("SLOT") { Description = "The member's slot, which `mfq consumers members` shows." };
        Option<TimeSpan?> after = ToolOptions.Wait(
            "--after", "Take only from a member that has the same messages in hand after this time; default 1s.");
        StoreOptions opening = new(lockHelp: null);
        return new Command(
            "fence",
            "Give the messages of a member that stands still (stopped, frozen, in a debugger) to the others: "
                + "`mfq consumers fence orders workers 3`. What it has done with them may be done again; when it "
                + "continues, its calls for them fail.")
        {
            store, group, slot, after, opening,
        }.Does(parsed => Interruption.Run(stopped =>
        {
            using StoreEngine queue = opening.Open(parsed, store);
            (string name, int number) = (parsed.GetRequiredValue(group), parsed.GetRequiredValue(slot));
            TimeSpan wait = parsed.GetValue(after) ?? s_afterDefault;
            int held = HeldBy(queue, name, number).HeldCount;
            if (stopped.WaitHandle.WaitOne(wait))
                throw new OperationCanceledException(stopped);
            MappedFileGroupMemberInfo now = HeldBy(queue, name, number);

            // One that takes the next message when it is done with one has the same number all the time.
            if (now.HeldCount != held || now.HeldFor < wait)
            {
                throw new ToolException(
                    $"The member continues by itself: group=\"{name}\", slot={number}. Nothing was taken from it.");
            }

            _ = queue.FenceGroupMember(name, number);
            return Result.Write(
                parsed, new FencedMember(number, held), ToolJson.Default.FencedMember,
                $"{Report.Count(held, "message")} of slot {number} go to the other members.");
        }));
    }

    /// <summary>The group of that name.</summary>
    public static MappedFileGroupInfo Find(MappedFileQueueInfo info, string name) =>
        info.Groups.FirstOrDefault(group => group.Name.Equals(name, StringComparison.OrdinalIgnoreCase))
            ?? throw None(name, info.StorePath);

    /// <summary>There is no such group.</summary>
    public static ToolException None(string name, string path) => new(
        $"There is no such group: group=\"{name}\", path={path}. `mfq consumers list` shows those that there are.");

    private static MappedFileGroupMemberInfo HeldBy(StoreEngine queue, string name, int slot)
    {
        IReadOnlyList<MappedFileGroupMemberInfo> members = Find(queue.GetInfo(), name).Members;
        return members.FirstOrDefault(member => member.Slot == slot)
            ?? throw new ToolException(
                $"The slot has no message in hand: slot={slot}, group=\"{name}\", path={queue.Store.Path}. "
                + (members.Count == 0
                    ? "No member has."
                    : $"Slot {string.Join(", ", members.Select(member => member.Slot))} has."));
    }

    private static Report Table(IReadOnlyList<MappedFileGroupMemberInfo> members)
    {
        Report report = new("Members", "slot", "process", "alive", "in hand", "for");
        foreach (MappedFileGroupMemberInfo member in members)
        {
            report.Add(
                Report.Number(member.Slot), member.ProcessId.ToString(CultureInfo.InvariantCulture),
                member.IsAlive is { } isAlive ? isAlive ? "yes" : "no" : "-",
                Report.Number(member.HeldCount), $"{member.HeldFor.TotalSeconds:F1} s");
        }

        return report;
    }

    private static Argument<string> GroupArgument() => ConsumerName.Argument("GROUP", "The group.");
}

/// <summary>The result of `members`.</summary>
internal sealed record MemberList(IReadOnlyList<MappedFileGroupMemberInfo> Members);

/// <summary>The result of `fence`.</summary>
internal sealed record FencedMember(int Slot, int Messages);
