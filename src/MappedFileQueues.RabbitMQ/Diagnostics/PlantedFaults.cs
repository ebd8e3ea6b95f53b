namespace MappedFileQueues.RabbitMQ.Diagnostics;

/// <summary>Mistakes that the laboratory has to find. Only its build can switch one on.</summary>
internal enum PlantedFault
{
    None,

    /// <summary>No marker: the last chunk as it is now counts as the end of the stream.</summary>
    NoBarrier,

    /// <summary>The cursor says where to continue, not the stream.</summary>
    CursorTrusted,

    /// <summary>The place in the stream is written down before the records are appended.</summary>
    AcknowledgedFirst,

    /// <summary>The lock is on a connection of its own, and its loss is not noticed.</summary>
    LockElsewhere,

    /// <summary>The client reconnects by itself, and publishing continues.</summary>
    AutomaticRecovery,
}

/// <summary>The mistake of this process. Outside the laboratory <see cref="Has"/> is a constant.</summary>
internal static class PlantedFaults
{
#if MFQ_PLANTED
    public static PlantedFault Active { get; set; }

    public static bool Has(PlantedFault fault) => Active == fault;
#else
    public static bool Has(PlantedFault fault) => false;
#endif
}
