using System.Diagnostics.Metrics;

namespace MappedFileQueues.Bench.Hosting;

/// <summary>Listens to all instruments of one application's queues, and adds up, as an exporter does.</summary>
internal sealed class MeterEar : IDisposable
{
    private readonly MeterListener _listener = new();
    private long _consumed;
    private double _sum;

    public MeterEar(IMeterFactory meters)
    {
        _listener.InstrumentPublished = (instrument, listener) =>
        {
            // Two applications in one process have a meter of this name each.
            if (instrument.Meter.Name == "MappedFileQueues" && instrument.Meter.Scope == meters)
                listener.EnableMeasurementEvents(instrument, instrument.Name == "messaging.client.consumed.messages");
        };
        _listener.SetMeasurementEventCallback<long>((_, value, _, isConsumed) =>
        {
            if (isConsumed is true)
                Interlocked.Add(ref _consumed, value);
            else
                _sum += value;
        });
        _listener.SetMeasurementEventCallback<double>((_, value, _, _) => _sum += value);
        _listener.Start();
    }

    /// <summary>What handlers were done with.</summary>
    public long Consumed => Interlocked.Read(ref _consumed);

    /// <summary>Asks the observable instruments, as an exporter does from time to time.</summary>
    public void Collect() => _listener.RecordObservableInstruments();

    public void Dispose() => _listener.Dispose();
}
