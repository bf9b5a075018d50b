# Holds the programs of a control plane for a test process, in the folder it is started in.
#
# Its input is a pipe from the test process, which nobody else holds open: when that process ends, however it ends, the
# pipe ends, and with it everything here. A line `start NAME` starts one more program. There is nothing worth a goodbye
# in the data, so the programs are killed: an API server that is asked politely after its etcd is gone hangs instead.
#
# BINARY is the program that is all three, or ASSETS a folder with one program each. STORE_URL and PORT are where they
# listen. Each program NAME leaves NAME.log, NAME.pid and, when it is over, NAME.exit.
set -u

run() {
  name=$1
  shift
  if [ -n "${ASSETS:-}" ]; then set -- "$ASSETS/$name" "$@"; else set -- "$BINARY" "$name" "$@"; fi
  {
    "$@" >"$name.log" 2>&1 &
    echo $! >"$name.pid"
    wait $!
    echo $? >"$name.exit"
  } &
  until [ -s "$name.pid" ]; do sleep 0.02; done
}

start() {
  case $1 in
  etcd)
    # Port 0 for peers: there are none. Without fsync, since a machine that stops takes the tests with it.
    run etcd --data-dir etcd --unsafe-no-fsync --log-level warn --quota-backend-bytes 1073741824 \
      --listen-client-urls "$STORE_URL" --advertise-client-urls "$STORE_URL" --listen-peer-urls http://127.0.0.1:0
    ;;
  kube-apiserver)
    # ServiceAccount admission wants a token controller for every pod; the tests that need accounts make them.
    run kube-apiserver --etcd-servers "$STORE_URL" --cert-dir certificates --bind-address 127.0.0.1 \
      --secure-port "$PORT" --service-account-issuer https://kubernetes.default.svc \
      --service-account-key-file account.pub --service-account-signing-key-file account.key \
      --token-auth-file tokens.csv --authorization-mode RBAC --service-cluster-ip-range 10.0.0.0/24 \
      --disable-admission-plugins ServiceAccount
    ;;
  kube-controller-manager)
    # What the tests look at: deletion that spreads, namespaces that end, claims that are let go, pods of Deployments.
    run kube-controller-manager --kubeconfig kubeconfig --leader-elect=false --secure-port 0 \
      --service-account-private-key-file account.key --kube-api-qps 500 --kube-api-burst 1000 \
      --controllers garbage-collector-controller,namespace-controller,deployment-controller,replicaset-controller,persistentvolumeclaim-protection-controller
    ;;
  esac
}

end() {
  trap - EXIT
  for file in *.pid; do
    name=${file%.pid}
    if [ -s "$file" ] && [ ! -e "$name.exit" ]; then kill -9 "$(cat "$file")"; fi
  done
  wait
  folder=$(pwd)
  cd / && rm -rf "$folder"
  exit 0
}

trap end EXIT
trap exit HUP INT TERM
while read -r verb name; do
  if [ "$verb" = start ]; then start "$name"; fi
done
