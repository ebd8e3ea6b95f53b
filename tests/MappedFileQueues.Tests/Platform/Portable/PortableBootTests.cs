using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Portable;

namespace MappedFileQueues.Tests.Platform.Portable;

/// <summary>How the portable platform learns in which boot it is.</summary>
public sealed class PortableBootTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void ReadId_ThisSystem_IsTheSameEachTime()
    {
        BootIdentity first = new(0, Guid.Parse(PortableBoot.ReadId()!));
        BootIdentity second = new(0, Guid.Parse(PortableBoot.ReadId()!));

        Assert.True(second.IsSameAs(first.Stored));
        if (OperatingSystem.IsWindows())
            Assert.True(BootMoment.TryParse(first.Stored)!.Value.Start < DateTime.UtcNow.Ticks / TimeSpan.TicksPerMillisecond);
    }

    /// <summary>A program that stands in for that of macOS.</summary>
    [Theory]
    [InlineData("[ \"$*\" = '-n kern.bootsessionuuid' ] && echo 4B1F7B0C-9A0E-4E50-8B0A-0123456789AB", true)]
    [InlineData("echo 4B1F7B0C-9A0E-4E50-8B0A-0123456789AB; exit 1", false)]
    [InlineData("echo sysctl: unknown oid 'kern.bootsessionuuid' >&2; exit 1", false)]
    [InlineData("echo none", false)]
    public void ReadSessionId_WhatSysctlSays_IsTheIdOrNothing(string script, bool isKnown)
    {
        if (OperatingSystem.IsWindows())
        {
            Assert.Skip("A script of the shell.");
            return;
        }

        string program = Path.Combine(_temp.Root, "sysctl");
        File.WriteAllText(program, $"#!/bin/sh\n{script}\n");
        File.SetUnixFileMode(program, UnixFileMode.UserRead | UnixFileMode.UserExecute);

        Assert.Equal(isKnown ? "4b1f7b0c-9a0e-4e50-8b0a-0123456789ab" : null, PortableBoot.ReadSessionId(program));
    }

    [Fact]
    public void ReadSessionId_NoSuchProgram_IsNothing() =>
        Assert.Null(PortableBoot.ReadSessionId(Path.Combine(_temp.Root, "none")));
}
