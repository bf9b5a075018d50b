# How the programs of a control plane are run; `supervise.sh` comes after this.
#
# BINARY is the program that is all three, or ASSETS a folder with one program each. STORE_URL and PORT are where they
# listen, AUDIT the API server's flags for an audit log.

program() {
  name=$1
  shift
  if [ -n "${ASSETS:-}" ]; then run "$name" "$ASSETS/$name" "$@"; else run "$name" "$BINARY" "$name" "$@"; fi
}

start() {
  case $1 in
  etcd)
    # Port 0 for peers: there are none. Without fsync, since a machine that stops takes the tests with it.
    program etcd --data-dir etcd --unsafe-no-fsync --log-level warn --quota-backend-bytes 1073741824 \
      --listen-client-urls "$STORE_URL" --advertise-client-urls "$STORE_URL" --listen-peer-urls http://127.0.0.1:0
    ;;
  kube-apiserver)
    # ServiceAccount admission wants a token controller for every pod; the tests that need accounts make them.
    program kube-apiserver --etcd-servers "$STORE_URL" --bind-address 127.0.0.1 --secure-port "$PORT" \
      --tls-cert-file serving.pem --tls-private-key-file serving.key --service-account-issuer https://kubernetes.default.svc \
      --service-account-key-file account.pub --service-account-signing-key-file account.key \
      --token-auth-file tokens.csv --authorization-mode RBAC --service-cluster-ip-range 10.0.0.0/24 \
      --disable-admission-plugins ServiceAccount ${AUDIT:-}
    ;;
  kube-controller-manager)
    # What the tests look at: deletion that spreads, namespaces that end, claims that are let go, pods of Deployments.
    program kube-controller-manager --kubeconfig kubeconfig --leader-elect=false --secure-port 0 \
      --service-account-private-key-file account.key --kube-api-qps 500 --kube-api-burst 1000 \
      --controllers garbage-collector-controller,namespace-controller,deployment-controller,replicaset-controller,disruption-controller,persistentvolumeclaim-protection-controller
    ;;
  esac
}

