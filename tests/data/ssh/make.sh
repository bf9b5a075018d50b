#!/bin/sh
# Makes private keys in every form that is read, and some that are not, into the folder given. They open nothing.
set -eu
cd "$1"
rm -f -- *-key *-key.pub
make() { ssh-keygen -q -C test -N "$3" -t "$1" -f "$2-key" $4; rm "$2-key.pub"; }
make ed25519 ed25519 '' ''
make ed25519 ed25519-encrypted 'pass phrase' '-a 1'
make ecdsa ecdsa '' ''
make ecdsa ecdsa-sec1 '' '-m PEM'
make ecdsa ecdsa-pkcs8 '' '-m PKCS8'
make ecdsa ecdsa-pkcs8-encrypted 'pass phrase' '-m PKCS8'
make rsa rsa '' '-b 2048'
make rsa rsa-pkcs1 '' '-b 2048 -m PEM'
make rsa rsa-pkcs8 '' '-b 2048 -m PKCS8'
make rsa rsa-pkcs1-encrypted 'pass phrase' '-b 2048 -m PEM'
make rsa rsa-pkcs8-encrypted 'pass phrase' '-b 2048 -m PKCS8'
make rsa rsa-encrypted 'pass phrase' '-b 2048 -a 1'
make rsa rsa-short '' '-b 1024'
make dsa dsa '' ''
for key in *-key; do
  case $key in
    *-encrypted-key) ssh-keygen -y -P 'pass phrase' -f "$key" ;;
    *) ssh-keygen -y -f "$key" ;;
  esac > "$key.pub"
done
