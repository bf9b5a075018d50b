# Holds the programs of a testbed for a test process, in the folder it is started in. Another script comes before this
# one and says in `start NAME` how each program is run: with `run NAME COMMAND...`.
#
# The input is a pipe from the test process, which nobody else holds open: when that process ends, however it ends, the
# pipe ends, and with it everything here. A line `start NAME` starts a program, `kill NAME` kills one, `ask NAME` asks one to
# end. At the end there is nothing worth a goodbye in the data, so the programs are killed: an API server that is asked
# politely after its etcd is gone hangs instead.
#
# Each program NAME leaves NAME.log, NAME.pid and, when it is over, NAME.exit.
set -u

# Tests are short: memory is cheaper than the time to reclaim it.
export GOGC=400 GOMEMLIMIT=1GiB

run() {
  name=$1
  shift
  rm -f "$name.pid" "$name.exit"
  {
    "$@" >>"$name.log" 2>&1 &
    echo $! >"$name.pid"
    wait $!
    echo $? >"$name.exit.new"
    # Whoever sees the file reads the whole code.
    mv "$name.exit.new" "$name.exit"
  } &
  until [ -s "$name.pid" ]; do sleep 0.02; done
}

stop() {
  if [ -s "$1.pid" ] && [ ! -e "$1.exit" ]; then kill "-$2" "$(cat "$1.pid")"; fi
}

end() {
  trap - EXIT
  for file in *.pid; do stop "${file%.pid}" 9; done
  wait
  folder=$(pwd)
  cd / && rm -rf "$folder"
  exit 0
}

trap end EXIT
trap exit HUP INT TERM
while read -r verb name; do
  case $verb in
  start) start "$name" ;;
  kill) stop "$name" 9 ;;
  ask) stop "$name" 15 ;;
  esac
done
