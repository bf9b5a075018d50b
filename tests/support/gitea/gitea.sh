# How Gitea is run; `../testbed/supervise.sh` comes after this.
#
# BINARY is the program, in a folder with its `app.ini`. `setup` makes the certificate, the database, the accounts `team`
# (who may do everything, and owns the repositories) and `stator` (what a bot gets), and their tokens.

clean() {
  name=$1
  shift
  # As root it wants to be told that this is meant.
  run "$name" env -i PATH="$PATH" HOME="$PWD/home" GOGC="$GOGC" GOMEMLIMIT="$GOMEMLIMIT" GITEA_I_AM_BEING_UNSAFE_RUNNING_AS_ROOT=true \
    GITEA_WORK_DIR="$PWD" "$@"
}

start() {
  case $1 in
  setup)
    clean setup sh -c '
      set -e
      gitea() { "$0" --config app.ini "$@"; }
      mkdir -p home
      gitea cert --host 127.0.0.1,localhost --ecdsa-curve P256 --out cert.pem --keyout key.pem
      gitea migrate
      account() {
        gitea admin user create --username "$1" --email "$1@example.com" --password "$PASSWORD" \
          --must-change-password=false "$3"
        gitea admin user generate-access-token --username "$1" --token-name tests --scopes "$2" --raw >"$1.token"
      }
      PASSWORD=$1
      account team all --admin
      account stator write:repository,write:issue,read:user --admin=false
    ' "$BINARY" "$PASSWORD"
    ;;
  gitea) clean gitea "$BINARY" --config app.ini web ;;
  esac
}

