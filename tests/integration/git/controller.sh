# How the controller of a story is run; `../../support/testbed/supervise.sh` comes after this.

start() {
  run controller env -i PATH="$PATH" HOME="$PWD/home" TMPDIR="$PWD/tmp" NO_COLOR=1 \
    "$BINARY" controller --source-file source.yaml --simulate-speed "$SPEED" --listen "127.0.0.1:$PORT" \
    --cluster embedded:cluster --simulate-operator --data data
}

