namespace MappedFileQueues.Tool.Retention;

/// <summary>A store's policy, and what it holds back, in words.</summary>
internal static class PolicyText
{
    public static string Of(MappedFileQueueInfo info)
    {
        if (info.IsRetentionDamaged)
            return "the policy is damaged, so everything is kept; set it again";
        if (info.Retention is not { } policy)
            return "everything is kept";
        List<string> limits = [];
        if (policy.MaxBytes is { } bytes)
            limits.Add(Report.Bytes(bytes));
        if (policy.MaxAge is { } age)
            limits.Add($"{age:c}");
        if (policy.MinFreeBytes is { } free)
            limits.Add($"{Report.Bytes(free)} of the disk free");
        string keeps = limits.Count == 0 ? "everything is kept" : string.Join(", ", limits);
        string consumers = (policy.KeepUnconsumed, policy.UnconsumedBytesMax) switch
        {
            (false, _) => "read or not",
            (_, { } most) => $"unread up to {Report.Bytes(most)}",
            _ => "unread kept",
        };
        return $"{keeps}; {consumers}{(policy.Recycle ? "" : "; files are not used again")}";
    }

    /// <summary>Who keeps the policy from removing more; null when nobody does.</summary>
    public static string? HeldBack(MappedFileQueueInfo info)
    {
        if (info.RetentionHeldBy is not { } name)
            return null;
        string who = name.Length == 0 ? "the default consumer" : LogFollower.Words(name);
        long? lag = LogFollower.Of(info).FirstOrDefault(one => one.Name == name)?.Lag;
        string why = lag is { } bytes ? $"{Report.Size(bytes)} behind" : "whose cursor cannot be read";
        return $"{Report.Size(info.RetentionHeldBytes)} by {who}, {why}";
    }
}
