using System.Globalization;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using MappedFileQueues.Demo.Brokers;

namespace MappedFileQueues.Tests.Bridge;

/// <summary>
/// A broker, which takes seconds to start, for the tests of a collection. They run one after the other; each has a stream of its
/// own.
/// </summary>
public sealed class BrokerFixture : IDisposable
{
    /// <summary>The broker refuses longer messages.</summary>
    public const int MessageLengthMax = 1024 * 1024;

    private readonly Lazy<BrokerCluster> _cluster;
    private readonly TempStore _temp = new();
    private readonly int _tlsPort = BrokerCluster.FreePorts(1)[0];

    public BrokerFixture() => _cluster = new Lazy<BrokerCluster>(Start);

    /// <summary>Where the broker speaks TLS, with a certificate that only its own file vouches for.</summary>
    public string TlsAddress => string.Create(CultureInfo.InvariantCulture, $"amqps://guest:guest@localhost:{_tlsPort}");

    public string CertificatePath => Path.Combine(_temp.Root, "broker.pem");

    /// <summary>The running broker; skips the test where RabbitMQ is not installed.</summary>
    internal BrokerNode Node
    {
        get
        {
            Assert.SkipWhen(BrokerCluster.Obstacle is not null, BrokerCluster.Obstacle ?? "");
            BrokerNode node = _cluster.Value.Nodes[0];
            if (!node.IsRunning)
                node.Start();
            node.WaitUntilReady();
            return node;
        }
    }

    public void Dispose()
    {
        if (_cluster.IsValueCreated)
            _cluster.Value.Dispose();
        _temp.Dispose();
    }

    private BrokerCluster Start()
    {
        string key = Path.Combine(_temp.Root, "broker.key");
        MakeCertificate(CertificatePath, key);
        return BrokerCluster.Start(
            Path.Combine(_temp.Root, "broker"),
            1,
            string.Create(CultureInfo.InvariantCulture, $"max_message_size = {MessageLengthMax}\n")
                + string.Create(CultureInfo.InvariantCulture, $"listeners.ssl.1 = 127.0.0.1:{_tlsPort}\n")
                + $"ssl_options.cacertfile = {CertificatePath}\nssl_options.certfile = {CertificatePath}\n"
                + $"ssl_options.keyfile = {key}\nssl_options.verify = verify_none\nssl_options.fail_if_no_peer_cert = false\n");
    }

    private static void MakeCertificate(string certificatePath, string keyPath)
    {
        using ECDsa key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        CertificateRequest request = new("CN=localhost", key, HashAlgorithmName.SHA256);
        SubjectAlternativeNameBuilder names = new();
        names.AddDnsName("localhost");
        request.CertificateExtensions.Add(names.Build());
        request.CertificateExtensions.Add(new X509BasicConstraintsExtension(true, false, 0, true));
        using X509Certificate2 made = request.CreateSelfSigned(
            DateTimeOffset.UtcNow.AddDays(-1), DateTimeOffset.UtcNow.AddDays(1));
        File.WriteAllText(certificatePath, made.ExportCertificatePem());
        File.WriteAllText(keyPath, key.ExportPkcs8PrivateKeyPem());
    }
}

/// <summary>The tests of both sides of the bridge. There are two brokers, because the tests mostly wait.</summary>
[CollectionDefinition(Name)]
public sealed class BrokerCollection : ICollectionFixture<BrokerFixture>
{
    public const string Name = "broker";
}

/// <summary>The tests of connections, and of one side of the bridge.</summary>
[CollectionDefinition(Name)]
public sealed class SecondBrokerCollection : ICollectionFixture<BrokerFixture>
{
    public const string Name = "second broker";
}
