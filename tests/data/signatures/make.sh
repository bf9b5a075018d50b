#!/bin/bash
# Makes commits, tags and keys to judge by GnuPG, OpenSSH and git into the folder given. The keys are new each time.
set -eu
out=$(realpath "$1"); work=$(mktemp -d); trap 'gpgconf --homedir "$work/gnupg" --kill all || true; rm -rf "$work"' EXIT
export GNUPGHOME=$work/gnupg GIT_CONFIG_GLOBAL=$work/config GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME=Ada GIT_AUTHOR_EMAIL=ada@example.com GIT_COMMITTER_NAME=Ada GIT_COMMITTER_EMAIL=ada@example.com
mkdir -m 700 "$GNUPGHOME"
now='20260101T120000'
g() { gpg --batch --yes --quiet --pinentry-mode loopback --passphrase '' --faked-system-time "$now!" "$@"; }
cat > "$work/gpg" <<SH
#!/bin/sh
exec gpg --batch --quiet --pinentry-mode loopback --passphrase '' --faked-system-time "\${FAKED:-$now}!" "\$@"
SH
chmod +x "$work/gpg"
print() { g --with-colons --list-keys "$1" | awk -F: '/^fpr/{print $10; exit}'; }
g --quick-gen-key 'RSA <rsa@example.com>' rsa2048 sign never
g --quick-gen-key 'Ed25519 <ed@example.com>' ed25519 sign never
g --quick-gen-key 'Owner <owner@example.com>' ed25519 cert never
g --quick-add-key "$(print owner@example.com)" ed25519 sign never
g --quick-gen-key 'Short <short@example.com>' ed25519 sign 30d
g --quick-gen-key 'Lost <lost@example.com>' ed25519 sign never
for curve in nistp256 nistp384 nistp521 secp256k1; do g --quick-gen-key "$curve <$curve@example.com>" $curve sign never; done
g --quick-add-key "$(print nistp256@example.com)" cv25519 encr never
g --quick-gen-key 'Sub <sub@example.com>' rsa3072 cert never
g --quick-add-key "$(print sub@example.com)" rsa3072 sign never
g --cert-digest-algo SHA1 --quick-gen-key 'Old <old@example.com>' rsa2048 sign never
git init -q -b main "$work/repo"; cd "$work/repo"
git config gpg.program "$work/gpg"
keep() { git cat-file "$1" "$2" > "$out/$3"; }
commit() { # name, options
  name=$1; shift
  GIT_AUTHOR_DATE='1767268800 +0100' GIT_COMMITTER_DATE='1767268800 +0100' git "$@" commit -q --allow-empty ${sign--S} -m "$name"
  keep commit HEAD "commit-$name"
}
sign= commit unsigned
for who in rsa ed owner short lost nistp256 nistp384 nistp521 secp256k1 sub old; do commit "openpgp-$who" -c user.signingKey="$who@example.com"; done
sed "s/exec gpg/exec gpg --digest-algo SHA1/" "$work/gpg" > "$work/gpg-sha1"; chmod +x "$work/gpg-sha1"
commit openpgp-sha1 -c user.signingKey=rsa@example.com -c gpg.program="$work/gpg-sha1"
sed "s/exec gpg/exec gpg --digest-algo SHA512/" "$work/gpg" > "$work/gpg-sha512"; chmod +x "$work/gpg-sha512"
commit openpgp-secp256k1-sha512 -c user.signingKey=secp256k1@example.com -c gpg.program="$work/gpg-sha512"
sed "s/exec gpg/exec gpg --default-sig-expire 7d/" "$work/gpg" > "$work/gpg-expire"; chmod +x "$work/gpg-expire"
commit openpgp-week -c user.signingKey=ed@example.com -c gpg.program="$work/gpg-expire"
sed "s/exec gpg/exec gpg --ignore-time-conflict/" "$work/gpg" > "$work/gpg-early"; chmod +x "$work/gpg-early"
FAKED=20251231T120000 commit openpgp-early -c user.signingKey=ed@example.com -c gpg.program="$work/gpg-early"
for kind in ed25519 rsa ecdsa; do
  ssh-keygen -q -t $kind -N '' -C "$kind@example.com" -f "$work/$kind"
  cp "$work/$kind.pub" "$out/ssh-$kind.sshpub"
  commit "ssh-$kind" -c gpg.format=ssh -c user.signingKey="$work/$kind"
done
# Another namespace: a signature that was made for a file.
git cat-file commit HEAD~3 > "$work/file"; ssh-keygen -q -Y sign -n file -f "$work/ed25519" "$out/commit-unsigned" && mv "$out/commit-unsigned.sig" "$out/signature-of-file"
GIT_COMMITTER_DATE='1767268800 +0100' git -c user.signingKey=ed@example.com tag -s -m 'A release' v1.0.0
keep tag v1.0.0 tag-openpgp
GIT_COMMITTER_DATE='1767268800 +0100' git -c gpg.format=ssh -c user.signingKey="$work/ed25519" tag -s -m 'A release' v1.1.0
keep tag v1.1.0 tag-ssh
GIT_COMMITTER_DATE='1767268800 +0100' git tag -a -m 'A release' v1.2.0
keep tag v1.2.0 tag-unsigned
for who in rsa ed owner short lost nistp256 nistp384 nistp521 secp256k1 sub old; do g --armor --export "$who@example.com" > "$out/openpgp-$who.asc"; done
# The revocation that GnuPG keeps for an emergency: armed by taking the colon out.
sed 's/^:-----BEGIN/-----BEGIN/' "$GNUPGHOME/openpgp-revocs.d/$(print lost@example.com).rev" > "$work/revocation"
sed -n '/^-----BEGIN/,$p' "$work/revocation" > "$out/revocation-alone.asc"
g --import "$work/revocation"
g --armor --export lost@example.com > "$out/openpgp-lost-revoked.asc"
