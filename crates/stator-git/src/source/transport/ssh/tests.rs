//! Against a real SSH server in this process, which runs a real `git upload-pack` through a real shell.

use super::*;
use crate::source::credentials::GitCredentials;
use crate::source::mirror::{Mirror, RemoteRepository};
use crate::source::model_source::Reference;
use crate::source::secret::SecretValues;
use crate::source::ssh_keys::{SshKeyError, SshPrivateKey};
use crate::source::url::{AllowedSchemes, RepositoryUrl};
use russh::keys::key::safe_rng;
use russh::keys::ssh_key::{Algorithm, EcdsaCurve, PrivateKey, PublicKey};
use russh::server::{Auth, ChannelOpenHandle, Msg as ServerMsg, Session as ServerSession, VerifiedPublicKey};
use russh::{Channel, ChannelId};
use secrecy::SecretString;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;

/// Only a test that hangs ever waits so long.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// A file of `tests/data/ssh`.
fn data(name: &str) -> String {
    fs_err::read_to_string(format!("{}/tests/data/ssh/{name}", concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))).unwrap()
}

fn git(folder: &Path, arguments: &[&str]) {
    let who = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"];
    let done = Command::new("git").args(who).args(arguments).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// A git host with one repository, at any path that is asked for under its root.
struct Host {
    folder: tempfile::TempDir,
    port: u16,
    key: PrivateKey,
    _runtime: tokio::runtime::Runtime,
}

impl Host {
    /// A host that lets the key `ed25519` in and has a repository at this path.
    fn start(path: &str, kind: Algorithm) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let repository = folder.path().join("root").join(path);
        fs_err::create_dir_all(&repository).unwrap();
        git(&repository, &["init", "--quiet"]);
        fs_err::write(repository.join("model.yaml"), "kind: Model\n").unwrap();
        git(&repository, &["add", "."]);
        git(&repository, &["commit", "--quiet", "-m", "one"]);
        // Says what it was started with: one word, or it does not start.
        let script = format!(
            "#!/bin/sh\n[ $# = 1 ] || exit 9\ncase $1 in */missing) echo \"ERROR: repository '$1' not found\" >&2; exit 1;; \
             */secret) echo 'access denied' >&2; exit 1;; */silent) exit 0;; esac\nexec git upload-pack \"{}$1\"\n",
            folder.path().join("root").display()
        );
        let bin = folder.path().join("bin");
        fs_err::create_dir_all(&bin).unwrap();
        fs_err::write(bin.join("git-upload-pack"), script).unwrap();
        assert!(Command::new("chmod").arg("+x").arg(bin.join("git-upload-pack")).status().unwrap().success());

        let key = PrivateKey::random(&mut safe_rng(), kind).unwrap();
        let config = russh::server::Config {
            keys: vec![key.clone()],
            auth_rejection_time: Duration::ZERO,
            ..russh::server::Config::default()
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let config = Arc::new(config);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let config = Arc::clone(&config);
                let visitor = Visitor { bin: bin.clone(), inputs: HashMap::new() };
                tokio::spawn(async move {
                    if let Ok(running) = russh::server::run_stream(config, stream, visitor).await {
                        let _ = running.await;
                    }
                });
            }
        });
        Self { folder, port, key, _runtime: runtime }
    }

    fn plain() -> Self {
        Self::start("team/models.git", Algorithm::Ed25519)
    }

    /// Its line of `known_hosts`.
    fn line(&self) -> String {
        line(self.port, self.key.public_key())
    }

    fn mirror(&self, path: &str, values: &[(&str, &str)]) -> Mirror {
        let url = format!("ssh://git@127.0.0.1:{}/{path}", self.port);
        let url = RepositoryUrl::parse(&url, AllowedSchemes::default()).unwrap();
        let values = values.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()));
        let credentials = GitCredentials::read(Some(&SecretValues::new("git", values)), &url).unwrap();
        let mut remote = RemoteRepository::new(url, credentials);
        remote.limits.connect_timeout = PATIENCE;
        Mirror::open(&self.folder.path().join("data"), remote).unwrap()
    }

    /// What comes of asking for the branch, without what differs from run to run.
    fn described(&self, path: &str, values: &[(&str, &str)]) -> String {
        let text = match self.mirror(path, values).poll(&main()) {
            Ok(_) => "let in".to_owned(),
            Err(error) => error.to_string(),
        };
        let text = text.replace(&self.port.to_string(), "PORT");
        let text = regex::Regex::new("SHA256:[A-Za-z0-9+/]{43}").unwrap().replace_all(&text, "SHA256:…");
        regex::Regex::new("AAAA[A-Za-z0-9+/=]+").unwrap().replace_all(&text, "AAAA…").into_owned()
    }
}

fn line(port: u16, key: &PublicKey) -> String {
    format!("[127.0.0.1]:{port} {}", key.to_openssh().unwrap())
}

fn main() -> Reference {
    Reference::Branch("main".to_owned())
}

struct Visitor {
    bin: PathBuf,
    inputs: HashMap<ChannelId, mpsc::Sender<Vec<u8>>>,
}

impl russh::server::Handler for Visitor {
    type Error = russh::Error;

    async fn auth_publickey(&mut self, user: &str, key: VerifiedPublicKey<'_>) -> Result<Auth, russh::Error> {
        let known = ["ed25519-key.pub", "ed25519-encrypted-key.pub", "ecdsa-key.pub"]
            .map(|file| PublicKey::from_openssh(&data(file)).unwrap());
        let welcome = user == "git" && known.iter().any(|one| one.key_data() == key.public_key.key_data());
        Ok(if welcome { Auth::Accept } else { Auth::reject() })
    }

    async fn channel_open_session(
        &mut self,
        _: Channel<ServerMsg>,
        reply: ChannelOpenHandle,
        _: &mut ServerSession,
    ) -> Result<(), russh::Error> {
        reply.accept().await;
        Ok(())
    }

    async fn exec_request(
        &mut self,
        channel: ChannelId,
        command: &[u8],
        session: &mut ServerSession,
    ) -> Result<(), russh::Error> {
        session.channel_success(channel)?;
        let path = format!("{}:{}", self.bin.display(), std::env::var("PATH").unwrap());
        let mut child = Command::new("sh")
            .arg("-c")
            .arg(String::from_utf8(command.to_vec()).unwrap())
            .env("PATH", path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, receiver) = mpsc::channel::<Vec<u8>>();
        self.inputs.insert(channel, sender);
        let mut input = child.stdin.take().unwrap();
        std::thread::spawn(move || {
            while let Ok(bytes) = receiver.recv() {
                if input.write_all(&bytes).and_then(|()| input.flush()).is_err() {
                    break;
                }
            }
        });
        let (handle, runtime) = (session.handle(), tokio::runtime::Handle::current());
        std::thread::spawn(move || {
            let mut output = child.stdout.take().unwrap();
            let mut buffer = vec![0; 8192];
            while let Ok(count) = output.read(&mut buffer) {
                if count == 0 || runtime.block_on(handle.data(channel, buffer[..count].to_vec())).is_err() {
                    break;
                }
            }
            let mut said = Vec::new();
            let _ = child.stderr.take().unwrap().read_to_end(&mut said);
            let code = child.wait().unwrap().code().unwrap_or(255);
            runtime.block_on(async {
                let _ = handle.extended_data(channel, 1, said).await;
                let _ = handle.exit_status_request(channel, code.unsigned_abs()).await;
                let _ = handle.eof(channel).await;
                let _ = handle.close(channel).await;
            });
        });
        Ok(())
    }

    async fn data(&mut self, channel: ChannelId, bytes: &[u8], _: &mut ServerSession) -> Result<(), russh::Error> {
        if let Some(input) = self.inputs.get(&channel) {
            let _ = input.send(bytes.to_vec());
        }
        Ok(())
    }

    async fn channel_eof(&mut self, channel: ChannelId, _: &mut ServerSession) -> Result<(), russh::Error> {
        self.inputs.remove(&channel);
        Ok(())
    }
}

#[test]
fn a_repository_is_fetched_with_keys_of_every_kind() {
    for (host_key, identity, passphrase) in [
        (Algorithm::Ed25519, "ed25519-key", ""),
        (Algorithm::Ecdsa { curve: EcdsaCurve::NistP256 }, "ed25519-encrypted-key", "pass phrase"),
        (Algorithm::Ecdsa { curve: EcdsaCurve::NistP521 }, "ecdsa-key", ""),
    ] {
        let host = Host::start("team/models.git", host_key);
        let identity_text = data(identity);
        let known = host.line();
        let mut values = vec![("identity", identity_text.as_str()), ("known_hosts", known.as_str())];
        if !passphrase.is_empty() {
            values.push(("password", passphrase));
        }
        let mut mirror = host.mirror("team/models.git", &values);
        let tip = mirror.poll(&main()).unwrap();
        let fetched = mirror.fetch(&tip).unwrap();
        assert_eq!(fetched.commit, tip.commit);
        let tree = mirror.tree(&tip.commit, "").unwrap();
        assert_eq!(tree.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["model.yaml"]);
        // A second look, over a connection of its own.
        assert_eq!(mirror.poll(&main()).unwrap().commit, tip.commit);
    }
}

#[test]
fn a_path_stays_one_word_for_the_shell() {
    let paths = ["it's;touch$IFS.git", "$(false)`false`&|<>.git", "a!b\"c*[d]{e}~.git"];
    for path in paths {
        let path = format!("team/{path}");
        let host = Host::start(&path, Algorithm::Ed25519);
        let known = host.line();
        let mut mirror = host.mirror(&path, &[("identity", &data("ed25519-key")), ("known_hosts", &known)]);
        let tip = mirror.poll(&main()).unwrap();
        mirror.fetch(&tip).unwrap();
    }
    assert_eq!(upload_pack_command("~ada/models.git"), "git-upload-pack '~ada/models.git'");
    assert_eq!(upload_pack_command("team/models.git"), "git-upload-pack '/team/models.git'");
}

#[test]
fn each_way_not_to_get_in_is_named() {
    let host = Host::plain();
    let identity = data("ed25519-key");
    let described = |known: &str| host.described("team/models.git", &[("identity", &identity), ("known_hosts", known)]);
    let other = PrivateKey::random(&mut safe_rng(), Algorithm::Ed25519).unwrap();
    insta::assert_snapshot!(described("elsewhere.example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"), @"the host key of 127.0.0.1:PORT is not trusted: `known_hosts` has no key of it, and it presents ssh-ed25519 SHA256:…; compare that with the fingerprint that its owner publishes, and only then add the line `[127.0.0.1]:PORT ssh-ed25519 AAAA…`");
    insta::assert_snapshot!(described(&line(host.port, other.public_key())), @"the host key of 127.0.0.1:PORT is not trusted: its key differs: `known_hosts` has ssh-ed25519 SHA256:… in line 1, but it presents ssh-ed25519 SHA256:…; this may be an attack. If its owner confirms that the key was changed to this one, replace the old line with `[127.0.0.1]:PORT ssh-ed25519 AAAA…`");
    insta::assert_snapshot!(described(&format!("{}\n@revoked * {}", host.line(), host.key.public_key().to_openssh().unwrap())), @"the host key of 127.0.0.1:PORT is not trusted: its key ssh-ed25519 SHA256:… is revoked in line 2 of `known_hosts`; do not use it, and ask its owner for the new one");
    let ecdsa = PublicKey::from_openssh(&data("ecdsa-key.pub")).unwrap();
    insta::assert_snapshot!(described(&line(host.port, &ecdsa)), @"the host key of 127.0.0.1:PORT is not trusted: `known_hosts` has its key of the kind ecdsa-sha2-nistp256, but it presents only ssh-ed25519; add its ed25519 or ecdsa key, or write the `https://` address");
    insta::assert_snapshot!(described(&line(host.port, &PublicKey::from_openssh(&data("rsa-key.pub")).unwrap())), @"the host key of 127.0.0.1:PORT is not trusted: `known_hosts` has no key of it of a supported kind, only ssh-rsa; add its ed25519 or ecdsa key, or write the `https://` address");
    let known = host.line();
    insta::assert_snapshot!(host.described("team/models.git", &[("identity", &data("ecdsa-sec1-key")), ("known_hosts", &known)]), @"127.0.0.1:PORT does not accept the login: the key SHA256:… is not accepted for the user `git`");
    let at = |path: &str| host.described(path, &[("identity", &identity), ("known_hosts", &known)]);
    insta::assert_snapshot!(at("team/missing"), @"127.0.0.1:PORT has no repository `team/missing`, or the login may not see it");
    insta::assert_snapshot!(at("team/secret"), @"127.0.0.1:PORT forbids reading the repository: access denied");
    insta::assert_snapshot!(at("team/silent"), @"127.0.0.1:PORT closed the connection in the middle of a response");
    insta::assert_snapshot!(at("team/nothing.git"), @"127.0.0.1:PORT has no repository `team/nothing.git`, or the login may not see it");
}

/// A host that takes the connection and then does as it is told to.
fn odd_host(does: impl FnOnce(std::net::TcpStream) + Send + 'static) -> (u16, std::thread::JoinHandle<()>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (port, std::thread::spawn(move || does(listener.accept().unwrap().0)))
}

fn asked(port: u16, change: impl FnOnce(&mut RemoteRepository)) -> String {
    let url = RepositoryUrl::parse(&format!("ssh://git@127.0.0.1:{port}/a/b.git"), AllowedSchemes::default()).unwrap();
    let known = line(port, &PublicKey::from_openssh(&data("ed25519-key.pub")).unwrap());
    let values = [("identity", data("ed25519-key")), ("known_hosts", known)];
    let secret = SecretValues::new("git", values.map(|(key, value)| (key.to_owned(), value.into_bytes())));
    let mut remote = RemoteRepository::new(url.clone(), GitCredentials::read(Some(&secret), &url).unwrap());
    remote.limits.connect_timeout = PATIENCE;
    change(&mut remote);
    let folder = tempfile::tempdir().unwrap();
    let error = Mirror::open(folder.path(), remote).unwrap().poll(&main()).unwrap_err();
    error.to_string().replace(&port.to_string(), "PORT")
}

#[test]
fn a_host_that_says_nothing_or_nonsense_is_left() {
    let (port, silent) = odd_host(|mut stream| {
        let _ = stream.read_to_end(&mut Vec::new());
    });
    insta::assert_snapshot!(asked(port, |remote| remote.limits.connect_timeout = Duration::from_millis(200)), @"127.0.0.1:PORT took longer than 200 ms");
    silent.join().unwrap();
    let (port, nonsense) = odd_host(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    insta::assert_snapshot!(asked(port, |_| ()), @"127.0.0.1:PORT closed the connection in the middle of a response");
    nonsense.join().unwrap();
    let (port, endless) = odd_host(|mut stream| while stream.write_all(&[b'x'; 4096]).is_ok() {});
    let described = asked(port, |remote| remote.limits.connect_timeout = Duration::from_secs(2));
    assert!(described.contains("127.0.0.1"), "{described}");
    endless.join().unwrap();
    let (port, silent) = odd_host(|mut stream| {
        let _ = stream.read_to_end(&mut Vec::new());
    });
    insta::assert_snapshot!(asked(port, |remote| remote.cancel.cancel()), @"stopped");
    drop(std::net::TcpStream::connect(("127.0.0.1", port)));
    silent.join().unwrap();
    // A port that is taken, so that nobody else can listen there, and where nothing listens.
    let taken = tokio::net::TcpSocket::new_v4().unwrap();
    taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = taken.local_addr().unwrap().port();
    insta::assert_snapshot!(asked(port, |_| ()), @"127.0.0.1:PORT cannot be reached: Connection refused (os error 111)");
}

#[test]
fn private_keys_of_every_form_are_read() {
    let read = |name: &str, passphrase: Option<&str>| {
        let passphrase = passphrase.map(SecretString::from);
        SshPrivateKey::read(&SecretString::from(data(name)), passphrase.as_ref())
    };
    for name in ["ed25519", "ecdsa", "ecdsa-sec1", "ecdsa-pkcs8", "rsa", "rsa-pkcs1", "rsa-pkcs8"] {
        let public = PublicKey::from_openssh(&data(&format!("{name}-key.pub"))).unwrap();
        let identity = read(&format!("{name}-key"), None).unwrap();
        assert_eq!(identity.public.key_data(), public.key_data(), "{name}");
    }
    for name in ["ed25519-encrypted", "ecdsa-pkcs8-encrypted", "rsa-encrypted"] {
        let (file, right) = (format!("{name}-key"), Some("pass phrase"));
        let public = PublicKey::from_openssh(&data(&format!("{name}-key.pub"))).unwrap();
        assert_eq!(read(&file, right).unwrap().public.key_data(), public.key_data(), "{name}");
        assert_eq!(read(&file, None).unwrap_err(), SshKeyError::Encrypted, "{name}");
        assert_eq!(read(&file, Some("wrong")).unwrap_err(), SshKeyError::WrongPassphrase, "{name}");
    }
    for (name, passphrase, fault) in [
        ("rsa-pkcs1-encrypted-key", Some("pass phrase"), SshKeyError::UnsupportedFormat),
        ("rsa-pkcs8-encrypted-key", Some("pass phrase"), SshKeyError::UnsupportedFormat),
        ("rsa-short-key", None, SshKeyError::UnsupportedKind),
        ("dsa-key", None, SshKeyError::UnsupportedKind),
        ("ed25519-key.pub", None, SshKeyError::PublicHalf),
        ("README.md", None, SshKeyError::NotPrivateKey),
    ] {
        assert_eq!(read(name, passphrase).unwrap_err(), fault, "{name}");
    }
    let cut = data("ed25519-key").lines().take(3).collect::<Vec<_>>().join("\n");
    assert_eq!(SshPrivateKey::read(&SecretString::from(cut), None).unwrap_err(), SshKeyError::Damaged);
    let shown = format!("{:?}", read("ed25519-key", None).unwrap());
    assert!(shown.starts_with("Identity(SHA256:"), "{shown}");
}

/// What an RSA key signs, OpenSSH's own way of judging it accepts.
#[tokio::test]
async fn rsa_logins_are_signed_as_hosts_expect() {
    use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA512, RsaPublicKeyComponents};
    let identity = SshPrivateKey::read(&SecretString::from(data("rsa-key")), None).unwrap();
    let SshSigningKey::Rsa(pair) = &identity.key else { panic!("not RSA") };
    let public = PublicKey::from_openssh(&data("rsa-key.pub")).unwrap();
    let russh::keys::ssh_key::public::KeyData::Rsa(numbers) = public.key_data() else { panic!("not RSA") };
    let parts = (numbers.n().as_positive_bytes().unwrap(), numbers.e().as_positive_bytes().unwrap());
    for (hash, name, judge) in [
        (HashAlg::Sha256, &b"\0\0\0\x0crsa-sha2-256"[..], &RSA_PKCS1_2048_8192_SHA256),
        (HashAlg::Sha512, &b"\0\0\0\x0crsa-sha2-512"[..], &RSA_PKCS1_2048_8192_SHA512),
    ] {
        let mut signer = RsaSigner(Arc::clone(pair));
        let shown = public.clone().into();
        let signed = russh::Signer::auth_sign(&mut signer, &shown, Some(hash), b"data".to_vec());
        let signed = signed.await.unwrap();
        let rest = signed.strip_prefix(b"data").unwrap();
        let (length, blob) = rest.split_at(4);
        assert_eq!(u32::from_be_bytes(length.try_into().unwrap()) as usize, blob.len());
        let signature = &blob.strip_prefix(name).unwrap()[4..];
        RsaPublicKeyComponents { n: parts.0, e: parts.1 }.verify(judge, b"data", signature).unwrap();
    }
}
