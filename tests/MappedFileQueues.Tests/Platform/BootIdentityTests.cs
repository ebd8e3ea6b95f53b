using MappedFileQueues.Platform;

namespace MappedFileQueues.Tests.Platform;

public sealed class BootIdentityTests
{
    private const ulong Memory = 0xf0c3_3874_5914_7b46;
    private const ulong OtherMemory = 0x1b2d_0000_0000_0001;

    private static readonly Guid s_boot = Guid.NewGuid();
    private static readonly Guid s_otherBoot = Guid.NewGuid();

    /// <summary>
    /// Containers have boot ids of their own in one kernel, and a machine without entropy has one boot id in all of its boots.
    /// Stores of earlier versions, and of Portable, hold the boot id alone.
    /// </summary>
    [Fact]
    public void IsSameAs_KernelKnown_DecidesByItsMemory()
    {
        var now = new BootIdentity(Memory, s_boot);

        Assert.True(now.IsSameAs(now.Stored));
        Assert.True(now.IsSameAs(new BootIdentity(Memory, s_otherBoot).Stored));
        Assert.True(now.IsSameAs(new BootIdentity(Memory, Guid.Empty).Stored));
        Assert.True(now.IsSameAs(s_boot));
        Assert.False(now.IsSameAs(new BootIdentity(OtherMemory, s_boot).Stored));
        Assert.False(now.IsSameAs(s_otherBoot));
        Assert.False(now.IsSameAs(Guid.Empty));
    }

    [Fact]
    public void IsSameAs_KernelUnknown_DecidesByTheBootId()
    {
        var now = new BootIdentity(0, s_boot);

        Assert.Equal(s_boot, now.Stored);
        Assert.True(now.IsSameAs(s_boot));
        Assert.True(now.IsSameAs(new BootIdentity(Memory, s_boot).Stored));
        Assert.False(now.IsSameAs(new BootIdentity(Memory, s_otherBoot).Stored));
        Assert.False(now.IsSameAs(s_otherBoot));
    }

    /// <summary>
    /// Windows has no id of a boot. Two readings of one boot differ a little; one after a clock was set does not count
    /// as the same boot, nor does that of a machine that starts at the same time each day.
    /// </summary>
    [Theory]
    [InlineData(7, 0, true)]
    [InlineData(7, 16, true)]
    [InlineData(7, -5000, true)]
    [InlineData(7, 5001, false)]
    [InlineData(7, -60_000, false)]
    [InlineData(8, 0, false)]
    [InlineData(0, 0, false)]
    public void IsSameAs_MomentOfTheStart_IsItWithinATolerance(uint count, long later, bool isSame)
    {
        DateTime now = new(2026, 11, 26, 17, 0, 0, DateTimeKind.Utc);
        var first = BootMoment.Of(7, now, 60_000);
        var second = BootMoment.Of(count, now.AddMilliseconds(later).AddHours(1), 3_660_000);

        Assert.Equal(isSame, new BootIdentity(0, second.Stored).IsSameAs(first.Stored));
        Assert.Equal(isSame, new BootIdentity(0, first.Stored).IsSameAs(second.Stored));
        Assert.Equal(first, BootMoment.TryParse(first.Stored));
        Assert.False(new BootIdentity(0, first.Stored).IsSameAs(Guid.Empty));
        Assert.False(new BootIdentity(0, first.Stored).IsSameAs(s_boot));
        Assert.False(new BootIdentity(0, first.Stored).IsSameAs(new BootMoment(7, long.MinValue).Stored));
        Assert.Null(BootMoment.TryParse(s_boot));
    }

    [Fact]
    public void IsSameAs_NothingKnown_IsNever()
    {
        var now = new BootIdentity(0, Guid.Empty);

        Assert.Equal(Guid.Empty, now.Stored);
        Assert.False(now.IsSameAs(Guid.Empty));
        Assert.False(now.IsSameAs(new BootIdentity(Memory, Guid.Empty).Stored));
        Assert.False(now.IsSameAs(s_boot));
    }
}
