//! The credential of a cluster: one certificate with its private key, in one file that every daemon has and
//! nobody else may read.
//!
//! Daemons speak TLS 1.3 and prove to each other that they have that key: each side shows the cluster's
//! certificate, and the handshake's signature shows that it has the key of it. Certificates of anybody else
//! are refused, whoever signed them; names and dates in it mean nothing. Whoever has the file is a member
//! (users never need it).

use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::ring::hmac;
use rustix::fs::OFlags;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::{
    self, CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, ServerConfig,
    SignatureScheme,
};
use tutti_protocol::version;
use tutti_shm::published::far::Secret;

/// Longest file of a key that is read; those that we make have less than 1 KiB.
const KEY_BYTES_MAX: u64 = 64 << 10;

/// Why there is no credential. Each is one line for the user.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or written.
    #[error("the cluster's key {path}: {source}")]
    File {
        /// Which.
        path: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Others may read it.
    #[error(
        "the cluster's key {path} can be read or written by others (mode {mode:o}): chmod 600 it, and make a new one if they have"
    )]
    Open {
        /// Which.
        path: String,
        /// Mode of the file.
        mode: u32,
    },
    /// Somebody else may change it, or has put it there.
    #[error(
        "the cluster's key {path} is user {owner}'s, which is neither this daemon's user nor root: chown it, or make another one"
    )]
    Owner {
        /// Which.
        path: String,
        /// User of the file.
        owner: u32,
    },
    /// The file is something else.
    #[error("{path} is not a cluster key (`tutti keygen FILE` makes one): {text}")]
    Content {
        /// Which.
        path: String,
        /// Mistake in it.
        text: String,
    },
    /// The library refuses it.
    #[error("cannot use the cluster's key: {0}")]
    Tls(#[from] rustls::Error),
}

/// Where a daemon has its credential from.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// A file.
    File(PathBuf),
    /// Text that was handed over by whoever has started the daemon.
    Text(Vec<u8>),
}

impl KeySource {
    /// Reads it.
    ///
    /// # Errors
    /// As [`Credential::read`].
    pub fn read(&self) -> Result<Credential, KeyError> {
        match self {
            KeySource::File(path) => Credential::read(path),
            KeySource::Text(text) => Credential::parse(text, "the key that this daemon was given"),
        }
    }
}

/// Configurations with which both sides of a link are set up.
#[derive(Clone, Debug)]
pub struct Credential {
    /// For who is dialled.
    pub server: Arc<ServerConfig>,
    /// For who dials.
    pub client: Arc<ClientConfig>,
    /// For who wants to know whether it is a daemon of release 0.1.0 that has not answered the other one.
    pub silent: Arc<ClientConfig>,
    /// Key from which the secrets of users are made.
    users: hmac::Key,
}

impl Credential {
    /// Reads a key's file.
    ///
    /// # Errors
    /// When it is not there, is open to others, is somebody else's, or is something else.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let name = || path.display().to_string();
        let file_error = |source| KeyError::File { path: name(), source };
        let content = |text: String| KeyError::Content { path: name(), text };
        // What is checked is what is read; a pipe is not waited for.
        let nonblocking = OFlags::NONBLOCK.bits() as i32;
        let file = std::fs::File::options().read(true).custom_flags(nonblocking).open(path);
        let file = file.map_err(file_error)?;
        let found = file.metadata().map_err(file_error)?;
        if !found.is_file() {
            return Err(content("it is not a file".into()));
        }
        let mode = found.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(KeyError::Open { path: name(), mode });
        }
        let owner = found.uid();
        if owner != 0 && owner != rustix::process::geteuid().as_raw() {
            return Err(KeyError::Owner { path: name(), owner });
        }
        let mut text = Vec::new();
        file.take(KEY_BYTES_MAX).read_to_end(&mut text).map_err(file_error)?;
        Self::parse(&text, &name())
    }

    /// Takes a key as text, which came from what is said in `source`.
    ///
    /// # Errors
    /// When it is something else.
    pub fn parse(text: &[u8], source: &str) -> Result<Self, KeyError> {
        let content = |text: String| KeyError::Content { path: source.to_owned(), text };
        let certificate = CertificateDer::from_pem_slice(text).map_err(|error| content(error.to_string()))?;
        let key = PrivateKeyDer::from_pem_slice(text).map_err(|error| content(error.to_string()))?;
        let users = hmac::Key::new(hmac::HMAC_SHA256, key.secret_der());
        let provider = Arc::new(ring::default_provider());
        let only = Arc::new(Only { certificate: certificate.clone(), provider: Arc::clone(&provider) });
        let versions = &[&rustls::version::TLS13];
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)?
            .with_client_cert_verifier(Arc::clone(&only) as Arc<dyn ClientCertVerifier>)
            .with_single_cert(vec![certificate.clone()], key.clone_key())?;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)?
            .dangerous()
            .with_custom_certificate_verifier(only)
            .with_client_auth_cert(vec![certificate], key)?;
        // By ALPN (RFC 7301) a daemon of release 0.1.0 says that it does not begin with a greeting.
        server.alpn_protocols = vec![version::ALPN.to_vec(), version::SILENT.1.to_vec()];
        client.alpn_protocols = vec![version::ALPN.to_vec()];
        let mut silent = client.clone();
        silent.alpn_protocols = vec![version::SILENT.1.to_vec()];
        Ok(Credential { server: Arc::new(server), client: Arc::new(client), silent: Arc::new(silent), users })
    }

    /// Secret that the processes of a user are told, by every daemon of the cluster alike, so that they know
    /// each other between nodes. Nobody else can make it.
    pub fn secret_of(&self, uid: u32) -> Secret {
        let made = hmac::sign(&self.users, &[&b"guests of user "[..], &uid.to_le_bytes()].concat());
        let (secret, _) = made.as_ref().split_first_chunk().expect("SHA-256 has 32 bytes");
        Secret::of(*secret)
    }
}

/// Takes the one certificate, and nothing else.
#[derive(Debug)]
struct Only {
    certificate: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl Only {
    fn check(&self, shown: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        if *shown == self.certificate {
            Ok(())
        } else {
            Err(rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        }
    }

    fn check_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn old() -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("daemons speak TLS 1.3".into()))
    }
}

impl ServerCertVerifier for Only {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.check(shown).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Self::old()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.check_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Only {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.check(shown).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Self::old()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.check_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown};

    use tutti_protocol::key::make;

    use super::*;

    #[test]
    fn key_makes_another_secret_for_each_user_and_cluster() {
        let keys = [0, 1].map(|number| {
            let path = std::env::temp_dir().join(format!("tutti-secrets-{}-{number}", std::process::id()));
            make(&path).unwrap();
            let read = [Credential::read(&path).unwrap(), Credential::read(&path).unwrap()];
            std::fs::remove_file(&path).unwrap();
            read
        });
        let secrets = |uid| keys.each_ref().map(|read| read.each_ref().map(|key| key.secret_of(uid)));
        let [[one, again], [other, _]] = secrets(1000);
        assert_eq!(one, again, "all daemons of a cluster say the same");
        assert!(one != other && one != secrets(1001)[0][0]);
    }

    #[test]
    fn key_of_another_user_or_open_to_others_is_refused() {
        let path = std::env::temp_dir().join(format!("tutti-key-{}", std::process::id()));
        make(&path).unwrap();
        let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        let refused = || Credential::read(&path).unwrap_err().to_string();
        assert!(Credential::read(&path).is_ok());
        mode(0o640);
        assert!(refused().contains("can be read or written by others (mode 640)"), "{}", refused());
        mode(0o600);
        match chown(&path, Some(23_456), None) {
            Ok(()) => assert!(refused().contains("is user 23456's"), "{}", refused()),
            Err(_) => tutti_testkit::skip_part(tutti_testkit::Need::Root, "only root can give a file away"),
        }
        std::fs::remove_file(&path).unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        assert!(refused().ends_with("it is not a file"), "{}", refused());
        std::fs::remove_file(&path).unwrap();
    }
}
