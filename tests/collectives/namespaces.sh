#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Several "nodes" on this machine: network namespaces on one bridge, each with a host name and two ranks (or
# TESSERA_TEST_RANKS_OF_NODE), connected only by TCP.
# usage: [TESSERA_TEST_RATE=4gbit] [TESSERA_TEST_RANKS_OF_NODE=1] [TESSERA_TEST_LINK_DOWN=FILE] namespaces.sh MPIEXEC
# NODES PROGRAM [ARGUMENTS]; status 77 if namespaces are not permitted. The rate, if given, limits what a node sends. The
# link of node 1 is down while FILE exists. All variables that begin with TESSERA_ are passed to all ranks.
set -u
mpiexec=$1
nodes=$2
shift 2
prefix=tsr$$
network=10.$((RANDOM % 100 + 100)).$((RANDOM % 200)).0
address() { echo "${network%.0}.$(($1 + 1))"; }

folder=$(mktemp -d)
cleanup() {
  for ((k = 0; k < nodes; ++k)); do ip netns del $prefix-$k 2>/dev/null; done
  ip link del $prefix-b 2>/dev/null
  rm -rf "$folder"
}
trap cleanup EXIT

make_nodes() {
  ip link add $prefix-b type bridge && ip link set $prefix-b up || return 1
  for ((k = 0; k < nodes; ++k)); do
    ip netns add $prefix-$k && ip link add $prefix-v$k type veth peer name eth0 netns $prefix-$k &&
      ip link set $prefix-v$k master $prefix-b up && ip -n $prefix-$k link set lo up &&
      ip -n $prefix-$k address add "$(address $k)/24" dev eth0 && ip -n $prefix-$k link set eth0 up || return 1
    [ -z "${TESSERA_TEST_RATE:-}" ] ||
      ip netns exec $prefix-$k tc qdisc add dev eth0 root tbf rate "$TESSERA_TEST_RATE" burst 256kb latency 50ms || return 1
  done
}
if ! reason=$(make_nodes 2>&1); then
  echo "SKIPPED: network namespaces are not permitted here: ${reason##*$'\n'}"
  exit 77
fi

# mpirun calls this script instead of ssh: ADDRESS COMMAND...
cat >"$folder/enter" <<SCRIPT
#!/usr/bin/env bash
# Needs the network, as ssh does: a node with a link refuses the connection to a port that no process uses.
reason=\$( (: </dev/tcp/\$1/1) 2>&1)
case "\$reason" in *refused*) ;; *) echo "cannot connect to \$1: \${reason##*: }" >&2; exit 255 ;; esac
node=\$((\${1##*.} - 1))
shift
ip netns exec $prefix-\$node unshare -u sh -c "hostname node\$node; \$*"
status=\$?
# As with ssh, mpirun does not see the end of the command while the link is down.
while [ \$node = 1 ] && [ -e "${TESSERA_TEST_LINK_DOWN:-}" ] && kill -0 \$PPID 2>/dev/null; do sleep 0.1; done
exit \$status
SCRIPT
chmod +x "$folder/enter"

ranks=${TESSERA_TEST_RANKS_OF_NODE:-2}
hosts=$(for ((k = 0; k < nodes; ++k)); do echo "$(address $k):$ranks"; done | paste -sd,)
export TESSERA_TEST_NODES=$nodes
set_link() {
  local is=up
  while kill -0 $$ 2>/dev/null; do  # as long as this script runs
    local wanted=up
    [ ! -e "$TESSERA_TEST_LINK_DOWN" ] || wanted=down
    [ $wanted = $is ] || ip link set $prefix-v1 $wanted
    is=$wanted
    sleep 0.1
  done
}
[ -z "${TESSERA_TEST_LINK_DOWN:-}" ] || set_link >&2 &
variables=()
for name in $(compgen -e | grep '^TESSERA_'); do variables+=(-x "$name"); done
ip netns exec $prefix-0 unshare -u sh -c 'hostname node0; exec "$@"' sh \
  "$mpiexec" --host "$hosts" -np $((ranks * nodes)) --mca plm_rsh_agent "$folder/enter" --mca btl_tcp_if_include "$network/24" \
  --mca oob_tcp_if_include "$network/24" --mca mpi_yield_when_idle 1 --oversubscribe "${variables[@]}" "$@"
