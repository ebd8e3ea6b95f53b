using System.Globalization;
using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Authentication;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;

namespace MappedFileQueues.Tests.Bridge.Connections;

/// <summary>Whom a bridge believes to be its broker. No broker is needed: it is enough who gets the greeting.</summary>
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class CertificateTests : IDisposable
{
    private readonly TempStore _temp = new();
    private readonly CancellationTokenSource _stop = new();

    public void Dispose()
    {
        _stop.Cancel();
        _temp.Dispose();
    }

    /// <summary>
    /// The client, told to use TLS by an address, takes the certificate of any host that somebody vouches for: whoever could get
    /// between had the password, and the messages.
    /// </summary>
    [Theory]
    [InlineData("localhost", true)]
    [InlineData("stranger.example", false)]
    public async Task Run_TrustedCertificate_GreetsOnlyTheHostOfTheAddress(string host, bool isGreeted)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Only OpenSSL takes a certificate from SSL_CERT_FILE.");
        using (new MappedFileQueue(new MappedFileQueueOptions { StorePath = _temp.StorePath }))
        {
        }

        string trusted = Path.Combine(_temp.Root, "trusted.pem");
        using X509Certificate2 certificate = MakeCertificate(host);
        await File.WriteAllTextAsync(trusted, certificate.ExportCertificatePem());
        using TcpListener listener = new(IPAddress.Loopback, 0);
        listener.Start();
        Task<bool> greeting = IsGreetedAsync(listener, certificate);
        int port = ((IPEndPoint)listener.LocalEndpoint).Port;

        using ChildProcess tool = ChildProcess.Start(
            Repository.ToolPath,
            [
                "bridge", "forward", _temp.StorePath,
                string.Create(CultureInfo.InvariantCulture, $"amqps://user:secret@localhost:{port}"), "--stream", "s",
            ],
            new Dictionary<string, string> { ["SSL_CERT_FILE"] = trusted });
        Eventually.True(() => greeting.IsCompleted || tool.HasExited, "it connects", BridgeScene.Deadline);

        Assert.True(greeting.IsCompleted, tool.ErrorText);
        Assert.Equal(isGreeted, await greeting);
        if (!isGreeted)
        {
            Eventually.True(
                () => tool.ErrorText.Contains("certificate", StringComparison.Ordinal) || tool.HasExited, "it says why",
                BridgeScene.Deadline);
            Assert.False(tool.HasExited, tool.ErrorText);
        }

        tool.Signal(ChildProcess.SigKill);
    }

    /// <summary>Whether the first client says anything once it has seen the certificate.</summary>
    private async Task<bool> IsGreetedAsync(TcpListener listener, X509Certificate2 certificate)
    {
        using TcpClient client = await listener.AcceptTcpClientAsync(_stop.Token);
        await using SslStream stream = new(client.GetStream());
        try
        {
            await stream.AuthenticateAsServerAsync(
                new SslServerAuthenticationOptions { ServerCertificate = certificate }, _stop.Token);
            return await stream.ReadAsync(new byte[8], _stop.Token) > 0;
        }
        catch (Exception error) when (error is IOException or AuthenticationException)
        {
            return false;
        }
    }

    private static X509Certificate2 MakeCertificate(string host)
    {
        using ECDsa key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        CertificateRequest request = new($"CN={host}", key, HashAlgorithmName.SHA256);
        SubjectAlternativeNameBuilder names = new();
        names.AddDnsName(host);
        request.CertificateExtensions.Add(names.Build());
        request.CertificateExtensions.Add(new X509BasicConstraintsExtension(true, false, 0, true));
        return request.CreateSelfSigned(DateTimeOffset.UtcNow.AddDays(-1), DateTimeOffset.UtcNow.AddDays(1));
    }
}
