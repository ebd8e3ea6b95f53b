namespace MappedFileQueues.Tool.Produce;

/// <summary>
/// Reads from a pipe or terminal, where a read may wait forever, so that a signal ends the wait. The read itself continues on a
/// thread that nothing waits for any longer.
/// </summary>
internal sealed class InterruptibleStream(Stream source, CancellationToken interrupted) : Stream
{
    public override bool CanRead => true;

    public override bool CanSeek => false;

    public override bool CanWrite => false;

    public override long Length => throw new NotSupportedException();

    public override long Position
    {
        get => throw new NotSupportedException();
        set => throw new NotSupportedException();
    }

    /// <exception cref="OperationCanceledException">Interrupted.</exception>
    public override int Read(byte[] buffer, int offset, int count)
    {
        Task<int> reading = Task.Run(() => source.Read(buffer, offset, count), CancellationToken.None);
        return reading.WaitAsync(interrupted).GetAwaiter().GetResult();
    }

    public override void Flush()
    {
    }

    public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();

    public override void SetLength(long value) => throw new NotSupportedException();

    public override void Write(byte[] buffer, int offset, int count) => throw new NotSupportedException();
}
